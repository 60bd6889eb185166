"""What schedules this process, and what it was granted."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any, Optional, Union

from ._domains import DomainName, thread_domain
from ._hints import deadlines, priorities
from ._shim import Shim, XschedError, shims

# The symbols, their first bytes, and the versions of their layouts: shim/protocol/src/shim_status.rs.
_SYMBOL = "xsched_shim_status"
_MAGIC = b"XSCHSHIM"
_VERSION = 4
_COPIES = 4
_CUDA_SYMBOL = "xsched_cuda_status"
_CUDA_MAGIC = b"XSCHCUDA"
_CUDA_VERSION = 1

_SCHEDULING = (
    "not yet: no device was used",
    "controller",
    "none: no controller is there",
    "none: the controller is of another version than the shim",
    "none: the controller has no room for the process",
    "none: the controller refuses the process",
    "the process itself (XSCHED_SCHEDULER=LCL)",
    "none: XSCHED_SCHEDULER=APP",
)

_PATIENCE_SECONDS = 2.0


class _Copy(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64),
        ("ways", ctypes.c_uint32 * 2),
        ("entries", ctypes.c_uint32),
        ("newer_entries", ctypes.c_uint32),
    ]


class _ShimStatus(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("version", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
        ("copies", _Copy * _COPIES),
        ("verdicts", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
        ("sites_full", ctypes.c_uint32),
        ("gates", ctypes.c_uint32 * 5),
    ]


class _CudaStatus(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("version", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
        ("contexts", ctypes.c_uint32 * 5),
    ]


@dataclass(frozen=True)
class Granted:
    """What the controller gives this process."""

    priority: int
    """After ceilings, `xsched-ctl run` and `set`."""
    class_name: str
    source: str
    """Where the priority comes from: `default`, `rule`, `hint`, `run` or `set`."""
    policy: str
    is_suspended: bool
    """A queue of the process has work, and waits for more urgent ones."""
    device_seconds: float
    """Device time of its work so far."""


@dataclass(frozen=True)
class Status:
    """This process, as shim and controller see it."""

    shims: tuple[str, ...]
    """The files of the shims in this process."""
    scheduling: Optional[str]
    """What schedules its work: `controller`, or `none` with the reason."""
    priority: Optional[int]
    """What `priority` asks for now. None: as the environment says."""
    deadline: Optional[float]
    """What `deadline` asks for now, in seconds."""
    domain: DomainName
    """The calling thread's."""
    granted: Optional[Granted]
    """None if no controller knows this process, or if it runs in another pid namespace than this process."""


def status() -> Status:
    """What schedules this process, and what it was granted. Asks the controller, which takes a moment."""
    loaded = shims()
    within = deadlines.current()
    return Status(
        shims=tuple(shim.path for shim in loaded),
        scheduling=_scheduling(loaded),
        priority=priorities.current(),
        deadline=None if within is None else within / 1e6,
        domain=thread_domain(),
        granted=_granted(),
    )


def _scheduling(loaded: list[Shim]) -> str:
    """By the shim whose runtime the process uses."""
    found = [_number(shim) for shim in loaded]
    number = next((number for number in found if number != 0), 0)
    return _SCHEDULING[number] if number < len(_SCHEDULING) else "unknown"


def _number(shim: Shim) -> int:
    status: Union[_ShimStatus, _CudaStatus]
    if shim.is_hip:
        status, expected = _ShimStatus.in_dll(shim.library, _SYMBOL), (_MAGIC, _VERSION)
    else:
        status, expected = _CudaStatus.in_dll(shim.library, _CUDA_SYMBOL), (_CUDA_MAGIC, _CUDA_VERSION)
    if (status.magic, status.version) != expected:
        raise XschedError(f"{shim.path} is of another version: install the package and the shim from one build")
    return int(status.scheduling)


def _folders() -> list[str]:
    """Where a controller may be: the same places in which commands and shims look."""
    named = os.environ.get("XSCHED_SOCKET_DIR")
    if named:
        return [named]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return ["/run/xsched"] + ([os.path.join(runtime, "xsched")] if runtime else [])


def _granted() -> Optional[Granted]:
    for folder in _folders():
        try:
            answer = _ask(os.path.join(folder, "control.sock"), {"verb": "list"})
        except (OSError, ValueError):
            continue
        return _of_list(answer, os.getpid())
    return None


def _ask(path: str, request: dict[str, str]) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(_PATIENCE_SECONDS)
        connection.connect(path)
        # Process ids are those of the controller's pid namespace. From within another one it is seen without an id.
        (controller,) = struct.unpack_from("=i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if controller == 0:
            return {}
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answer:
            return json.loads(answer.readline())


def _of_list(answer: Any, pid: int) -> Optional[Granted]:
    for process in answer.get("processes", []):
        if process["pid"] == pid:
            queues = process["queues"]
            return Granted(
                priority=process["parameters"]["priority"],
                class_name=process["class"],
                source=process["from"],
                policy=answer["controller"]["policy"],
                is_suspended=any(queue["ready"] and queue["suspended"] for queue in queues),
                device_seconds=sum(queue["device_ns"] for queue in queues) / 1e9,
            )
    return None
