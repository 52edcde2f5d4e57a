"""Packets have the owners that comments of ptcpdump name, whatever else a comment says."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture.block import Owner
from pulsarscope.capture.formats.packet_owners import owner_in


def options(*comments: str, byte_order: str = "<") -> bytes:
    parts = []
    for comment in comments:
        data = comment.encode()
        parts.append(struct.pack(byte_order + "HH", 1, len(data)) + data + bytes(-len(data) % 4))
    return struct.pack(byte_order + "HHI", 2, 4, 1) + b"".join(parts) + bytes(4)


@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize(
    ("comments", "owner"),
    [
        (("PID: 1234\nCmd: /usr/bin/java\nArgs: -cp app.jar Main\nParentPID: 1\nParentCmd: /sbin/init",), Owner("java (1234)", None)),
        (("PID: 7\nTID: 9\nCommand: pulsar-perf...\nUserId: 0",), Owner("pulsar-perf... (7)", None)),
        (("PID: 7\nCmd: /app\nContainerName: web\nPodName: web-0\nPodNamespace: shop\nPodUID: 1",), Owner("app (7)", "shop/web-0")),
        (("PID: 7", "Cmd: app", "PodName: web-0"), Owner("app (7)", "web-0")),
        (("my note: PID: 7",), None),
        (("PID: x\nCmd: app",), None),
        (("PID:\nCmd:\n:",), None),
        (("PID: 7",), None),
        (("PID: 7\nCmd: app" + " " * 60_000 + "x",), Owner("app (7)", None)),
        (("PID: 7\nCmd: app\nArgs: " + "x" * 60_000 + "\nPodName: web-0",), Owner("app (7)", None)),
        ((), None),
    ],
)
def test_an_owner_is_what_the_comment_says(comments: tuple[str, ...], owner: Owner | None, byte_order: str) -> None:
    assert owner_in(b"x" + options(*comments, byte_order=byte_order), 1, byte_order) == owner


@given(st.binary(max_size=60))
def test_any_bytes_are_read(data: bytes) -> None:
    owner_in(data, 0, "<")
    owner_in(b"\x01\x00\x40\x00" + data, 0, "<")
