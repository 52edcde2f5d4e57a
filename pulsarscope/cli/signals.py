"""Signals that end a command early, while a write in progress is completed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulsarscope.live.feed import LiveFeed
    from pulsarscope.live.growing_file import FollowedBlocks
    from pulsarscope.live.pipe import PipeFeed

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def handled(handler: Handler, *, always: Collection[int] = ()) -> Iterator[None]:
    """Call `handler` for the signals. A signal that the caller ignores (nohup) stays ignored, unless it is in `always`."""
    before: dict[signal.Signals, Handler | int | None] = {}
    for number in SIGNALS:
        with suppress(ValueError):  # only the main thread may set handlers
            if number in always or signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Interrupts:
    """A context in which SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, but not in the middle of a write."""

    def __init__(self) -> None:
        self._handling = ExitStack()
        self._busy = False
        self._pending = False

    def __enter__(self) -> Interrupts:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        self._handling.enter_context(handled(self._handle))
        return self

    def __exit__(self, *_: object) -> None:
        self._handling.close()

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer a first signal until the block ends. A second one interrupts the block."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Only record a first signal (see `pending`) until the block ends. A second one interrupts the block."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            self._pending = False

    @property
    def pending(self) -> bool:
        """True when a signal is deferred or recorded."""
        return self._pending

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._busy and not self._pending:
            self._pending = True
            return
        raise KeyboardInterrupt


class EndedBeforeStartError(Exception):
    """A signal ended a live capture while it waited for its interface."""


@contextmanager
def stopped(feed: LiveFeed | PipeFeed | FollowedBlocks, seconds: float | None) -> Iterator[None]:
    """Stop the capture at a first signal or after a time; captured packets are still decoded. A later signal interrupts decoding."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        if feed.stopping:
            raise KeyboardInterrupt
        feed.stop()

    timer = threading.Timer(seconds or 0, feed.stop)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        # A shell ignores SIGINT for background jobs, but a SIGINT sent to one is meant.
        with handled(stop, always={signal.SIGINT}):
            yield
    finally:
        timer.cancel()
