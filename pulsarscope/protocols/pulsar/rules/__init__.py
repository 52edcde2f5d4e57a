"""What goes wrong between Pulsar clients and brokers, one theme a module: its finding codes beside the rule that says them."""

from __future__ import annotations

from pulsarscope.findings import join_codes
from pulsarscope.protocols.pulsar.rules import closing, deduplication, lookups, producers, requests, schemas, sizes, transactions, unload
from pulsarscope.wire.rules import Rules

RULES = Rules(
    codes=join_codes(
        (
            requests.CODES,
            producers.CODES,
            lookups.CODES,
            closing.CODES,
            transactions.CODES,
            deduplication.CODES,
            schemas.CODES,
            unload.CODES,
            sizes.CODES,
        )
    ),
    connection=(
        requests.Requests,
        producers.Holders,
        lookups.Lookups,
        closing.Closing,
        transactions.Transactions,
        deduplication.Sequences,
        schemas.Schemas,
        unload.Departures,
        sizes.Sizes,
    ),
    keys=(
        *producers.KEYS,
        *lookups.KEYS,
        *closing.KEYS,
        *transactions.KEYS,
        *deduplication.KEYS,
        *schemas.KEYS,
        *unload.KEYS,
    ),
    messages=False,
)
