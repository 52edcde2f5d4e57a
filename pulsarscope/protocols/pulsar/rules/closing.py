"""How connections end: who closed them, and what was left open; who fell silent."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import NOTE, WARNING, Code, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, host, lacking, seconds, some
from pulsarscope.protocols.pulsar.rules.reconnects import RECONNECTS

CODES = table(
    Code(
        "connection-closed-by-broker",
        WARNING,
        "session",
        "The broker closed a connection on which requests, producers or consumers were open, or after a frame that does not decode.",
        "See the last commands: a broker closes on what it cannot read, on a missing PONG, and when it stops; its log says which.",
    ),
    Code(
        "connection-closed-by-client",
        NOTE,
        "session",
        "The client closed a connection on which requests were not answered, or because one topic was not ready.",
        "Whether requests were carried out is not known. A client closes so when it times out, dies, or is told ServiceNotReady: "
        "then all its topics on this connection reconnect.",
    ),
    Code(
        "keepalive-lost",
        WARNING,
        "session",
        "One side no longer answers the other's PING.",
        "It hangs, or the network drops its packets one way: look for retransmissions, pauses, and a middlebox that forgot it.",
    ),
)

SILENCE_NS = 10_000_000_000
"""A PING is answered within a round trip; pauses of the garbage collector are shorter than this, keep-alive intervals (30 s) longer."""

SHORT_NS = 60_000_000_000
"""A connection that lived longer did get on."""

COLLATERAL_NS = 1_000_000_000
"""A client that closes because of an error does so at once."""

OPEN_MAX = 1_000
"""Names of what is open that are kept; more are counted as so many."""

GIVEN_UP_MAX = 1_000
"""SENDs without an answer that may still be sent again, on one connection: the default queue of a producer (maxPendingMessages)."""

_OPENS = {"PRODUCER": ("producer_id", "producer"), "SUBSCRIBE": ("consumer_id", "consumer")}
_CLOSES = {
    "CLOSE_PRODUCER": ("producer_id", "producer"),
    "CLOSE_CONSUMER": ("consumer_id", "consumer"),
    "UNSUBSCRIBE": ("consumer_id", "consumer"),
}
_ACHIEVEMENTS = frozenset({"PRODUCER", "SUBSCRIBE", "SEND", "ACK", "GET_LAST_MESSAGE_ID", "END_TXN"})
"""What a client connects for; the rest leads up to it."""
_OTHER = {CLIENT: SERVER, SERVER: CLIENT}


class Closing(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._said: dict[str, tuple[str, int, int, int, int] | None] = {CLIENT: None, SERVER: None}
        """Last command of each side, with its file, packet, sub and time; and its frames."""
        self._pinged: dict[str, list[Where]] = {CLIENT: [], SERVER: []}
        """First and latest PING of this side since the other spoke."""
        self._pings: dict[str, int] = {CLIENT: 0, SERVER: 0}
        self._round_trips = [0, 0]
        """How many PONGs came, and the longest wait for one."""
        self._asked: dict[str, tuple[tuple[str, int], str]] = {}
        """Kind, id and name of producers and consumers, by name of the request's frame."""
        self._open: dict[tuple[str, int], str] = {}
        """Names of those that the broker took."""
        self._queued: set[str] = set()
        """PRODUCERs that were told to wait for their turn, by name of the frame: they are answered."""
        self._given_up: Counter[tuple[str | None, str]] = Counter()
        """SENDs that got no answer, by topic and producer_id:sequence_id; clients keep the id of a producer when it begins anew."""
        self._unanswered: Counter[str] = Counter()
        self._refused: str | None = None
        """The latest error."""
        self._refusal: str | None = None
        """Its frame."""
        self._refused_at = 0
        self._strange: str | None = None
        """The client's latest frame that does not decode."""
        self._achieved = False
        """Whether anything that the client came for was done."""

    def _any(self, row: FrameRow) -> None:
        direction = row.direction or CLIENT
        self._said[direction] = row.command or "no command", row.file or 0, row.packet or 0, row.sub or 0, row.time or 0
        if row.status in ("malformed", "skipped") and direction == CLIENT:
            self._strange = where_of(row).name
        waiting = self._pinged[_OTHER[direction]]
        if waiting:
            waiting.clear()

    def _ping(self, row: FrameRow) -> None:
        self._any(row)
        direction = row.direction or CLIENT
        waiting = self._pinged[direction]
        self._pings[direction] = self._pings[direction] + 1 if waiting else 1
        waiting[1:] = [where_of(row)]

    def _opening(self, row: FrameRow) -> None:
        self._any(row)
        fields = row.fields or {}
        field, noun = _OPENS[row.command or ""]
        number = fields.get(field, -1)
        if len(self._asked) < OPEN_MAX:
            name = fields.get("producer_name") or fields.get("consumer_name") or number
            self._asked[where_of(row).name] = (noun, number), f"{noun} {name}"

    def _queue(self, row: FrameRow) -> None:
        self._any(row)
        if (row.fields or {}).get("producer_ready") is False and row.request is not None and len(self._queued) < OPEN_MAX:
            self._queued.add(row.request)

    def _send(self, row: FrameRow) -> None:
        """One that is sent again takes the place of the first."""
        self._any(row)
        if self._given_up:
            fields = row.fields or {}
            again = row.topic, f"{fields.get('producer_id', -1)}:{fields.get('sequence_id', -1)}"
            times = self._given_up.pop(again, 0)
            if times > 1:  # chunks share an id
                self._given_up[again] = times - 1
            if times:
                self._unanswered -= Counter(["SEND"])

    def _sent(self, row: ExchangeRow) -> None:
        self._exchange(row)
        if row.status == "unanswered" and len(self._given_up) < GIVEN_UP_MAX:
            self._given_up[row.topic, row.key or ""] += 1

    def _close(self, row: FrameRow) -> None:
        self._any(row)
        field, noun = _CLOSES[row.command or ""]
        self._open.pop((noun, (row.fields or {}).get(field, -1)), None)

    def _exchange(self, row: ExchangeRow) -> None:
        if row.status == "ok":
            self._achieved = self._achieved or row.request in _ACHIEVEMENTS
        elif row.status == "error":
            self._refused = row.error
            self._refusal = f"{row.response_file}:{row.response_packet}.{row.response_sub}"
            self._refused_at = (row.time or 0) + (row.latency_ns or 0)
        elif row.status == "unanswered":
            self._unanswered[row.request or ""] += 1

    def _opened(self, row: ExchangeRow) -> None:
        name = where_of(row).name
        if not (name in self._queued and row.status == "unanswered"):
            self._exchange(row)
        self._queued.discard(name)
        asked = self._asked.pop(name, None)
        if asked is not None and row.status == "ok" and len(self._open) < OPEN_MAX:
            self._open[asked[0]] = asked[1]

    def _round_trip(self, row: ExchangeRow) -> None:
        if row.latency_ns is not None:
            self._round_trips[0] += 1
            self._round_trips[1] = max(self._round_trips[1], row.latency_ns)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        silent = next((side for side in (CLIENT, SERVER) if self._is_silent(side, row.end or last.time)), None)
        if silent is not None:
            self._report_silent(silent, row, last)
        elif row.closed in ("fin", "rst") and row.closed_by is not None:
            self._report_closed(row, last)
        self._emit_attempt(row, last)

    def _is_silent(self, side: str, end: int) -> bool:
        """Whether this side has left the other's PING without an answer; of one that is not in the capture nothing is known."""
        waiting = self._pinged[_OTHER[side]]
        return bool(waiting) and self._said[side] is not None and end - waiting[0].time > SILENCE_NS

    def _report_silent(self, side: str, row: ConnectionRow, last: Where) -> None:
        other = _OTHER[side]
        first = self._pinged[other][0]
        end = row.end or last.time
        said = self._said[side]
        latest = f"{said[1]}:{said[2]}.{said[3]}" if said else None
        names = {CLIENT: f"client {self._context.client}", SERVER: f"broker {self._context.server}"}
        spoke = f", its last command was {said[0]} {seconds(end - said[4])} before the end" if said else ""
        closed = f"the {'broker' if row.closed_by == SERVER else 'client'} closed" if row.closed_by else "the connection is open"
        text = (
            f"The {names[side]} has not answered {count(self._pings[other], 'PING')} for {seconds(end - first.time)}{spoke}; {closed}"
            f"{lacking(lost=self._context.lost)}."
        )
        evidence = {
            "frames": frames([latest, *(where.name for where in self._pinged[other])]),
            "silent": side,
            "pings": self._pings[other],
            "silent_ns": end - first.time,
            "pongs_before": self._round_trips[0],
            "round_trip_max_ns": self._round_trips[1],
            "closed": row.closed,
            "closed_by": row.closed_by,
        }
        self._context.report("keepalive-lost", first, text, evidence)

    def _report_closed(self, row: ConnectionRow, last: Where) -> None:
        """Only what was left open is worth a word; an ERROR or a goodbye before the end says itself."""
        by_broker = row.closed_by == SERVER
        strange = self._strange if by_broker and not self._context.lost else None
        # Java clients close the connection of all their topics when a broker is not ready to serve one of them.
        collateral = not by_broker and self._refused == "ServiceNotReady" and last.time - self._refused_at < COLLATERAL_NS
        if not (self._unanswered or strange or (self._open and (by_broker or collateral))):
            return
        left = [count(times, command) + " unanswered" for command, times in self._unanswered.items()]
        if self._open and (by_broker or collateral):
            left.append(f"{some([*self._open.values()])} open")
        left = [f"leaving {', '.join(left)}"] if left else []
        if strange:
            left.append(f"after the frame {strange} that it could not read")
        if collateral:
            left.append(f"after {self._refused} ({self._refusal})")
        commands = {side: f"{said[0]} ({said[1]}:{said[2]}.{said[3]})" if said else "none" for side, said in self._said.items()}
        idle = (row.end or last.time) - last.time
        text = (
            f"The {'broker' if by_broker else 'client'} closed the connection with a {'FIN' if row.closed == 'fin' else 'RST'} "
            f"{seconds(idle)} after the last frame, {', '.join(left)}; the client's last command was {commands[CLIENT]}, "
            f"the broker's {commands[SERVER]}{lacking(lost=self._context.lost)}."
        )
        names = [
            strange,
            self._refusal if collateral else None,
            *(f"{said[1]}:{said[2]}.{said[3]}" for said in self._said.values() if said),
        ]
        evidence = {
            "frames": frames(names),
            "closed": row.closed,
            "closed_by": row.closed_by,
            "idle_ns": idle,
            "unanswered": dict(self._unanswered),
            "open": len(self._open),
            "after_error": self._refused if collateral else None,
            "round_trip_max_ns": self._round_trips[1],
        }
        self._context.report("connection-closed-by-broker" if by_broker else "connection-closed-by-client", last, text, evidence)

    def _emit_attempt(self, row: ConnectionRow, last: Where) -> None:
        end = row.end or last.time
        start = row.start or end
        reason = None
        if end - start < SHORT_NS and row.closed != "open":
            if self._refused is not None and not self._achieved:
                reason = self._refused
            elif row.closed == "rst" or row.closed_by == SERVER:
                reason = f"{'reset' if row.closed == 'rst' else 'closed'} by the {'broker' if row.closed_by == SERVER else 'client'}"
        attempt: dict[str, Any] = {
            "start": start,
            "last": last.time,
            "reason": reason,
            "frame": self._refusal or last.name,
            "lived": end - start,
        }
        key = f"{host(self._context.client)}\n{self._context.server}"
        self._context.emit_fact(RECONNECTS, key, last._replace(time=end), "attempt", attempt)

    frames: ClassVar[Handlers] = {
        **dict.fromkeys(_OPENS, _opening),
        **dict.fromkeys(_CLOSES, _close),
        "PRODUCER_SUCCESS": _queue,
        "SEND": _send,
        "PING": _ping,
        "*": _any,
    }
    exchanges: ClassVar[Handlers] = {
        **dict.fromkeys(_OPENS, _opened),
        "SEND": _sent,
        "PING": _round_trip,
        "*": _exchange,
    }
