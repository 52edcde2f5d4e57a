"""The rows that belong to the followed subject."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pulsarscope.dissect.plugins.isolation import PluginWarning
from pulsarscope.engine.options import Options
from pulsarscope.engine.parallel import run
from pulsarscope.filter import FollowFilter
from pulsarscope.filter import follow as module
from pulsarscope.model.errors import UsageError
from pulsarscope.model.ordered_rows import in_rows
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.scenarios import rows
from tests.scenarios.both_readers import reader
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import TOPIC
from tests.scenarios.publishers import Publishers


def followed(kind: str, name: str, *batches: list[Any]) -> list[list[str]]:
    """Packet, or kind, of the selected rows of each batch."""
    follow_filter = FollowFilter(kind, name, make_dissectors())
    return [[_name(row) for row in follow_filter.select(batch, {})] for batch in batches]


def _name(row: Any) -> str:
    return str(row.packet) if isinstance(row, FrameRow) else str(row.kind)


SEND = rows.send(4, producer_name="p", connection="0:1")
RECEIPT = rows.receipt(6, producer_name="p")
OTHER = rows.frame(5, "PING", connection="0:2")


@pytest.mark.parametrize(
    ("kind", "name", "names"),
    [
        ("connection", "1", ["4", "6"]),
        ("connection", "0:2", ["5"]),
        ("connection", "3", []),
        ("producer", "p", ["4", "6"]),
        ("topic", "orders", ["4", "6"]),
        ("topic", "persistent://public/default/orders", ["4", "6"]),
        ("topic", "order", []),
        ("connection", "2", ["5"]),
        ("message", "26:14", ["4", "6"]),
        ("message", "26:15", []),
        ("consumer", "7", []),
        ("txn", "1:1", []),
    ],
)
def test_frames_are_selected_by_columns_and_dissectors(kind: str, name: str, names: list[str]) -> None:
    assert followed(kind, name, [SEND, OTHER, RECEIPT]) == [names]


def test_a_topic_stands_for_its_partitions() -> None:
    part = rows.send(4, topic="persistent://public/default/orders-partition-3")
    assert followed("topic", "orders", [part]) == [["4"]]
    assert followed("topic", "orders-partition-3", [part]) == [["4"]]
    assert followed("topic", "orders-partition-4", [part]) == [[]]
    assert followed("topic", "acme/eu/orders", [rows.send(4, topic="persistent://acme/eu/orders")]) == [["4"]]


def test_a_consumer_is_named_by_number_or_subscription() -> None:
    flow = rows.frame(7, "FLOW", fields={"consumer_id": 3}, subscription="billing")
    assert followed("consumer", "billing", [flow]) == followed("consumer", "3", [flow]) == [["7"]]


def test_a_request_comes_before_its_answer_from_an_earlier_batch_too() -> None:
    assert followed("message", "26:14", [SEND, OTHER], [OTHER, RECEIPT]) == [[], ["4", "6"]]


def test_an_answer_comes_with_its_request() -> None:
    ack = rows.frame(8, "ACK", fields={"message_id": [{"ledgerId": 26, "entryId": 14}]})
    answer = rows.frame(9, "ACK_RESPONSE", fields={}, request="0:8.1")
    assert followed("message", "26:14", [ack], [answer]) == [["8"], ["9"]]


def test_only_so_many_requests_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FOLLOW_REQUESTS_MAX", 1)
    assert followed("message", "26:14", [SEND, OTHER], [RECEIPT]) == [[], ["6"]]


def test_findings_come_with_their_frame_and_connections_always() -> None:
    lost = rows.finding(packet=None, sub=None, layer="capture")
    batch = [SEND, rows.finding(), OTHER, rows.finding(packet=5), lost, rows.connection()]
    assert followed("producer", "p", batch) == [["4", "finding", "finding", "connection"]]


def test_it_counts_what_passes() -> None:
    follow_filter = FollowFilter("message", "26:14", make_dissectors())
    follow_filter.select([OTHER, SEND, RECEIPT], {})
    assert (follow_filter.seen, follow_filter.kept) == ({"frame": 3}, {"frame": 2})
    assert follow_filter.description == "belong to message 26:14"


def test_a_kind_without_an_option_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    dissector = PulsarDissector()
    monkeypatch.setitem(dissector.__dict__, "follow_kinds", {"letter": str, "message": lambda _name: lambda _row: True})
    with pytest.warns(PluginWarning, match="failed in follow_kinds: ValueError: unknown kind letter: the kinds are connection, "):
        assert FollowFilter("message", "2", [dissector]).select([SEND], {}) == [SEND]


def test_what_nobody_can_follow_is_said() -> None:
    with pytest.raises(UsageError, match="unknown to every protocol: message"):
        FollowFilter("message", "26:14", ())
    known = r"give LEDGER:ENTRY, .*; in kafka07, TOPIC-PARTITION@OFFSET"
    with pytest.raises(UsageError, match=rf'^"2" is not a message id: {known}, as in [^"]*$'):
        FollowFilter("message", "2", make_dissectors())
    with pytest.raises(UsageError, match=r'^"2" is not a transaction id: give [^"]*$'):
        FollowFilter("txn", "2", make_dissectors())
    with pytest.raises(UsageError, match='invalid connection "x"'):
        FollowFilter("connection", "x", ())


@pytest.mark.parametrize("name", ["#3", "3", "#0:3", "0:3"])
def test_connections_have_the_names_of_the_screen(name: str) -> None:
    frames = [rows.frame(9, "PING", connection="0:8"), rows.frame(10, "PING", connection="0:3"), rows.frame(11, "PONG", connection="1:3")]
    assert followed("connection", name, frames) == [["10"]]


@pytest.mark.parametrize("topic", ["persistent://acme/eu/orders", "persistent://acme/eu/orders-partition-3", "non-persistent://a/b/orders"])
def test_the_last_part_of_a_topic_is_enough(topic: str) -> None:
    assert followed("topic", "orders", [rows.send(4, topic=topic)]) == [["4"]]
    assert followed("topic", "eu/orders", [rows.send(4, topic=topic)]) == [[]]


def test_the_last_part_of_several_topics_is_refused_but_a_whole_name_is_not() -> None:
    acme, mine, public = (rows.send(4, topic=f"persistent://{place}/orders") for place in ("acme/eu", "mine/eu", "public/default"))
    with pytest.raises(UsageError, match="several topics are called orders: give one in full, acme/eu/orders or mine/eu/orders"):
        followed("topic", "orders", [acme], [mine])
    assert followed("topic", "orders", [public, acme, mine]) == [["4"]]


def test_a_topic_that_passed_by_its_last_part_passes_no_more_once_one_has_the_whole_name() -> None:
    acme = rows.send(4, topic="persistent://acme/eu/orders")
    public = rows.send(5, topic="persistent://public/default/orders")
    assert followed("topic", "orders", [acme, acme], [public, acme, public]) == [["4", "4"], ["5", "5"]]


def test_a_consumer_is_found_by_its_name() -> None:
    subscribe = rows.frame(4, "SUBSCRIBE", fields={"consumer_id": 3, "consumer_name": "billing-1"}, connection="0:1")
    flow, other = (rows.frame(5, "FLOW", fields={"consumer_id": 3}, connection=name) for name in ("0:1", "0:2"))
    again = rows.frame(6, "SUBSCRIBE", fields={"consumer_id": 3, "consumer_name": "billing-2"}, connection="0:1")
    assert followed("consumer", "billing-1", [subscribe, flow, other, again, flow]) == [["4", "5"]]


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("connection", "3", "there is no connection 3: the connections are #1, #2"),
        ("topic", "order", "the only topic is orders"),
        ("producer", "q", "the only producer is p"),
        ("consumer", "c", "there are no subscriptions"),
        ("message", "1:1", "there is no message 1:1"),
    ],
)
def test_an_empty_result_says_what_there_is(kind: str, name: str, words: str) -> None:
    follow_filter = FollowFilter(kind, name, make_dissectors())
    follow_filter.select([SEND, OTHER, RECEIPT], {})
    assert words in (follow_filter.absence() or "")


def test_of_many_names_the_nearest_is_named() -> None:
    follow_filter = FollowFilter("topic", "order-1", make_dissectors())
    follow_filter.select(
        [rows.send(number, topic=f"persistent://public/default/{name}-1") for number, name in enumerate(["orders", "a"])], {}
    )
    assert follow_filter.absence() == "there is no topic order-1; did you mean orders-1?"


def test_a_result_says_nothing_of_others() -> None:
    follow_filter = FollowFilter("producer", "p", make_dissectors())
    follow_filter.select([SEND], {})
    assert follow_filter.absence() is None


@pytest.mark.parametrize(("kind", "name"), [("topic", TOPIC), ("topic", f"{TOPIC}-DLQ"), ("connection", "1"), ("topic", "none")])
@pytest.mark.parametrize("odd_share", [0.0, 0.2])
def test_frames_in_columns_are_followed_as_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, odd_share: float
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    monkeypatch.setattr("pulsarscope.capture.reader.READ_BLOCK_BYTES", 2000)
    path = write_pcap(tmp_path / "in.pcap", Publishers(Random(5), odd_share=odd_share).publish(30).packets)  # noqa: S311 - repeatable
    found = []
    for choice in ("off", "require"):
        with reader(choice):
            options = Options(records=frozenset({"frame", "connection", "finding"}), columns=True, dissectors=make_dissectors)
            follow_filter = FollowFilter(kind, name, make_dissectors())
            selected = [row for batch in run([str(path)], options, 1) for row in in_rows(follow_filter.select(batch.rows, {}))]
            found.append(([repr(row) for row in selected], follow_filter.seen, follow_filter.kept, follow_filter.absence()))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("subject", [("topic", "a/b/orders"), ("topic", "orders"), ("connection", "2")])
def test_requests_and_answers_of_rows_pass_as_without_the_compiled_reader(
    monkeypatch: pytest.MonkeyPatch, seed: int, subject: tuple[str, str]
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    monkeypatch.setattr(module, "FOLLOW_REQUESTS_MAX", 7)
    monkeypatch.setattr(module, "PENDING_REQUESTS_MAX", 16)
    random = Random(seed)  # noqa: S311 - repeatable
    batches: list[list[Any]] = [[] for _ in range(9)]
    for packet in range(1, 200):
        values = {
            "request": f"{random.randrange(2)}:{max(packet - random.choice((1, 2, 9, 60)), 1)}.1" if random.random() < 0.4 else None,
            "topic": random.choice((None, "persistent://a/b/orders", "persistent://a/b/orders-partition-1", "persistent://a/b/c")),
            "topics": ["persistent://a/b/orders"] if random.random() < 0.1 else None,
            "connection": random.choice(("0:1", "0:2")),
            "file": 0 if random.random() < 0.95 else 1,
        }
        batch = batches[packet * len(batches) // 200]
        batch.append(rows.frame(packet, random.choice(("SEND", "ACK", None)), **values))
        if random.random() < 0.2:
            layer = random.choice(("capture", "session"))
            batch.append(random.choice((rows.finding(packet=packet - random.randrange(2), layer=layer), rows.connection(), rows.message())))
    found = []
    for choice in ("off", "require"):
        with reader(choice):
            follow_filter = FollowFilter(*subject, make_dissectors())
            passed = [[id(row) for row in follow_filter.select(batch, {})] for batch in batches]
        found.append((passed, follow_filter.seen, follow_filter.kept, follow_filter.absence()))
    assert found[0] == found[1]
    assert found[0][2]["frame"]
