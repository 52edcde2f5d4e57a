"""Tables of statistics in Pulsar's own words: consumers, keys, transactions, lookups, schemas, journeys."""

from __future__ import annotations

from pulsarscope.protocols.pulsar.tables import backlog, consumers, journeys, keys, lookups, schemas, transactions

TABLES = (consumers.TABLE, backlog.TABLE, keys.TABLE, transactions.TABLE, lookups.TABLE, schemas.TABLE, journeys.TABLE)
