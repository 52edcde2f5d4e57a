"""Ordinary short connections of publishers give the same findings and facts with and without their rules; so does anything like them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.rules import Fact, RuleContext, RuleFact, WholeFact
from pulsarscope.engine.local import run
from pulsarscope.engine.options import Options
from pulsarscope.engine.row_batch import Closed
from pulsarscope.engine.rule_engine import RuleEngine
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, Row
from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.pulsar.rules import RULES
from pulsarscope.protocols.pulsar.rules.plain_publishers import WHOLE
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import (
    CONNECT,
    CONNECTED,
    PING,
    PONG,
    close_producer,
    created,
    lookup,
    lookup_response,
    producer,
    receipt,
    send,
    send_error,
    success,
)
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.dialogue import dissector_with
from tests.scenarios.frames import command_frame

TOPIC = "persistent://public/default/orders"

Change = Callable[[Conversation], Conversation]


def publisher(
    sends: int = 1,
    *,
    topic: str = TOPIC,
    looks_up: bool = True,
    asks: bool = True,
    named: bool = True,
    pause: int = 0,
    before_close: Change | None = None,
) -> Conversation:
    """A client that publishes some messages and leaves; `before_close` adds something unusual."""
    of = Conversation().handshake().client(CONNECT).server(CONNECTED)
    if asks:
        of.client(command_frame("PARTITIONED_METADATA", topic=topic, request_id=1))
        of.server(command_frame("PARTITIONED_METADATA_RESPONSE", partitions=0, request_id=1, response="Success"))
    if looks_up:
        of.client(lookup(2, topic=topic)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 2, authoritative=True))
    of.client(producer(1, "p", 3, topic) if named else command_frame("PRODUCER", topic=topic, producer_id=1, request_id=3))
    of.server(created("p", 3, last_sequence_id=-1))
    for number in range(sends):
        published = {"producer_name": "p", "publish_time": of.time_ns // MILLISECOND}
        of.client(send(1, number, b"order", published)).server(receipt(1, number, 7, number))
        of.wait(pause)
    if before_close is not None:
        before_close(of)
    return of.client(close_producer(1, 4)).server(success(4)).close()


def rows_of(conversation: Conversation) -> list[Any]:
    """The frames and exchanges of a connection, and its end."""
    with TemporaryDirectory() as folder:
        path = write_pcap(Path(folder) / "x.pcap", conversation.packets)
        kinds = frozenset({"frame", "exchange", "connection", "finding"})
        rows = [row for batch in run([str(path)], Options(kinds, dissectors=make_dissectors)) for row in batch.rows]
    ends = [row for row in rows if isinstance(row, ConnectionRow)]
    own = {*RULES.codes}
    found = [row for row in rows if isinstance(row, FindingRow) and row.code not in own]
    return [*found, *(row for row in rows if isinstance(row, (FrameRow, ExchangeRow))), *(Closed(row, ("fin", row.end)) for row in ends)]


def brought(rows: Sequence[Any], rules: Rules = RULES) -> tuple[list[bytes], list[RuleFact]]:
    """Findings and facts that these rules make from rows."""
    facts: list[RuleFact] = []

    def emit_fact(rule: str, key: str, fact: Fact) -> None:
        facts.append((rule, key, msgspec.msgpack.decode(msgspec.msgpack.encode(fact), type=Fact)))

    names: set[Any] = {row.row.connection if type(row) is Closed else row.connection for row in rows}
    endpoints = dict.fromkeys(names, ("10.0.0.1:40000", "10.0.0.2:6650"))
    engine = RuleEngine([dissector_with(rules, "pulsar")], endpoints, dict.fromkeys(names, "pulsar"), emit_fact)
    engine.feed(rows)
    engine.finish()
    return [msgspec.json.encode(row) for _, row in engine.take()], facts


def taken(rows: Sequence[Any]) -> bool:
    """True if the rules need not follow a connection with these rows."""
    results: list[bool] = []

    def facts(context: RuleContext, rows: Sequence[Row], row: ConnectionRow) -> Sequence[WholeFact] | None:
        found = WHOLE.facts(context, rows, row)
        results.append(found is not None)
        return found

    assert brought(rows, RULES._replace(whole=WHOLE._replace(facts=facts))) == brought(rows, RULES._replace(whole=None))
    return results == [True]


@pytest.mark.parametrize("sends", [1, 2, 5])
@pytest.mark.parametrize("looks_up", [True, False])
@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_the_facts_on_an_ordinary_publisher_are_those_of_its_rules(sends: int, looks_up: bool, asks: bool, named: bool) -> None:
    assert taken(rows_of(publisher(sends, looks_up=looks_up, asks=asks, named=named)))


def test_a_later_receipt_is_a_fact_of_its_own_if_the_one_before_is_a_second_old() -> None:
    assert taken(rows_of(publisher(2, pause=SECOND)))


@pytest.mark.parametrize(
    ("name", "conversation"),
    [
        ("ping", lambda: publisher(before_close=lambda of: of.client(PING).server(PONG))),
        ("refused", lambda: publisher(before_close=lambda of: of.client(send(1, 7)).server(send_error("PersistenceError", "no", 1, 7)))),
        ("unanswered", lambda: publisher(before_close=lambda of: of.client(send(1, 7)))),
        ("slow", lambda: publisher(before_close=lambda of: of.client(send(1, 7)).wait(3 * SECOND).server(receipt(1, 7, 7, 7)))),
        ("again", lambda: publisher(before_close=lambda of: of.client(send(1, 0)).server(receipt(1, 0, 7, 7)))),
        ("second-producer", lambda: publisher(before_close=lambda of: of.client(producer(2, "q", 9, TOPIC)).server(created("q", 9)))),
        ("lost", lambda: publisher(before_close=lambda of: of.lose("server", 40))),
        ("partition", lambda: publisher(topic=f"{TOPIC}-partition-0")),
        ("non-persistent", lambda: publisher(topic="non-persistent://public/default/orders")),
        ("dead-letters", lambda: publisher(topic=f"{TOPIC}-s-DLQ")),
        ("system-topic", lambda: publisher(topic="persistent://public/default/__change_events")),
        ("many", lambda: publisher(9)),
        ("windows", lambda: publisher(3, pause=11 * SECOND)),
    ],
)
def test_rules_follow_a_connection_that_is_not_ordinary(name: str, conversation: Callable[[], Conversation]) -> None:
    assert not taken(rows_of(conversation())), name


@lru_cache(maxsize=1)
def _ordinary() -> list[Any]:
    return rows_of(publisher(2))


def changed(value: Any, random: Random) -> Any:
    """Another value of the same kind, or none."""
    if isinstance(value, bool) or value is None:
        return random.choice((True, False, None, 1, "x"))
    if isinstance(value, int):
        return random.choice((0, 1, -1, value + 1, value - 1, value + 1_000_000_000, value + 100_000_000_000))
    if isinstance(value, str):
        others = (
            "",
            "x",
            "p",
            "1",
            "server",
            "client",
            "ok",
            "error",
            "malformed",
            "Failed",
            "Redirect",
            "WaitForExclusive",
            "pulsar.repl.x",
        )
        return random.choice((*others, f"{TOPIC}-partition-1", "persistent://a/b/__change_events", "pulsar://localhost:6650", value + "x"))
    return value


def variants(table: dict[str, Any], random: Random) -> Iterator[dict[str, Any]]:
    """The fields of a frame without each one, with another value of each, and with each of some unusual ones."""
    for name, known in table.items():
        yield {other: value for other, value in table.items() if other != name}
        for _ in range(3):
            yield {**table, name: changed(known, random)}
    unusual: dict[str, Any] = {
        "schema": {"name": "s", "type": "String"}, "topic_epoch": 1, "txnid_least_bits": 1, "num_messages": 2, "highest_sequence_id": 9,
        "is_chunk": True, "producer_ready": False, "proxy_to_broker_url": "pulsar://h:6650", "auth_data": b"x", "error": "UnknownError",
        "max_message_size": 3, "replicated_from": "west", "deliver_at_time": 1, "properties": [{"key": "k", "value": "v"}],
        "uuid": "u", "num_chunks_from_msg": 2, "compression": "LZ4", "assignedBrokerServiceUrl": "pulsar://10.0.0.9:6650",
    }  # fmt: skip
    for name, value in unusual.items():
        yield {**table, name: value}


@pytest.mark.slow
def test_whatever_changes_in_a_row_findings_and_facts_stay_those_of_the_rules() -> None:
    random, ordinary = Random(0), _ordinary()  # noqa: S311 - repeatable
    for at, row in enumerate(ordinary):
        of = row.row if type(row) is Closed else row
        fields = [
            name
            for name in of.__struct_fields__
            if name not in ("source", "connection", "dissector", "fields", "metadata", "checksum", "extra")
        ]
        others: list[Any] = [msgspec.structs.replace(of, **{name: changed(getattr(of, name), random)}) for name in fields]
        for name in ("fields", "metadata") if type(of) is FrameRow else ():
            others += [msgspec.structs.replace(of, **{name: table}) for table in variants(getattr(of, name) or {}, random)]
        for other in others:
            rows = [*ordinary]
            rows[at] = row._replace(row=other) if type(row) is Closed else other
            assert brought(rows) == brought(rows, RULES._replace(whole=None)), (at, other)


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_are_missing_doubled_and_disordered_bring_the_findings_and_facts_of_the_rules(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - repeatable
    for _ in range(8):
        *rows, end = _ordinary()
        for _ in range(random.randint(1, 2)):
            row = rows.pop(random.randrange(len(rows)))
            for _ in range(random.choice((0, 1, 2))):
                rows.insert(random.randrange(len(rows)), row)
        assert brought([*rows, end]) == brought([*rows, end], RULES._replace(whole=None))


def test_rules_follow_a_connection_whose_first_rows_came_earlier() -> None:
    rows = _ordinary()
    engines = []
    for rules in (RULES, RULES._replace(whole=None)):
        name = rows[0].connection
        facts: list[RuleFact] = []
        ends = {name: ("10.0.0.1:40000", "10.0.0.2:6650")}
        engine = RuleEngine([dissector_with(rules, "pulsar")], ends, {name: "pulsar"}, lambda *fact, to=facts: to.append(fact))
        engine.feed(rows[:6])
        engine.feed(rows[6:])
        engine.finish()
        engines.append((facts, [msgspec.json.encode(row) for _, row in engine.take()]))
    assert engines[0] == engines[1]
