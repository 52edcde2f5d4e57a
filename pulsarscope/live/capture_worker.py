"""Workers that run the capture loop beside decoding: a process if packets come from a ring of the kernel, else a thread."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import NamedTuple, NoReturn, Protocol

from pulsarscope.live.capture_loop import WAIT_SECONDS, CaptureLoop
from pulsarscope.live.packet_queue import Entry, PacketQueue
from pulsarscope.model.errors import InternalError, PulsarscopeError, internal_error

_word = Struct("=q")
_STOP, _FINISH = -1, -2
"""Requests to the process; any other number is the time of a trigger."""


class CaptureState(NamedTuple):
    """State of a capture, or how it ended."""

    ended: bool = False
    """True when no packets follow."""
    source_error: OSError | None = None
    """Error of the source when the interface is gone."""
    failure: Exception | None = None
    """Exception that ended the recording or the loop."""
    files: int = 0
    """Number of written files that still exist."""
    latest: str = ""
    """Name of the latest file."""
    down: bool = False
    """True while the source waits for its interface."""


class CaptureWorker(Protocol):
    """A capture loop that runs beside its user."""

    queue: PacketQueue

    @property
    def process(self) -> int | None:
        """Return the process that captures; None if it is this process."""

    @property
    def state(self) -> CaptureState:
        """Return the recent state. The result of the recording is known after `join`."""

    def start(self) -> None:
        """Start capturing."""

    def take(self, seconds: float) -> Entry | None:
        """Return the oldest entry of the queue (see `PacketQueue.take`)."""

    def trigger(self, moment: int) -> None:
        """Record the packets around a time, ns since the epoch."""

    def stop(self) -> None:
        """Stop capturing; packets captured so far stay in the queue. Safe in a signal handler and from other threads."""

    def join(self, wait: Callable[[], object]) -> None:
        """Stop, wait until the recording is complete, calling `wait` again and again, and close the source."""


class CaptureThread:
    """A capture loop in a thread."""

    def __init__(self, loop: CaptureLoop) -> None:
        self.queue = loop.queue
        self._loop = loop
        self._failure: Exception | None = None
        self._triggers: deque[int] = deque()
        self._stopping = False
        self._finishing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)

    @property
    def process(self) -> int | None:
        """Return None: this process captures."""
        return None

    @property
    def state(self) -> CaptureState:
        """Return the state (see `CaptureWorker`)."""
        return _state(self._loop, self._failure)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run(self)
        except Exception as error:  # noqa: BLE001 - raised by the user of the feed
            self._failure = error

    def take(self, seconds: float) -> Entry | None:
        """Return the oldest entry of the queue."""
        return self.queue.take(seconds)

    def trigger(self, moment: int) -> None:
        """Record the packets around a time."""
        self._triggers.append(moment)

    def stop(self) -> None:
        """Stop capturing."""
        self._stopping = True

    def join(self, wait: Callable[[], object]) -> None:
        """See `CaptureWorker`."""
        self.stop()
        self._finishing.set()
        while self._thread.is_alive():
            wait()
            self._thread.join(WAIT_SECONDS)
        self._loop.source.close()

    def stopping(self) -> bool:
        """Return True once the capture is to stop."""
        return self._stopping

    def triggers(self) -> list[int]:
        """Return the triggers since the last call."""
        return [self._triggers.popleft() for _ in range(len(self._triggers))]

    def wait_for_end(self) -> None:
        """Wait a moment for the end."""
        self._finishing.wait(WAIT_SECONDS)

    def ended(self) -> bool:
        """Return True when no trigger can come any more."""
        return self._finishing.is_set() and not self._triggers


class CaptureProcess:
    """A capture loop in a forked process. Decoding takes no time from it, and files are complete even if decoding ends abnormally."""

    def __init__(self, loop: CaptureLoop) -> None:
        """Initialize with a loop whose queue both processes share."""
        self.queue = loop.queue
        self.state = CaptureState()
        self._loop = loop
        self._requests = self._answers = self._process = -1

    def start(self) -> None:
        """Fork the process."""
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about other threads: the loop uses nothing that they may have locked
            self._process = os.fork()
        if not self._process:
            os.close(self._requests)
            os.close(self._answers)
            _serve(self._loop, requests, answers)
        os.close(requests)
        os.close(answers)
        os.set_blocking(self._requests, False)
        self._loop.source.close()  # otherwise, the ring would count as memory of this process, too
        if self._loop.recorder is not None:
            self._loop.recorder.detach()

    @property
    def process(self) -> int | None:
        """Return the number of the process while it runs."""
        return self._process if self._process > 0 else None

    def take(self, seconds: float) -> Entry | None:
        """Return the oldest entry of the queue; None also when the process has died."""
        entry = self.queue.take(seconds)
        while entry is None and not self.state.ended:
            if not self._receive():
                break
        while entry == 0 and select.select([self._answers], [], [], 0)[0]:
            if not self._receive():
                return None
        return entry

    def trigger(self, moment: int) -> None:
        """Record the packets around a time."""
        self._request(moment)

    def stop(self) -> None:
        """Stop capturing."""
        self._request(_STOP)

    def _request(self, request: int) -> None:
        if self._requests >= 0:
            with suppress(BrokenPipeError, BlockingIOError):  # it has died, or thousands of triggers wait
                os.write(self._requests, _word.pack(request))

    def join(self, wait: Callable[[], object]) -> None:
        """See `CaptureWorker`."""
        if self._process > 0:
            self._request(_FINISH)
            os.close(self._requests)
            while not select.select([self._answers], [], [], WAIT_SECONDS)[0] or self._receive():
                wait()
            os.close(self._answers)
            self._requests = -1
            _, status = os.waitpid(self._process, 0)
            self._process = -1
            if status and self.state.failure is None:
                how = f"was killed (signal {os.WTERMSIG(status)})" if os.WIFSIGNALED(status) else "ended early"
                self.state = self.state._replace(failure=InternalError(f"the capturing process {how}; packets after that are missing"))
        self._loop.source.close()

    def _receive(self) -> bool:
        """Receive the next state of the process; return False when it has ended."""
        head = _read(self._answers, _word.size)
        if len(head) < _word.size:
            return False
        data = _read(self._answers, _word.unpack(head)[0])
        self.state = CaptureState(*pickle.loads(data))  # noqa: S301 - from our own process
        return True


class _Requests:
    """Requests from the decoding process, through a pipe that ends with it. Each new file is reported to it."""

    def __init__(self, loop: CaptureLoop, pipe: int, answers: int) -> None:
        self._loop = loop
        self._pipe = pipe
        self._answers = answers
        self._reported = CaptureState()
        self._stopping = self._ended = False
        self._triggers: list[int] = []
        os.set_blocking(pipe, False)
        os.set_blocking(answers, False)

    def stopping(self) -> bool:
        """Return True once the capture is to stop."""
        if (state := _state(self._loop)) != self._reported:
            self._reported = state
            _send(self._answers, state)
        with suppress(BlockingIOError):
            data = os.read(self._pipe, 1_024 * _word.size)
            self._ended = self._ended or not data
            for (request,) in _word.iter_unpack(data):
                self._ended = self._ended or request == _FINISH
                self._stopping = self._stopping or request == _STOP
                if request >= 0:
                    self._triggers.append(request)
        return self._stopping or self._ended

    def triggers(self) -> list[int]:
        """Return the triggers since the last call."""
        triggers, self._triggers = self._triggers, []
        return triggers

    def wait_for_end(self) -> None:
        """Wait a moment for a request."""
        if not self._ended:
            select.select([self._pipe], [], [], WAIT_SECONDS)
        self.stopping()

    def ended(self) -> bool:
        """Return True when no trigger can come any more."""
        return self._ended and not self._triggers


def _serve(loop: CaptureLoop, requests: int, answers: int) -> NoReturn:
    """Run the loop in the forked process, and never return."""
    failure: Exception | None = None
    try:
        os.setsid()  # signals of the terminal go only to the other process, which forwards them
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        gc.disable()
        try:
            loop.run(_Requests(loop, requests, answers))
        except PulsarscopeError as error:
            failure = error
        except BaseException as error:  # noqa: BLE001 - raised by the other process
            failure = internal_error(error)
        os.set_blocking(answers, True)
        with suppress(BrokenPipeError):
            _send(answers, _state(loop, failure))
    finally:
        os._exit(0)


def _state(loop: CaptureLoop, failure: Exception | None = None) -> CaptureState:
    files, latest = (0, "") if loop.recorder is None else loop.recorder.recorded()
    return CaptureState(loop.ended, loop.source_error, failure, files, latest, loop.source.down)


def _send(pipe: int, state: CaptureState) -> None:
    """Send a state. If the pipe is full, omit it: a later state supersedes it."""
    data = pickle.dumps(tuple(state))
    with suppress(BlockingIOError):
        os.write(pipe, _word.pack(len(data)) + data)


def _read(pipe: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := os.read(pipe, size - len(data))):
        data += piece
    return data
