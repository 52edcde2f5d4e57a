"""Tables of statistics: legs of publishing, bookies, ledgers."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.dissect.contract.capabilities import LegFold, ReportTable
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.bookkeeper.tables import legs
from tests.places import CAPTURES

MS = 1_000_000
BOOKIES = {"a": ("c:1", "A:3181"), "b": ("c:2", "B:3181"), "d": ("c:3", "D:3181")}


def given(name: str) -> ReportTable:
    return next(table for dissector in make_dissectors() for table in dissector.tables if table.name == name)


def added(connection: str, entry: int, asked: int, answered: int, status: str = "EOK") -> FrameRow:
    fields = {"ledger": 7, "entry": entry, "status": status}
    latency = (answered - asked) * MS
    command = "ADD_RESPONSE"
    return FrameRow(dissector="bookkeeper", connection=connection, command=command, fields=fields, time=answered * MS, latency_ns=latency)


def receipt(entry: int, sent: int, received: int) -> FrameRow:
    fields = {"message_id": {"ledgerId": 7, "entryId": entry}}
    latency = (received - sent) * MS
    return FrameRow(
        dissector="pulsar", connection="p", command="SEND_RECEIPT", fields=fields, topic="t", time=received * MS, latency_ns=latency
    )


def records(*rows: FrameRow, table: str = "legs") -> list[dict[str, Any]]:
    fold = given(table).make()
    for row in rows:
        fold.feed([row], BOOKIES)
    return fold.records()


@pytest.mark.parametrize(("table", "left_out"), [("bookies", 2), ("ledgers", 3), ("legs", 1)])
def test_rows_beyond_a_full_table_are_counted(table: str, left_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.dissect.contract.capabilities.STATISTICS_NAMES_MAX", 1)
    other = added("d", 0, 1, 2)
    other.fields = {**(other.fields or {}), "ledger": 8}
    late = receipt(1, 0, 5)
    late.topic = "u"
    fold = given(table).make()
    fold.feed([added("a", 0, 1, 2), receipt(0, 0, 5), added("b", 1, 1, 2), late, other, *([other] * (table == "ledgers") * 2)], BOOKIES)
    assert fold.records()
    assert fold.left_out == left_out


@pytest.mark.parametrize("name", ["v2", "v3", "e3"])
def test_every_entry_that_clients_published_has_its_legs_and_they_add_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legs, "SLOWEST_MAX", 1_000)
    folder = CAPTURES / "bookkeeper"
    capture = ps.open(str(folder / f"{name}.pcap.zst"))
    fold = given("legs").make()
    rows = [*capture.frames()]
    fold.feed(rows, {row.connection: ("c:1", "b:1") for row in rows})
    topics = [record for record in fold.records() if record["bookie"] is None]
    assert all(record["joined"] == record["entries"] for record in topics)
    slow = {entry["entry"]: entry for record in topics for entry in record["slowest"]}
    lines = [json.loads(line) for line in (folder / f"{name}.truth.jsonl").read_text().splitlines()]
    sent = {f"{line['id'][0]}:{line['id'][1]}" for line in lines if line["kind"] == "sent"}
    assert sent <= slow.keys()
    latencies = {row.request: row.latency_ns for row in rows if row.command == "SEND_RECEIPT"}
    for entry in slow.values():
        assert entry["broker_ns"] + entry["bookies_ns"] + entry["answer_ns"] == entry["publish_ns"] == latencies[entry["frame"]]
        assert min(entry["broker_ns"], entry["bookies_ns"], entry["answer_ns"]) >= 0


def test_the_leg_of_the_bookies_ends_with_the_answer_that_makes_the_ack_quorum() -> None:
    rows = (added("a", 0, 2, 5), added("b", 0, 2, 9), receipt(0, 1, 10))
    (topic, *_) = records(*rows)
    assert [topic[f"{leg}_max_ns"] // MS for leg in ("publish", "broker", "bookies", "answer")] == [9, 1, 7, 1]


def test_a_slow_bookie_that_the_quorum_hides_is_counted_and_not_in_the_legs() -> None:
    rows = (added("a", 0, 2, 5), added("b", 0, 2, 6), receipt(0, 1, 7), added("d", 0, 2, 900))
    topic, *bookies = records(*rows)
    assert (topic["hidden"], topic["bookies_max_ns"]) == (1, 4 * MS)
    assert {record["bookie"]: (record["hidden"], record["slowest_of_joined"]) for record in bookies} == {
        "A:3181": (0, 0),
        "B:3181": (0, 0),
        "D:3181": (1, 1),
    }


def test_an_answer_beyond_the_quorum_of_its_ledger_delays_nobody() -> None:
    first = (added("a", 0, 2, 5), added("b", 0, 2, 6), receipt(0, 1, 7))
    topic, *_ = records(*first, added("a", 1, 12, 15), added("b", 1, 12, 16), added("d", 1, 12, 18), receipt(1, 11, 19))
    assert topic["bookies_max_ns"] == 4 * MS


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_what_proxies_take_is_a_leg_of_its_own(order: tuple[int, ...]) -> None:
    """A client, two proxies and a broker: three nested receipts, reported in any order."""
    receipts = receipt(0, 10, 80), receipt(0, 15, 70), receipt(0, 17, 60)
    fold = given("legs").make()
    assert isinstance(fold, LegFold)
    fold.feed([added("a", 0, 20, 50)], BOOKIES)
    for number in order:
        (fold.feed_inner if number else fold.feed)([receipts[number]], BOOKIES)
    topic, _ = fold.records()
    assert {leg: topic[f"{leg}_max_ns"] // MS for leg in ("publish", *legs.LEGS)} == {
        "publish": 70,
        "proxy": 27,
        "broker": 3,
        "bookies": 30,
        "answer": 10,
    }


def test_without_a_proxy_there_is_no_leg_of_it() -> None:
    topic, *_ = records(added("a", 0, 2, 5), receipt(0, 1, 10))
    assert topic["proxy_max_ns"] is None
    assert topic["slowest"][0]["proxy_ns"] == 0


def test_an_answer_that_does_not_name_its_ledger_joins_nothing() -> None:
    nameless = added("a", 0, 0, 5)
    del (nameless.fields or {})["ledger"]
    assert records(nameless) == []


def test_refused_adds_and_entries_without_adds_are_not_joined() -> None:
    (topic,) = records(added("a", 0, 2, 5, "EIO"), receipt(0, 1, 7), receipt(1, 8, 9))
    assert (topic["entries"], topic["joined"]) == (2, 0)


def test_entries_that_no_longer_fit_are_counted_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legs, "TABLE_ENTRIES_MAX", 2)
    rows = [row for entry in range(10) for row in (added("a", entry, 2, 5), receipt(entry, 1, 7))]
    topic, bookie = records(*rows)
    assert (topic["entries"], topic["joined"], bookie["entries"]) == (10, 10, 10)


def test_times_that_need_more_than_64_bits_have_their_legs() -> None:
    rows = [added("a", 0, 2, 5), receipt(0, 1, 7)]
    (plain, *_) = records(*rows)
    for row in rows:
        row.time = (row.time or 0) + (1 << 70)
    (late, *_) = records(*rows)
    assert late["slowest"][0].pop("time") == plain["slowest"][0].pop("time") + (1 << 70)
    assert late == plain


def test_an_entry_that_waits_takes_little_memory() -> None:
    fold = given("legs").make()
    tracemalloc.start()
    try:
        fold.feed((receipt(entry, entry, entry + 5) for entry in range(1_000, 5_000)), BOOKIES)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 350 * 4_000


def test_bookies_have_their_refusals_and_ledgers_their_topic() -> None:
    rows = (added("a", 0, 2, 5), added("b", 0, 2, 6, "EIO"), receipt(0, 1, 7))
    found = {record["bookie"]: record for record in records(*rows, table="bookies")}
    assert found["B:3181"]["refusals"] == {"EIO": 1}
    assert found["A:3181"]["refused"] == 0
    (ledger,) = records(*rows, table="ledgers")
    assert (ledger["ledger"], ledger["topic"], ledger["refused"], ledger["bookies"]) == (7, "t", 1, ["A:3181", "B:3181"])
