"""Descriptions that clients and brokers give of themselves, kept only once for all connections with the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from pulsarscope.model.records import ConnectionRow

_TEXT_MAX_CHARACTERS = 64

Description = TypeVar("Description", bound=tuple[Any, ...])
"""Versions, method names, and numbers."""


def shared(description: Description) -> Description:
    """Return the shared tuple for all connections with this description, if it is short."""
    return description if any(len(str(part)) > _TEXT_MAX_CHARACTERS for part in description) else _first(description)


def of_client(connect: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return version, protocol version and authentication method, from the fields of a CONNECT."""
    get = connect.get
    return shared((get("client_version"), get("protocol_version"), get("auth_method_name") or get("auth_method")))


def of_server(connected: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return version and protocol version, from the fields of a CONNECTED."""
    return shared((connected.get("server_version"), connected.get("protocol_version")))


def describe(row: ConnectionRow, client: tuple[Any, Any, Any] | None, server: tuple[Any, Any] | None) -> None:
    """Fill in versions and authentication."""
    if client is not None:
        row.client_version, row.protocol_version, row.auth_method = client
    if server is not None:
        row.server_version, protocol_version = server
        row.protocol_version = row.protocol_version if protocol_version is None else protocol_version


def described(connect: Mapping[str, Any], connected: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that `describe` fills in for a connection that begins with these two commands."""
    row = ConnectionRow()
    describe(row, of_client(connect), of_server(connected))
    return {name: getattr(row, name) for name in ("client_version", "server_version", "protocol_version", "auth_method")}


@lru_cache(256)
def _first(description: Description) -> Description:
    return description
