"""The known issues of Pulsar's brokers and clients, and the versions that both announce.

The table is known_issues.tsv beside this file. Only released versions count: SNAPSHOT, milestones and vendors' builds (4.0.0.3,
2.10.0.7-ls) may have other fixes.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from functools import cache, lru_cache

from pulsarscope.dissect.contract.known_issues import KnownIssue, KnownIssues, Version, read_table, version
from pulsarscope.model.records import ConnectionRow

PRODUCTS = {
    "broker": "broker",
    "cpp": "C++, Python and Node clients",
    "go": "Go client",
    "java": "Java client",
    "rust": "Rust client",
}

_CLIENT = re.compile(r"(?:Pulsar-(CPP|Go|Java)-v|pulsar-(rs)-v)?(\d{1,4}\.\d{1,4}\.\d{1,4})", re.ASCII)
_SERVER = re.compile(r"Pulsar Server(\d{1,4}\.\d{1,4}\.\d{1,4})", re.ASCII)
_NAMES = {"CPP": "cpp", "Go": "go", "Java": "java", "rs": "rust"}


@lru_cache(maxsize=256)
def versions_of(client: str, server: str) -> Mapping[str, Version]:
    """Return the versions in CONNECT.client_version and CONNECTED.server_version, by product."""
    found: dict[str, Version] = {}
    if match := _CLIENT.fullmatch(client):
        number = version(match[3])
        # Clients without a name are Java until 2.10, and C++ until 3.2, when C++ got its name; Java had one long before.
        found[_NAMES.get(match[1] or match[2]) or ("cpp" if number >= (3, 0, 0) else "java")] = number
    if match := _SERVER.fullmatch(server):
        found["broker"] = version(match[1])
    return found


def _versions(row: ConnectionRow) -> Mapping[str, Version]:
    return versions_of(row.client_version or "", row.server_version or "")


@cache
def _issues() -> tuple[KnownIssue, ...]:
    data = pkgutil.get_data(__name__, "known_issues.tsv") or b""
    return read_table(data.decode().splitlines())


def known_issues() -> KnownIssues:
    """Return the known issues; the table is read once."""
    return KnownIssues(_issues(), _versions, PRODUCTS)
