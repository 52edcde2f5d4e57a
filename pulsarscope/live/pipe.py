"""Live capture through a pipe, such as `ssh host tcpdump -U -w -`, read as fast as it is decoded.

No packets are skipped. When decoding is too slow, the pipe fills, and the other end waits, or drops packets and reports them itself.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Iterator, Sequence

from pulsarscope.capture import Block, BlockReader, CaptureInterface, PacketRecord
from pulsarscope.live.capture_worker import CaptureState
from pulsarscope.live.key_log_follower import KeyLogFollower
from pulsarscope.live.packet_source import CapturedPackets, CaptureHealth, PacketWriter
from pulsarscope.model.errors import PulsarscopeError
from pulsarscope.model.text import STANDARD_INPUT, input_name
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.pcapng import interface_block, packet_block, secrets_block

WAIT_SECONDS = 0.2


class PipeFeed:
    """An iterator over the blocks of a pipe, which ends with the pipe or after `stop`."""

    reports_drops = False
    process = None

    def __init__(
        self,
        path: str,
        *,
        recorder: PacketWriter | None = None,
        packets_max: int | None = None,
        by_interface: bool = False,
        key_logs: Sequence[str] = (),
    ) -> None:
        """Prepare to read a pipe, or standard input for "-", as `LiveFeed` does; the first iteration opens it."""
        self.packets = 0
        self.lag = 0.0
        """Delay of the last decoded packets beyond the least delay so far, in seconds: another host's clock, or an old capture, does not
        count."""
        self._least_delay = math.inf
        self._failure: PulsarscopeError | None = None
        self._path = path
        self._key_logs = KeyLogFollower(key_logs)
        self._secrets: list[tuple[int, bytes]] = []
        self._recorder = recorder
        self._packets_max = packets_max
        self.stopping = False
        """True after `stop`, or after `packets_max` packets."""
        self._ended = False
        self._stopped_early = False
        """True when reading stopped before the end of the pipe: an incomplete record is then not damage."""
        self._interfaces: dict[CaptureInterface, int] = {}
        self._reader = BlockReader(self, records=recorder is not None, by_interface=by_interface)
        self._descriptor = -1

    @property
    def state(self) -> CaptureState:
        """Return the recent state of the recording, or how it ended."""
        files, latest = (0, "") if self._recorder is None else self._recorder.recorded()
        return CaptureState(self._ended, None, self._failure, files, latest)

    @property
    def name(self) -> str:
        """Return the name of the pipe for messages."""
        return input_name(self._path)

    @property
    def recognised(self) -> bool:
        """Return True when the input has turned out to be a capture."""
        return self._reader.recognised

    @property
    def first_time(self) -> int | None:
        """Return the time of the first packet, None before it came."""
        return self._reader.first_time

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        if (block := next(self._reader, None)) is None or (self._stopped_early and not self.recognised):
            self._ended = True
            raise StopIteration
        if self._stopped_early:
            block.findings = [finding for finding in block.findings if finding.code != "capture-truncated"]
        records = [*block.records]
        if (limit := self._packets_max) is not None and block.last_packet >= limit:
            self.stopping = True
            records = [record for record in records if record.number <= limit]
            block.flows = {
                key: within for key, segments in block.flows.items() if (within := [segment for segment in segments if segment[0] <= limit])
            }
        self.packets = block.last_packet if limit is None else min(block.last_packet, limit)
        if block.packets:
            delay = time.time() - block.last_time / SECOND
            self._least_delay = min(self._least_delay, delay)
            self.lag = delay - self._least_delay
        secrets = self._reader.take_secrets()
        if lines := self._key_logs.read():
            secrets.append((0, lines))
        self._secrets += secrets
        if records or secrets:
            self._record(records, [log for _, log in secrets])
        return block

    def _record(self, records: Sequence[PacketRecord] = (), key_logs: Sequence[bytes] = ()) -> None:
        """Record packets, after the secrets that a reader of the file may need; end the recording if there are no packets."""
        if self._recorder is None or self._failure is not None:
            return
        try:
            for log in key_logs:
                self._recorder.describe(secrets_block(log))
            if records:
                self._recorder(self._encode(records, self._recorder))
            elif not key_logs:
                self._recorder.end()
        except PulsarscopeError as error:
            self._failure = error
            self.stop()

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return new secrets since the last call, from the capture (see `BlockReader.take_secrets`) and from the key log files."""
        secrets, self._secrets = self._secrets, []
        return secrets

    def health(self) -> CaptureHealth:
        """Return the current state; packets dropped by the other end are not known."""
        shortened = 0 if self._recorder is None else self._recorder.shortened
        return CaptureHealth(self.packets, 0, 0, 0, 0.0, self.lag, shortened_triggers=shortened)

    def wait(self) -> None:
        """Record until the end."""
        for _ in self:
            self.take_secrets()

    def trigger(self, moment: int) -> None:
        """Record the packets around a time, ns since the epoch."""
        if self._recorder is not None:
            self._recorder.trigger(moment)

    def stop(self) -> None:
        """Stop reading; packets read so far are still decoded. Safe in a signal handler."""
        self.stopping = True

    def close(self) -> None:
        """Stop, end the recording, and close the pipe."""
        self.stop()
        self._record()
        self._reader.close()
        if self._descriptor > 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, size: int, /) -> bytes:
        """Return available bytes; empty at the end of the pipe and after `stop`."""
        if self._descriptor < 0:
            self._descriptor = 0 if self._path == STANDARD_INPUT else _open_pipe(self._path)
        while not self.stopping:
            if select.select([self._descriptor], [], [], WAIT_SECONDS)[0]:
                return os.read(self._descriptor, size)
        self._stopped_early = True
        return b""

    def _encode(self, records: Sequence[PacketRecord], recorder: PacketWriter) -> CapturedPackets:
        """Encode packets as pcapng blocks; an interface is described before its first packet."""
        pieces = []
        for record in records:
            if (number := self._interfaces.get(record.interface)) is None:
                number = self._interfaces[record.interface] = len(self._interfaces)
                recorder.describe(interface_block(*record.interface))
            pieces.append(packet_block(number, record.time, record.wire_bytes, record.data))
        return CapturedPackets(b"".join(pieces), len(records), records[-1].time)


def _open_pipe(path: str) -> int:
    """Open a pipe that may have no writer yet; a blocking `open` could not be interrupted."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor
