"""Flow keys and endpoints."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.flow import (
    IPV4_KEY_BYTES,
    IPV6_KEY_BYTES,
    endpoints_of,
    reverse_key,
    source_endpoint,
    source_of_key,
    source_port,
    with_source,
    without_source,
)

PORTS = st.integers(0, 0xFFFF)
V4, V6 = st.ip_addresses(v=4), st.ip_addresses(v=6)


def key(source: str, destination: str, from_port: int, to_port: int) -> bytes:
    return ip_address(source).packed + ip_address(destination).packed + struct.pack(">HH", from_port, to_port)


@pytest.mark.parametrize(
    ("source", "endpoint"),
    [
        ("192.0.2.1", "192.0.2.1:6650"),
        ("0.0.0.0", "0.0.0.0:6650"),  # noqa: S104 - an address in a packet
        ("2001:db8::1", "[2001:db8::1]:6650"),
        ("::", "[::]:6650"),
        ("::ffff:1.2.3.4", "[::ffff:1.2.3.4]:6650"),
    ],
)
def test_an_endpoint_is_an_address_and_a_port(source: str, endpoint: str) -> None:
    other = "192.0.2.9" if "." in source and ":" not in source else "2001:db8::9"
    result = source_endpoint(key(source, other, 6650, 1))
    # The text of a mapped address depends on the version of Python.
    assert result in {endpoint, endpoint.replace("::ffff:1.2.3.4", "::ffff:102:304")}


@given(st.data(), PORTS, PORTS)
def test_the_reverse_key_is_the_other_direction_s(data: st.DataObject, first_port: int, second_port: int) -> None:
    version = data.draw(st.sampled_from([4, 6]))
    addresses = st.ip_addresses(v=4) if version == 4 else st.ip_addresses(v=6)
    source, destination = (str(data.draw(addresses)) for _ in range(2))
    forward = key(source, destination, first_port, second_port)
    assert len(forward) == (IPV4_KEY_BYTES if version == 4 else IPV6_KEY_BYTES)
    assert reverse_key(forward) == key(destination, source, second_port, first_port)
    assert reverse_key(reverse_key(forward)) == forward
    assert (source_port(forward), source_port(reverse_key(forward))) == (first_port, second_port)
    assert (source_of_key(forward), without_source(forward)) == (None, forward)


NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=60)


@given(st.sampled_from([IPV4_KEY_BYTES, IPV6_KEY_BYTES]).flatmap(lambda size: st.binary(min_size=size, max_size=size)), NAMES, NAMES)
def test_a_name_behind_a_key_changes_nothing_but_that_it_is_another_key(bare: bytes, name: str, another: str) -> None:
    named = with_source(bare, name)
    assert named != bare
    assert (named == with_source(bare, another)) is (name == another)
    assert (source_of_key(named), without_source(named)) == (name, bare)
    assert reverse_key(named) == with_source(reverse_key(bare), name)
    assert (source_port(named), source_endpoint(named)) == (source_port(bare), source_endpoint(bare))


@pytest.mark.parametrize("source", [None, "east"])
@given(ends=st.tuples(V4, V4) | st.tuples(V6, V6), ports=st.tuples(PORTS, PORTS))
def test_both_endpoints_of_a_key_are_those_of_its_directions(ends: tuple[Any, Any], ports: tuple[int, int], source: str | None) -> None:
    of = key(str(ends[0]), str(ends[1]), *ports)
    of = of if source is None else with_source(of, source)
    assert endpoints_of(of) == (source_endpoint(of), source_endpoint(reverse_key(of)))
