"""The fuzz driver: the dissectors of the package keep the contract, and violations are detected."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given
from msgspec.structs import replace

from pulsarscope.dissect.contract.capabilities import Vocabulary
from pulsarscope.dissect.contract.dissector import Candidate, Dissector
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.events import Event
from pulsarscope.dissect.contract.frames import Decoded
from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers
from pulsarscope.dissect.contract.session import SessionContext, SessionFrames
from pulsarscope.protocols.kafka07.dissector import Kafka07Dissector
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.testing import check_account, check_splitting, damaged, fuzz, streams
from tests.dissect.third_protocol import put, taken
from tests.dissect.third_protocol.pulsarscope_postcard import PostcardDissector, PostcardSession
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios.commands import CONNECT, PING
from tests.scenarios.kafka07 import fetch, fetch_response, message_set, produce

PULSAR = [
    CONNECT,
    PING,
    payload_frame("SEND", message_metadata(), b"payload", producer_id=1, sequence_id=1),
    command_frame("FLOW", consumer_id=1, messagePermits=9),
]
KAFKA = [produce("orders", 0, message_set(b"hello")), fetch("orders", 0, 0), fetch_response(message_set(b"x"))]


@pytest.mark.parametrize(("dissector", "frames"), [(PulsarDissector(), PULSAR), (Kafka07Dissector(), KAFKA)], ids=["pulsar", "kafka07"])
def test_the_dissectors_of_the_package_keep_the_contract(dissector: Dissector, frames: list[bytes]) -> None:
    fuzz(dissector, frames, rounds=40)


@given(streams(PULSAR))
def test_streams_of_hypothesis_are_damaged_ones(data: bytes) -> None:
    check_account(PulsarDissector(), data, synced=False)
    check_splitting(PulsarDissector(), [data[:9], data[9:]], synced=False)


def test_one_seed_makes_the_same_streams() -> None:
    assert damaged(Random(7), PULSAR) == damaged(Random(7), PULSAR)  # noqa: S311


class Raising(PulsarDissector):
    """A dissector that raises at an unexpected byte."""

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        data[start:end].decode("ascii")
        return super().decode(data, start, end)


class Peeking(PulsarDissector):
    """A dissector that looks at more bytes than it reports."""

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
        found = super().recognise(data, position, end, budget, checksums=checksums)
        return None if found is not None and data[-1:] == b"\xff" else found


@pytest.mark.parametrize(("dissector", "words"), [(Raising(), "UnicodeDecodeError"), (Peeking(), "recognise at")], ids=["raises", "peeks"])
def test_one_that_breaks_it_is_found_with_the_bytes(dissector: Dissector, words: str) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)bytes.fromhex\('[0-9a-f]+'\).*{words}"):
        fuzz(dissector, PULSAR)


def decoding(change: Callable[[list[Any], int], object]) -> dict[str, Any]:
    """A `decode` with a changed result: (the items, the start of the frame)."""

    def decode(self: PostcardDissector, data: bytes, start: int, end: int) -> Any:
        items = list(PostcardDissector.decode(self, data, start, end))
        change(items, start)
        return tuple(items)

    return {"decode": decode}


def fail(*_arguments: Any) -> Any:
    raise IndexError


class FailingSession(PostcardSession):
    observe = fail  # type: ignore[assignment]


class OddSession(PostcardSession):
    """A session that does what no session may do."""

    def __init__(self, context: SessionContext, mistake: str) -> None:
        super().__init__(context)
        self._mistake = mistake
        self.unpicklable = (lambda: None) if mistake == "unpicklable" else None

    def observe(self, frames: SessionFrames, events: list[Event]) -> None:
        """Set a number as the topic."""
        del events
        for frame in frames:
            if self._mistake == "number":
                frame.topic = 7  # type: ignore[assignment]


def odd(mistake: str) -> dict[str, Any]:
    return {"session": lambda _, context: OddSession(context, mistake)}


def peek(self: PostcardDissector, data: bytes, start: int, end: int) -> Any:
    """Give the command by the byte behind the frame."""
    return ("LAST" if end == len(data) else "PUT", *PostcardDissector.decode(self, data, start, end)[1:])


def opens(self: PostcardDissector, data: bytes, position: int, end: int) -> str | None:
    """Decide as soon as the magic is there."""
    if self.recognise(data, position, end, 0, checksums=False) is None:
        return None
    return "client" if data[position + 4 : position + 6] == b"PC" else None


class FailingRule(ConnectionRule):
    frames: ClassVar[Handlers] = {"PUT": fail}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "offset in the buffer": (decoding(lambda items, start: operator.setitem(items, 5, items[5] and items[5] + start)), "behind 5 others"),
    "offset behind the end": (decoding(lambda items, _: operator.setitem(items, 5, 99)), "gives the payload offset 99, the frame has"),
    "adds": ({"framing": replace(PostcardDissector.framing, adds=0)}, "framing gives 18 bytes for a frame of 22: see its length and adds"),
    "largest": ({"framing": replace(PostcardDissector.framing, largest=20)}, "framing allows 12 to 20 bytes, not 22"),
    "malformed": (
        decoding(lambda items, _: operator.setitem(items, 6, "malformed")),
        "the status 'malformed' for a whole frame",
    ),
    "code": (
        decoding(lambda items, _: operator.setitem(items, 7, [("relay-odd", "odd")])),
        "decode names the finding code 'relay-odd', which `codes` lacks",
    ),
    "exception": ({"decode": fail}, "IndexError"),
    "exception of opens": ({"opens": fail}, "IndexError"),
    "opens": (
        {"opens": opens},
        "opens gives 'client' for the first 6 bytes, and None with others behind them: return None while bytes are missing",
    ),
    "sender of opens": ({"opens": lambda *_: "broker"}, "opens gives 'broker', which is none of client, server and None"),
    "sender": (
        {"sender": lambda *_: "broker", "opens": Dissector.opens},
        "sender gives 'broker', which is none of client, server and None",
    ),
    "families": ({"families": {"PUT": "send"}}, "families has 'send', which is none of publish, consume"),
    "follow_kinds": ({"follow_kinds": {"card": fail}}, "follow_kinds has 'card', which is none of connection, producer"),
    "vocabulary": ({"vocabulary": Vocabulary({"a.b": ()})}, "vocabulary: the command 'a.b' is not one word"),
    "redaction": ({"redaction": lambda *_: lambda _frame, data: (data[1:], True)}, "redaction gives 21 bytes for the 22 of a PUT"),
    "unpicklable session": (odd("unpicklable"), "a session cannot be pickled, to go on in another process: "),
    "number for a topic": (odd("number"), "failed in session: ValidationError: Expected `str | null`, got `int` - at `$.topic`"),
    "proof": ({"recognise": lambda *_, **__: Candidate(22, 0, "maybe", 0)}, "recognise gives the proof 'maybe', which is none of sure"),
    "likely frame of unknown size": (
        {"recognise": lambda *_, **__: Candidate(0, 0, "likely", 0), "opens": Dissector.opens},
        "recognise gives a likely frame of 0 bytes at 0: only a sure one may have an unknown size",
    ),
    "decode that looks behind the frame": (
        {"decode": peek},
        "does recognise or decode answer otherwise while bytes are missing?",
    ),
    "session": ({"session": lambda _, context: FailingSession(context)}, "failed in session.observe: IndexError"),
    "rule": ({"rules": Rules({}, (FailingRule,))}, "failed in the rule FailingRule: IndexError"),
    "rules": ({"rules": Rules({}, FailingRule)}, "failed in rules: TypeError"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("members", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named(members: dict[str, Any], words: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(words)):
        fuzz(type("Mistaken", (PostcardDissector,), members)(), [put(1, 95, b"aunts", b"Hi!!"), taken(1)], rounds=10)
