"""Requests that were refused, not answered, or answered late, for every command without its own rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from math import inf
from typing import Any, ClassVar

from pulsarscope.dissect.contract.exchange_thresholds import SLOW_EXCHANGE, UNANSWERED, UNANSWERED_OPEN
from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import HOLE_NANOSECONDS_MAX
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration, either
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import gap_note, may_lack, response_name, unanswered
from pulsarscope.protocols.pulsar.rules.exchanges import departures, holders, lookups, schemas
from pulsarscope.protocols.pulsar.rules.exchanges.refusals import refusal_text
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import AUTHORIZATION_ERRORS, OTHER_REQUESTS, is_transaction_error
from pulsarscope.protocols.pulsar.session.exchanges import ENTRY, MEMORY, requests_with
from pulsarscope.protocols.pulsar.text.formatting import host
from pulsarscope.protocols.pulsar.topics import bounded_name, named_topic

FROM_MEMORY, STORED = requests_with(MEMORY), requests_with(ENTRY)

CODES = table(
    SESSION.error(
        "request-failed",
        "The broker refused a request.",
        "The request's frame shows what was asked for, and the broker's log at that time says more.",
        to_act="the application, or the broker's operators",
    ).by_cause(
        ("PersistenceError", "the broker's operators"),
        ("UnknownError", "the broker's operators"),
        ("ConsumerAssignError", "the application"),
        ("InvalidTopicName", "the application"),
    ),
    SESSION.error(
        "auth-failed",
        "The broker refused a client's identity or its permissions.",
        "Check the token or certificate and its expiry, and the permissions of its role on the namespace.",
        to_act="the application, or the broker's operators",
    ),
    SESSION.warning(
        "request-unanswered",
        "A request got no answer while the connection went on.",
        "Look at the broker's log at that time; a client gives up after its operation timeout.",
        ("silent-side",),
        to_act="the broker's operators",
    ),
    SESSION.note(
        "response-unrequested", "A response to a request that is not in the capture.", "The capture began after the request, or lost it."
    ),
    SESSION.warning(
        "slow-exchange",
        "A request was answered late.",
        "Compare with the latencies of such requests in the statistics, and with the broker's metrics at that time. If `stats` counts many "
        "retransmissions, look at the network first.",
        to_act="the broker's operators",
    ),
)

THRESHOLDS = (
    SLOW_EXCHANGE,
    in_seconds(
        "slow-exchange-connect-seconds",
        1.5,
        "Time without an answer to CONNECT, which a broker gives by itself within milliseconds.",
        "slow-exchange",
    ),
    in_seconds(
        "slow-exchange-open-seconds",
        0.25,
        "Time allowed in addition for each PRODUCER and SUBSCRIBE that waits on the connection; the broker loads a topic for each.",
        "slow-exchange",
        "request-unanswered",
    ),
    in_seconds(
        "slow-exchange-lookup-seconds",
        2.5,
        f"Time without an answer to {either(FROM_MEMORY)}, which a broker answers from memory.",
        "slow-exchange",
        "request-unanswered",
    ),
    in_seconds(
        "slow-exchange-stored-seconds",
        2.5,
        f"Time without an answer to {either(('ACK', *STORED))}, for which a broker writes an entry.",
        "slow-exchange",
    ),
    in_seconds(
        "slow-exchange-back-seconds",
        60,
        "Time after an outage in which late answers belong to it: a broker that has just started loads its topics for all clients at once.",
        "slow-exchange",
    ),
    in_seconds(
        "response-unrequested-attached-seconds",
        30,
        "Time after the start of a midstream capture; clients wait no longer for answers to earlier requests.",
        "response-unrequested",
    ),
    in_seconds(
        "request-failed-noticed-seconds",
        10,
        "Time in which a client learns from a refused SEND that its topic moves; later refusals of its producer are no sign of a move.",
        "request-failed",
    ),
    UNANSWERED,
    UNANSWERED_OPEN,
)

_OF_ANY_REQUEST = lookups.ERRORS | schemas.ERRORS

TOO_LARGE = "maximum message size"
"""Part of a broker's message that refuses a SEND above the size limit in the policies of its topic."""

_TO_ANY = frozenset({"ERROR", "SUCCESS"})

_OPENING = frozenset({"PRODUCER", "SUBSCRIBE"})

_FIRST = frozenset({"CONNECT", "LOOKUP", "PARTITIONED_METADATA", "PRODUCER", "SUBSCRIBE"})
"""Requests with which a client comes back to a broker."""

