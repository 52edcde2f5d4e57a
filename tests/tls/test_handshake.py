"""Handshake messages, cut anywhere and with any content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.limits import TLS_HANDSHAKE_MESSAGE_MAX_BYTES
from pulsarscope.tls.handshake import HandshakeMessages, certificates, chosen_protocol, client_hello, partial_client_hello, server_hello
from tests.scenarios.tls import sealing
from tests.scenarios.tls.sealing import message, vector

HELLO = sealing.client_hello()[4:]
ANSWER = sealing.server_hello()[4:]


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=6), st.lists(st.integers(1, 200), min_size=1))
def test_messages_are_joined_however_they_are_cut(sent: list[tuple[int, bytes]], sizes: list[int]) -> None:
    data = b"".join(message(*fields) for fields in sent)
    messages, completed, position, turn = HandshakeMessages(), [], 0, 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        completed += messages.feed(data[position : position + size])
        position, turn = position + size, turn + 1
    assert completed == sent


def test_a_message_that_is_too_long_is_passed_over_without_being_kept() -> None:
    messages = HandshakeMessages()
    size = TLS_HANDSHAKE_MESSAGE_MAX_BYTES + 1
    assert messages.feed(b"\x0b" + size.to_bytes(3, "big") + b"x" * 1000) == []
    assert messages.feed(b"x" * (size - 1000) + message(20, b"done")) == [(20, b"done")]
    messages.feed(b"\x0b\0\0\x09ab")
    messages.clear()
    assert messages.feed(message(20, b"done")) == [(20, b"done")]


def test_hellos_say_who_and_how() -> None:
    names = vector(b"\1\0\2no" + b"\0" + vector(b"broker", 2) + b"\0" + vector(b"other", 2), 2)
    extensions = b"\0\0" + vector(names, 2) + b"\0\x10" + vector(vector(b"\2h2\x08http/1.1", 2), 2) + b"\xff\xff\0\0"
    hello = client_hello(sealing.client_hello(extensions=extensions)[4:])
    assert hello is not None
    assert (hello.random, hello.server_name, hello.protocols) == (sealing.CLIENT_RANDOM, "broker", ("h2", "http/1.1"))
    answer = server_hello(ANSWER)
    assert answer is not None
    assert (answer.random, answer.version, answer.suite, answer.is_retry) == (sealing.SERVER_RANDOM, 0x0304, 0x1301, False)
    assert (answer.protocol, answer.encrypt_then_mac) == (None, False)
    older = server_hello(b"\x03\x03" + bytes(32) + b"\0\xc0\x2f\0" + vector(b"\0\x16\0\0\0\x10" + vector(vector(b"\2h2", 2), 2), 2))
    assert older is not None
    assert (older.version, older.suite, older.protocol, older.encrypt_then_mac) == (0x0303, 0xC02F, "h2", True)
    retry = server_hello(sealing.server_hello(random=sealing.RETRY_RANDOM)[4:])
    assert retry is not None
    assert retry.is_retry


def test_hellos_without_extensions_are_hellos() -> None:
    assert client_hello(HELLO[:-2]) is not None
    assert server_hello(b"\x03\x03" + bytes(32) + b"\0\0\x2f\0") is not None


@pytest.mark.parametrize("size", [1, 3, 10, 40, 60])
def test_hellos_that_are_cut_are_none(size: int) -> None:
    assert client_hello(sealing.client_hello(extensions=b"\xff\xff\0\0")[4:-size]) is None
    assert server_hello(ANSWER[:-size]) is None


@given(st.binary(max_size=300))
def test_no_bytes_make_them_fail(data: bytes) -> None:
    client_hello(HELLO[:34] + data)
    server_hello(ANSWER[:34] + data)
    chosen_protocol(data)
    for version in (0x0303, 0x0304):
        assert all(isinstance(fields, bytes) for fields in certificates(data, version))


def test_the_beginning_of_a_hello_of_the_client_has_its_random() -> None:
    hello = sealing.client_hello()
    begun = partial_client_hello(hello[:38])
    assert begun is not None
    assert begun.random == sealing.CLIENT_RANDOM
    assert partial_client_hello(hello[:37]) is None
    assert partial_client_hello(sealing.server_hello()) is None


def test_certificates_are_given_in_order() -> None:
    both = vector(b"first", 3) + vector(b"second", 3)
    assert list(certificates(vector(both, 3), 0x0303)) == [b"first", b"second"]
    extended = vector(b"first", 3) + vector(b"ext", 2) + vector(b"second", 3) + vector(b"", 2)
    assert list(certificates(b"\0" + vector(extended, 3), 0x0304)) == [b"first", b"second"]
    assert chosen_protocol(vector(b"\0\x10" + vector(vector(b"\2h2", 2), 2), 2)) == "h2"
    assert chosen_protocol(b"\0\0") is None
