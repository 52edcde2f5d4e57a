"""What goes wrong between Pulsar clients and brokers, one theme a module: its finding codes beside the rule that says them."""

from __future__ import annotations

from pulsarscope.findings import join_codes
from pulsarscope.protocols.pulsar.rules import (
    acks,
    backlog,
    batch_index,
    key_shared,
    permits,
    redelivery,
    requests,
    subscription_limit,
    unacked,
)
from pulsarscope.wire.rules import Rules

_THEMES = (requests, permits, backlog, unacked, batch_index, acks, redelivery, key_shared)

RULES = Rules(
    codes=join_codes(theme.CODES for theme in _THEMES),
    connection=(
        requests.Requests,
        permits.Permits,
        backlog.Publications,
        unacked.Unacked,
        batch_index.BatchIndexes,
        acks.Acks,
        redelivery.Redelivery,
        key_shared.KeyShared,
    ),
    keys=(*backlog.KEYS, *subscription_limit.KEYS, *key_shared.KEYS),
    messages=False,
)
