"""Consumers that could work with less effort."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import ack, delivery, flow, message
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, Conversation
from tests.scenarios.evaluation import diagnose

ONE, EACH = "receiver-queue-one", "ack-each"


def consuming(count: int, permits: int, group: int, every: int, kind: str | None = "Shared") -> Conversation:
    """A consumer that grants `permits` at a time, and acknowledges `group` entries at a time, one delivered every `every` ms.

    One without a kind exists since before the capture.
    """
    talk = Conversation(acknowledge=False).server(delivery(900)) if kind is None else subscribed(connected(), kind=kind)
    for entry in range(count):
        if entry % permits == 0:
            talk.client(flow(permits))
        talk.wait(every * MILLISECOND).server(delivery(entry))
        if (entry + 1) % group == 0:
            talk.client(ack(*range(entry + 1 - group, entry + 1)))
    return talk


def advice(folder: Path, talk: Conversation) -> set[str | None]:
    return {row.code for row in diagnose(folder, talk).findings if row.layer == "tuning"}


@pytest.mark.parametrize(("count", "every", "kind"), [*product((10, 20, 90), (1, 20, 100, 400), ("Shared", "Exclusive", None))])
def test_one_permit_at_a_time_is_reported(tmp_path: Path, count: int, every: int, kind: str) -> None:
    assert ONE in advice(tmp_path, consuming(count, 1, 1000, every, kind))


@pytest.mark.parametrize(("count", "entries", "batch"), [*product((20, 90), (1, 4, 8), (1,)), *product((12, 40), (4, 100), (9,))])
def test_the_permits_of_all_ledgers_count(tmp_path: Path, count: int, entries: int, batch: int) -> None:
    talk = Conversation(acknowledge=False).server(delivery(900))
    for number in range(count):
        metadata = {"num_messages_in_batch": batch}
        talk.client(flow(1)).server(message(1, number, metadata=metadata, ledger=7 + number // entries)).wait(20 * MILLISECOND)
    assert (ONE in advice(tmp_path, talk)) == (batch == 1)


@pytest.mark.parametrize(
    ("count", "permits", "every", "kind"),
    [
        *product((1, 5, 9), (1,), (1, 400), ("Shared", None)),
        *product((20, 90), (2, 5, 500), (1, 20, 400), ("Shared", None)),
    ],
)
def test_larger_queues_and_few_messages_need_no_advice(tmp_path: Path, count: int, permits: int, every: int, kind: str | None) -> None:
    assert ONE not in advice(tmp_path, consuming(count, permits, 1000, every, kind))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "permits", "every", "kind"), [*product((50, 90, 200), (1, 500), (1, 5, 15), ("Shared", "Exclusive"))])
def test_an_ack_for_each_message_at_a_high_rate_is_reported(tmp_path: Path, count: int, permits: int, every: int, kind: str) -> None:
    assert EACH in advice(tmp_path, consuming(count, permits, 1, every, kind))


@pytest.mark.parametrize(
    ("count", "group", "every"),
    [*product((20, 49), (1,), (1, 5, 15)), *product((50, 200), (2, 10, 100), (1, 15)), *product((50, 90), (1,), (30, 200))],
)
def test_grouped_and_rare_acks_need_no_advice(tmp_path: Path, count: int, group: int, every: int) -> None:
    assert EACH not in advice(tmp_path, consuming(count, 500, group, every))
