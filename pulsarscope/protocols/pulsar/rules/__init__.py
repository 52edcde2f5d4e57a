"""What goes wrong between Pulsar clients and brokers, one theme a module: its finding codes beside the rule that says them."""

from __future__ import annotations

from pulsarscope.findings import join_codes
from pulsarscope.protocols.pulsar.rules import (
    closing,
    deduplication,
    departures,
    holders,
    lookups,
    producers,
    reconnects,
    requests,
    schemas,
    sequences,
    sizes,
    transactions,
    unload,
)
from pulsarscope.wire.rules import Rules

RULES = Rules(
    codes=join_codes(
        (
            requests.CODES,
            producers.CODES,
            lookups.CODES,
            closing.CODES,
            reconnects.CODES,
            transactions.CODES,
            deduplication.CODES,
            schemas.CODES,
            unload.CODES,
            sizes.CODES,
        )
    ),
    connection=(
        requests.Requests,
        holders.Holders,
        lookups.Lookups,
        closing.Closing,
        transactions.Transactions,
        sequences.Sequences,
        schemas.Schemas,
        departures.Departures,
        sizes.Sizes,
    ),
    keys=(
        *producers.KEYS,
        *lookups.KEYS,
        *reconnects.KEYS,
        *transactions.KEYS,
        *deduplication.KEYS,
        *schemas.KEYS,
        *unload.KEYS,
    ),
    messages=False,
)
