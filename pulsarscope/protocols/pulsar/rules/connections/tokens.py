"""Tokens that expired before the client connected, expire during its connection, or will expire soon."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

from pulsarscope.dissect.contract.exchange import is_near
from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, name_of, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.frame.tokens import shown_expiry
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, may_lack
from pulsarscope.protocols.pulsar.text.formatting import date, error_text, host
from pulsarscope.protocols.pulsar.waiting import NOWHERE

CODES = table(
    SESSION.error(
        "token-expired",
        "A client used a token that has expired.",
        "Give the client a new token, or a token supplier that renews it in time; compare the clocks of both.",
        ("auth-failed",),
        to_act="the application",
    ),
    SESSION.warning(
        "auth-refresh-unsupported",
        "A client does not renew its token when the broker asks, and loses its connection.",
        "Use a client that supports AUTH_CHALLENGE, with a token supplier; or tokens that live longer than its connections.",
        ("regular-cut",),
        to_act="the application",
    ),
    SESSION.note(
        "token-expires-soon",
        "A client's token expires soon and was not renewed in the capture.",
        "Check whether the client has a token supplier: with one it renews the token when the broker asks. Otherwise the broker "
        "closes its connections at that time.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "token-expires-soon-seconds",
        300,
        "Time before a token expires; brokers look for expired tokens every minute by default.",
        "token-expires-soon",
    ),
    in_seconds(
        "auth-challenge-seconds",
        3,
        "Time that a client may take to answer a challenge; its token supplier may have to ask another service.",
        "auth-refresh-unsupported",
    ),
)

TOKENS = "tokens-of-client"

FORGET_NS = 600_000_000_000
"""Time without facts after which a client is evaluated: ten of its longest waits between two attempts."""

_SECOND = 1_000_000_000


class TokenRule(ConnectionRule):
    """Source of the facts on the tokens of one connection."""

    __slots__ = ("_answered_at", "_challenge", "_connected", "_context", "_due", "_early", "_error", "_refreshable", "_refreshes", "_token")

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._token: tuple[Where, int] | None = None
        """Frame of the latest token, and when it expires."""
        self._connected = False
        self._refreshable: bool | None = None
        """True when the client announces that it can renew its token; None without its CONNECT."""
        self._refreshes = 0
        self._challenge: Where | None = None
        """Latest challenge without an answer."""
        self._due = False
        """True when the missing answer is a fault, because the connection was open."""
        self._answered_at = NOWHERE
        """File and packet of the latest answer."""
        self._early: Where | None = None
        """The latest answer, if it came without a challenge."""
        self._error: tuple[str, str] | None = None
        """Error in the answer to a token, and its frame."""

    def _take(self, row: FrameRow, data: Any) -> bool:
        expires = shown_expiry(data)
        before, self._token = self._token, None if expires is None else (where_of(row), expires * _SECOND)
        self._error = None
        return before is None or expires is None or expires * _SECOND > before[1]

    def _connect(self, row: FrameRow) -> None:
        fields = row.fields or {}
        self._refreshable = bool((fields.get("feature_flags") or {}).get("supports_auth_refresh"))
        self._take(row, fields.get("auth_data"))

    def _connected_frame(self, _row: FrameRow) -> None:
        self._connected = True

    def _challenged(self, row: FrameRow) -> None:
        early, self._early = self._early, None
        if early is not None and is_near(row, early, recurs=True):  # captured out of order
            return
        if (row.file, row.packet) >= self._answered_at:  # next to a hole, the answer may be read first
            self._challenge = where_of(row)
            self._due = self._connected or row.direction != SERVER or self._refreshable is None

    def _response(self, row: FrameRow) -> None:
        self._early = where_of(row) if self._challenge is None else None
        self._challenge, self._answered_at = None, (row.file, row.packet)
        self._refreshes += self._take(row, ((row.fields or {}).get("response") or {}).get("auth_data"))

    def _refused(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if row.direction == SERVER and "Auth" in str(fields.get("error")):
            self._error = error_text(fields.get("error"), fields.get("message")), name_of(row)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the outcome of the tokens."""
        challenge = self._challenge if self._due else None
        if challenge is not None and (not row.client_bytes or may_lack(self._context, challenge.time, row.end)):
            challenge = None  # the capture may lack the answer
        if self._token is None and challenge is None:
            return
        where, expires = self._token or (challenge or last, None)
        if self._refreshable is not False and self._error is None and may_lack(self._context, where.time, row.end):
            expires = None  # it may lack a newer token
            if challenge is None:
                return
        values = {
            "server": row.server,
            "expires": expires,
            "connected": self._connected,
            "refreshable": self._refreshable,
            "refreshes": self._refreshes,
            "challenge": None if challenge is None else [challenge.name, challenge.time],
            "error": self._error and list(self._error),
            "closed_by": row.closed_by,
            "closed": row.closed,
            "end": row.end,
        }
        self._context.emit_fact(TOKENS, host(self._context.client), where, "token", values)

    frames: ClassVar[Handlers] = {
        "CONNECT": _connect,
        "CONNECTED": _connected_frame,
        "AUTH_CHALLENGE": _challenged,
        "AUTH_RESPONSE": _response,
        "ERROR": _refused,
    }


