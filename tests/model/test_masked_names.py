"""Masks are as long as the names that they replace, always the same, and different for different names."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.masked_names import MaskedNames

NAMES = MaskedNames(b"k" * 32)
WORDS = st.text("abcdefgh0123ABC-._/:é", max_size=20).map(str.encode)


@given(WORDS)
def test_a_mask_has_the_length_of_its_name_and_is_the_same_again(name: bytes) -> None:
    masked = NAMES.name(name)
    assert len(masked) == len(name)
    assert masked == MaskedNames(b"k" * 32).name(name)


@given(st.text("abcdefghij0123456789", min_size=5, max_size=12))
def test_other_keys_give_other_masks(word: str) -> None:
    assert NAMES.name(word.encode()) != MaskedNames(b"other key of bytes").name(word.encode())


def test_different_words_have_different_masks() -> None:
    words = [f"{first}{second}".encode() for first in "abcdefgh0123" for second in "abcdefgh0123"]
    assert len({NAMES.name(word) for word in words}) == len(words)


@pytest.mark.parametrize(
    "kept",
    [
        b"persistent://public/default/",
        b"non-persistent://public/default/",
        b"persistent://pulsar/system/transaction_coordinator_assign-partition-3",
        b"pulsar://localhost:6650",
        b"",
    ],
)
def test_names_of_the_protocol_itself_stay(kept: bytes) -> None:
    assert NAMES.name(kept) == kept


def test_partition_numbers_ports_and_the_masked_address_of_a_packet_stay_in_names() -> None:
    masked = NAMES.name(b"persistent://acme/orders/payments-partition-12")
    assert masked.startswith(b"persistent://")
    assert masked.endswith(b"-partition-12")
    assert b"payments" not in masked
    assert NAMES.name(b"pulsar://10.0.0.7:6650") == b"pulsar://" + str(ip_address(NAMES.address(bytes([10, 0, 0, 7])))).encode() + b":6650"


@pytest.mark.parametrize("name", ["order:4711", "persistent://acme/orders/order:4711", "a:4711:b", "4711:4711", "acme.com:4711/x"])
def test_numbers_behind_colons_are_masked_in_names(name: str) -> None:
    for masked in (NAMES.name(name.encode()), NAMES.text(f"Topic {name} not found".encode())):
        assert b"4711" not in masked


@pytest.mark.parametrize("url", ["pulsar://broker.acme.com:4711", "https://acme:4711/", "10.1.2.3:4711", "[fd00::12]:4711"])
def test_ports_stay_behind_hosts(url: str) -> None:
    for masked in (NAMES.name(url.encode()), NAMES.endpoint(url.encode()), NAMES.text(f"Failed to connect to {url}".encode())):
        assert b":4711" in masked
    assert NAMES.endpoint(b"broker-3:6650").endswith(b":6650")


@given(st.ip_addresses(v=4).filter(lambda address: not (address.is_loopback or address.is_multicast or address.is_unspecified)))
def test_an_address_is_another_one_as_long_as_text(address: object) -> None:
    packed = address.packed  # type: ignore[attr-defined]
    masked = NAMES.address(packed)
    assert masked == packed if packed == b"\xff" * 4 else masked != packed
    assert len(str(ip_address(masked))) == len(str(address))


def test_addresses_of_one_network_have_different_masks() -> None:
    assert len({NAMES.address(bytes([10, 9, 0, last])) for last in range(256)}) == 256


@pytest.mark.parametrize("kept", ["127.0.0.1", "::1", "::", "224.0.0.1"])
def test_addresses_that_say_something_by_themselves_stay(kept: str) -> None:
    assert NAMES.address(ip_address(kept).packed) == ip_address(kept).packed


@pytest.mark.parametrize("name", [b"user-service", b"'message'", b'"topic"', b"orders"])
def test_names_of_usual_words_are_masked_in_sentences(name: bytes) -> None:
    masked = NAMES.text(b"Consumer " + name + b" is already connected")
    assert masked.startswith(b"Consumer ")
    assert masked.endswith(b" is already connected")
    assert name not in masked


def test_sentences_keep_their_usual_words_and_the_names_of_exceptions() -> None:
    text = b"org.apache.pulsar.broker.service.BrokerServiceException$NamingException: Producer 'acme-7' is already connected to topic"
    masked = NAMES.text(text)
    assert len(masked) == len(text)
    assert masked.startswith(b"org.apache.pulsar.broker.service.BrokerServiceException")
    assert masked.endswith(b"is already connected to topic")
    assert b"acme" not in masked


@pytest.mark.parametrize("name", [b"TopicFencedException", b"ManagedLedgerFencedException", b"IOException", b"UnknownError"])
def test_exceptions_of_usual_words_stay_without_their_package(name: bytes) -> None:
    assert NAMES.text(b"refused: " + name + b": x").split()[1] == name + b":"


@pytest.mark.parametrize("name", [b"AcmeAuthException", b"CustomerError", b"TopicACMEException", b"com.acme.AuthException"])
def test_exceptions_that_may_name_their_owner_are_masked(name: bytes) -> None:
    masked = NAMES.text(b"refused: " + name + b" by " + name)
    assert len(masked) == len(name) * 2 + 13
    assert not any(word in masked.lower() for word in (b"acme", b"customer"))


def test_the_site_of_a_unique_local_address_is_masked() -> None:
    masked = [NAMES.address(ip_address(f"fd{site}:3456::1").packed) for site in ("12", "13")]
    assert all(address[0] == 0xFD for address in masked)
    assert masked[0][1] != 0x12
    assert masked[0][1] != masked[1][1]


@pytest.mark.parametrize(
    "text",
    [
        b"Failed to connect to pulsar.acme.com:6650",
        b"cannot connect to broker-0.pulsar.acme.svc.cluster.local:6650",
        b"lookup at http://my.bookkeeper.acme.io/topics failed for acme",
        b"java.net.UnknownHostException: java.acme.io",
        b"java.acme.io.IOException",
        b"user apache.acme.admin is not allowed",
    ],
)
def test_host_names_that_look_like_packages_are_masked_in_sentences(text: bytes) -> None:
    masked = NAMES.text(text)
    assert len(masked) == len(text)
    assert b"acme" not in masked


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        (b"Pulsar-Java-v4.2.4", b"Pulsar-Java-v4.2.4"),
        (b"Pulsar-CPP-v4.2.0", b"Pulsar-CPP-v4.2.0"),
        (b"pulsar-rs-v6.9.1", b"pulsar-rs-v6.9.1"),
        (b"2.4.2", b"2.4.2"),
        (b"Pulsar Server4.2.4", b"Pulsar Server4.2.4"),
        (b"Pulsar Proxy", b"Pulsar Proxy"),
        (b"4.3.0-SNAPSHOT", b"4.3.0-SNAPSHOT"),
        (b"Pulsar-Java-v4.2.4-acme", b"Pulsar-Java-v4.2.4-"),
        (b"acme-gateway", b""),
        (b"acme-2.1", b""),
        (b"Pulsar-acme-2.1", b"Pulsar-"),
        (b"PulsarAcme-2.1", b"Pulsar"),
    ],
)
def test_of_a_version_what_is_known_stays(version: bytes, kept: bytes) -> None:
    masked = NAMES.version(version)
    assert masked.startswith(kept)
    assert len(masked) == len(version)
    assert b"acme" not in masked.lower()
