"""Network interfaces of this host."""

from __future__ import annotations

import sys

import pytest

from pulsarscope.live.interfaces import ANY, all_interfaces, find_interface

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of interfaces in /sys")


def test_loopback_is_among_them() -> None:
    (loopback,) = [candidate for candidate in all_interfaces() if candidate.is_loopback]
    assert loopback == find_interface(loopback.name)
    assert loopback.is_ethernet
    assert loopback.mtu > 0


def test_all_of_them_have_a_name_of_their_own() -> None:
    assert find_interface(ANY).index == 0
    assert not find_interface(ANY).is_ethernet


def test_one_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match=r"No such device|no interface"):
        find_interface("nothing0")
