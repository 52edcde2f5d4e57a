"""Rules about places in the log of Kafka 0.7: messages that are not stored, skipped, or fetched again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, name_of, where_of
from pulsarscope.model.findings import LOSS_CODES, SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.kafka07.commands import (
    FETCH,
    FETCH_RESPONSE,
    MULTIFETCH,
    MULTIFETCH_RESPONSE,
    MULTIPRODUCE,
    OFFSETS,
    OFFSETS_RESPONSE,
    PRODUCE,
    RESPONSE,
)
from pulsarscope.protocols.kafka07.requests import LARGEST_MESSAGE, parts_of

CODES = table(
    SESSION.error(
        "produce-lost",
        "The broker closed a connection after messages were produced on it.",
        "That is how a broker of 0.7 says that it did not store them: see its log. The producer notices at its next send.",
        to_act="the broker's operators",
    ),
    SESSION.note(
        "produce-unconfirmed",
        "A broker that stops closed a connection on which messages had been produced, and nobody fetched them since.",
        "A broker of 0.7 confirms nothing: whether it had stored the last ones shows when they are fetched.",
    ),
    SESSION.error(
        "message-too-large-dropped",
        "A produced message is larger than a 0.7 broker stores: it silently drops the message and all that was sent with it.",
        "Raise max.message.size on all brokers and the producer's max.message.size, or send less at once.",
        to_act="the producer's application, or the broker's operators",
    ),
    SESSION.warning(
        "offset-skipped",
        "A consumer continues beyond the offset up to which it has read: it never gets the messages in between.",
        "It computes offsets wrongly, or started from a stored one: compare both offsets with what it had read.",
        to_act="the consumer's application",
    ),
    SESSION.note(
        "fetched-twice",
        "A consumer fetches messages again that it already got on the same connection.",
        "It did not advance its offset, or failed on a message and tries again: look at the message at that offset.",
    ),
)

THRESHOLDS = (
    counted(
        "message-too-large-bytes",
        1_000_000,
        "bytes",
        "Size of a message that a broker drops: max.message.size, by default.",
        "message-too-large-dropped",
        least=1_000_000,
    ),
    in_seconds(
        "produce-lost-seconds",
        1,
        "Time within which a broker closes because it refuses a request; a broker that closes other connections in that time stops.",
        "produce-lost",
        "produce-unconfirmed",
    ),
)

PLACES_MAX = 1_000
"""Most partitions, and most recent produce requests, remembered for one connection."""

STEADY_FETCHES = 2
"""Number of fetches that continue where a connection from before the capture had read to. They show that its responses match its
requests."""

STEPS_MAX = 100
"""Number of latest fetches of one partition that are emitted."""

LOG, LOG_IDLE_NS = "kafka07-log", 600_000_000_000
"""Name of the key rule, whose keys are brokers, and the time without facts after which a key is evaluated."""


class Produced(NamedTuple):
    """The parts of a produce request that rules need."""

    where: Where
    command: str
    topic: str | None
    parts: list[tuple[str | None, int, int]]
    """Topic, partition and bytes of each set."""
    messages: int


class Progress(msgspec.Struct):
    """The progress of reading a partition on a connection."""

    expected: int
    """Offset after the delivered messages; only it shows skipped messages."""
    begin: int
    """Offset from which it has read without a break."""
    response: str
    steady: int = 0
    """Number of fetches that continued where it had read to: each shows that responses and requests are paired correctly."""
    steps: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Latest responses: time, and the offset after them."""


Place = tuple[str | None, int]


