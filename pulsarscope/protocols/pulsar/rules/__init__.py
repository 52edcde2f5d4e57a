"""What goes wrong between Pulsar clients and brokers, one theme a module: its finding codes beside the rule that says them."""

from __future__ import annotations

from pulsarscope.findings import join_codes
from pulsarscope.protocols.pulsar.rules import (
    acks,
    backlog,
    batch_index,
    closing,
    deduplication,
    departures,
    holders,
    key_shared,
    lookups,
    permits,
    producers,
    reconnects,
    redelivery,
    requests,
    schemas,
    sequences,
    sizes,
    subscription_limit,
    transactions,
    unacked,
    unload,
)
from pulsarscope.wire.rules import Rules

RULES = Rules(
    codes=join_codes(
        theme.CODES
        for theme in (
            requests,
            producers,
            lookups,
            closing,
            reconnects,
            transactions,
            deduplication,
            schemas,
            unload,
            sizes,
            permits,
            backlog,
            unacked,
            batch_index,
            acks,
            redelivery,
            key_shared,
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
        permits.Permits,
        backlog.Publications,
        unacked.Unacked,
        batch_index.BatchIndexes,
        acks.Acks,
        redelivery.Redelivery,
        key_shared.KeyShared,
    ),
    keys=(
        *producers.KEYS,
        *lookups.KEYS,
        *reconnects.KEYS,
        *transactions.KEYS,
        *deduplication.KEYS,
        *schemas.KEYS,
        *unload.KEYS,
        *backlog.KEYS,
        *subscription_limit.KEYS,
        *key_shared.KEYS,
    ),
    messages=False,
)