def _verdict(fact: Fact, thresholds: Thresholds) -> tuple[str, str] | None:
    """Return the code, and what the broker did about an expired token; None when the token is valid."""
    values = fact.values
    expires, ended = values["expires"], values["end"]
    by_broker = values["closed_by"] == SERVER
    at_first = expires is not None and expires <= fact.where.time
    if at_first and (values["error"] or (by_broker and not values["connected"])):
        return "token-expired", f"refused it with {values['error'][0]}" if values["error"] else "closed the connection"
    if values["challenge"] is not None:
        waited = ended - values["challenge"][1]
        if by_broker or waited >= thresholds.ns("auth-challenge-seconds"):
            closed = " and closed the connection" if by_broker else ""
            return "auth-refresh-unsupported", f"asked for a new one, waited {duration(waited)} in vain{closed}"
    if expires is not None and expires <= ended and (by_broker or values["error"]):
        done = f"refused it with {values['error'][0]}" if values["error"] else f"closed the connection {duration(ended - expires)} later"
        return ("token-expired" if values["refreshable"] or values["error"] else "auth-refresh-unsupported"), done
    return None


def _evaluate_tokens(client: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the tokens of one client that have expired, or expire soon."""
    groups: dict[tuple[str, str, int | None], list[tuple[Fact, str]]] = {}
    soon: list[Fact] = []
    for fact in facts:
        values = fact.values
        if verdict := _verdict(fact, thresholds):
            groups.setdefault((verdict[0], values["server"], values["expires"]), []).append((fact, verdict[1]))
        elif values["expires"] and values["connected"] and values["expires"] - values["end"] < thresholds.ns("token-expires-soon-seconds"):
            soon.append(fact)
    for (code, server, expires), times in groups.items():
        _report_expired(client, code, server, expires, times, report)
    if soon and not groups and not _is_supplied(facts):
        _report_soon(client, soon, report)


def _is_supplied(facts: Sequence[Fact]) -> bool:
    """Return True when a client renewed its token, or sent a newer one on a later connection."""
    expiries = [fact.values["expires"] for fact in facts if fact.values["expires"]]
    newer = any(earlier < later for earlier, later in pairwise(expiries))
    return newer or any(fact.values["refreshes"] for fact in facts)


def _report_expired(
    client: str, code: str, server: str, expires: int | None, times: Sequence[tuple[Fact, str]], report: ReportFinding
) -> None:
    first, done = times[0]
    when = "" if expires is None else f" that expired at {date(expires // 1_000_000)}"
    refresh = "; the client does not say that it can renew it" if first.values["refreshable"] is False else ""
    again = f", on {plural(len(times), 'connection')}" if len(times) > 1 else ""
    text = f"Client {client} used a token{when} ({first.where.name}): the broker {server} {done}{again}{refresh}."
    values = [fact.values for fact, _ in times]
    answers = [(value["error"] or [None, None])[1] or (value["challenge"] or [None])[0] for value in values]
    evidence = {
        "frames": frame_names(name for (fact, _), answer in zip(times, answers, strict=True) for name in (fact.where.name, answer)),
        "connections": [fact.where.connection for fact, _ in times[:DIAGNOSIS_NAMES_MAX]],
        "server": server,
        "expires": expires,
        "count": len(times),
        "supports_auth_refresh": first.values["refreshable"],
    }
    report(code, first.where, text, evidence)


def _report_soon(client: str, soon: Sequence[Fact], report: ReportFinding) -> None:
    first = min(soon, key=lambda fact: fact.values["expires"])
    left = first.values["expires"] - first.values["end"]
    state = f"expires {duration(left)} after" if left >= 0 else f"expired {duration(-left)} before"
    able = "though it can" if first.values["refreshable"] else "and does not say that it can"
    text = (
        f"The token of client {client} ({first.where.name}) {state} the last packet of its connection to {first.values['server']}; "
        f"the client did not renew it so far, {able}."
    )
    evidence = {
        "frames": frame_names(fact.where.name for fact in soon),
        "expires": first.values["expires"],
        "left_ns": left,
        "supports_auth_refresh": first.values["refreshable"],
    }
    report("token-expires-soon", first.where, text, evidence)


KEYS = (KeyRule(TOKENS, FORGET_NS, _evaluate_tokens),)
