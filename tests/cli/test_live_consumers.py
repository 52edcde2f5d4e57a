"""Open consumers of a live run."""

from __future__ import annotations

from typing import Any

from pulsarscope.cli.live_consumers import LiveConsumers
from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.tables.consumers import Consumers


def rows_of(connection: str) -> list[Any]:
    message = {"consumer_id": 1, "message_id": {"ledgerId": 1, "entryId": 1}}
    return [
        FrameRow(connection=connection, direction="client", command="SUBSCRIBE", fields={"consumer_id": 1, "subscription": "s"}, time=1),
        FrameRow(connection=connection, direction="server", command="MESSAGE", fields=message, num_messages=1, time=2),
    ]


def test_those_that_come_and_go_never_keep_later_ones_out() -> None:
    consumers = LiveConsumers(Consumers())
    for number in range(2 * STATISTICS_NAMES_MAX):
        consumers.feed([*rows_of(f"0:{number}"), ConnectionRow(connection=f"0:{number}", closed="fin")], {})
    consumers.feed(rows_of("last"), {})
    (record,) = consumers.records()
    assert (record["connection"], record["unacknowledged"]) == ("last", 1)
