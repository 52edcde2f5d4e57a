"""The requests of Kafka 0.7, what answers them, and the errors in answers."""

from __future__ import annotations

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = REQUESTS = ("PRODUCE", "FETCH", "MULTIFETCH", "MULTIPRODUCE", "OFFSETS")
"""By their type, the first two bytes behind the length."""

FETCH_RESPONSE, MULTIFETCH_RESPONSE, OFFSETS_RESPONSE = "FETCH_RESPONSE", "MULTIFETCH_RESPONSE", "OFFSETS_RESPONSE"

RESPONSE = "RESPONSE"
"""A response of which it is not known what it answers: on the wire it has neither a type nor an id."""

ANSWERED_BY = {FETCH: FETCH_RESPONSE, MULTIFETCH: MULTIFETCH_RESPONSE, OFFSETS: OFFSETS_RESPONSE}
"""What produces is never answered: a broker that fails to store it closes the connection."""

RESPONSES = (*ANSWERED_BY.values(), RESPONSE)

NO_ERROR = "NoError"
OFFSET_OUT_OF_RANGE = "OffsetOutOfRange"
ERRORS = {-1: "Unknown", 0: NO_ERROR, 1: OFFSET_OUT_OF_RANGE, 2: "InvalidMessage", 3: "WrongPartition", 4: "InvalidFetchSize"}
"""By code, as in kafka.common.ErrorMapping of 0.7."""

LATEST, EARLIEST = -1, -2
"""Times of OFFSETS that are none."""

CODECS = {0: "NONE", 1: "GZIP", 2: "SNAPPY"}
"""By the two lowest bits of a message's attributes."""

CODEC_BITS = 0x03


def error_name(code: int) -> str:
    """The name of an error; UNKNOWN_n for a code without one."""
    return ERRORS.get(code, f"UNKNOWN_{code}")
