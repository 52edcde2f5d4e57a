"""Ends of connections: closed while something was open, or silent after a PING."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.findings import RESET_BETWEEN, SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.ports import TLS_PORT
from pulsarscope.protocols.pulsar.rules.connections.churn import RECONNECTS
from pulsarscope.protocols.pulsar.rules.connections.closing_state import PASSING, PURPOSES, LastCommand, Refusal, sends_again
from pulsarscope.protocols.pulsar.rules.connections.left_open import chosen_name
from pulsarscope.protocols.pulsar.rules.connections.not_reading import report_not_reading
from pulsarscope.protocols.pulsar.rules.connections.outages import CLOSED
from pulsarscope.protocols.pulsar.rules.connections.silence import (
    Pings,
    Resumption,
    may_be_answered,
    report_certain,
    report_resumed,
    report_silent,
    resumption_of,
)
from pulsarscope.protocols.pulsar.rules.connections.unknown import report_unknown
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, gap_note, is_half_open, is_in_use, response_name, unanswered
from pulsarscope.protocols.pulsar.rules.exchanges.departures import CUT, REACH
from pulsarscope.protocols.pulsar.session.exchanges import CLOSES, OPENS
from pulsarscope.protocols.pulsar.text.formatting import host, listing, port
from pulsarscope.protocols.pulsar.topics import bounded_name

CODES = table(
    SESSION.warning(
        "connection-closed-by-broker",
        "The broker closed a connection on which requests, producers or consumers were open, or after a frame that does not decode.",
        "Look at the last commands: a broker closes when it cannot read a frame, when a PONG is missing and when it stops. Its log "
        "says which. If it closed within a frame of its own, suspect a proxy between, or that it crashed.",
        ("frame-truncated",),
        to_act="the broker's operators",
    ),
    SESSION.note(
        "connection-closed-by-client",
        "The client closed a connection on which requests were not answered, or because one topic was not ready.",
        "It is unknown whether the requests were carried out. A client does this when it times out, dies, or gets ServiceNotReady: "
        "all its topics on this connection then reconnect.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "connection-closed-by-client-seconds",
        1,
        "Time after an error within which a client closes because of it.",
        "connection-closed-by-client",
    ),
)

OPEN_MAX = 1_000
"""Producers and consumers of one connection whose names are kept."""

ABANDONED_MAX = 1_000
"""Unanswered SENDs of one connection that may be sent again: the default size of a producer's queue (maxPendingMessages)."""

_OTHER = {CLIENT: SERVER, SERVER: CLIENT}


