"""Answers by request (binary protocol specification; families of requests on one connection do not share ids)."""

from __future__ import annotations

from typing import Any

ANSWERED_BY: dict[str, str] = {
    "PARTITIONED_METADATA": "PARTITIONED_METADATA_RESPONSE",
    "LOOKUP": "LOOKUP_RESPONSE",
    "GET_LAST_MESSAGE_ID": "GET_LAST_MESSAGE_ID_RESPONSE",
    "GET_TOPICS_OF_NAMESPACE": "GET_TOPICS_OF_NAMESPACE_RESPONSE",
    "GET_SCHEMA": "GET_SCHEMA_RESPONSE",
    "GET_OR_CREATE_SCHEMA": "GET_OR_CREATE_SCHEMA_RESPONSE",
    "CONSUMER_STATS": "CONSUMER_STATS_RESPONSE",
    "NEW_TXN": "NEW_TXN_RESPONSE",
    "ADD_PARTITION_TO_TXN": "ADD_PARTITION_TO_TXN_RESPONSE",
    "ADD_SUBSCRIPTION_TO_TXN": "ADD_SUBSCRIPTION_TO_TXN_RESPONSE",
    "END_TXN": "END_TXN_RESPONSE",
    "END_TXN_ON_PARTITION": "END_TXN_ON_PARTITION_RESPONSE",
    "END_TXN_ON_SUBSCRIPTION": "END_TXN_ON_SUBSCRIPTION_RESPONSE",
    "TC_CLIENT_CONNECT_REQUEST": "TC_CLIENT_CONNECT_RESPONSE",
    "SCALABLE_TOPIC_SUBSCRIBE": "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE",
    "WATCH_TOPIC_LIST": "WATCH_TOPIC_LIST_SUCCESS",
    "PRODUCER": "PRODUCER_SUCCESS",
    "SUBSCRIBE": "SUCCESS",
    "UNSUBSCRIBE": "SUCCESS",
    "SEEK": "SUCCESS",
    "CLOSE_PRODUCER": "SUCCESS",
    "CLOSE_CONSUMER": "SUCCESS",
    "WATCH_TOPIC_LIST_CLOSE": "SUCCESS",
    "ACK": "ACK_RESPONSE",
}
"""Requests with a request_id, and their own response. ERROR can answer any of them except ACK."""

OF_LOOKUP = frozenset({"LOOKUP", "PARTITIONED_METADATA", "GET_TOPICS_OF_NAMESPACE", "GET_SCHEMA"})
"""Requests of a client's lookup service. A proxy answers them with requests of its own, and the C++ client numbers them separately."""

IN_ORDER: dict[str, str] = {"CONNECT": "CONNECTED", "AUTH_CHALLENGE": "AUTH_RESPONSE", "PING": "PONG"}
"""Requests without an id, which are paired in order; PING separately for each direction."""

RESPONSES = frozenset(ANSWERED_BY.values())
"""Responses with the request_id of their request, except ERROR."""

REFUSABLE = tuple(sorted(RESPONSES - {"ACK_RESPONSE"}))
"""Responses that an ERROR may replace."""

CONNECTING_REQUEST_ID = -1
"""The request_id of the ERROR that refuses a CONNECT."""


def key_of(fields: dict[str, Any]) -> str | None:
    """Return the key of a response: producer:sequence, or its request id."""
    if "sequence_id" in fields:
        return f"{fields.get('producer_id')}:{fields['sequence_id']}"
    number = fields.get("request_id")
    return None if number is None else str(number)


def error_of(command: str, fields: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the name of the error (or None) and the peer's message in a response."""
    name = fields.get("error", fields.get("error_code"))
    said = fields.get("message", fields.get("error_message"))
    if name is None and command in ("LOOKUP_RESPONSE", "PARTITIONED_METADATA_RESPONSE") and fields.get("response") == "Failed":
        name = "UnknownError"
    return name if isinstance(name, str) else None, said if isinstance(said, str) else None
