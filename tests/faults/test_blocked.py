"""Key_Shared consumers that join beside one that holds entries."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import consuming, publishing
from tests.scenarios.commands import ack, delivery, flow
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND
from tests.scenarios.evaluation import Diagnosis, diagnose

BLOCKED = "key-shared-blocked"


def beside(
    folder: Path,
    held: int,
    permits: int,
    published: int,
    length: int,
    *,
    kind: str = "Key_Shared",
    got: int = 0,
    acks: int = 0,
    end: str = "open",
) -> Diagnosis:
    """A consumer that gets `held` entries and acknowledges some; one that joins later; and a producer until `length` s."""
    joins = subscribed(connected(40050, start=SECOND // 2), 2, kind=kind).client(flow(100, 2))
    joins.wait(SECOND // 10).server(*[delivery(held + entry, 2) for entry in range(got)])
    holds = consuming(held, permits, until=SECOND, kind=kind, acks=acks, pause=MILLISECOND, end=end)
    return diagnose(folder, holds, joins, publishing(published, 20 * MILLISECOND, until=length * SECOND))


@pytest.mark.parametrize(("held", "permits", "published", "length"), [*product((1, 4, 20), (20, 1000), (60, 90), (3, 5, 8))])
def test_what_holds_back_a_joined_consumer_is_named(tmp_path: Path, held: int, permits: int, published: int, length: int) -> None:
    diagnosis = beside(tmp_path, held, permits, published, length)
    row, evidence = diagnosis.only(BLOCKED)
    assert diagnosis.commands(row) == ["MESSAGE", "SUCCESS"]
    assert (evidence["holder"], evidence["message_id"], evidence["unacknowledged"]) == ("c1", [7, 0], held)


def sharing(folder: Path, missing: int, length: int, *, held: int, unseen: range = range(0)) -> Diagnosis:
    """Two consumers that get entries by key, except `missing` ones; the first keeps the `held` oldest, and acknowledges others."""
    blocked = set(range(31, 31 + 2 * missing, 2))
    holds = subscribed(connected(start=50 * MILLISECOND), kind="Key_Shared").client(flow(1000)).wait(100 * MILLISECOND)
    for entry in range(30):
        if entry not in unseen:
            holds.wait(10 * MILLISECOND).server(delivery(entry, partition_key=f"k{entry}"))
        if entry >= held:
            holds.client(ack(entry))
    joins = subscribed(connected(40050, start=SECOND // 2), 2, kind="Key_Shared").client(flow(1000, 2))
    wait_until(joins, SECOND)
    wait_until(holds, SECOND)
    for entry in range(30, 90):
        if entry not in blocked:
            talk, number = (holds, 1) if entry > 30 and entry % 3 else (joins, 2)
            talk.wait(10 * MILLISECOND).server(delivery(entry, number, partition_key=f"k{entry}")).client(ack(entry, number=number))
    return diagnose(folder, holds, joins, publishing(90, 20 * MILLISECOND, until=length * SECOND))


@pytest.mark.slow
@pytest.mark.parametrize(("held", "missing", "length"), [*product((1, 5, 15), (5, 9, 20), (4, 6, 9))])
def test_entries_of_a_held_key_that_nobody_gets_are_named(tmp_path: Path, held: int, missing: int, length: int) -> None:
    _, evidence = sharing(tmp_path, missing, length, held=held).only(BLOCKED)
    assert (evidence["message_id"], evidence["unacknowledged"], evidence["held_back"]) == ([7, 0], held, missing)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "unseen", "length", "missing"),
    [
        *product((0,), (range(0),), (4, 9), (0, 5, 20)),  # nothing is held
        *product((1, 15), (range(0),), (4, 9), (0, 1, 4)),  # all, or nearly all, were delivered
        *product((1, 15), (range(0),), (2,), (5, 20)),  # soon
        *product((1, 15), (range(16, 30),), (4, 9), (5, 14)),  # a consumer outside the capture gets some, as before
    ],
)
def test_entries_that_are_not_held_back_are_healthy(tmp_path: Path, held: int, unseen: range, length: int, missing: int) -> None:
    assert BLOCKED not in sharing(tmp_path, missing, length, held=held, unseen=unseen).codes


@pytest.mark.parametrize(
    ("held", "published", "length", "kind", "got", "acks", "end"),
    [
        *((held, 60, length, "Key_Shared", 0, held, "open") for held, length in product((1, 4, 20), (5, 8))),  # all acknowledged
        *((held, held, length, "Key_Shared", 0, 0, "open") for held, length in product((1, 4, 20), (5, 8))),  # nothing more
        *((held, 60, 2, "Key_Shared", 0, 0, "open") for held in (1, 4, 20)),  # not long
        *((held, 60, 6, kind, 0, 0, "open") for held, kind in product((1, 20), ("Shared", "Failover"))),  # no order of keys
        *((held, 60, 6, "Key_Shared", 3, 0, "open") for held in (1, 4, 20)),  # it gets some
        *((held, 60, 6, "Key_Shared", 0, 0, end) for held, end in product((1, 20), ("fin", "rst", "closed"))),  # the holder left
    ],
)
def test_a_joined_consumer_with_nothing_to_wait_for_is_healthy(
    tmp_path: Path, held: int, published: int, length: int, kind: str, got: int, acks: int, end: str
) -> None:
    assert BLOCKED not in beside(tmp_path, held, 1000, published, length, kind=kind, got=got, acks=acks, end=end).codes
