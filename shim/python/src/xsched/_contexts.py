"""Contexts that hold while they are entered, whichever of them ends first.

Those that are entered are in a list, in the order of their entries. The last one is in force. One that ends leaves the list,
wherever it is: then the last of the others is in force, and without any, what was there before the first.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Callable, Generic, Optional, TypeVar, cast

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


class Entry(Generic[T]):
    """A value, from the entry of its context to its end."""

    def __init__(self, value: T) -> None:
        self.value = value
        self.thread = threading.get_ident()


class Entered(ABC, Generic[T]):
    """The values that are entered, of one kind."""

    def __init__(self) -> None:
        self._entries: list[Entry[T]] = []
        self.lock = threading.RLock()

    @abstractmethod
    def apply(self, value: Optional[T]) -> None:
        """Puts a value in force; None: what was there before the first."""

    def current(self) -> Optional[T]:
        """The value in force."""
        with self.lock:
            return self._entries[-1].value if self._entries else None

    def enter(self, value: T) -> Entry[T]:
        """A value is in force from now on. If it cannot be, nothing has changed."""
        entry = Entry(value)
        with self.lock:
            self.apply(value)
            self._entries.append(entry)
        return entry

    def leave(self, entry: Entry[T]) -> None:
        """A value is not in force any more."""
        with self.lock:
            if entry not in self._entries:
                # A forked child has left those of its parent's other threads.
                return
            was_in_force = self._entries[-1] is entry
            self._entries.remove(entry)
            if was_in_force:
                self.apply(self.current())

    def after_fork_in_child(self) -> None:
        """Leaves what other threads have entered: the child has none of them, and they would never end it."""
        self.lock = threading.RLock()
        own = threading.get_ident()
        kept = [entry for entry in self._entries if entry.thread == own]
        if len(kept) != len(self._entries):
            self._entries = kept
            self.apply(self.current())


def renewed_in_children(entered: Entered[T]) -> Entered[T]:
    """The same, which from now on does the right thing in forked children."""
    # A fork waits for a change: a child would not know of a value that is in force and not yet among the entries. It gets a lock of
    # its own.
    os.register_at_fork(
        before=lambda: entered.lock.acquire(),
        after_in_parent=lambda: entered.lock.release(),
        after_in_child=entered.after_fork_in_child,
    )
    return entered


def _task() -> object:
    """The asyncio task that runs, if any."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio.current_task() if asyncio else None
    except RuntimeError:
        return None


class Context(ABC):
    """A context manager, and a decorator for functions and coroutine functions.

    One object may be entered several times: nested, by several threads, by several tasks. Each end is that of the latest entry of
    its thread and task; if these have none, as where a generator is closed elsewhere, of the latest entry of all.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, object, Callable[[], None]]] = []

    @abstractmethod
    def _enter(self) -> Callable[[], None]:
        """Enters, and returns what leaves."""

    @abstractmethod
    def _copy(self) -> Context:
        """The same again, for a call of a decorated function."""

    def _refuses(self, function: Callable[..., Any]) -> Optional[str]:
        """Why a function cannot be decorated."""
        if isinstance(function, type):
            return "is a class: decorate its functions"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            return "is a generator function, which runs in pieces: use `with`, in it or where it is called"
        return None

    def __enter__(self) -> None:
        leave = self._enter()
        self._entries.append((threading.get_ident(), _task(), leave))

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        entries = self._entries
        if not entries:
            raise RuntimeError("this context is not entered")
        own = (threading.get_ident(), _task())
        entry = next((entry for entry in reversed(entries) if entry[:2] == own), entries[-1])
        _, _, leave = entry
        # Where it may not be left, as in another thread, it stays entered.
        leave()
        entries.remove(entry)

    def __call__(self, function: Function) -> Function:
        if not callable(function):
            raise TypeError(f"{function!r} is no function: use `with`, or `@` before a function")
        name = getattr(function, "__qualname__", repr(function))
        reason = self._refuses(function)
        if reason is not None:
            raise TypeError(f"{name} {reason}")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*arguments: Any, **named: Any) -> Any:
                with self._copy():
                    return await function(*arguments, **named)

            return cast(Function, coroutine)

        @functools.wraps(function)
        def called(*arguments: Any, **named: Any) -> Any:
            with self._copy():
                result = function(*arguments, **named)
            if inspect.iscoroutine(result) or inspect.isgenerator(result):
                result.close()
            elif not inspect.isasyncgen(result):
                return result
            raise TypeError(f"{name} returns a {type(result).__name__}, which would run outside of the context")

        return cast(Function, called)
