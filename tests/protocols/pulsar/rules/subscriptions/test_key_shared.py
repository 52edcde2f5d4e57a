"""Key_Shared: keys on two consumers, and entries out of order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.pulsar.rules.subscriptions import key_shared
from tests.scenarios.commands import ack, close_consumer, flow, redeliver
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import PUBLISH_TIME_MS
from tests.scenarios.rules.key_shared import deliver, keyed, on_two_consumers, out_of_order


def test_a_key_that_goes_to_two_consumers_at_once_is_named(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *on_two_consumers())
    row, evidence = diagnosis.only("key-on-two-consumers")
    assert (row.severity, evidence["key"], evidence["subscription"]) == ("warning", "k", "s")
    assert [item["consumer_name"] for item in evidence["consumers"]] == ["c1", "c2"]
    assert evidence["message_ids"] == [[7, 1], [7, 4]]
    assert diagnosis.commands(row) == ["MESSAGE", "MESSAGE"]
    assert 5 <= evidence["overlap_ns"] / SECOND <= 7
    assert diagnosis.frames[evidence["frames"][1]].time == row.time


def test_two_consumers_of_one_connection_too(tmp_path: Path) -> None:
    talk = subscribed(subscribed(connected(), 1, "Key_Shared"), 2, "Key_Shared").client(flow(10, 1), flow(10, 2))
    deliver(deliver(talk, 1, 1), 2, 2).client(ack(1, number=1), ack(2, number=2)).close()
    assert "key-on-two-consumers" in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize("how", ["acknowledged", "given back", "all given back", "closed", "connection lost"])
def test_a_key_may_move_when_nothing_of_it_is_held(tmp_path: Path, how: str) -> None:
    item = deliver(keyed(1), 1, 1, 2).wait(SECOND)
    last = {
        "acknowledged": [ack(1, 2, number=1)],
        "given back": [redeliver(1, 2, number=1)],
        "all given back": [redeliver(number=1)],
        "closed": [close_consumer(1)],
        "connection lost": [],
    }[how]
    item = item.client(*last).wait(20 * SECOND).close() if last else item.reset()
    two = deliver(keyed(2, after=4 * SECOND), 2, 1, 2, again=1).client(ack(1, 2, number=2)).close()
    assert not {"key-on-two-consumers", "key-out-of-order"} & set(diagnose(tmp_path, item, two).codes)


@pytest.mark.parametrize(
    ("first", "second", "meta"),
    [
        ({}, {"key": "other"}, {}),
        ({}, {}, {"allowOutOfOrderDelivery": True}),
        ({"ordering_key": b"a"}, {"ordering_key": b"b"}, {}),
    ],
    ids=["other keys", "order is not asked for", "ordering keys come first"],
)
def test_that_is_as_it_should_be(tmp_path: Path, first: dict[str, Any], second: dict[str, Any], meta: dict[str, Any]) -> None:
    item = deliver(keyed(1, **meta), 1, 1, **first).wait(10 * SECOND).client(ack(1, number=1)).close()
    two = deliver(keyed(2, after=2 * SECOND, **meta), 2, 2, **second).client(ack(2, number=2)).close()
    assert "key-on-two-consumers" not in diagnose(tmp_path, item, two).codes


def test_shared_subscriptions_promise_nothing(tmp_path: Path) -> None:
    item = deliver(keyed(1, kind="Shared"), 1, 1).wait(10 * SECOND).close()
    two = deliver(keyed(2, after=2 * SECOND, kind="Shared"), 2, 2, 1).close()
    assert not {"key-on-two-consumers", "key-out-of-order"} & set(diagnose(tmp_path, item, two).codes)


def test_entries_of_a_key_out_of_order_are_named(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *out_of_order())
    row, evidence = diagnosis.only("key-out-of-order")
    assert (row.severity, evidence["message_id"], evidence["after"], evidence["key"]) == ("warning", [7, 3], [7, 5], "k")
    assert diagnosis.commands(row) == ["MESSAGE", "MESSAGE"]


def test_a_redelivery_may_come_behind_later_ones(tmp_path: Path) -> None:
    talk = deliver(keyed(1), 1, 1, 5).client(redeliver(1, number=1))
    assert "key-out-of-order" not in diagnose(tmp_path, deliver(talk, 1, 1, again=1).close()).codes


def test_so_may_a_message_for_a_later_time(tmp_path: Path) -> None:
    talk = deliver(deliver(keyed(1), 1, 1, 5), 1, 3, deliver_at_time=PUBLISH_TIME_MS + 1_000)
    assert "key-out-of-order" not in diagnose(tmp_path, talk.close()).codes


def test_nor_do_keys_have_an_order_between_them(tmp_path: Path) -> None:
    talk = deliver(deliver(keyed(1), 1, 5), 1, 3, key="other").close()
    assert "key-out-of-order" not in diagnose(tmp_path, talk).codes


@given(st.lists(st.none() | st.integers(0, 40), max_size=300))
def test_counts_of_keys_are_bounded_and_never_too_high(keys: list[int | None]) -> None:
    counted = key_shared.KeyCounts()
    for number in keys:
        counted.add(None if number is None else ("key", str(number)))
    assert counted.total == len(keys)
    assert len(counted.counts) <= key_shared.COUNTED_MAX
    for (_, name), count in counted.counts.items():
        exact = keys.count(int(name))
        assert exact - len(keys) / (key_shared.COUNTED_MAX + 1) <= count <= exact
    if (busiest := counted.busiest()) is not None:
        assert 2 * keys.count(int(busiest[1])) > len(keys)


def test_what_is_kept_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_shared, "ENTRIES_MAX", 5)
    monkeypatch.setattr(key_shared, "LATEST_MAX", 5)
    talk = keyed(1)
    for entry in range(20):
        deliver(talk, 1, entry, key=f"k{entry}")
    deliver(talk, 1, 0, key="k0" * 200).client(ack(*range(20), number=1)).client(close_consumer(1)).close()
    two = deliver(keyed(2, after=SECOND), 2, 30, key="k1").close()
    assert "key-on-two-consumers" not in diagnose(tmp_path, talk, two).codes
