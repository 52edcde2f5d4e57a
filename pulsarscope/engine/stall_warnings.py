"""Warnings about other people's code that does not return: it cannot be stopped, but it can be named."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STALL_SECONDS = 5
"""Seconds after which a call is named: a block of a capture takes a fraction of one."""

_PACKAGE = __name__.partition(".")[0]
_PROTOCOLS = "protocols"
_CALLING = frozenset({"dissect", "engine", "output", _PROTOCOLS})
"""Rooms that call other people's code."""


class StallWarning(UserWarning):
    """A call into a dissector, rule or payload decoder takes very long."""


@contextmanager
def stall_warnings() -> Iterator[None]:
    """Warn within the context, once, about each such call. Do nothing if no timer is available: in other threads, or if another runs."""
    free = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not free or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    running: FrameType | None = None
    seconds = 0

    def look(_number: int, frame: FrameType | None) -> None:
        # A check each second instead of a timer for each call: calls are many, and cost nothing this way.
        nonlocal running, seconds
        call = _call(frame)
        seconds = seconds + 1 if call is running is not None else 0
        running = call
        if call is not None and seconds == STALL_SECONDS:
            name = getattr(call.f_code, "co_qualname", call.f_code.co_name)
            warnings.warn(f"{_module(call)}.{name} has been running for {STALL_SECONDS} s; Ctrl-C ends it", StallWarning, stacklevel=2)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _call(frame: FrameType | None) -> FrameType | None:
    """Return the innermost call from this package into another one, or else the outermost one into a dissector of this package."""
    own = None
    while frame is not None and frame.f_back is not None:
        module, caller = _module(frame), _room(_module(frame.f_back))
        if _room(module) == _PROTOCOLS:
            own = own if caller == _PROTOCOLS and own is not None else frame
        elif not _room(module) and module.partition(".")[0] not in sys.stdlib_module_names and caller in _CALLING:
            return frame
        frame = frame.f_back
    return own


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _room(module: str) -> str:
    """Return the room of a module of this package, "" for any other module."""
    package, _, name = module.partition(".")
    return (name or package).partition(".")[0] if package == _PACKAGE else ""