class ClosingRule(ConnectionRule):
    """A rule about the end of one connection, and the source of the facts on reconnects."""

    __slots__ = (
        "_abandoned",
        "_command_of_client",
        "_command_of_server",
        "_context",
        "_last_of_client",
        "_last_of_server",
        "_malformed",
        "_open",
        "_overdue",
        "_pinged",
        "_pings",
        "_pongs",
        "_queued",
        "_refusal",
        "_requests",
        "_resumed",
        "_round_trip_max_ns",
        "_serves",
        "_successful",
        "_unanswered",
        "_waiting",
    )

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._command_of_client = self._command_of_server = ""
        """Latest command of each side."""
        self._last_of_client: Where | None = None
        self._last_of_server: Where | None = None
        self._pinged: dict[str, list[Where]] = NOTHING
        """First and latest PING of this side since the other side's last frame."""
        self._pings: dict[str, int] = NOTHING
        """Number of those PINGs."""
        self._overdue: dict[str, tuple[list[Where], int]] = NOTHING
        """The PINGs of this side before the other side's last frame, and the time of that frame."""
        self._resumed: Sequence[Resumption] = ()
        """Sides that went on after they had not answered for long, while that is not certain."""
        self._pongs = 0
        self._round_trip_max_ns = 0
        self._requests: dict[str, tuple[tuple[str, int], str]] = NOTHING
        """Noun, id and name of producers and consumers, by name of the request's frame."""
        self._open: dict[tuple[str, int], str] = NOTHING
        """Names of open producers and consumers, by noun and id."""
        self._queued: dict[str, None] = NOTHING
        """PRODUCERs that have to wait for their turn, by name of the frame. They count as answered."""
        self._abandoned: dict[tuple[str | None, str], int] = NOTHING
        """Number of unanswered SENDs, by topic and producer_id:sequence_id; clients keep the id of a producer when it reconnects."""
        self._unanswered: Counter[str] | None = None
        """Unanswered requests by command."""
        self._waiting: dict[str, list[Where]] = NOTHING
        """Places of the unanswered requests: a FIN may come before them."""
        self._refusal: Refusal | None = None
        self._malformed: str | None = None
        """Latest frame of the client that does not decode."""
        self._serves: tuple[str | None, str | None] = None, None
        """Topic, and subscription or chosen name, of the first producer or consumer with a topic."""
        self._successful = False
        """True when a request for which the client connected succeeded."""

    def _frame(self, row: FrameRow) -> None:
        direction, before = row.direction, self._last_of_client
        where = self._context.last  # that of the row: the context keeps the latest one, too
        if direction == CLIENT:
            self._command_of_client, self._last_of_client = row.command or "no command", where
        else:
            before = self._last_of_server
            self._command_of_server, self._last_of_server = row.command or "no command", where
        if row.status in ("malformed", "skipped") and direction == CLIENT:
            self._malformed = name_of(row)
        if pings := self._pinged.get(_OTHER[direction]):
            self._overdue = self._overdue or {}
            self._overdue[_OTHER[direction]] = [*pings], row.time
            resumption = resumption_of(self._context, pings[0], before, row)
            pings.clear()
            if resumption is not None and len(self._resumed) < ABANDONED_MAX:
                self._resumed = [*self._resumed, resumption]
        if self._resumed:
            self._resumed = report_certain(self._context, self._resumed, row)

    def _ping(self, row: FrameRow) -> None:
        self._frame(row)
        direction, other = row.direction, self._last_command(_OTHER[row.direction])
        if other is not None and row.time < other.where.time:
            return  # it is read late: its PONG may have been read before
        self._pinged, self._pings = self._pinged or {}, self._pings or {}
        pings = self._pinged.setdefault(direction, [])
        self._pings[direction] = self._pings[direction] + 1 if pings else 1
        pings[1:] = [where_of(row)]

    def _open_request(self, row: FrameRow) -> None:
        self._frame(row)
        fields = row.fields or {}
        noun, field = OPENS[row.command or ""]
        number, serves = fields.get(field, -1), (row.topic, row.subscription or chosen_name(fields))
        self._serves = self._serves if self._serves[0] else (bounded_name(serves[0]), bounded_name(serves[1]))
        if len(self._requests) < OPEN_MAX:
            name = bounded_name(fields.get("producer_name") or fields.get("consumer_name")) or number
            self._requests = self._requests or {}
            self._requests[name_of(row)] = (noun, number), f"{noun} {name}"

    def _producer_success(self, row: FrameRow) -> None:
        self._frame(row)
        if (row.fields or {}).get("producer_ready") is False and row.request is not None and len(self._queued) < OPEN_MAX:
            self._queued = self._queued or {}
            self._queued[row.request] = None

    def _send(self, row: FrameRow) -> None:
        """Count a repeated SEND instead of the first one."""
        self._frame(row)
        if self._abandoned:
            fields = row.fields or {}
            key = row.topic, f"{fields.get('producer_id', -1)}:{fields.get('sequence_id', -1)}"
            if (times := self._abandoned.pop(key, 0)) > 1:  # chunks share an id
                self._abandoned[key] = times - 1
            if times:
                self._unanswered = (self._unanswered or Counter()) - Counter(["SEND"])

    def _send_exchange(self, row: ExchangeRow) -> None:
        self._exchange(row)
        if row.status == "unanswered" and len(self._abandoned) < ABANDONED_MAX:
            self._abandoned = self._abandoned or Counter()
            self._abandoned[row.topic, row.key or ""] += 1

    def _close(self, row: FrameRow) -> None:
        self._frame(row)
        noun, field = CLOSES[row.command or ""]
        self._open.pop((noun, (row.fields or {}).get(field, -1)), None)

    def _exchange(self, row: ExchangeRow) -> None:
        if row.status == "ok":
            self._successful = self._successful or row.request in PURPOSES
        elif row.status == "error":
            self._refusal = Refusal(row.error, response_name(row), row.time + (row.latency_ns or 0))
        elif row.status == "unanswered":
            self._unanswered = self._unanswered or Counter()
            self._unanswered[row.request or ""] += 1
            self._waiting = self._waiting or {}
            places = self._waiting.setdefault(row.request or "", [])
            if len(places) < ABANDONED_MAX:
                places.append(where_of(row))

    def _open_exchange(self, row: ExchangeRow) -> None:
        name = name_of(row)
        if not (name in self._queued and row.status == "unanswered"):
            self._exchange(row)
        self._queued.pop(name, None)
        request = self._requests.pop(name, None)
        if request is not None and row.status == "ok" and len(self._open) < OPEN_MAX:
            self._open = self._open or {}
            self._open[request[0]] = request[1]

    def _ping_exchange(self, row: ExchangeRow) -> None:
        if row.latency_ns is not None:
            self._pongs += 1
            self._round_trip_max_ns = max(self._round_trip_max_ns, row.latency_ns)
        elif row.status == "ok":  # the capture has the PONG before its PING
            for pings in self._pinged.values():
                if pings and pings[-1].name == name_of(row):
                    pings.clear()

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Report a silent side, or else a close (even only of the broker's half) that left something open; emit the attempt to connect."""
        self._forget_late(row)
        self._forget_lost()
        for side, (earlier, answered) in self._overdue.items():
            if row.closed_by == side and self._context.closing is not None and self._context.closing[1] < answered:
                self._pinged[side][:] = earlier  # the other side resumed after this one had given up
        silent = next((side for side in (CLIENT, SERVER) if self._is_silent(side, row)), None)
        report_resumed(self._context, self._resumed, silent)
        if silent is not None:
            pings = Pings(self._pinged[_OTHER[silent]], self._pings[_OTHER[silent]], self._pongs, self._round_trip_max_ns)
            report_silent(self._context, row, silent, self._last_command(silent), pings)
        elif row.closed_by is not None and (row.closed != "open" or is_half_open(row)) and not report_unknown(self._context, row, last):
            self._report_closed(row, last)
        self._emit_attempt(row, last)
        report_not_reading(self._context)

    def _forget_late(self, row: ConnectionRow) -> None:
        """Forget requests that a side sent after the other one had closed."""
        if (closing := self._context.closing) is None or row.closed_by != SERVER:
            return
        late = {command: sum(place.time > closing[1] for place in places) for command, places in self._waiting.items()}
        self._unanswered = (self._unanswered or Counter()) - Counter(late)

    def _forget_lost(self) -> None:
        """Forget requests whose answers may be among the bytes that the capture lacks."""
        if self._unanswered:
            left = set(unanswered(self._context, sorted(place for places in self._waiting.values() for place in places)))
            answered = {command: sum(place not in left for place in places) for command, places in self._waiting.items()}
            self._unanswered -= Counter(answered)

    def _is_silent(self, side: str, row: ConnectionRow) -> bool:
        """Return True when this side has not answered the other's PING. A side without frames, or the answer, may be missing."""
        pings, latest = self._pinged.get(_OTHER[side]), self._last_command(side)
        if not pings or latest is None or may_be_answered(self._context, pings[0], side, latest, row.end, alone=not self._pongs):
            return False
        asked, thresholds = pings[0].time, self._context.thresholds
        closing = self._context.closing if row.closed_by == _OTHER[side] else None
        closed_soon = closing is not None and closing[1] - asked >= thresholds.ns("keepalive-lost-closed-seconds")
        return closed_soon or row.end - asked > thresholds.ns("keepalive-lost-seconds")

    def _last_command(self, side: str) -> LastCommand | None:
        client, server = (self._command_of_client, self._last_of_client), (self._command_of_server, self._last_of_server)
        command, place = client if side == CLIENT else server
        return None if place is None else LastCommand(command, place)

    def _report_closed(self, row: ConnectionRow, last: Where) -> None:
        """Report a close that left something open. A close after an ERROR, or after everything was closed, needs no finding."""
        by_broker = row.closed_by == SERVER
        malformed = self._malformed if by_broker and not self._context.lost else None
        # Java clients close the connection of all their topics when a broker is not ready to serve one of them.
        cause = self._refusal
        soon_ns = self._context.thresholds.ns("connection-closed-by-client-seconds")
        if by_broker or cause is None or cause.error != "ServiceNotReady" or last.time - cause.time >= soon_ns:
            cause = None
        older = is_in_use(row, frozenset((self._command_of_client, self._command_of_server)))
        has_open = (older or bool(self._open)) and (by_broker or cause is not None)
        if not (self._unanswered or malformed or has_open):
            return
        unanswered = [plural(times, command) for command, times in (self._unanswered or {}).items()]
        leftovers = [f"{listing(unanswered)} unanswered"] if unanswered else []
        if has_open:
            leftovers.append(f"{listing([*self._open.values()]) or 'a producer or consumer from before the capture'} open")
        details = [f"leaving {listing(leftovers)}"] if leftovers else []
        details += [f"after the frame {malformed} that it could not read"] if malformed else []
        if cause is not None:
            details.append(f"after {cause.error} ({cause.frame})")
        if by_broker and not row.server_bytes and port(self._context.server) == TLS_PORT:
            details.append(f"at port {TLS_PORT}, where brokers expect TLS and the client spoke without it")
        commands = {side: self._last_command(side) for side in (CLIENT, SERVER)}
        latest = {side: f"{command.command} ({command.where.name})" if command else "none" for side, command in commands.items()}
        how, closed = self._context.closing or (row.closed, row.end)
        client, server = commands[CLIENT], commands[SERVER]
        if closed < last.time and server is not None:  # commands that the client sent later are not the reason
            went_on = client.where.time - closed if client else 0
            details += [f"and the client sent on for {duration(went_on)}"] if went_on > 0 else []
            before = [place for places in self._waiting.values() for place in places if place.time <= closed]
            before.append(server.where)
            last = max(before, key=lambda place: place.time)
        after = f"{duration(idle)} after" if (idle := max(closed - last.time, 0)) else "right after"
        who, foreign = "broker" if by_broker else "client", bool(self._context.reported(RESET_BETWEEN))
        ended = f"A RST in the name of the {who} ended" if foreign else f"The {who} closed"
        text = (
            f"{ended} the connection{'' if foreign else f' with a {how.upper()}'} "
            f"{after} the last frame, {', '.join(details)}; the client's last command was {latest[CLIENT]}, "
            f"the broker's {latest[SERVER]}{gap_note(lost=self._context.lost)}."
        )
        evidence = {
            "frames": frame_names(
                [malformed, cause and cause.frame, last.name, *(command.where.name for command in commands.values() if command)]
            ),
            "closed": how,
            "closed_by": row.closed_by,
            "idle_ns": idle,
            "unanswered": dict(self._unanswered or {}),
            "open": len(self._open),
            "after_error": cause and cause.error,
            "round_trip_max_ns": self._round_trip_max_ns,
            **self._context.thresholds.evidence(*() if cause is None else ("connection-closed-by-client-seconds",)),
        }
        self._context.report(CLOSED if by_broker else "connection-closed-by-client", last, text, evidence)
        if by_broker and self._command_of_server is not None:
            self._context.emit_fact(REACH, host(self._context.client), last, CUT, {"code": RESET_BETWEEN if foreign else CLOSED})

    def _emit_attempt(self, row: ConnectionRow, last: Where) -> None:
        # A client whose requests were all answered, and that has nothing open, may simply close with a RST.
        start, end, refusal, reason = row.start, row.end, self._refusal, None
        if end - start < self._context.thresholds.ns("reconnect-loop-lifetime-seconds") and row.closed != "open":
            if refusal is not None and refusal.error is not None and not self._successful:
                reason = refusal.error
            elif row.closed_by == SERVER or (row.closed == "rst" and (self._unanswered or self._open or self._last_of_server is None)):
                how = (self._context.closing or (row.closed, 0))[0]
                reason = f"{'reset' if how == 'rst' else 'closed'} by the {'broker' if row.closed_by == SERVER else 'client'}"
                reason = "reset by a device between" if self._context.reported(RESET_BETWEEN) else reason
        reset_at_ping = row.closed == "rst" and bool(self._pinged.get(SERVER))
        attempt: dict[str, Any] = {
            "start": start,
            "last": last.time,
            "reason": reason,
            "frame": refusal.frame if refusal is not None else last.name,
            "lifetime": end - start,
            "closed_by": row.closed_by,
            "client_frames": row.client_frames,
            "client_missing": row.client_missing,
            "unheard": not row.server_bytes,
            "proxied": row.proxy_source is not None,
            "refused": refusal is not None,
            "torn": row.closed == "rst" and (bool(self._unanswered) or any(noun == "consumer" for noun, _ in self._open)),
            **dict(zip(("topic", "identity"), self._serves, strict=True)),
            "port": port(self._context.client),
            "idle": self._idle_ns(),
            "course": (row.opened, row.client_bytes, row.server_bytes, self._last_of_server.time if self._last_of_server else 0),
            "cut": refusal is None and (row.closed_by == SERVER or (row.closed_by == CLIENT and bool(self._unanswered or reset_at_ping))),
        }
        key = f"{host(self._context.client)}\n{self._context.server}"
        self._context.emit_fact(RECONNECTS, key, last._replace(time=end), "attempt", attempt)

    def _idle_ns(self) -> int:
        """Return how long a closed connection was idle at its end: not while its client waited for an answer, or sent after the close."""
        client, server, closing = self._last_of_client, self._last_of_server, self._context.closing
        if closing is None or client is None or server is None:
            return 0
        closed, spoken, answered = closing[1], client.time, server.time
        before_ping = min(answered, closed) - spoken if self._pinged.get(SERVER) else 0
        silent = 0 if self._unanswered else closed - max(spoken, answered)
        asked = [place.time for places in self._waiting.values() for place in places if place.time >= answered and self._unanswered]
        return max(silent, min(spoken, closed, *asked) - answered, before_ping, 0)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Handle only the latest of many frames that merely show that their sender is alive; see `ConnectionRule.batch`."""
        latest: dict[str, int] = {}
        passing = self._passes()
        for index, row in enumerate(rows):
            if type(row) is ExchangeRow:
                if row.status == "ok" and row.request == "SEND" and self._successful:
                    continue
            elif passing and row.status == "ok" and row.command in PASSING:
                latest[row.direction] = index
                continue
            for before in latest.values():
                handle(before)
            latest.clear()
            handle(index)
            passing = self._passes()
        for before in latest.values():
            handle(before)

    def _passes(self) -> bool:
        """Return True when frames of the data path change nothing but the last sender."""
        return not (self._abandoned or self._awaits())

    def _awaits(self) -> bool:
        """Return True when any frame may show that a side is alive."""
        return bool(self._resumed) or any(self._pinged.values())

    def sends(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Note the last sender; see `ConnectionRule.columns`."""
        if self._awaits() or (self._abandoned and sends_again(frames, self._abandoned)):
            return False
        self._note_last(frames, "SEND", [producer.sends[-1] for producer in frames.producers if producer.sends])
        self._successful |= any(producer.receipts for producer in frames.producers)
        self._note_last(frames, "SEND_RECEIPT", [producer.receipts[-1] for producer in frames.producers if producer.receipts])
        return True

    def deliveries(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Note the last sender; see `ConnectionRule.columns`."""
        if self._awaits():
            return False
        self._note_last(frames, "MESSAGE", [group.places[-1] for group in frames.consumers if group.places])
        self._note_last(frames, "ACK", [group.acks[-1][0] for group in frames.consumers if group.acks])
        return True

    def _note_last(self, frames: Any, command: str, places: Sequence[int]) -> None:
        """Note the last one of these places as the last command of its sender."""
        if places and command in ("SEND", "ACK"):
            self._command_of_client, self._last_of_client = command, Where(*frames.where_of(max(places)))
        elif places:
            self._command_of_server, self._last_of_server = command, Where(*frames.where_of(max(places)))

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends, "MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        **dict.fromkeys(OPENS, _open_request),
        **dict.fromkeys(CLOSES, _close),
        "PRODUCER_SUCCESS": _producer_success,
        "SEND": _send,
        "PING": _ping,
        "*": _frame,
    }
    exchanges: ClassVar[Handlers] = {
        **dict.fromkeys(OPENS, _open_exchange),
        "SEND": _send_exchange,
        "PING": _ping_exchange,
        "*": _exchange,
    }