LATE = "late"
"""Fact of the key rule about the brokers of a client: one of these requests was answered late."""

REQUESTS_MAX = 1_000
"""Unanswered requests kept until the end of the connection."""

_NONE: deque[tuple[ExchangeRow, int, str]] = deque(maxlen=0)
"""No slow exchanges: a shared object for very many connections."""


class RequestRule(ConnectionRule):
    """A rule about the requests of one connection."""

    __slots__ = (
        "_answered_at",
        "_burst",
        "_connected_at",
        "_context",
        "_credentials",
        "_doubtful",
        "_moved",
        "_opening",
        "_probes",
        "_queued",
        "_renewal",
        "_slow_until",
        "_unanswered",
        "_unrequested",
    )

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._answered_at = 0
        """Time of the first answer."""
        self._connected_at: int | None = None
        """Time of CONNECT."""
        self._credentials = ""
        """What CONNECT says about credentials, as part of a sentence."""
        self._opening = self._burst = 0
        """Number of waiting PRODUCERs and SUBSCRIBEs, and their number since none waited."""
        self._slow_until = 0
        """Time of the answer to the latest ACK that was reported as slow."""
        self._doubtful: deque[tuple[ExchangeRow, int, str]] = _NONE
        """Slow exchanges, each with its latency and limit. If a request is missing in the capture they are not slow, but holes are known
        only later."""
        self._unanswered: list[tuple[Where, str, str]] | None = None
        """Place, command and title of unanswered requests."""
        self._unrequested: dict[str, tuple[int, Where, int]] = NOTHING
        """Unrequested responses: count, first place and latest time, by command. A capture of one direction has only such responses."""
        self._queued: dict[str, None] = NOTHING
        """Frame names of PRODUCERs that request to wait for their turn; their answers may come late."""
        self._probes: dict[str, None] = NOTHING
        """Frame names of PARTITIONED_METADATA requests that only check whether a topic exists."""
        self._renewal: str | None = None
        """Frame name of the latest AUTH_RESPONSE, until it is refused."""
        self._moved: dict[str, tuple[str, Where, str, dict[str, Any]]] = NOTHING
        """By id of producers from before the capture, the finding about the first SEND that a broker refused because it gives up the topic,
        until it closes the producer, or the client opens it again, or looks up its topics."""

    def _connect(self, row: FrameRow) -> None:
        fields = row.fields or {}
        method = bounded_name(fields.get("auth_method_name")) or str(fields.get("auth_method", "")).removeprefix("AuthMethod").lower()
        is_none = method in ("", "none") and not fields.get("auth_data")
        self._credentials = "without credentials" if is_none else f"with credentials of method {method or '?'}"

    def _open(self, row: FrameRow) -> None:  # noqa: ARG002 - the contract's
        self._burst = self._burst + 1 if self._opening else 1
        self._opening += 1

    def _producer(self, row: FrameRow) -> None:
        self._open(row)
        if self._moved:
            self._moved.pop(str((row.fields or {}).get("producer_id", -1)), None)
        if (row.fields or {}).get("producer_access_mode") == "WaitForExclusive" and len(self._queued) < REQUESTS_MAX:
            self._queued = self._queued or {}
            self._queued[name_of(row)] = None

    def _close(self, row: FrameRow) -> None:
        if self._moved and row.direction == SERVER:
            self._moved.pop(str((row.fields or {}).get("producer_id", -1)), None)  # the topic moves, as the broker had said

    def _lookup(self, row: FrameRow) -> None:  # noqa: ARG002 - the contract's
        self._moved = NOTHING  # its topics have names from now on

    def _metadata(self, row: FrameRow) -> None:
        if (row.fields or {}).get("metadata_auto_creation_enabled") is False:
            self._probes = self._probes or {}
            remember(self._probes, name_of(row), None, REQUESTS_MAX)

    def _ack(self, row: ExchangeRow) -> None:
        """Report the first of several slow ACKs that waited together; `acks.py` reports everything else about ACKs."""
        limit = "slow-exchange-stored-seconds"
        if row.latency_ns is not None and row.latency_ns > self._context.thresholds.ns(limit) and row.time >= self._slow_until:
            self._slow_until = row.time + row.latency_ns
            self._report_slow(row, row.latency_ns, limit)

    def _ping(self, row: ExchangeRow) -> None:
        """Note an answer."""
        if not self._answered_at and row.latency_ns is not None:
            self._answered_at = where_of(row).time + row.latency_ns

    def _refusal(self, row: ExchangeRow) -> None:
        if row.status != "error" or _is_reported(row):
            return
        if schemas.has_none(row) or (row.error == "TopicNotFound" and name_of(row) in self._probes):
            return  # clients check in this way for retry and dead letter topics of earlier versions
        if departures.is_moving(row.error, row.error_message):
            if named_topic(row.topic) is not None:
                return  # a finding only if no client comes back, which only all connections together show
            if row.request == "SEND" and len(self._moved) < REQUESTS_MAX:
                self._moved = self._moved or {}
                _, first, *_ = self._moved.setdefault((row.key or "").partition(":")[0], self._refused(row))
                if row.time - first.time < self._context.thresholds.ns("request-failed-noticed-seconds"):
                    return
        self._context.report(*self._refused(row))

    def _refused(self, row: ExchangeRow) -> tuple[str, Where, str, dict[str, Any]]:
        """Return the finding about a refused request: code, place, text and evidence."""
        where = where_of(row)
        is_large = row.error == "NotAllowedError" and TOO_LARGE in (row.error_message or "").lower()
        code = "auth-failed" if row.error in AUTHORIZATION_ERRORS else "message-too-large" if is_large else "request-failed"
        evidence = {"frames": [where.name, response_name(row)], "request": row.request, "topic": row.topic, "error": row.error}
        if code == "request-failed":
            evidence |= self._context.thresholds.evidence()
        credentials = f" {self._credentials}" if self._credentials and (code, row.request) == ("auth-failed", "CONNECT") else ""
        return code, where, refusal_text(f"{self._title(row)}{credentials}", row.request, row.error, row.error_message), evidence

    def _refused_renewal(self, row: ExchangeRow, renewal: str) -> None:
        """Report an ERROR without a request id, by which a broker refuses the credentials of an AUTH_RESPONSE."""
        where = where_of(row)
        text = refusal_text(f"AUTH_RESPONSE of {host(self._context.client)}", "AUTH_RESPONSE", row.error, row.error_message)
        evidence = {"frames": [renewal, where.name], "request": "AUTH_RESPONSE", "topic": None, "error": row.error}
        self._context.report("auth-failed", where, text, evidence)
        self._renewal = None

    def _exchange(self, row: ExchangeRow) -> None:
        if self._doubtful:
            self._settle(row.time - HOLE_NANOSECONDS_MAX)
        if row.request == "CONNECT":
            self._connected_at = row.time
        self._refusal(row)
        self._ping(row)
        if row.request == "AUTH_CHALLENGE" and row.status == "ok":
            self._renewal = response_name(row)
        if row.status == "unrequested" and row.error in AUTHORIZATION_ERRORS and row.key == "-1" and self._renewal is not None:
            self._refused_renewal(row, self._renewal)
        elif row.status == "unrequested":
            where = where_of(row)
            count, first, _ = self._unrequested.get(row.response or "", (0, where, 0))
            self._unrequested = self._unrequested or {}
            self._unrequested[row.response or ""] = count + 1, first, where.time
        limit = _limit(row.request)
        limit_ns = self._context.thresholds.ns(limit)
        if row.request in _OPENING:
            limit_ns += self._for_others()
            self._opening = max(self._opening - 1, 0)
        is_slow = row.latency_ns is not None and row.latency_ns > limit_ns
        if not (is_slow or row.status == "unanswered") or (where := where_of(row)).name in self._queued:
            return
        if row.status == "unanswered":
            self._unanswered = self._unanswered or []
            if len(self._unanswered) < REQUESTS_MAX:
                self._unanswered.append((where, row.request or "", self._title(row)))
        if row.latency_ns is not None and is_slow:
            if not (row.response in _TO_ANY or row.request == "AUTH_CHALLENGE"):
                self._report_slow(row, row.latency_ns, limit)
                return
            if len(self._doubtful) >= REQUESTS_MAX:
                self._settle()
            self._doubtful = self._doubtful or deque()
            self._doubtful.append((copy(row), row.latency_ns, limit))  # outputs may change the row

    def _report_slow(self, row: ExchangeRow, latency_ns: int, limit: str) -> None:
        where = where_of(row)
        evidence = {"frames": [where.name, response_name(row)], "request": row.request, "latency_ns": latency_ns}
        evidence |= self._context.thresholds.evidence(limit)
        begun, back_ns = self._connected_at, self._context.thresholds.ns("slow-exchange-back-seconds")
        if row.request in _FIRST and begun is not None and where.time - begun < back_ns:
            values = {"server": self._context.server, "title": self._title(row), "evidence": evidence}
            self._context.emit_fact(departures.REACH, host(self._context.client), where, LATE, values)
        else:
            self._context.report("slow-exchange", where, late_text(self._title(row), latency_ns), evidence)

    def _title(self, row: ExchangeRow) -> str:
        """Return the request, its client and its topic as the beginning of a sentence."""
        who = f"{'to' if row.request == 'AUTH_CHALLENGE' else 'of'} {host(self._context.client)}"
        return f"{row.request or 'A request'} {who}{f' for {row.topic}' if row.topic else ''}"

    def _for_others(self) -> int:
        """Return how many nanoseconds longer a PRODUCER or SUBSCRIBE may take because others wait with it."""
        return max(self._burst - 1, 0) * self._context.thresholds.ns("slow-exchange-open-seconds")

    def _settle(self, until: float = inf) -> None:
        """Report slow exchanges that were answered up to a time, unless the capture may lack another request.

        Their responses fit any kind of request, which some clients number separately, or have no number.
        """
        doubtful = self._doubtful
        while doubtful and doubtful[0][0].time + doubtful[0][1] <= until:
            row, latency_ns, limit = doubtful.popleft()
            if not may_lack(self._context, row.time, row.time + latency_ns):
                self._report_slow(row, latency_ns, limit)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report unrequested responses, unanswered requests, and doubtful exchanges."""
        self._settle()
        for refused in self._moved.values():
            self._context.report(*refused)
        thresholds = self._context.thresholds
        for response, (count, first, latest) in self._unrequested.items():
            if row.opened == "midstream" and latest - row.start < thresholds.ns("response-unrequested-attached-seconds"):
                continue  # requested before the capture, which the finding midstream-start covers
            answers = f"{response} answers a request that is" if count == 1 else f"{count:,} {response} frames answer requests that are"
            evidence: dict[str, Any] = {"frames": [first.name], "response": response, "count": count}
            self._context.report("response-unrequested", first, f"{answers} not in the capture.", evidence)
        begin = self._answered_at if row.opened == "midstream" else 0  # the other direction may begin later in the capture
        asked = {where: (command, title) for where, command, title in self._unanswered or () if where.time >= begin}
        for where in unanswered(self._context, asked):
            waited = row.end - where.time
            command, title = asked[where]
            if command == "AUTH_CHALLENGE" and may_lack(self._context, 0, row.end):
                continue  # answers have no number: the answer to another challenge counts as a missing one
            limit = "request-unanswered-seconds"
            if row.closed == "open":
                limit = "slow-exchange-lookup-seconds" if command in FROM_MEMORY else "request-unanswered-open-seconds"
            if waited > thresholds.ns(limit) + (self._for_others() if row.closed == "open" and command in _OPENING else 0):
                rest = f"though the connection went on for {duration(waited)}{gap_note(lost=self._context.lost)}"
                text = f"{title} has no answer, {rest}."
                evidence = {"frames": [where.name], "waited_ns": waited, **thresholds.evidence(limit)}
                self._context.report("request-unanswered", where, text, evidence)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip the answered SENDs; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if type(row) is not ExchangeRow or row.request != "SEND" or row.status == "error":
                handle(index)

    def sends(self, _frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip the answered SENDs; see `ConnectionRule.columns`."""
        return True

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {
        "CONNECT": _connect,
        "PRODUCER": _producer,
        "CLOSE_PRODUCER": _close,
        "LOOKUP": _lookup,
        "SUBSCRIBE": _open,
        "PARTITIONED_METADATA": _metadata,
    }
    # other findings about ACKs: acks.py; about PINGs: closing.py; about late receipts: publishing.py
    exchanges: ClassVar[Handlers] = {"*": _exchange, "ACK": _ack, "PING": _ping, "SEND": _refusal}


def _is_reported(row: ExchangeRow) -> bool:
    """Return True for a refusal that another rule reports in more detail, which reads this request."""
    if holders.is_reported(row) or departures.is_reported(row) or is_transaction_error(row):
        return True
    return row.error in _OF_ANY_REQUEST and row.request in OTHER_REQUESTS


def late_text(title: str, latency_ns: int) -> str:
    """Return the sentence about a request that was answered late."""
    return f"{title} was answered after {duration(latency_ns)}."


def _limit(request: str | None) -> str:
    """Return the name of the threshold for the latency of a request."""
    if request in FROM_MEMORY:
        return "slow-exchange-lookup-seconds"
    if request in STORED:
        return "slow-exchange-stored-seconds"
    return "slow-exchange-connect-seconds" if request == "CONNECT" else "slow-exchange-seconds"
