"""Requests of Kafka 0.7, their responses, and the errors in responses."""

from __future__ import annotations

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = REQUESTS = ("PRODUCE", "FETCH", "MULTIFETCH", "MULTIPRODUCE", "OFFSETS")
"""Requests by type, which is in the first two bytes after the length."""

FETCH_RESPONSE, MULTIFETCH_RESPONSE, OFFSETS_RESPONSE = "FETCH_RESPONSE", "MULTIFETCH_RESPONSE", "OFFSETS_RESPONSE"

RESPONSE = "RESPONSE"
"""A response to an unknown request: on the wire it has neither a type nor an id."""

ANSWERED_BY = {FETCH: FETCH_RESPONSE, MULTIFETCH: MULTIFETCH_RESPONSE, OFFSETS: OFFSETS_RESPONSE}
"""Responses by request. Produce requests have none: a broker that fails to store messages closes the connection."""

RESPONSES = (*ANSWERED_BY.values(), RESPONSE)

NO_ERROR = "NoError"
OFFSET_OUT_OF_RANGE = "OffsetOutOfRange"
ERRORS = {-1: "Unknown", 0: NO_ERROR, 1: OFFSET_OUT_OF_RANGE, 2: "InvalidMessage", 3: "WrongPartition", 4: "InvalidFetchSize"}
"""Errors by code, as in kafka.common.ErrorMapping of 0.7."""

LATEST, EARLIEST = -1, -2
"""Special times of OFFSETS."""

CODECS = {0: "NONE", 1: "GZIP", 2: "SNAPPY"}
"""Codecs by the two lowest bits of a message's attributes."""

CODEC_BITS = 0x03


def error_name(code: int) -> str:
    """Return the name of an error; UNKNOWN_n for an unknown code."""
    return ERRORS.get(code, f"UNKNOWN_{code}")
