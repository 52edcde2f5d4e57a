"""What goes wrong between Pulsar clients and brokers, one theme a module: its finding codes beside the rule that says them."""

from __future__ import annotations

from pulsarscope.findings import join_codes
from pulsarscope.protocols.pulsar.rules import chunks, clock, journey, publishing, requests, resends
from pulsarscope.wire.rules import Rules

RULES = Rules(
    codes=join_codes((requests.CODES, journey.CODES, resends.CODES, publishing.CODES, chunks.CODES, clock.CODES)),
    connection=(requests.Requests, journey.Journeys, resends.Resends, publishing.Publishing, chunks.Chunks, clock.Clocks),
    keys=(*journey.KEYS, *chunks.KEYS, *clock.KEYS),
    messages=False,
)
