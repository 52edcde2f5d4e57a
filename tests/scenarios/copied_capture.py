"""A capture of a connection that carries another capture."""

from __future__ import annotations

from tests.scenarios.capture_bytes import SECOND, START, Record, pcap, segment_packet


def capture_of_a_copied_capture(size: int) -> bytes:
    """Return a capture of another capture of about `size` bytes, which is copied in large segments a second later."""
    inner = pcap([Record(segment_packet(b"%d" % number), START + number * 1000) for number in range(size // 75)])
    pieces = [inner[start : start + 65_400] for start in range(0, len(inner), 65_400)]
    sent = [segment_packet(piece, sequence=1000 + 65_400 * number) for number, piece in enumerate(pieces)]
    return pcap([Record(frame, START + SECOND + number * 1000) for number, frame in enumerate(sent)])
