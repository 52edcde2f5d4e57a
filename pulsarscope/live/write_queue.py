"""A queue between capturing and writing: a disk may stall for seconds, and packets that are not captured meanwhile are lost."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pulsarscope.live.packet_source import CapturedPackets, PacketWriter
from pulsarscope.model.live_limits import LIVE_WRITE_QUEUE_MAX_BYTES


class WriteQueue:
    """Packets and interfaces that wait for a thread to record them, in order. Exceptions of the recorder are raised by the next call."""

    def __init__(self, recorder: PacketWriter, max_bytes: int = LIVE_WRITE_QUEUE_MAX_BYTES) -> None:
        """Start the thread. A call that would exceed `max_bytes` of waiting packets waits for the recorder."""
        self._recorder = recorder
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._bytes = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, captured: CapturedPackets) -> None:
        """Append packets."""
        self._append(len(captured.data), lambda: self._recorder(captured))

    def describe(self, interface: bytes) -> None:
        """Append a pcapng block for this and all further files (see `PacketWriter.describe`)."""
        self._append(len(interface), lambda: self._recorder.describe(interface))

    def end(self) -> None:
        """Wait until everything is recorded, and end the file."""
        self._append(0, self._recorder.end)
        self.close()
        self.check()

    def close(self) -> None:
        """Wait until everything is recorded, unless the recorder has failed."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def check(self) -> None:
        """Raise the exception of the recorder, if it has failed."""
        if self._failure is not None:
            raise self._failure

    def _append(self, size: int, action: Callable[[], None]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes or self._bytes + size <= self._max_bytes or self._failure is not None)
            self.check()
            self._waiting.append((size, action))
            self._bytes += size
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    return
                size, action = self._waiting.popleft()
            try:
                action()
            except BaseException as error:  # noqa: BLE001 - raised by the next call
                self._failure = error
            with self._changed:
                self._bytes -= size
                self._changed.notify_all()
                if self._failure is not None:
                    return
