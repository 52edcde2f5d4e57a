"""A search in payloads."""

from __future__ import annotations

import pytest

from pulsarscope.browse.searching import PayloadSearch
from tests.scenarios import rows


def test_frames_are_found_in_order_once_and_what_could_not_be_read_is_said() -> None:
    search = PayloadSearch("Order")
    search.feed([rows.message(packet=9, sub=1, payload="an ORDER"), rows.message(packet=9, sub=1, payload="order")])
    search.feed([rows.message(packet=4, sub=2, payload=None, value={"kind": "order"}), rows.message(packet=5, sub=1, payload="other")])
    search.feed([rows.message(packet=6, sub=1, payload=None, status="encrypted")])
    assert list(search.behind((0, 0, 0))) == [(0, 4, 2), (0, 9, 1)]
    assert list(search.behind((0, 4, 2))) == [(0, 9, 1)]
    assert search.summary == "2 frames with it in 5 messages so far; 1 could not be read: encrypted, cut or damaged"


def test_a_search_that_finds_too_much_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.browse.searching.BROWSED_FINDINGS_MAX", 3)
    search = PayloadSearch("a")
    search.feed(rows.message(packet=packet, sub=1, payload="a") for packet in range(3))
    assert search.ended
    assert search.summary.endswith("the rest is not searched")