class LogRule(ConnectionRule):
    """A rule about the places that one connection reads and writes, and the source of the facts about the log."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._produced: list[Produced] = []
        """Produce requests since the last answer."""
        self._progress: dict[Place, Progress] = {}
        self._waiting: dict[str, None] = {}
        """Fetches without a response: after several, offsets prove nothing."""
        self._asked: Where | None = None
        """Latest request that is not a produce request."""
        self._suspects: dict[Place, tuple[str, Where, str, dict[str, Any]]] = {}
        """Findings about fetches, until the broker accepts the fetches."""
        self._reported_codes: set[str] = set()
        """Reported codes: one finding of each is enough."""

    def _produce(self, row: FrameRow) -> None:
        fields, command = row.fields or {}, row.command or ""
        parts = [(part.get("topic"), part.get("partition", -1), part.get("messages_size") or 0) for part in parts_of(command, fields)]
        if len(self._produced) >= PLACES_MAX:
            del self._produced[: PLACES_MAX // 2]
        self._produced.append(Produced(where_of(row), command, row.topic, parts, row.num_messages or 0))
        largest = (row.extra or {}).get(LARGEST_MESSAGE, 0)
        if largest > self._context.thresholds["message-too-large-bytes"]:
            text = f"{command} of {row.topic or 'several topics'} has a message of {largest:,} bytes: the broker stores none of its set."
            evidence = {"frames": [name_of(row)], "topic": row.topic, "bytes": largest, "messages": row.num_messages}
            self._context.report("message-too-large-dropped", where_of(row), text, evidence)

    def _fetch(self, row: FrameRow) -> None:
        where = self._asked = where_of(row)
        if not self._waiting:
            self._suspects.clear()
            for part in parts_of(row.command or "", row.fields or {}):
                self._judge(where, (part.get("topic"), part.get("partition", -1)), part.get("offset", -1))
        if len(self._waiting) < PLACES_MAX:
            self._waiting[where.name] = None

    def _judge(self, where: Where, place: Place, offset: int) -> None:
        progress = self._progress.get(place)
        if progress is None or progress.expected < 0:
            return
        if offset == progress.expected:
            progress.steady += 1
            return
        code = "offset-skipped" if offset > progress.expected else "fetched-twice" if progress.begin <= offset else ""
        progress_before, progress.expected = progress.expected, -1
        if not code or code in self._reported_codes or self._lacks(progress):
            return
        topic, partition = place
        count = abs(offset - progress_before)
        what = f"passed over {count:,} bytes" if code == "offset-skipped" else f"fetches {count:,} bytes again"
        text = (
            f"{self._context.client} had read {topic} partition {partition} up to {progress_before}, and continues at {offset}: it {what}."
        )
        evidence = {
            "frames": [progress.response, where.name],
            "topic": topic,
            "partition": partition,
            "expected": progress_before,
            "offset": offset,
            "bytes": count,
        }
        self._suspects[place] = code, where, text, evidence

    def _lacks(self, progress: Progress) -> bool:
        """Return True if requests or responses may be missing: on a connection from before the capture, until it has read steadily."""
        if not self._context.lost:
            return False
        return progress.steady < STEADY_FETCHES or any(self._context.reported(code) for code in LOSS_CODES - {"midstream-start"})

    def _response(self, row: FrameRow) -> None:
        self._produced.clear()
        self._waiting.pop(row.request or "", None)
        if row.command == RESPONSE or row.request is None:
            self._progress.clear()
            return
        fields, extra = row.fields or {}, row.extra or {}
        where = where_of(row)
        for part, place in zip(fields.get("parts") or (fields,), extra.get("parts") or (extra,), strict=False):
            key = place.get("topic", row.topic), place.get("partition", -1)
            begin, behind = place.get("offset"), place.get("next_offset")
            suspect = self._suspects.pop(key, None)
            if row.status != "ok" or part.get("error") != "NoError" or begin is None or behind is None:
                self._progress.pop(key, None)
                continue
            if suspect is not None and suspect[0] not in self._reported_codes:
                self._reported_codes.add(suspect[0])
                self._context.report(*suspect)
            progress = self._progress.get(key)
            if progress is None:
                if len(self._progress) >= PLACES_MAX:
                    continue
                progress = self._progress[key] = Progress(-1, begin, where.name)
            if behind > begin:
                if begin != progress.expected:
                    progress.begin = begin
                progress.expected, progress.response = behind, where.name
            progress.steps.append((where.time, behind))
            if len(progress.steps) > STEPS_MAX:
                del progress.steps[: STEPS_MAX // 2]

    def _offsets(self, row: FrameRow) -> None:
        """Expect no offset from a client that asks where to continue."""
        if row.command == OFFSETS:
            self._asked = where_of(row)
        self._waiting.pop(row.request or "", None)
        if row.command == OFFSETS_RESPONSE:
            self._produced.clear()
        for progress in self._progress.values():
            progress.expected = -1

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the fetched places, and the requests at which the broker closed."""
        key = self._context.server
        for (topic, partition), progress in self._progress.items():
            seen = {"topic": topic, "partition": partition, "steps": progress.steps}
            self._context.emit_fact(LOG, key, last._replace(time=row.end), "fetched", seen)
        if row.closed_by != SERVER:
            return
        closed = (self._context.closing or ("", row.end))[1]
        before = [each for each in self._produced if each.where.time <= closed]
        after = self._produced[len(before) :]
        values: dict[str, Any] = {"closed": row.closed, "start": row.start, "at": closed, "late": [each.where.name for each in after][:10]}
        named = before[-1] if before else after[0] if after else None
        if named is not None and self._asked is not None and named.where < self._asked and self._asked.time <= closed:
            named = None  # the broker closed instead of answering that request
        if named is not None:
            values |= {
                "request": named.command,
                "time": named.where.time,
                "refused": bool(before),
                "topic": named.topic,
                "parts": [part for each in (before or after) for part in each.parts][-PLACES_MAX:],
                "messages": sum(each.messages for each in self._produced),
            }
        self._context.emit_fact(LOG, key, (last if named is None else named.where)._replace(time=row.end), "closed", values)

    frames: ClassVar[Handlers] = {
        PRODUCE: _produce,
        MULTIPRODUCE: _produce,
        FETCH: _fetch,
        MULTIFETCH: _fetch,
        FETCH_RESPONSE: _response,
        MULTIFETCH_RESPONSE: _response,
        RESPONSE: _response,
        OFFSETS: _offsets,
        OFFSETS_RESPONSE: _offsets,
    }


