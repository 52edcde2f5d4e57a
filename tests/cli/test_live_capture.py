"""What the screen and the metrics of a live capture count on a path with both legs captured."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pulsarscope.cli.arguments.live_request import LiveRequest
from pulsarscope.cli.arguments.row_request import run_options
from pulsarscope.cli.commands.live import WATCHED_KINDS
from pulsarscope.cli.live_capture import LiveCapture, LiveTables
from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow, MessageRow
from pulsarscope.protocols.pulsar.tables import TABLES
from pulsarscope.protocols.pulsar.tables.consumers import TABLE
from tests.places import CAPTURES


def piped(folder: Path, data: bytes) -> str:
    """The name of a pipe that delivers a capture."""
    path = folder / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
    return str(path)


@pytest.mark.parametrize("values", [{"top": True}, {"metrics": "127.0.0.1:0"}], ids=["top", "metrics"])
def test_a_consumer_behind_a_proxy_is_one(tmp_path: Path, values: dict[str, Any]) -> None:
    data = (CAPTURES / "proxy-keyshared.pcap").read_bytes()
    request = LiveRequest(interfaces=[piped(tmp_path, data[: len(data) * 2 // 3])], jobs=1, **values)
    shown: Sequence[str] = sorted(WATCHED_KINDS) if request.top else ("frame",)
    options = msgspec.structs.replace(run_options(request, tuple(shown), None), live=True)
    options = msgspec.structs.replace(options, records=options.records | WATCHED_KINDS, rules=True, payloads=True)
    capture = LiveCapture(request, options, frozenset(shown))
    consumers: list[dict[str, Any]] = []
    for batch in capture.start(options, None):
        batch.rows = capture.once.kept(batch.rows, capture.endpoints())
        capture.watch(batch)
        consumers = capture.consumer_records() or consumers
    capture.feed.close()
    assert len(consumers) == len({(each["subscription"], each["consumer"]) for each in consumers})
    assert not {each["connection"] for each in consumers} & capture.once.outer_of.keys()


def rows_of(connection: str) -> list[Any]:
    message = {"consumer_id": 1, "message_id": {"ledgerId": 1, "entryId": 1}}
    return [
        FrameRow(connection=connection, direction="client", command="SUBSCRIBE", fields={"consumer_id": 1, "subscription": "s"}, time=1),
        FrameRow(connection=connection, direction="server", command="MESSAGE", fields=message, num_messages=1, time=2),
    ]


def test_those_that_come_and_go_never_keep_later_ones_out() -> None:
    consumers = LiveTables([TABLE])
    for number in range(2 * STATISTICS_NAMES_MAX):
        consumers.feed([*rows_of(f"0:{number}"), ConnectionRow(connection=f"0:{number}", closed="fin")], {})
    consumers.feed(rows_of("last"), {})
    (record,) = consumers.records("consumers")
    assert (record["connection"], record["unacknowledged"]) == ("last", 1)


def frame(command: str, number: int, topic: str = "t", **fields: Any) -> FrameRow:
    direction = "server" if command.endswith("RESPONSE") else "client"
    return FrameRow(connection="0:1", direction=direction, command=command, topic=topic, fields=fields, time=number, num_messages=1)


def transaction(number: int, *, ended: bool = True) -> list[Any]:
    name: dict[str, Any] = {"txnid_least_bits": number}
    end = [frame("END_TXN", number, **name, txn_action="COMMIT"), frame("END_TXN_RESPONSE", number, **name)]
    return [
        frame("NEW_TXN", number, request_id=number),
        frame("NEW_TXN_RESPONSE", number, request_id=number, **name),
        *(end if ended else ()),
    ]


def looked_up(number: int, response: str = "Connect") -> list[Any]:
    return [frame("LOOKUP_RESPONSE", number, f"t{number}", response=response, brokerServiceUrl="pulsar://b")]


def schema(number: int, *, error: str | None = None) -> list[Any]:
    asked = frame("PRODUCER", number, f"t{number}", request_id=number, schema={"type": "String", "name": "s"})
    return [asked, frame("ERROR", number, request_id=number, error=error)] if error else [asked]


def delivered(number: int, consumer: int = 1) -> list[Any]:
    return [MessageRow(direction="deliver", connection="0:1", consumer_id=consumer, topic="t", subscription="s", key=f"k{number}")]


@pytest.mark.parametrize(
    ("name", "passing", "kept"),
    [
        ("transactions", transaction, [transaction(-1, ended=False)]),
        ("lookups", looked_up, [looked_up(-1, "Failed")]),
        ("schemas", schema, [schema(-1, error="IncompatibleSchema")]),
        ("keys", delivered, [delivered(-1), delivered(-1, 2)]),
    ],
)
def test_what_goes_well_makes_room_and_what_does_not_stays(name: str, passing: Callable[[int], list[Any]], kept: list[list[Any]]) -> None:
    tables = LiveTables(table for table in TABLES if table.name == name)
    for rows in kept:
        tables.feed(rows, {})
    last = 2 * STATISTICS_NAMES_MAX
    for number in range(last):
        tables.feed(passing(number), {})
    records = tables.records(name)
    assert len(records) < STATISTICS_NAMES_MAX
    for number in (-1, last - 1):
        assert any(str(number) in str(record) for record in records)


def test_tables_that_cannot_serve_a_run_without_end_are_left_out() -> None:
    tables = LiveTables(TABLES)
    assert [table.name for table in tables.tables] == ["consumers", "keys", "transactions", "lookups", "schemas"]
    assert tables.records("journeys") == []
