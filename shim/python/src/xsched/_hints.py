"""Hints: how urgent the process or one of its streams is, and within which time requests are to be done."""

from __future__ import annotations

import ctypes
import datetime
from typing import Callable, Optional, Union

from ._contexts import Context, Entered, renewed_in_children
from ._shim import XschedError, shims
from ._streams import Stream, of_stream

PRIORITY_MIN = -255
PRIORITY_MAX = 255
_DEADLINE_US_MAX = 2**31 - 1


class _Priorities(Entered[int]):
    def apply(self, value: Optional[int]) -> None:
        _hint("xsched_hint_priority", None if value is None else ctypes.c_int(value))


class _Deadlines(Entered[int]):
    """In microseconds."""

    def apply(self, value: Optional[int]) -> None:
        _hint("xsched_hint_deadline", None if value is None else ctypes.c_uint64(value))


def _hint(function: str, value: Union[ctypes.c_int, ctypes.c_uint64, None]) -> None:
    """Tells all shims: the process does not say which runtime it will use."""
    argument = None if value is None else ctypes.byref(value)
    for shim in shims():
        if shim.call(function, argument) != 0:
            raise XschedError(f"{function} of {shim.path} refuses {value}")


priorities = renewed_in_children(_Priorities())
deadlines = renewed_in_children(_Deadlines())


class _Hint(Context):
    def __init__(self, entered: Entered[int], value: int) -> None:
        super().__init__()
        self._entered = entered
        self._value = value

    def _enter(self) -> Callable[[], None]:
        entry = self._entered.enter(self._value)
        return lambda: self._entered.leave(entry)

    def _copy(self) -> Context:
        return _Hint(self._entered, self._value)


def priority(level: Union[int, str], *, stream: Optional[Stream] = None) -> Context:
    """A priority while this is entered: -255 to 255, or a class: "realtime", "high", "normal" or "low".

    It is the process's, or that of one stream of HIP or CUDA: a `torch.cuda.Stream`, or a handle as an int.
    """
    return _Hint(priorities if stream is None else of_stream(stream).priorities, _number(level))


def _number(level: Union[int, str]) -> int:
    if isinstance(level, str):
        # The shim knows the classes, as the controller does.
        found = ctypes.c_int()
        if shims()[0].call("xsched_class_priority", level.encode(), ctypes.byref(found)) != 0:
            raise ValueError(f"no class is called {level!r}; there are realtime, high, normal and low")
        return found.value
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"a priority is a number or the name of a class, not {level!r}")
    if not PRIORITY_MIN <= level <= PRIORITY_MAX:
        raise ValueError(f"priorities go from {PRIORITY_MIN} to {PRIORITY_MAX}, not to {level}")
    return level


def deadline(within: Union[float, datetime.timedelta], *, stream: Optional[Stream] = None) -> Context:
    """While this is entered, each request is to be done within this time: seconds, or a timedelta.

    Requests are the process's, or those of one stream, as for `priority`.
    """
    seconds = within.total_seconds() if isinstance(within, datetime.timedelta) else within
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"a deadline is a number of seconds or a timedelta, not {within!r}")
    us = round(seconds * 1e6) if abs(seconds) < 1e12 else 0
    if not 1 <= us <= _DEADLINE_US_MAX:
        raise ValueError(f"deadlines go from a microsecond to {_DEADLINE_US_MAX // 10**6} seconds, not to {within}")
    return _Hint(deadlines if stream is None else of_stream(stream).deadlines, us)
