"""How urgent a program's GPU work is: hints for the controller of xsched-ctl.

    with xsched.priority("high"):         # or a number from -255 to 255
        answer = model(request)

    @xsched.deadline(0.033)               # seconds
    def frame() -> None: ...

    with xsched.domain("system"):         # this thread's calls are never suspended
        exchange()

Priorities and deadlines are the process's, domains the calling thread's. The shim must be in the process:
`xsched-ctl run -- python app.py`, or LD_PRELOAD.
"""

from ._contexts import Context
from ._domains import DomainName, domain
from ._hints import deadline, priority
from ._shim import ShimMissing, XschedError
from ._status import Granted, Status, status

__all__ = [
    "Context",
    "DomainName",
    "Granted",
    "ShimMissing",
    "Status",
    "XschedError",
    "deadline",
    "domain",
    "priority",
    "status",
]
