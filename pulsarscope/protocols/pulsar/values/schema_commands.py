"""The commands that carry schemas or their versions."""

from __future__ import annotations

REQUEST_OF = {"PRODUCER_SUCCESS": "PRODUCER", "GET_SCHEMA_RESPONSE": "GET_SCHEMA", "GET_OR_CREATE_SCHEMA_RESPONSE": "GET_OR_CREATE_SCHEMA"}
"""Requests by their response."""

REQUESTS = frozenset({*REQUEST_OF.values(), "SUBSCRIBE"})

SCHEMA_COMMANDS = REQUESTS | REQUEST_OF.keys()
