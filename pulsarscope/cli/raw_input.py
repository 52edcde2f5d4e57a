"""Captures made from streams without packets: raw bytes of one or both sides (--raw), or hex dumps (--hexdump)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory

from pulsarscope import __version__
from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.inputs.hex_dumps import Turn, turns_in
from pulsarscope.model.command_limits import RAW_INPUT_MAX_BYTES
from pulsarscope.model.errors import CaptureError, OutputError, UsageError, system_reason
from pulsarscope.model.text import STANDARD_INPUT, input_name
from pulsarscope.output.export.pcapng import interface_block, packet_block, section_block
from pulsarscope.output.export.redacted_packet import LINK_TYPE_RAW, SegmentHead, plain_packet

CLIENT, SERVER = (IPv4Address("192.0.2.1"), 50_000), (IPv4Address("192.0.2.2"), 6_650)
"""Placeholders for the unknown endpoints (RFC 5737)."""

SEGMENT_MAX_BYTES = 60_000
STEP_NS = 1_000_000
"""Time between two packets, as the real times are unknown."""

_SYN, _PSH, _ACK = 0x02, 0x08, 0x10
_WINDOW = 65_535


@contextmanager
def streams_as_capture(request: CommandRequest) -> Iterator[Sequence[str]]:
    """Yield a capture made from the raw streams or hex dumps of a request. Raises UsageError or CaptureError."""
    if request.raw_streams and request.hexdump:
        raise UsageError("--raw takes bytes and --hexdump text: give one")
    if request.raw_streams:
        if len(request.files) > 2:
            raise UsageError("--raw takes the bytes that a client sent, and those that the server sent: give one or two files")
        turns = _in_turn([_content(file) for file in request.files])
    else:
        turns = [turn for file in request.files for turn in turns_in(_content(file).decode("utf-8", "replace"))]
    if not any(turn.data for turn in turns):
        what = (
            "empty" if request.raw_streams else "not a hex dump: Wireshark's Follow TCP Stream, xxd, hexdump -C and Netty's logs are known"
        )
        raise CaptureError(f"{input_name(request.files[0])} is {what}")
    with ExitStack() as stack:
        try:
            place = Path(stack.enter_context(TemporaryDirectory(prefix="pulsarscope-"))) / "streams.pcapng"
            place.write_bytes(capture_of(turns, (request.reading.port or [SERVER[1]])[0]))
        except OSError as error:
            raise OutputError(f"cannot keep a temporary capture: {error.strerror}") from error
        yield [str(place)]


def _content(file: str) -> bytes:
    try:
        with sys.stdin.buffer if file == STANDARD_INPUT else Path(file).open("rb") as stream:
            data = stream.read(RAW_INPUT_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise CaptureError(f"{input_name(file)} cannot be read: {system_reason(error)}") from None
    if len(data) > RAW_INPUT_MAX_BYTES:
        raise UsageError(f"{input_name(file)} is larger than {RAW_INPUT_MAX_BYTES >> 20} MiB")
    return data


def _in_turn(streams: Sequence[bytes]) -> list[Turn]:
    """Return the first frames of both sides, then the rest of each stream, the client's first, so that requests precede their answers."""
    heads = [stream[: _first_frame(stream)] for stream in streams]
    rests = [stream[len(head) :] for stream, head in zip(streams, heads, strict=True)]
    return [Turn(side == 0, data) for parts in (heads, rests) for side, data in enumerate(parts) if data]


def _first_frame(stream: bytes) -> int:
    """Return the size of the first frame, including its length prefix of four bytes."""
    return 4 + int.from_bytes(stream[:4], "big")


def capture_of(turns: Sequence[Turn], port: int = SERVER[1]) -> bytes:
    """Return a pcapng capture of a connection to a port."""
    client, server = CLIENT[0].packed, SERVER[0].packed
    ports = CLIENT[1].to_bytes(2, "big"), port.to_bytes(2, "big")
    keys = {True: client + server + ports[0] + ports[1], False: server + client + ports[1] + ports[0]}
    following = {True: 1, False: 1}
    parts = [section_block(f"pulsarscope {__version__}"), interface_block(LINK_TYPE_RAW, 0, "")]

    def add(from_client: bool, flags: int, payload: bytes = b"") -> None:
        sequence = following[from_client] - (1 if flags & _SYN else 0)
        acknowledgment = following[not from_client] if flags & _ACK else 0
        head = SegmentHead(keys[from_client], sequence % 2**32, acknowledgment % 2**32, flags, _WINDOW, 0, 0, b"")
        packet = plain_packet(head, payload)
        parts.append(packet_block(0, (len(parts) - 2) * STEP_NS, len(packet), packet))
        following[from_client] += len(payload)

    add(True, _SYN)
    add(False, _SYN | _ACK)
    add(True, _ACK)
    for turn in turns:
        for start in range(0, len(turn.data), SEGMENT_MAX_BYTES):
            add(turn.from_client, _PSH | _ACK, turn.data[start : start + SEGMENT_MAX_BYTES])
    return b"".join(parts)
