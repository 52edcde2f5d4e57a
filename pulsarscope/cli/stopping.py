"""The end of what reads packets as they come: a signal, or a time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from pulsarscope.cli.signals import handled


class Stoppable(Protocol):
    """Packets that can be made to end."""

    def stop(self) -> None:
        """End after what there is now."""


@contextmanager
def stopped(feed: Stoppable, seconds: float | None) -> Iterator[None]:
    """Stop the capture at a first signal or after a time; captured packets are still decoded. A second signal interrupts that."""
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            raise KeyboardInterrupt
        stopping = True
        feed.stop()

    timer = threading.Timer(seconds or 0, feed.stop)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        # A shell ignores SIGINT for jobs in the background, but who sends it to one of them means it.
        with handled(stop, always={signal.SIGINT}):
            yield
    finally:
        timer.cancel()
