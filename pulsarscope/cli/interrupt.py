"""Signals that end a command early: what was decoded is still put out, whole."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, but not in the middle of a write."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
        self._busy = False
        self._pending = False

    def __enter__(self) -> Interrupts:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        for number in SIGNALS:
            # Only the main thread may set handlers; a signal that the caller ignores (nohup) stays ignored.
            with suppress(ValueError):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Hold a first signal back until the block has ended; a second one gets through."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _caught(self, _number: int, _frame: FrameType | None) -> None:
        if self._busy and not self._pending:
            self._pending = True
            return
        raise KeyboardInterrupt
