"""Names of credentials, and similar names of other fields."""

from __future__ import annotations

import pytest

from pulsarscope.protocols.pulsar.frame.secret_fields import URL_CREDENTIALS, is_secret_name


@pytest.mark.parametrize(
    "name", ["password", "PASSWD", "dbPassword", "x-api-key", "apikey", "private_key", "client_secret", "Authorization"]
)
def test_names_of_credentials(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["key", "keys", "partition_key", "path", "passenger", "author", "REAL_TOPIC", "ORIGIN_MESSAGE_ID", ""])
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (b"pulsar://broker:6650", b"pulsar://broker:6650"),
        (b"pulsar://broker:6650/path@x", b"pulsar://broker:6650/path@x"),
        (b"pulsar+ssl://user@broker", b"pulsar+ssl://redacted@broker"),
        (b"user:p@ss@broker:6650", b"redacted@broker:6650"),
    ],
)
def test_what_stands_before_a_host(url: bytes, shown: bytes) -> None:
    assert URL_CREDENTIALS.sub(b"redacted", url) == shown
