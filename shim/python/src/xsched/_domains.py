"""Scheduling domains: whether a thread's calls may be suspended."""

from __future__ import annotations

import ctypes
import inspect
import threading
from typing import Any, Callable, Literal, Optional

from ._contexts import Context, Entered, Entry
from ._shim import XschedError, first_shim

DomainName = Literal["auto", "system", "application"]

_NAMES: tuple[DomainName, ...] = ("auto", "system", "application")
_FUNCTION = "xsched_thread_domain"


def thread_domain() -> DomainName:
    """The calling thread's domain."""
    before = ctypes.c_int()
    first_shim().call(_FUNCTION, None, ctypes.byref(before))
    return _NAMES[before.value]


class _Domains(Entered[int]):
    """One thread's. What was there before the first may come from other code in the process."""

    def __init__(self) -> None:
        super().__init__()
        self._usual = 0

    def enter(self, value: int) -> Entry[int]:
        if self.current() is None:
            self._usual = _NAMES.index(thread_domain())
        return super().enter(value)

    def apply(self, value: Optional[int]) -> None:
        domain = ctypes.c_int(self._usual if value is None else value)
        if first_shim().call(_FUNCTION, ctypes.byref(domain), None) != 0:
            raise XschedError(f"{_FUNCTION} refuses {domain.value}")


_of_thread = threading.local()


def _domains() -> _Domains:
    domains: _Domains = _of_thread.__dict__.setdefault("domains", _Domains())
    return domains


class _Domain(Context):
    def __init__(self, value: int) -> None:
        super().__init__()
        self._value = value

    def _enter(self) -> Callable[[], None]:
        domains = _domains()
        entry = domains.enter(self._value)

        def leave() -> None:
            if _domains() is not domains:
                raise RuntimeError("a domain is its thread's: it ends in the thread that has entered it")
            domains.leave(entry)

        return leave

    def _copy(self) -> Context:
        return _Domain(self._value)

    def _refuses(self, function: Callable[..., Any]) -> Optional[str]:
        if inspect.iscoroutinefunction(function):
            return "is a coroutine function: a domain is the thread's, and other tasks run there while it waits"
        return super()._refuses(function)


def domain(name: DomainName) -> Context:
    """The calling thread's scheduling domain while this is entered.

    "system": others wait for these calls, so they are never suspended. "application": ordinary work, whatever the rules say.
    "auto": the rules decide.
    """
    if name not in _NAMES:
        raise ValueError(f"no domain is called {name!r}; there are {', '.join(_NAMES)}")
    return _Domain(_NAMES.index(name))