def _evaluate_log(_server: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report messages at which a broker closed, unless they were fetched later."""
    closings = [fact for fact in facts if fact.what == "closed"]
    fetched = [fact.values for fact in facts if fact.what == "fetched"]
    soon = thresholds.ns("produce-lost-seconds")
    for closing in closings:
        values = closing.values
        if "request" not in values or (values["refused"] and _is_stored(values, fetched)):
            continue
        at, name = values["at"], closing.where.name
        stops = at - values["time"] > soon or any(_ended_together(closing, other, soon) for other in closings)
        count = f"{values['messages']:,} message{'' if values['messages'] == 1 else 's'}"
        evidence = {
            "frames": [name, *values["late"]] if values["refused"] else values["late"],
            "topic": values["topic"],
            "messages": values["messages"],
            "closed": values["closed"],
            "after_close": len(values["late"]),
        }
        where = closing.where._replace(time=values["time"])
        late = f", and the client sent {len(values['late'])} more after that" if values["late"] and values["refused"] else ""
        if not values["refused"]:
            text = f"{values['request']} {name} was sent after the broker had closed the connection: {count} are lost."
            report("produce-lost", where, text, evidence)
        elif stops and not values["late"]:
            text = f"The broker closed the connection after {values['request']} {name}, and is closing others or was long idle: "
            report("produce-unconfirmed", where, f"{text}{count} since the last answer may be stored or not.", evidence)
        else:
            text = f"The broker closed the connection after {values['request']} {name}: {count} since the last answer may be lost{late}."
            report("produce-lost", where, text, evidence)


def _ended_together(one: Fact, other: Fact, soon: int) -> bool:
    """Return True if a broker closed two connections, which were open at the same time, at about the same time."""
    first, second = one.values, other.values
    is_other = one.where.connection != other.where.connection and abs(first["at"] - second["at"]) <= soon
    return is_other and max(first["start"], second["start"]) < min(first["at"], second["at"])


def _is_stored(closing: dict[str, Any], fetched: Sequence[dict[str, Any]]) -> bool:
    """Return True if fetches from the previous end of the log returned as many bytes as were produced."""
    sizes: dict[Place, int] = {}
    for topic, partition, size in closing["parts"]:
        sizes[topic, partition] = sizes.get((topic, partition), 0) + size
    for (topic, partition), size in sizes.items():
        grown = 0
        for number in {each["partition"] for each in fetched if each["topic"] == topic and partition in (-1, each["partition"])}:
            steps = [tuple(step) for each in fetched if (each["topic"], each["partition"]) == (topic, number) for step in each["steps"]]
            ends = [behind for time, behind in steps if time <= closing["time"]]
            grown += max((behind for _, behind in steps), default=0) - max(ends, default=0) if ends else 0
        if grown < size:
            return False
    return bool(sizes)


KEYS = (KeyRule(LOG, LOG_IDLE_NS, _evaluate_log),)
