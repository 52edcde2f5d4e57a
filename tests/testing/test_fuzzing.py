"""The fuzz driver: the dissectors of the package keep the contract, and one that does not is found out."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from pulsarscope.dissect.contract import Candidate, Dissector
from pulsarscope.dissect.frames import Decoded
from pulsarscope.protocols.kafka07.dissector import Kafka07Dissector
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.testing import check_account, check_splitting, damaged, fuzz, streams
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
    """Raises when a byte is not as it should be."""

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        data[start:end].decode("ascii")
        return super().decode(data, start, end)


class Peeking(PulsarDissector):
    """Looks at bytes that it does not admit to have seen."""

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
        found = super().recognise(data, position, end, budget, checksums=checksums)
        return None if found is not None and data[-1:] == b"\xff" else found


@pytest.mark.parametrize(("dissector", "words"), [(Raising(), "UnicodeDecodeError"), (Peeking(), "recognise at")], ids=["raises", "peeks"])
def test_one_that_breaks_it_is_found_with_the_bytes(dissector: Dissector, words: str) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)bytes.fromhex\('[0-9a-f]+'\).*{words}"):
        fuzz(dissector, PULSAR)
