"""Contexts, without a shim: what is in force, whichever ends first."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import unittest
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable, Optional
from unittest import mock

from xsched._contexts import Context, Entered, Entry, renewed_in_children


class Recorded(Entered[int]):
    """Remembers what was put in force, and refuses negative numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.applied: list[Optional[int]] = []

    def apply(self, value: Optional[int]) -> None:
        if value is not None and value < 0:
            raise ValueError(value)
        self.applied.append(value)


class Number(Context):
    def __init__(self, entered: Recorded, value: int) -> None:
        super().__init__()
        self.entered, self.value = entered, value

    def _enter(self) -> Callable[[], None]:
        entry: Entry[int] = self.entered.enter(self.value)
        return lambda: self.entered.leave(entry)

    def _copy(self) -> Context:
        return Number(self.entered, self.value)


class Contexts(unittest.TestCase):
    def setUp(self) -> None:
        self.entered = Recorded()

    def number(self, value: int) -> Number:
        return Number(self.entered, value)

    def test_the_end_of_a_nested_context_restores_the_one_around_it(self) -> None:
        with self.number(1):
            with self.number(2):
                self.assertEqual(self.entered.current(), 2)
            self.assertEqual(self.entered.current(), 1)
        self.assertEqual(self.entered.applied, [1, 2, 1, None])

    def test_contexts_may_end_in_any_order(self) -> None:
        one, two, three = self.number(1), self.number(2), self.number(3)
        for context in (one, two, three):
            context.__enter__()
        two.__exit__(None, None, None)
        self.assertEqual(self.entered.current(), 3)
        three.__exit__(None, None, None)
        self.assertEqual(self.entered.current(), 1)
        one.__exit__(None, None, None)
        self.assertEqual(self.entered.applied, [1, 2, 3, 1, None])

    def test_an_exception_ends_a_context_and_goes_on(self) -> None:
        with self.assertRaisesRegex(KeyError, "own"):
            with self.number(1):
                raise KeyError("own")
        self.assertEqual(self.entered.applied, [1, None])

    def test_what_is_refused_was_never_entered(self) -> None:
        with self.number(1):
            with self.assertRaises(ValueError):
                self.number(-1).__enter__()
            self.assertEqual(self.entered.current(), 1)
        self.assertEqual(self.entered.applied, [1, None])

    def test_one_object_may_be_entered_again(self) -> None:
        context = self.number(1)
        with context, context:
            pass
        self.assertEqual(self.entered.applied, [1, 1, 1, None])
        with self.assertRaisesRegex(RuntimeError, "not entered"):
            context.__exit__(None, None, None)

    def test_threads_end_their_own_entries(self) -> None:
        context, between = self.number(1), self.number(2)
        inside, end = threading.Event(), threading.Event()

        def other() -> None:
            with context:
                inside.set()
                end.wait()

        context.__enter__()
        between.__enter__()
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait()
        # The thread's entry is the last one, and stays in force.
        context.__exit__(None, None, None)
        self.assertEqual(self.entered.current(), 1)
        end.set()
        thread.join()
        self.assertEqual(self.entered.current(), 2)
        between.__exit__(None, None, None)
        self.assertIsNone(self.entered.current())

    def test_tasks_end_their_own_entries(self) -> None:
        context = self.number(1)

        async def task(before: asyncio.Event, own: asyncio.Event) -> None:
            await before.wait()
            with context:
                own.set()
                await asyncio.sleep(0)

        async def both() -> None:
            first, second, third = asyncio.Event(), asyncio.Event(), asyncio.Event()
            first.set()
            await asyncio.gather(task(first, second), task(second, third))

        asyncio.run(both())
        self.assertIsNone(self.entered.current())
        self.assertEqual(context._entries, [])

    def test_a_function_runs_within_it_and_keeps_its_name_and_result(self) -> None:
        @self.number(7)
        def double(number: int, *, plus: int = 0) -> int:
            """Doubles."""
            self.assertEqual(self.entered.current(), 7)
            return double(number - 1, plus=plus) + 2 if number else plus

        self.assertEqual((double(3, plus=1), double.__name__, double.__doc__), (7, "double", "Doubles."))
        self.assertIsNone(self.entered.current())

    def test_a_coroutine_function_runs_within_it_to_its_end(self) -> None:
        @self.number(7)
        async def slow() -> Optional[int]:
            await asyncio.sleep(0)
            return self.entered.current()

        self.assertTrue(asyncio.iscoroutinefunction(slow))
        coroutine = slow()
        self.assertIsNone(self.entered.current())
        self.assertEqual(asyncio.run(coroutine), 7)
        self.assertIsNone(self.entered.current())

    def test_what_would_run_outside_of_it_is_refused(self) -> None:
        def numbers() -> Iterator[int]:
            yield 1

        async def later() -> AsyncIterator[int]:
            yield 1

        async def once() -> int:
            return 1

        for function in (numbers, later):
            with self.assertRaisesRegex(TypeError, f"{function.__name__} is a generator function"):
                self.number(1)(function)
        hidden: list[Callable[[], Any]] = [lambda: numbers(), lambda: once(), lambda: later()]
        for function in hidden:
            with self.assertRaisesRegex(TypeError, "would run outside of the context"):
                self.number(1)(function)()
        with self.assertRaisesRegex(TypeError, "is a class"):
            self.number(1)(Recorded)
        with self.assertRaisesRegex(TypeError, "is no function"):
            self.number(1)(5)  # type: ignore[type-var]
        self.assertIsNone(self.entered.current())

    def test_a_generator_may_be_closed_elsewhere_and_later(self) -> None:
        def numbers() -> Iterator[Optional[int]]:
            with self.number(2):
                yield self.entered.current()

        with self.number(1):
            generator = numbers()
            self.assertEqual(next(generator), 2)
        # It goes on within its own context.
        self.assertEqual(self.entered.current(), 2)
        thread = threading.Thread(target=generator.close)  # type: ignore[attr-defined]
        thread.start()
        thread.join()
        self.assertIsNone(self.entered.current())

    def test_a_forked_child_leaves_what_other_threads_have_entered(self) -> None:
        entered = renewed_in_children(self.entered)
        inside, end = threading.Event(), threading.Event()

        def other() -> None:
            with self.number(2):
                inside.set()
                end.wait()

        with self.number(1):
            thread = threading.Thread(target=other)
            thread.start()
            inside.wait()
            child = os.fork()
            if child == 0:
                is_right = entered.current() == 1 and self.entered.applied[-1] == 1
                os._exit(0 if is_right else 1)
            _, status = os.waitpid(child, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 0)
            self.assertEqual(entered.current(), 2)
            end.set()
            thread.join()

    def test_a_forked_child_leaves_what_another_thread_was_entering(self) -> None:
        entered = renewed_in_children(self.entered)
        begun = threading.Event()
        apply = entered.apply

        def slow(value: Optional[int]) -> None:
            apply(value)
            if value == 2:
                begun.set()
                # Applied, and not yet among the entries: the fork comes now.
                time.sleep(0.2)

        with mock.patch.object(entered, "apply", slow):
            thread = threading.Thread(target=self.number(2).__enter__)
            thread.start()
            begun.wait()
            child = os.fork()
            if child == 0:
                os._exit(0 if (entered.current(), self.entered.applied[-1]) == (None, None) else 1)
            _, status = os.waitpid(child, 0)
            thread.join()
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)


if __name__ == "__main__":
    unittest.main()
