"""What is asked for single streams."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Optional, Protocol, Union

from ._contexts import Entered, Entry
from ._shim import XschedError, shims

_FUNCTION = "xsched_hint_stream"
_TOO_MANY = 2
_UNKNOWN_STREAM = 3


class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...


Stream = Union[int, _TorchStream]


class _StreamGone(XschedError):
    """The shim does not know the stream."""


class _Asked(Entered[int]):
    """One hint of a stream."""

    def __init__(self, stream: OfStream) -> None:
        super().__init__()
        self.in_force: Optional[int] = None
        self._stream = stream

    def apply(self, value: Optional[int]) -> None:
        before, self.in_force = self.in_force, value
        try:
            self._stream.tell()
        except XschedError:
            self.in_force = before
            raise

    def leave(self, entry: Entry[int]) -> None:
        """As ever. A stream may be destroyed before what was asked for it ends."""
        with self.lock:
            try:
                super().leave(entry)
            except _StreamGone:
                pass
            finally:
                # The shim may have refused: what is asked from now on is said with the next change.
                self.in_force = self.current()


class OfStream:
    """What is asked for a stream. Both hints are told together."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.priorities = _Asked(self)
        self.deadlines = _Asked(self)
        self.renew_lock()

    def renew_lock(self) -> None:
        """Both hints are told together, so they have one lock. A forked child needs another."""
        self.priorities.lock = self.deadlines.lock = threading.RLock()

    def tell(self) -> None:
        """Tells the shim."""
        priority, deadline = self.priorities.in_force, self.deadlines.in_force
        # One of them knows the stream, or none does.
        for shim in shims():
            result = shim.call(
                _FUNCTION,
                ctypes.c_void_p(self._handle),
                None if priority is None else ctypes.byref(ctypes.c_int(priority)),
                None if deadline is None else ctypes.byref(ctypes.c_uint64(deadline)),
            )
            if result != _UNKNOWN_STREAM:
                break
        else:
            raise _StreamGone(f"{self._handle:#x} is no stream that this process has made, or it is destroyed")
        if result == _TOO_MANY:
            raise XschedError("the process asks for too many different things: at most 32 combinations of hints")
        if result != 0:
            raise XschedError(f"{_FUNCTION} refuses {priority} and {deadline}")


_streams: dict[int, OfStream] = {}
_lock = threading.Lock()


def of_stream(stream: Stream) -> OfStream:
    """What is asked for a stream."""
    handle = stream if isinstance(stream, int) else getattr(stream, "cuda_stream", None)
    if isinstance(handle, bool) or not isinstance(handle, int):
        raise TypeError(f"a stream is a torch.cuda.Stream or a handle as an int, not {stream!r}")
    with _lock:
        return _streams.setdefault(handle, OfStream(handle))


def _forget() -> None:
    """In a forked child, which has none of its parent's streams."""
    global _lock
    _lock = threading.Lock()
    for stream in _streams.values():
        stream.renew_lock()
    _streams.clear()


os.register_at_fork(after_in_child=_forget)
