from __future__ import annotations

import pytest

from pulsarscope.protocols.bookkeeper.ranges import ranges
from tests.protocols.bookkeeper.cases import ANSWERS, ENTRY, FRAMES
from tests.scenarios.bookkeeper import MASTER_KEY, add


@pytest.mark.parametrize("data", FRAMES + ANSWERS)
def test_ranges_begin_with_the_length_and_enclose_one_another(data: bytes) -> None:
    masked, named = ranges(data, show_secrets=False)
    assert len(masked) == len(data)
    assert MASTER_KEY not in masked
    assert named[0] == (0, 4, "length", 0)
    assert all(0 <= start <= end <= len(data) for start, end, _, _ in named)


def test_an_entry_is_named_part_by_part() -> None:
    data = add(ENTRY)
    names = ["length", "version, operation, flags", "body", "(secret)", "ledger entry", "ledger", "entry", "last add confirmed", "length"]
    masked, named = ranges(data, show_secrets=False)
    assert [name for _, _, name, _ in named] == [*names, "CRC32C digest", "data"]
    assert masked != data
    assert ranges(data, show_secrets=True)[0] == data


@pytest.mark.parametrize("size", range(8))
def test_a_cut_frame_has_what_is_there(size: int) -> None:
    assert ranges(FRAMES[0][:size], show_secrets=False)[0] == FRAMES[0][:size]
