"""Addresses that brokers advertise to clients, and the endpoints to which they may lead."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any

from pulsarscope.protocols.pulsar.text.formatting import host

_FIELDS = ("brokerServiceUrl", "brokerServiceUrlTls", "assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls")

_LITERAL_CHARACTERS_MAX = 64
"""Maximum length of an IP address with its scope; a longer text is a name."""


def advertised_addresses(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the addresses ("host:port") in a command of a broker."""
    return tuple(address for name in _FIELDS if (url := fields.get(name)) and (address := _address(url)))


def may_be(address: str, server: str) -> bool:
    """Return True when an advertised address may lead to this endpoint: a host name may stand for any host."""
    if address.rpartition(":")[2] != server.rpartition(":")[2]:
        return False
    name, literal = host(address), literal_of(host(address))
    if literal is None:
        return name != "localhost" or is_loopback(host(server))
    return bool(literal == literal_of(host(server)))


def is_loopback(name: str) -> bool:
    """Return True for a name or address by which a host names itself."""
    literal = literal_of(name)
    return name == "localhost" if literal is None else literal.is_loopback


def literal_of(name: str) -> Any:
    """Return a host as an IP address, None when it is a name."""
    return _parsed(name.strip("[]")) if len(name) <= _LITERAL_CHARACTERS_MAX else None


@lru_cache(1024)
def _parsed(name: str) -> Any:
    try:
        address = ip_address(name)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _address(url: Any) -> str | None:
    """Return host:port of a service URL, None when it has no port."""
    address = str(url or "").partition("://")[2].partition("/")[0]
    return address if address.rpartition(":")[2].isdigit() and host(address) else None
