"""Bytes of frames, from the packets around them."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from pulsarscope.browse.browsed_capture import read_near
from pulsarscope.capture import BlockReader, Portion, divide, expand_inputs
from pulsarscope.engine import local
from pulsarscope.engine.options import Options
from pulsarscope.model.records import FrameRow, RawFrame
from pulsarscope.protocols import make_dissectors
from tests.places import CAPTURES

RAW = Options(raw=True, dissectors=make_dissectors)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stuck-consumer.pcap", "quickstart.pcapng", "java-schemas.pcap", "unload-terminate.pcap"])
@pytest.mark.parametrize("size", [2_000, 8_000])
def test_the_bytes_are_those_of_the_whole_capture(name: str, size: int) -> None:
    path = CAPTURES / name
    inputs = expand_inputs([str(path)])
    portions = divide(str(path), 0, size)
    rows = [row for batch in local.run([str(path)], RAW) for row in batch.rows]
    pairs = [(frame, raw) for frame, raw in pairwise(rows) if isinstance(frame, FrameRow) and isinstance(raw, RawFrame)]
    found = {at: read_near(portions, inputs, RAW, frame) for at, (frame, _) in enumerate(pairs) if at % 7 == 3}
    there = [near for near in found.values() if near is not None]
    assert len(there) > 0.8 * len(found)
    assert all(near is None or near.data == pairs[at][1].data for at, near in found.items())


def test_only_the_portions_near_the_frame_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    path = CAPTURES / "stuck-consumer.pcap"
    read: list[Portion] = []
    reader = BlockReader

    def noted(source: str, file: int = 0, **options: object) -> object:
        read.append(options["portion"])  # type: ignore[arg-type]
        return reader(source, file, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("pulsarscope.browse.browsed_capture.BlockReader", noted)
    (wanted,) = [
        row for batch in local.run([str(path)], msgspec.structs.replace(RAW, raw=False)) for row in batch.rows if row.packet == 438
    ][:1]
    assert read_near(divide(str(path), 0, 4_000), expand_inputs([str(path)]), RAW, wanted) is not None
    (portion,) = read
    assert portion.start > 0
    assert (portion.end or 1 << 40) - portion.start < 20_000


def test_without_portions_nothing_is_found() -> None:
    frame = next(row for batch in local.run([str(CAPTURES / "ipv6.pcap")], msgspec.structs.replace(RAW, raw=False)) for row in batch.rows)
    assert read_near([], expand_inputs([str(CAPTURES / "ipv6.pcap")]), RAW, frame) is None
