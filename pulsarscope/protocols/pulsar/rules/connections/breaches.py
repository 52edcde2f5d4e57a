"""Breaches of the protocol by a client: ids reused while they are taken, commands out of turn or too new."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names, may_lack_frames
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY, CLOSES, OF_LOOKUP, OPENS, REFUSABLE
from pulsarscope.protocols.pulsar.topics import bounded_name, named_topic

CODES = table(
    SESSION.warning(
        "request-id-reused",
        "A client reused the id of a request that is still unanswered.",
        "An answer cannot be matched to one of the two: request ids must increase on a connection. Check the client library.",
        to_act="the client library",
    ),
    SESSION.warning(
        "producer-id-reused",
        "A client opened a producer with an id that is already in use.",
        "The broker keeps the first producer, so that messages go to its topic. Close a producer before you reuse its id.",
        to_act="the client library",
    ),
    SESSION.warning(
        "consumer-id-reused",
        "A client opened a consumer with an id that is already in use.",
        "The broker keeps the first consumer, with its topic and subscription. Close a consumer before you reuse its id.",
        to_act="the client library",
    ),
    SESSION.warning(
        "retry-without-close",
        "A client asked again for a producer or consumer without closing the one whose answer it still waits for.",
        "The broker may be about to create the first: a client that gives up waiting sends CLOSE_PRODUCER or CLOSE_CONSUMER before it "
        "tries again.",
        to_act="the client library",
    ),
    SESSION.warning(
        "command-before-connect",
        "A client sent commands before CONNECT.",
        "Brokers close such a connection: CONNECT comes first, everything else after CONNECTED.",
        to_act="the client library",
    ),
    SESSION.warning(
        "command-too-new",
        "A command is newer than the version of the protocol that client and broker agreed on.",
        "The peer may not know it: it answers with an error or closes the connection. The client must respect CONNECTED.protocol_version.",
        to_act="the client library",
    ),
)

THRESHOLDS = (
    in_seconds(
        "consumer-id-reused-seconds",
        0.2,
        "Time over which a consumer from before the capture acknowledges; ACKs of a moment may have crossed its close.",
        "consumer-id-reused",
    ),
)

_SINCE = {
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": 2, "PARTITIONED_METADATA": 7, "LOOKUP": 7, "CONSUMER_STATS": 8, "REACHED_END_OF_TOPIC": 9,
    "GET_LAST_MESSAGE_ID": 12, "ACTIVE_CONSUMER_CHANGE": 12, "GET_TOPICS_OF_NAMESPACE": 12, "AUTH_CHALLENGE": 14, "AUTH_RESPONSE": 14,
    "GET_OR_CREATE_SCHEMA": 15, "TC_CLIENT_CONNECT_REQUEST": 19, "TOPIC_MIGRATED": 20,
}  # fmt: skip
"""Protocol version that introduced a command, where ProtocolVersion in PulsarApi.proto says so."""

_NOT_BEFORE = {
    **dict.fromkeys(("NEW_TXN", "ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN"), 14),
    **dict.fromkeys(("WATCH_TOPIC_LIST", "WATCH_TOPIC_LIST_CLOSE"), 19),
}
"""Earliest possible version of a command: that of the last command in `_SINCE` with a lower number in the enumeration."""

WAITING_MAX = 10_000
"""Most requests, and most producers and consumers, remembered for one connection."""

_Id = tuple[str, int]
"""Noun and number."""


class Taken(msgspec.Struct):
    """A producer or consumer that has an id."""

    where: Where
    topic: str | None
    answered: bool = False
    refused: bool = False
    """True when a SEND of the producer was refused: some clients then open it again, and brokers treat it as the same producer."""
    by_acks: bool = False
    """True for a consumer from before the capture that is known by its ACKs."""
    again: tuple[str, Where, str | None] | None = None
    """Code of the breach, place and topic of the latest PRODUCER or SUBSCRIBE with this id."""


class Breach(msgspec.Struct):
    """The breaches of one kind on a connection."""

    where: Where
    what: str
    """Text about the first breach."""
    frames: list[str]
    evidence: dict[str, Any]
    count: int = 0


@lru_cache(maxsize=16)
def _versions(*versions: int) -> tuple[int, ...]:
    """Return versions as a tuple shared by all connections with the same versions."""
    return versions


class BreachRule(ConnectionRule):
    """Rule about breaches of the protocol on one connection."""

    __slots__ = (
        "_acknowledging",
        "_asked",
        "_breaches",
        "_connecting",
        "_context",
        "_kinds",
        "_left",
        "_one_counter",
        "_refused",
        "_taken",
        "_versions",
        "_waiting",
    )

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._waiting: dict[tuple[str, int], tuple[Where, str]] = NOTHING
        """Place and command of requests by answer and request id."""
        self._kinds: dict[int, str] = NOTHING
        """Command of the latest request by its id."""
        self._one_counter = False
        """True when the client uses one counter for all its requests."""
        self._taken: dict[_Id, Taken] = NOTHING
        self._left: dict[_Id, None] = NOTHING
        """Closed ids. Commands that a client still sends for them may have crossed the close on the wire."""
        self._asked: dict[str, _Id] = NOTHING
        """Ids by the frame name of their PRODUCER or SUBSCRIBE."""
        self._breaches: dict[tuple[str, str], Breach] = NOTHING
        """Breaches by code, and by command where it matters."""
        self._versions: tuple[int, ...] = ()
        """Protocol versions of client and broker."""
        self._refused: dict[int, None] = NOTHING
        """Ids of requests that were refused before they came, in a capture out of order."""
        self._connecting = False
        self._acknowledging: dict[int, int] = NOTHING
        """Time in nanoseconds of the first ACK of consumers from before the capture, by their id."""

    def _connect(self, row: FrameRow) -> None:
        self._connecting = True
        client = str((row.fields or {}).get("client_version") or "0").lower()  # before 2.10, clients of all languages sent only a number
        self._one_counter = not (client[0].isdigit() or "cpp" in client or "proxy" in client)
        self._version(row)

    def _version(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if isinstance(version := fields.get("protocol_version"), int):
            self._versions = _versions(*(() if row.command == "CONNECT" else self._versions[:1]), version)

    def _any(self, row: FrameRow) -> None:
        """Check the time of a command, whatever its purpose."""
        command = row.command or ""
        if not self._connecting and row.direction == CLIENT:
            self._add("command-before-connect", row, command, [])
        since = _SINCE.get(command) or _NOT_BEFORE.get(command, 0)
        if self._versions and since > min(self._versions):
            who = "client" if row.direction == CLIENT else "broker"
            version = f"version {since} of the protocol{'' if command in _SINCE else ' or later'}"
            what = f"The {who} sent {command}, which came with {version}: {min(self._versions)} was agreed on"
            self._add("command-too-new", row, what, [], command=command, version=min(self._versions), since=since)

    def _request(self, row: FrameRow) -> None:
        self._any(row)
        command, fields = row.command or "", row.fields or {}
        if row.direction != CLIENT or not isinstance(number := fields.get("request_id"), int):
            return
        key = ANSWERED_BY[command], number
        if (first := self._waiting.get(key) or self._of_another_kind(command, number)) is not None:
            what = f"{command} has the request id {number} of {first[1]} ({first[0].name}), which waits for its answer"
            self._add("request-id-reused", row, what, [first[0].name], request_id=number)
        else:
            self._waiting = self._waiting or {}
            remember(self._waiting, key, (where_of(row), command), WAITING_MAX)
            self._kinds = self._kinds or {}
            remember(self._kinds, number, command, WAITING_MAX)

    def _of_another_kind(self, command: str, number: int) -> tuple[Where, str] | None:
        """Return place and command of the request of another kind that waits with this id, if the client uses one counter for both."""
        other = self._kinds.get(number, "")
        if not other or ((other in OF_LOOKUP) != (command in OF_LOOKUP) and not self._one_counter):
            return None
        return self._waiting.get((ANSWERED_BY[other], number))

    def _open(self, row: FrameRow) -> None:
        self._request(row)
        fields, where = row.fields or {}, where_of(row)
        if self._refused and self._refused.pop(fields.get("request_id", -1), self) is None:
            return
        noun, field = OPENS[row.command or ""]
        taken_id = noun, fields.get(field, -1)
        topic = bounded_name(row.topic)
        self._asked = self._asked or {}
        remember(self._asked, where.name, taken_id, WAITING_MAX)
        if (taken := self._taken.get(taken_id)) is None or (taken.refused and taken.topic == topic):
            self._taken = self._taken or {}
            remember(self._taken, taken_id, Taken(where, topic), WAITING_MAX)
            return
        evidence = {field: taken_id[1], "topic": taken.topic, "second_topic": topic}
        if not taken.by_acks:
            evidence |= self._context.thresholds.evidence()
        if taken.answered or taken.topic != topic:
            of = f"that of {taken.where.name}"
            of += "" if taken.topic == topic else f" for {taken.topic}" if taken.topic else ", from before the capture,"
            what = f"{row.command} for {topic} has the {noun} id {taken_id[1]}: {of} is open"
            code = f"{noun}-id-reused"
        else:
            what = f"{row.command} for {topic} came again for {noun} {taken_id[1]}, though {taken.where.name} waits for its answer"
            code = "retry-without-close"
        self._add(code, row, what, [taken.where.name], **evidence)
        taken.again = code, where, topic

    def _close(self, row: FrameRow) -> None:
        if (row.command or "") in ANSWERED_BY:
            self._request(row)
        noun, field = CLOSES[row.command or ""]
        left = noun, (row.fields or {}).get(field, -1)
        again = None if (taken := self._taken.get(left)) is None else taken.again
        if row.direction == SERVER and again is not None and again[1].name in self._asked:
            # Brokers answer before they close: this closes the previous one, and was captured late, because a tap may delay one direction.
            self._retract(again[0], again[1].name)
            self._taken[left] = Taken(again[1], again[2])
            return
        self._leave(left)

    def _migrated(self, row: FrameRow) -> None:
        self._any(row)
        fields = row.fields or {}
        self._leave((str(fields.get("resource_type", "")).lower(), fields.get("resource_id", -1)))

    def _leave(self, left: _Id) -> None:
        self._taken.pop(left, None)
        if not self._connecting:
            self._left = self._left or {}
            remember(self._left, left, None, WAITING_MAX)

    def _flow(self, row: FrameRow) -> None:
        self._any(row)
        if row.direction == CLIENT:
            self._take_older(row, by_acks=False)

    def _take_older(self, row: FrameRow, *, by_acks: bool) -> None:
        """Mark the id of a consumer from before the capture as taken."""
        taken_id = "consumer", (row.fields or {}).get("consumer_id", -1)
        if not self._connecting and taken_id not in self._left and taken_id not in self._taken:
            self._taken = self._taken or {}
            taken = Taken(where_of(row), named_topic(bounded_name(row.topic)), answered=True, by_acks=by_acks)
            remember(self._taken, taken_id, taken, WAITING_MAX)

    def _ack(self, row: FrameRow) -> None:
        """Mark the id of a consumer from before the capture as taken because it continues to acknowledge."""
        if self._connecting or row.direction != CLIENT:
            return
        number = (row.fields or {}).get("consumer_id", -1)
        if (since := self._acknowledging.get(number)) is None:
            self._acknowledging = self._acknowledging or {}
            remember(self._acknowledging, number, row.time, WAITING_MAX)
        elif row.time - since >= self._context.thresholds.ns("consumer-id-reused-seconds"):
            self._take_older(row, by_acks=True)

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Handle the first ACK of a consumer, and the first one after the time that counts; see `ConnectionRule.columns`."""
        if self._connecting:
            return True
        limit = self._context.thresholds.ns("consumer-id-reused-seconds")
        for group in frames.consumers:
            if group.acks and group.id not in self._acknowledging:
                handle(group.acks[0][0])
            if ("consumer", group.id) not in self._taken and (since := self._acknowledging.get(group.id)) is not None:
                due = next((place for place, time, *_ in group.acks if time - since >= limit), None)
                if due is not None:
                    handle(due)
        return True

    def _response(self, row: FrameRow) -> None:
        command, fields = row.command or "", row.fields or {}
        if fields.get("producer_ready") is False:
            return  # it waits for exclusive access, and thus for a second answer
        self._waiting.pop((command, fields.get("request_id", -1)), None)
        if (taken := self._taken.get(self._asked.pop(row.request or "", ("", -1)))) is not None:
            taken.answered = True

    def _send_error(self, row: FrameRow) -> None:
        if (taken := self._taken.get(("producer", (row.fields or {}).get("producer_id", -1)))) is not None:
            taken.refused = True

    def _error(self, row: FrameRow) -> None:
        number = (row.fields or {}).get("request_id", -1)
        if row.request is None:
            self._refused = self._refused or {}
            remember(self._refused, number, None, WAITING_MAX)
        for answer in REFUSABLE:
            self._waiting.pop((answer, number), None)
        taken_id = self._asked.pop(row.request or "", ("", -1))
        if (taken := self._taken.get(taken_id)) is not None and taken.where.name == row.request:
            del self._taken[taken_id]

    def _add(self, code: str, row: FrameRow, what: str, before: list[str], **evidence: Any) -> None:
        key = code, evidence.get("command", "")
        breach = self._breaches.get(key)
        where = where_of(row)
        if breach is None:
            self._breaches = self._breaches or {}
            breach = self._breaches[key] = Breach(where, what, before, evidence)
        breach.count += 1
        add_sample(breach.frames, where.name)

    def _retract(self, code: str, name: str) -> None:
        """Withdraw a breach by this frame."""
        if (breach := self._breaches.get(key := (code, ""))) is not None:
            breach.count -= 1
            breach.frames = [frame for frame in breach.frames if frame != name]
            if not breach.count:
                del self._breaches[key]

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report the breaches. Commands that came too early are reported only when the capture has the beginning."""
        broken = may_lack_frames(self._context) or bool(self._context.reported("capture-order"))  # answers stand before their requests
        for (code, _), breach in self._breaches.items():
            if code == "command-before-connect":
                if row.opened != "syn" or self._context.lost:
                    continue
                then = "before its CONNECT" if self._connecting else "and no CONNECT"
                text = f"{self._context.client} sent {plural(breach.count, 'command')} {then}: the first is {breach.what}."
            elif broken:
                continue
            else:
                times = f" ({breach.count:,} times)" if breach.count > 1 else ""
                text = f"{breach.what}{times}."
            evidence = {"frames": frame_names(breach.frames), "count": breach.count, **breach.evidence}
            self._context.report(code, breach.where, text, evidence)

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        **dict.fromkeys((*_SINCE, *_NOT_BEFORE), _any),
        **dict.fromkeys(ANSWERED_BY.keys() - {"ACK"}, _request),
        **dict.fromkeys(set(ANSWERED_BY.values()) - {"ACK_RESPONSE"}, _response),
        **dict.fromkeys(OPENS, _open),
        **dict.fromkeys(CLOSES, _close),
        "CONNECT": _connect,
        "CONNECTED": _version,
        "ERROR": _error,
        "SEND_ERROR": _send_error,
        "TOPIC_MIGRATED": _migrated,
        "FLOW": _flow,
        "ACK": _ack,
    }
