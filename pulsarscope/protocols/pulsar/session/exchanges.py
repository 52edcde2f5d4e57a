"""Requests and their answers (binary protocol specification; families of requests on one connection do not share ids)."""

from __future__ import annotations

from typing import Any, NamedTuple

MEMORY, ENTRY = "memory", "entry"
"""Efforts of a broker: it answers from memory, or writes an entry to the log of a transaction coordinator first."""

PREPARES, POLLS, MOVES = "prepares", "polls", "moves"
"""Requests that prepare a producer or consumer; whose answer changes with new messages; that move a cursor, each for its own reason."""


class RequestType(NamedTuple):
    """A request with a request_id, and its properties for rules."""

    response: str
    """Its own response. ERROR can answer any request except ACK."""
    effort: str = ""
    """`MEMORY` or `ENTRY`; "" if the broker may open a topic, wait for a slow service or ask other brokers."""
    repeated: str = ""
    """`PREPARES`, `POLLS` or `MOVES` if repetitions may be a storm."""
    of_lookup: bool = False
    """True for a request of the lookup service: a proxy answers it with requests of its own, and the C++ client numbers it separately."""
    is_purpose: bool = False
    """True for a request for which a client connects; the others only prepare for those, or follow them."""


REQUESTS: dict[str, RequestType] = {
    "PARTITIONED_METADATA": RequestType("PARTITIONED_METADATA_RESPONSE", MEMORY, PREPARES, of_lookup=True),
    "LOOKUP": RequestType("LOOKUP_RESPONSE", MEMORY, PREPARES, of_lookup=True),
    "GET_LAST_MESSAGE_ID": RequestType("GET_LAST_MESSAGE_ID_RESPONSE", MEMORY, POLLS, is_purpose=True),
    "GET_TOPICS_OF_NAMESPACE": RequestType("GET_TOPICS_OF_NAMESPACE_RESPONSE", repeated=PREPARES, of_lookup=True),
    "GET_SCHEMA": RequestType("GET_SCHEMA_RESPONSE", repeated=PREPARES, of_lookup=True),
    "GET_OR_CREATE_SCHEMA": RequestType("GET_OR_CREATE_SCHEMA_RESPONSE", repeated=PREPARES),
    "CONSUMER_STATS": RequestType("CONSUMER_STATS_RESPONSE", MEMORY, POLLS),
    "NEW_TXN": RequestType("NEW_TXN_RESPONSE", ENTRY),
    "ADD_PARTITION_TO_TXN": RequestType("ADD_PARTITION_TO_TXN_RESPONSE", ENTRY),
    "ADD_SUBSCRIPTION_TO_TXN": RequestType("ADD_SUBSCRIPTION_TO_TXN_RESPONSE", ENTRY),
    "END_TXN": RequestType("END_TXN_RESPONSE", is_purpose=True),
    "END_TXN_ON_PARTITION": RequestType("END_TXN_ON_PARTITION_RESPONSE"),
    "END_TXN_ON_SUBSCRIPTION": RequestType("END_TXN_ON_SUBSCRIPTION_RESPONSE"),
    "TC_CLIENT_CONNECT_REQUEST": RequestType("TC_CLIENT_CONNECT_RESPONSE"),
    "SCALABLE_TOPIC_SUBSCRIBE": RequestType("SCALABLE_TOPIC_SUBSCRIBE_RESPONSE"),
    "WATCH_TOPIC_LIST": RequestType("WATCH_TOPIC_LIST_SUCCESS"),
    "PRODUCER": RequestType("PRODUCER_SUCCESS", is_purpose=True),
    "SUBSCRIBE": RequestType("SUCCESS", is_purpose=True),
    "UNSUBSCRIBE": RequestType("SUCCESS"),
    "SEEK": RequestType("SUCCESS", repeated=MOVES),
    "CLOSE_PRODUCER": RequestType("SUCCESS"),
    "CLOSE_CONSUMER": RequestType("SUCCESS"),
    "WATCH_TOPIC_LIST_CLOSE": RequestType("SUCCESS"),
    "ACK": RequestType("ACK_RESPONSE", is_purpose=True),
}

ANSWERED_BY = {name: request.response for name, request in REQUESTS.items()}
"""Requests and their own responses."""

OF_LOOKUP = frozenset(name for name, request in REQUESTS.items() if request.of_lookup)

OPENS = {"PRODUCER": ("producer", "producer_id"), "SUBSCRIBE": ("consumer", "consumer_id")}
CLOSES = {
    "CLOSE_PRODUCER": ("producer", "producer_id"),
    "CLOSE_CONSUMER": ("consumer", "consumer_id"),
    "UNSUBSCRIBE": ("consumer", "consumer_id"),
}
"""Noun and id field of the object that a request opens or closes."""

IN_ORDER: dict[str, str] = {"CONNECT": "CONNECTED", "AUTH_CHALLENGE": "AUTH_RESPONSE", "PING": "PONG"}
"""Requests without an id, which are paired in order; PING separately for each direction."""

RESPONSES = frozenset(ANSWERED_BY.values())
"""Responses with the request_id of their request, except ERROR."""

REFUSABLE = tuple(sorted(RESPONSES - {"ACK_RESPONSE"}))
"""Responses that an ERROR may replace."""

OWN_REFUSALS = ("GET_SCHEMA_RESPONSE", "LOOKUP_RESPONSE", "PARTITIONED_METADATA_RESPONSE")
"""Responses to requests of the lookup service that state an error themselves: brokers do not replace them, proxies may."""

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


def requests_with(treatment: str) -> tuple[str, ...]:
    """Return the requests with an effort, or with a meaning of their repetitions."""
    return tuple(name for name, request in REQUESTS.items() if treatment in (request.effort, request.repeated))
