"""The coverage of a diagnosis: the parts of a capture that were judged, and those that could not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.generic_codes import FAILED_CODES
from pulsarscope.model.findings import GAP_CODES, LOSS_CODES, ONE_SIDED, UNDECIDED_CODES, UNREAD_CODES
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow
from pulsarscope.model.thresholds import VERDICT_THRESHOLDS, Thresholds

STILL_OPEN, NEVER_OPENED = "still-open", "never-opened"

_OPENED = ("encrypted", "silent-side")
"""Codes of connections that did open."""


class Unjudged(NamedTuple):
    """A part of the capture that the verdict does not cover."""

    code: str
    counts: dict[str, Any]
    """Numbers, and names of servers."""


class Refusals(NamedTuple):
    """Connections of one client to one server that failed at their start."""

    client: str
    """Host of the client."""
    server: str
    """Endpoint of the server."""
    times: int
    latest: int
    """Start of the latest one, nanoseconds since the epoch."""


class Coverage:
    """A fold over the connection and finding rows of a run."""

    def __init__(self, ports: Collection[int] = (), thresholds: Thresholds | None = None) -> None:
        """Take the ports of known protocols, and the thresholds of the verdict."""
        self._broker_ports = set(ports)
        self._thresholds = thresholds or Thresholds(VERDICT_THRESHOLDS)
        self.judged = 0
        """Connections of a known protocol with frames in both directions."""
        self.stopped: int | None = None
        """Number of packets after which reading was interrupted."""
        self._start = self._end = 0
        """Times of the first and last packet of the judged connections."""
        self._counts = Counter[str]()
        self._missing_bytes = 0
        self._named: dict[str, dict[str, str]] = {}
        """Servers of the first connections behind some counts, by code and connection name."""
        self._refusals: dict[tuple[str, str], Refusals] = {}
        self._opened: dict[tuple[str, int], int] = {}
        """Start of the latest connection that was opened, by client host and server port."""

    def add_finding(self, row: FindingRow) -> None:
        """Count a finding that something is missing or was not read."""
        if row.code in LOSS_CODES | UNREAD_CODES | UNDECIDED_CODES | FAILED_CODES | {ONE_SIDED}:
            self._counts[row.code] += 1

    def add(self, row: ConnectionRow) -> None:
        """Count a connection."""
        host, port = row.client.rpartition(":")[0], int(row.server.rpartition(":")[2])
        if failure := self._failure_at_start(row):
            self._count(failure, row)
            is_last_syn = row.packets == 1 and failure == "unanswered"  # the answer may have come after the capture
            if not is_last_syn and ((host, row.server) in self._refusals or len(self._refusals) < DIAGNOSIS_NAMES_MAX):
                before = self._refusals.get((host, row.server), Refusals(host, row.server, 0, row.start))
                self._refusals[host, row.server] = before._replace(times=before.times + 1, latest=max(before.latest, row.start))
            return
        if row.server_bytes and ((host, port) in self._opened or len(self._opened) < DIAGNOSIS_NAMES_MAX):
            self._opened[host, port] = max(row.start, self._opened.get((host, port), 0))
        if row.dissector is None:
            if row.tls is not None and " content=" not in row.tls:
                self._count("encrypted", row)
            else:
                self._counts["unknown-protocol"] += bool(row.client_bytes or row.server_bytes)
            return
        if len(self._broker_ports) < DIAGNOSIS_NAMES_MAX:
            self._broker_ports.add(port)
        has_both = bool(row.client_bytes and row.server_bytes)
        self._counts[STILL_OPEN] += row.closed == "open" and has_both  # the end of a connection shows in both directions
        self._counts["midstream"] += row.opened == "midstream"
        missing = (row.client_missing or 0) + (row.server_missing or 0)
        self._missing_bytes += missing
        self._counts["missing-bytes"] += bool(missing)
        if bool(row.client_bytes) != bool(row.server_bytes):  # probes of load balancers have no bytes at all
            self._count("silent-side", row)
        if row.client_frames and row.server_frames:
            self._start = min(row.start, self._start) if self.judged else row.start
            self._end = max(row.end, self._end)
            self.judged += 1

    def _count(self, code: str, row: ConnectionRow) -> None:
        self._counts[code] += 1
        names = self._named.setdefault(code, {})
        if row.connection is not None and len(names) < DIAGNOSIS_NAMES_MAX:
            names[row.connection] = row.server

    @property
    def refused(self) -> list[Refusals]:
        """Return the refusals by brokers: of clients that later reached no address with this port, where another protocol may listen."""
        return [
            refusals
            for refusals in self._refusals.values()
            if (port := int(refusals.server.rpartition(":")[2])) in self._broker_ports
            and self._opened.get((refusals.client, port), -1) <= refusals.latest
        ]

    @property
    def healthy(self) -> bool:
        """Return True when there was something to judge, and nothing in the capture was left unjudged."""
        return bool(self.judged) and all(part.code == STILL_OPEN for part in self.not_judged())

    def not_judged(self, explained: Mapping[str, Collection[str]] = MappingProxyType({})) -> list[Unjudged]:
        """Return the parts that could not be judged, those that hide most first.

        `explained`: names of connections for which something else gives the reason, by code: encrypted, silent-side, never-opened.
        """
        duration, counts = self._end - self._start, self._counts.copy()
        unopened: dict[str, None] = {}
        for code, names in self._named.items():
            why = explained.get(code if code in _OPENED else NEVER_OPENED, ())
            counts[code] -= sum(name in why for name in names)
            if code not in _OPENED:
                unopened.update(dict.fromkeys(server for name, server in names.items() if name not in why))
        parts = [] if self.stopped is None else [Unjudged("interrupted", {"packets": self.stopped})]
        if self.judged and duration < self._thresholds.ns("too-short-seconds"):
            parts.append(Unjudged("too-short", {"duration_ns": duration, "least_ns": self._thresholds.ns("too-short-seconds")}))
        counts["one-sided"] = counts[ONE_SIDED]
        for code in ("encrypted", "one-sided", "silent-side", "midstream"):
            parts += [Unjudged(code, {"connections": counts[code]})] * bool(counts[code])
        if failed := sum(counts[code] for code in FAILED_CODES):
            parts.append(Unjudged("failed", {"findings": failed}))
        if undecided := sum(counts[code] for code in UNDECIDED_CODES):
            parts.append(Unjudged("undecided", {"findings": undecided}))
        if self._missing_bytes:
            parts.append(Unjudged("missing-bytes", {"bytes": self._missing_bytes, "connections": counts["missing-bytes"]}))
        if lost := {code: counts[code] for code in sorted(LOSS_CODES - {*GAP_CODES, "midstream-start"}) if counts[code]}:
            parts.append(Unjudged("incomplete", lost))
        if payloads := counts["encrypted-payload"]:
            parts.append(Unjudged("encrypted-payloads", {"findings": payloads}))
        never_opened = {how: counts[how] for how in ("refused", "reset", "unanswered")}
        if any(never_opened.values()):
            parts.append(Unjudged(NEVER_OPENED, {**never_opened, "servers": [*unopened]}))
        for code in ("unknown-protocol", STILL_OPEN):
            parts += [Unjudged(code, {"connections": counts[code]})] * bool(counts[code])
        return parts

    def _failure_at_start(self, row: ConnectionRow) -> str:
        """Return how a connection failed before the server sent anything: refused (or closed at once), reset, or unanswered; else ""."""
        if row.opened != "syn" or row.server_bytes:
            return ""
        if row.closed_by == SERVER:
            if row.client_bytes:
                return "reset" if row.closed == "rst" else ""
            return "refused"
        silent = row.closed == "open" and not row.client_bytes
        waits = row.packets == 1 or row.end - row.start >= self._thresholds.ns("never-opened-seconds")
        return "unanswered" if silent and waits else ""
