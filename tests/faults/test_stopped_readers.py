"""Readers of one connection that stop one by one, as their users leave them, and those that stop together."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import publishing
from tests.scenarios.commands import ack, close_consumer, delivery, flow, success
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

STARVED = "consumer-starved"


def stopping(stops: list[int], permits: int, *, until: int, end: str = "open", durable: bool = False, acks: int = 1) -> Conversation:
    """Consumers that subscribe together, get as many messages as they have permits for and last acknowledge after so many ms each."""
    talk = connected()
    for number in range(len(stops)):
        names = {"subscription": f"s{number}", "durable": durable}
        subscribed(talk, number, "Exclusive", **names).client(flow(permits, number)).server(
            *(delivery(entry, number) for entry in range(permits))
        )
    for at, number in sorted((at, number) for number, at in enumerate(stops)):
        wait_until(talk, max(at * MILLISECOND, 200 * MILLISECOND)).client(*[ack(entry, number=number) for entry in range(acks)])
    wait_until(talk, until)
    if end == "closed":
        for number in range(len(stops)):
            talk.client(close_consumer(number, 900 + number)).server(success(900 + number))
    return talk if end == "open" else talk.close()


@pytest.mark.parametrize(
    ("stops", "permits", "end"),
    [
        *product(([1_000, 3_000, 5_000], [1_500 * number for number in range(1, 9)]), (1, 5, 20), ("open", "fin", "closed")),
        ([1_000, 1_100, 3_500, 6_000, 9_000], 5, "open"),  # two by chance at once
    ],
)
def test_readers_that_stop_one_by_one_serve_users(stops: list[int], permits: int, end: str, tmp_path: Path) -> None:
    talk = stopping(stops, permits, until=40 * SECOND, end=end)
    assert STARVED not in diagnose(tmp_path, talk, publishing(70, 500 * MILLISECOND, until=40 * SECOND)).codes


@pytest.mark.parametrize(
    ("stops", "durable"),
    [
        ([5_000], False),
        ([1_000, 6_000], False),
        ([5_000, 5_100, 5_200, 5_900], False),  # their client hangs
        ([5_000, 5_010, 5_020, 6_500, 6_510, 6_520, 8_000, 8_010], False),
        ([1_000, 3_000, 5_000], True),
    ],
)
@pytest.mark.parametrize("permits", [5, 20])
@pytest.mark.parametrize("end", ["open", "fin"])
def test_one_that_stops_or_a_client_that_hangs_is_starved(
    stops: list[int], permits: int, end: str, tmp_path: Path, *, durable: bool
) -> None:
    talk = stopping(stops, permits, until=40 * SECOND, end=end, durable=durable)
    found = diagnose(tmp_path, talk, publishing(70, 500 * MILLISECOND, until=40 * SECOND)).findings
    assert sum(row.code == STARVED for row in found) == len(stops)
