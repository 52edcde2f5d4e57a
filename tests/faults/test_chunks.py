"""Chunked messages that begin before the capture, and those with a missing chunk."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, message, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import START_NS, Conversation
from tests.scenarios.evaluation import findings_of, problem_codes, with_code

MISSING, PARTLY = "chunk-missing", "chunk-incomplete"


def chunks(talk: Conversation, side: str, numbers: range | list[int], count: int, uuid: str, producer: str = "p") -> Conversation:
    """SENDs or MESSAGEs with the chunks of one message."""
    for number in numbers:
        metadata = {"uuid": uuid, "chunk_id": number, "num_chunks_from_msg": count, "producer_name": producer}
        if side == "client":
            talk.client(send(sequence_id=5, payload=b"part", metadata=metadata, is_chunk=True))
        else:
            talk.server(message(entry=number, payload=b"part", metadata=metadata))
    return talk


def midstream() -> Conversation:
    """A connection from before the capture."""
    return Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), start_ns=START_NS, acknowledge=False).client(PING).server(PONG)


@pytest.mark.parametrize(("side", "count", "first", "others"), [*product(("client", "server"), (2, 5, 30), (1, 4, 29), (0, 2))])
def test_a_message_within_which_the_capture_begins_is_only_noted(tmp_path: Path, side: str, count: int, first: int, others: int) -> None:
    if first >= count:
        return
    talk = chunks(midstream(), side, range(first, count), count, "u")
    for number in range(others):
        chunks(talk, side, range(count), count, f"v{number}")
    rows = findings_of(tmp_path, talk)
    assert problem_codes(rows) == []
    (row,) = with_code(rows, PARTLY)
    assert "from before the capture" in (row.text or "")


@pytest.mark.parametrize(("first", "second"), [*product((1, 3), (2, 4))])
def test_so_are_those_of_several_producers_that_interleave(tmp_path: Path, first: int, second: int) -> None:
    talk = midstream()
    for number in range(5):
        if number >= first:
            chunks(talk, "server", [number], 5, "u", "p")
        if number >= second:
            chunks(talk, "server", [number], 5, "v", "q")
    rows = findings_of(tmp_path, talk)
    assert (problem_codes(rows), len(with_code(rows, PARTLY))) == ([], 2)


@pytest.mark.parametrize(
    ("side", "case"), [*product(("client", "server"), ("from the start", "behind another one", "in the middle", "out of order"))]
)
def test_chunks_that_are_missing_otherwise_are_named(tmp_path: Path, side: str, case: str) -> None:
    talk = connected() if case == "from the start" else midstream()
    if case == "behind another one":
        chunks(talk, side, range(4), 4, "v")
    numbers = {"in the middle": [1, 3], "out of order": [2, 1, 3]}.get(case, [1, 2, 3])
    rows = findings_of(tmp_path, chunks(talk, side, numbers, 4, "u"))
    assert MISSING in problem_codes(rows)
