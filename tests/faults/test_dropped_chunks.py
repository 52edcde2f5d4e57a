"""Chunked messages that a consumer drops because the chunks of others interleave with theirs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, ack, flow, message
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import diagnose

DROPPED, NOT_ACKING, HOLE = "chunk-dropped", "consumer-not-acking", "ack-hole"


def receiving(order: str, acked: str, rest: int, kind: str = "Exclusive", count: int = 4) -> Conversation:
    """A consumer that gets the chunks of the messages that `order` names by letter, and acknowledges the chunks of some messages."""
    talk = subscribed(connected(), kind=kind).client(flow(1000))
    got: dict[str, list[int]] = {}
    for entry, name in enumerate(order):
        entries = got.setdefault(name, [])
        metadata = {"uuid": name, "chunk_id": len(entries), "num_chunks_from_msg": count, "producer_name": name}
        entries.append(entry)
        talk.wait(SECOND // 100).server(message(entry=entry, payload=b"part", metadata=metadata))
        if len(entries) == count and name in acked:
            talk.wait(SECOND // 100).client(ack(*entries))
    talk.wait(rest * SECOND // 2).client(PING).server(PONG)
    return talk.wait(rest * SECOND // 2).client(PING).server(PONG)


@pytest.mark.parametrize(("kind", "order"), [*product(("Exclusive", "Shared"), ("aabbabbacccc", "ababaabbcccc", "abcabcabcabcdddd"))])
def test_interrupted_messages_that_a_consumer_passes_over_are_named_as_dropped(tmp_path: Path, kind: str, order: str) -> None:
    found = diagnose(tmp_path, receiving(order, "bcd", 12, kind))
    row, evidence = found.only(DROPPED)
    assert not {NOT_ACKING, HOLE, "consumer-undecided"} & set(found.codes)
    assert evidence["chunks"] == 4
    assert evidence["uuids"] == ["a"]
    assert row.severity == "warning"


@pytest.mark.parametrize("count", [6, 15])
def test_chunks_that_have_just_come_are_no_sign_of_a_consumer_that_stopped(tmp_path: Path, count: int) -> None:
    talk = receiving("aabbabbacccc", "bc", 12)
    for number in range(count):
        metadata = {"uuid": "z", "chunk_id": number, "num_chunks_from_msg": count + 1, "producer_name": "z"}
        talk.server(message(entry=100 + number, payload=b"part", metadata=metadata))
    assert DROPPED in diagnose(tmp_path, talk.wait(SECOND)).codes


@pytest.mark.parametrize(
    ("order", "acked", "rest"),
    [
        ("aaaabbbbcccc", "bc", 12),  # nothing came between its chunks: its application may be at work
        ("aabbabbacccc", "bc", 3),  # its application may be at work
        ("aabbabbacccc", "", 12),  # the consumer acknowledges nothing at all
        ("aabbabbaccccddddeeee", "bc", 12),  # it stopped
        ("aabbabbacccc", "abc", 12),
    ],
)
def test_others_are_not(tmp_path: Path, order: str, acked: str, rest: int) -> None:
    found = diagnose(tmp_path, receiving(order, acked, rest))
    assert DROPPED not in found.codes
    assert (NOT_ACKING in found.codes) == (not acked or order.endswith("eeee"))


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
@pytest.mark.parametrize(("unfinished", "whole", "stopped"), [(9, 0, False), (9, 1, False), (0, 2, True), (9, 2, True)])
def test_an_application_cannot_acknowledge_messages_whose_chunks_never_came(
    kind: str, unfinished: int, whole: int, stopped: bool, tmp_path: Path
) -> None:
    order = "".join(3 * name for name in "abcdefghi"[:unfinished]) + "".join(4 * name for name in "pq"[:whole])
    assert (NOT_ACKING in diagnose(tmp_path, receiving(order, "", 70, kind).close()).codes) == stopped
