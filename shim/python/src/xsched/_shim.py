"""The shims in this process, and their C functions (shim/include/xsched_hints.h)."""

from __future__ import annotations

import ctypes
import os
from typing import Optional

_HIP = "libxsched_shim"
_CUDA = "libxsched_cuda"

# What the kernel adds to the name of a file that was replaced.
_REPLACED = " (deleted)"


class XschedError(RuntimeError):
    """Something cannot be done in this process."""


class ShimMissing(XschedError):
    """No shim is in this process, so there is nothing that could heed a hint."""


class Shim:
    """A shim's library, by its file."""

    def __init__(self, path: str, library: ctypes.CDLL) -> None:
        self.path = path
        self.library = library
        self.is_hip = os.path.basename(path).startswith(_HIP)

    def call(self, function: str, *arguments: object) -> int:
        """Calls a function that returns an int."""
        try:
            found = getattr(self.library, function)
        except AttributeError:
            message = f"{self.path} has no {function}: install the package and the shim from one build"
            raise XschedError(message) from None
        return int(found(*arguments))


def _mapped(maps: str) -> list[str]:
    """The files of shims in a map of memory, each once."""
    paths: list[str] = []
    for line in maps.splitlines():
        path = line.split(None, 5)[-1]
        if path.endswith(_REPLACED):
            path = path[: -len(_REPLACED)]
        name = os.path.basename(path)
        is_shim = name.startswith((_HIP, _CUDA)) and ".so" in name
        if is_shim and path.startswith("/") and path not in paths:
            paths.append(path)
    return paths


def _open(path: str) -> Optional[Shim]:
    # It is loaded already, and RTLD_NOLOAD only finds it. None: its file is only looked at, as by a debugger.
    try:
        return Shim(path, ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW))
    except OSError:
        return None


_found: Optional[list[Shim]] = None


def shims() -> list[Shim]:
    """The shims in this process: one for each kind of runtime. Raises `ShimMissing` if there is none."""
    global _found
    if _found is None:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = _mapped(maps.read())
        loaded = [shim for shim in map(_open, paths) if shim is not None]
        if not loaded:
            raise ShimMissing(
                "xsched: no shim is loaded in this process. Start the program with `xsched-ctl run -- python ...`, "
                "or with LD_PRELOAD=/usr/lib/libxsched_shim.so (for CUDA libxsched_cuda.so)"
            )
        _found = loaded
    return _found


def first_shim() -> Shim:
    """The shim that tells the others: the one for CUDA, where both are loaded."""
    loaded = shims()
    return next((shim for shim in loaded if not shim.is_hip), loaded[0])
