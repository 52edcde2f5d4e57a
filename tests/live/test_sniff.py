"""Scapy's sniffing socket as a packet source."""

from __future__ import annotations

import re
import sys
from collections import deque
from contextlib import closing
from typing import Any

import pytest

from pulsarscope.live.feed import LiveFeed
from pulsarscope.live.sniff import SniffSource, expression, open_sniffer
from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import install_command
from tests.scenarios.live_packets import captured, numbers
from tests.scenarios.loopback import needs_capturing


class Ethernet:
    """Stand-in for a packet class of scapy."""


class Sniffer:
    """Stand-in for a socket of scapy."""

    LL = Ethernet

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = deque(frames)
        self.closed = False

    def select(self, _sockets: list[Any], _seconds: float) -> list[Any]:
        return [self] if self.frames else []

    def recv_raw(self) -> tuple[type, bytes, float]:
        return Ethernet, self.frames.popleft(), 1_700_000_000.5

    def close(self) -> None:
        self.closed = True


FRAMES = [captured(number).data[28:-4] for number in range(5)]


def test_what_the_socket_brings_is_decoded_like_any_other() -> None:
    sniffer = Sniffer(FRAMES)
    source = SniffSource(sniffer, "en0", {Ethernet: 1})
    assert (source.link_type, source.reports_drops) == (1, False)
    with closing(LiveFeed(source, packets_max=5)) as feed:
        assert numbers(feed) == [(number + 1, number) for number in range(5)]
    assert source.received == 5
    assert sniffer.closed


def test_no_more_packets_are_taken_than_asked_for() -> None:
    source = SniffSource(Sniffer(FRAMES), "en0", {})
    taken = source.read(0.1, 2)
    assert taken is not None
    assert (taken.packets, taken.time) == (2, 1_700_000_000_500_000_000)
    assert source.read(0.1) is not None
    assert source.read(0.1) is None


def test_the_filter_names_the_ports() -> None:
    assert expression({6651, 6650}) == "tcp port 6650 or tcp port 6651"
    assert expression(()) == "tcp"


def test_without_scapy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scapy.all", None)
    with pytest.raises(UsageError, match=re.escape(install_command("live"))):
        open_sniffer("en0", "tcp")


@needs_capturing
def test_what_scapy_cannot_do_is_one_line() -> None:
    pytest.importorskip("scapy.all")
    with pytest.raises(UsageError, match="scapy cannot capture on lo: "):
        open_sniffer("lo", "no filter at all")
