from __future__ import annotations

import pytest

from pulsarscope.protocols.bookkeeper.start_tls import starts_tls
from tests.protocols.bookkeeper.cases import FRAMES
from tests.scenarios.bookkeeper import ledger_entry, start_tls, started_tls, v3_add


@pytest.mark.parametrize("data", [start_tls(), start_tls(1 << 40), started_tls()])
def test_the_frames_behind_which_tls_begins_are_known_and_parts_of_them_may_be_some(data: bytes) -> None:
    assert starts_tls(data) == starts_tls(data + b"\x16\x03\x01") == len(data)
    assert {starts_tls(data[:size]) for size in range(1, len(data))} == {0}


@pytest.mark.parametrize(
    "data", [b"", started_tls(status=404), *FRAMES, v3_add(1, ledger_entry(5, 1), 5, 1), b"\0\0\0\x05\0", b"\x16\x03\x01"]
)
def test_other_frames_and_a_refusal_begin_none(data: bytes) -> None:
    assert starts_tls(data) is None
