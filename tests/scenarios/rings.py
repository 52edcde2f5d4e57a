"""Files of several captures: rings, as written by tcpdump -C, of captures with different addresses; and files that are not captures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.places import CAPTURES
from tests.scenarios import write_pcap, write_pcapng
from tests.scenarios.recapture import Segment, bridged, packets_of, segments_of


def moved(name: str, number: int, start_ns: int) -> list[Segment]:
    """The segments of a capture, moved to another start time and to addresses that contain this number."""
    segments = segments_of(packets_of(CAPTURES / name))
    shift = start_ns - segments[0].time_ns
    hosts = sorted({segment.source for segment in segments} | {segment.destination for segment in segments})
    address = {host: f"10.{number}.0.{index + 1}" for index, host in enumerate(hosts)}
    return [
        segment._replace(time_ns=segment.time_ns + shift, source=address[segment.source], destination=address[segment.destination])
        for segment in segments
    ]


def ring(folder: Path, name: str, segments: Sequence[Segment], cuts: Sequence[float]) -> list[Path]:
    """The segments in several files, which end after these shares of the segments."""
    ends = [0, *(int(len(segments) * cut) for cut in sorted(cuts)), len(segments)]
    packets = [segment.packet() for segment in segments]
    return [write_pcap(folder / f"{name}-{index}.pcap", packets[start:end]) for index, (start, end) in enumerate(pairwise(ends))]


def damaged(path: Path) -> Path:
    """The file, cut within a packet."""
    path.write_bytes(path.read_bytes()[:-7])
    return path


def folder_of_all(folder: Path) -> Path:
    """Three rings at the same time, one of two interfaces, a damaged file of another, real captures, and files that are not captures."""
    start = 1_700_000_000_000_000_000
    ring(folder, "a", moved("quickstart.pcapng", 1, start), (0.3, 0.6))
    damaged(ring(folder, "b", moved("errors.pcap", 2, start + 1_000), (0.2, 0.5, 0.8))[1])
    ring(folder, "c", moved("compress-zlib.pcap", 3, start + 2_000), ())
    for name in ("raw-strange.pcap", "java-chunk-interleaved.pcap.zst", "snaplen200.pcap"):
        (folder / name).write_bytes((CAPTURES / name).read_bytes())
    both = bridged([segment.packet() for segment in moved("errors.pcap", 4, start + 3_000)], lost=20)
    for index, part in enumerate((both[:50], both[50:])):
        write_pcapng(folder / f"bridge-{index}.pcapng", part)
    (folder / "broken.pcap").write_bytes((CAPTURES / "errors.pcap").read_bytes()[:30])
    (folder / "notes.txt").write_text("no capture")
    return folder
