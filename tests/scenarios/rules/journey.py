"""Rules that collect the journeys of entries, and deliveries with a wrong checksum."""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.journey import CODES, JOURNEY, Journey, JourneyRule, journeys
from tests.scenarios.frames import message_metadata, payload_frame

WRONG = 0xDEADBEEF


def corrupted(entry: int = 0, consumer_id: int = 1) -> bytes:
    """A MESSAGE whose CRC32-C is wrong."""
    ident = {"ledgerId": 7, "entryId": entry}
    return payload_frame("MESSAGE", message_metadata(), b"payload", checksum=WRONG, consumer_id=consumer_id, message_id=ident)


def collecting() -> tuple[Rules, dict[str, Journey]]:
    """Rules that only collect journeys, and the dictionary of the collected ones."""
    collected: dict[str, Journey] = {}

    def keep(key: str, facts: Sequence[Fact], _report: ReportFinding, _thresholds: Thresholds) -> None:
        collected.update((key, item) for item in journeys(key, facts))

    return Rules(CODES, (JourneyRule,), (KeyRule(JOURNEY, 10**18, keep),)), collected
