from __future__ import annotations

import pytest

from pulsarscope.protocols.kafka07.commands import ANSWERED_BY, CODECS, ERRORS, REQUESTS, RESPONSES, error_name


def test_requests_stand_at_their_type() -> None:
    assert REQUESTS == ("PRODUCE", "FETCH", "MULTIFETCH", "MULTIPRODUCE", "OFFSETS")


def test_what_produces_is_never_answered() -> None:
    assert set(REQUESTS) - ANSWERED_BY.keys() == {"PRODUCE", "MULTIPRODUCE"}
    assert set(RESPONSES) - set(ANSWERED_BY.values()) == {"RESPONSE"}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "Unknown"),
        (0, "NoError"),
        (1, "OffsetOutOfRange"),
        (2, "InvalidMessage"),
        (3, "WrongPartition"),
        (4, "InvalidFetchSize"),
        (5, "UNKNOWN_5"),
        (-2, "UNKNOWN_-2"),
    ],
)
def test_errors_have_the_names_of_the_client_library(code: int, name: str) -> None:
    assert error_name(code) == name
    assert len(ERRORS) == 6
    assert CODECS == {0: "NONE", 1: "GZIP", 2: "SNAPPY"}
