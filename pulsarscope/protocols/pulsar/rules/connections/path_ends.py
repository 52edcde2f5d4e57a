"""Failing paths through a proxy: the leg that ended first, and brokers that a proxy cannot reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import OUTER, ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.model.units import SECOND
from pulsarscope.protocols.pulsar.rules.connections.churn import RECONNECTS
from pulsarscope.protocols.pulsar.rules.connections.left_open import PROXIED
from pulsarscope.protocols.pulsar.rules.connections.reach import WANTED
from pulsarscope.protocols.pulsar.rules.exchanges.departures import REACH
from pulsarscope.protocols.pulsar.text.formatting import host

CODES = table(
    SESSION.warning(
        "proxy-leg-failed",
        "A path through a proxy ended on one of its legs: at the broker, or at the proxy.",
        "The client sees its connection to the proxy fail, whoever caused it. Where the broker closed first, see its log; where the proxy "
        "did, or cannot reach the broker, see the proxy's, and the network between the two.",
        to_act="the operators of broker and proxy",
    ),
)

THRESHOLDS = (
    in_seconds(
        "proxy-leg-failed-seconds",
        1,
        "Time without an end of the other leg; a proxy ends it at once, and the capture may end in between.",
        "proxy-leg-failed",
    ),
)

PATHS = "paths"
"""Key rule, by window."""

ENDED, EARLIER = "ended", "earlier"
"""Facts of connections that ended within a window, or the previous one. Values: client, server, closed, by, and at (a time)."""

WINDOW_NS = 10 * SECOND


class PathRule(ConnectionRule):
    """The source of the facts on the ends of connections, on proxies, and on the brokers to which clients ask a proxy to connect."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._wanted: tuple[Where, str] | None = None
        """Place of the unanswered CONNECT, and the broker named in it."""
        self._answer = ""
        self._by_proxy = False
        """True if a proxy opened the connection, for a client of its own."""

    def _connect(self, row: FrameRow) -> None:
        fields = row.fields or {}
        # Older proxies send a name of their own as the client's version.
        self._by_proxy = "proxy_version" in fields or "proxy" in str(fields.get("client_version")).lower()
        target = fields.get("proxy_to_broker_url")
        if target and self._wanted is None:
            self._wanted = where_of(row), str(target)

    def _connected(self, _row: FrameRow) -> None:
        self._wanted = None

    def _error(self, row: FrameRow) -> None:
        self._answer = str((row.fields or {}).get("error", ""))

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the remaining facts."""
        context = self._context
        if self._wanted is not None:
            where, target = self._wanted
            values = {"target": target, "client": context.client, "proxy": context.server, "answer": self._answer, "closed": row.closed}
            context.emit_fact(REACH, host(context.server), where, WANTED, values)
        if self._by_proxy:
            context.emit_fact(RECONNECTS, f"{host(context.client)}\n{context.server}", last, PROXIED, {})
        closed, at = context.closing or (row.closed, row.end)
        ends = {"client": context.client, "server": context.server, "closed": closed, "by": row.closed_by, "at": at}
        for window, what in ((at // WINDOW_NS, ENDED), (at // WINDOW_NS + 1, EARLIER)):
            context.emit_fact(PATHS, str(window), last, what, ends)

    frames: ClassVar[Handlers] = {"CONNECT": _connect, "CONNECTED": _connected, "ERROR": _error}


def _evaluate(_key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report paths that did not end at their client. Two legs that both ended in the previous window were evaluated with it."""
    by_connection = {fact.where.connection: fact for fact in facts}
    for inner in facts:
        if OUTER not in inner.values:
            continue
        outer = by_connection.get(inner.values[OUTER])
        if outer is None and inner.what == EARLIER:
            _judge(inner, None, report, thresholds.ns("proxy-leg-failed-seconds"))
        elif outer is not None and ENDED in (inner.what, outer.what):
            _judge(inner, outer, report, thresholds.ns("proxy-leg-failed-seconds"))


def _judge(inner: Fact, outer: Fact | None, report: ReportFinding, least_ns: int) -> None:
    """Report the two legs of a path; `outer` is None when the outer leg did not end for a while."""
    at, by = inner.values["at"], inner.values["by"]
    proxy, broker = host(inner.values["client"]), inner.values["server"]
    if by is None:
        return
    if outer is not None:
        lasted = outer.values["at"] - at
        if outer.values["by"] != SERVER and lasted < least_ns:
            return  # the client had finished, or the capture ends
        first_by = by if lasted >= 0 else CLIENT  # for the broker, the proxy is the client
    else:
        lasted, first_by = None, by
    kind = {"rst": "reset"}.get(inner.values["closed"], "closed")
    if first_by == SERVER:
        leg, text = "broker", f"Broker {broker} {kind} its connection {inner.where.connection} with the proxy at {proxy}"
    else:
        leg, text = "proxy", f"The proxy at {proxy} ended the path to broker {broker}, connection {inner.where.connection}"
    if outer is None or outer.values["by"] is None:
        text += f"; that of the client, {inner.values[OUTER]}, stays open"
    else:
        text += f"; that of client {outer.values['client']}, {outer.where.connection}, ended {duration(abs(lasted or 0))} "
        text += "later" if (lasted or 0) >= 0 else "before"
    evidence: dict[str, Any] = {
        "connections": [inner.values[OUTER], inner.where.connection],
        "leg": leg,
        "broker": broker,
        "client": None if outer is None else outer.values["client"],
        "closed": inner.values["closed"],
        "lasted_ns": lasted,
    }
    report("proxy-leg-failed", inner.where, f"{text}.", evidence)


KEYS = (KeyRule(PATHS, 600 * SECOND, _evaluate, all_legs=True),)
