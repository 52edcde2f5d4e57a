"""Backlogs that grow, and messages that a subscription never gets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pulsarscope.dissect.contract.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import consumer_of, frame_names
from pulsarscope.protocols.pulsar.rules.subscriptions.spans import WITHHELD, Subscription
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import BUSY, HOLDING
from pulsarscope.protocols.pulsar.topics import bounded_name

CODES = table(
    SESSION.note(
        "backlog-growing",
        "A subscription gets less than is published and does not catch up: its backlog grows.",
        "With permits left, look at rate limits of dispatch and at the broker's storage; without, at what the application does for each "
        "message, or let more consumers share the subscription.",
    ),
    SESSION.warning(
        "messages-skipped",
        "A consumer got messages, but its subscription never got some of those before them, or not again.",
        "Someone skipped or cleared the backlog or deleted the subscription, its messages expired (TTL), or a backlog quota evicted them: "
        "see the policies of topic and namespace, and the broker's log. A consumer without permits takes too little of what is published.",
        to_act="the broker's operators, or the consumer's application",
    ),
)

THRESHOLDS = (
    in_seconds("backlog-growing-seconds", 3, "Time over which the backlog grows; bursts of messages are shorter.", "backlog-growing"),
    in_seconds(
        "backlog-growing-burst-seconds",
        15,
        "Time over which the backlog grows when the subscription kept up until messages came faster; such bursts are often shorter.",
        "backlog-growing",
    ),
    in_seconds(
        "backlog-growing-rest-seconds",
        2,
        "Time without a delivery after which a subscription is stuck rather than slow, which is another finding, unless it also waited "
        "as long between two deliveries while the backlog grew.",
        "backlog-growing",
    ),
    counted(
        "backlog-growing-entries", 20, "entries", "Entries by which the backlog grows; a few are always on their way.", "backlog-growing"
    ),
    in_seconds(
        "consumer-behind-backlog-seconds",
        10,
        "Time over which the backlog grows as the consumers have no permits: they take less than is published.",
        "consumer-behind",
    ),
    counted("backlog-growing-factor", 1.5, "times", "Entries published for each one delivered.", "backlog-growing"),
)

SKIPPED = "skipped"
"""Kind of a fact of a topic: entries between two deliveries of the only active consumer of a subscription."""

PARTS = 3
"""Number of parts of the time span; a backlog must grow in each."""

_BURST = 1.5
"""Ratio to the earlier publish rate at which a burst begins."""

_LEVEL = 0.1
"""Fraction of the growth within which a backlog counts as level."""

_TRIP_MIN_NS, _TRIP_MAX_NS = 20_000_000, 1_000_000_000
"""Shortest and longest round trip on a long way: within one site a queue passes faster, and no way on Earth takes longer."""

_OPENING = 0.6
"""Fraction of a round trip that the answer to a SUBSCRIBE takes at least: it takes one, and the time of a way varies."""

Course = list[tuple[int, int]]
"""Time and entry of the furthest message of a ledger."""


def evaluate_lag(
    topic: str, facts: Sequence[Fact], slow: Collection[Subscription], report: ReportFinding, thresholds: Thresholds
) -> set[Subscription]:
    """Report subscriptions that fall behind, or that skip published messages.

    `slow`: subscriptions with a consumer that is reported as too slow for its keys. Return all whose consumers are reported as too slow.
    """
    behind = set()
    subscriptions: dict[Subscription, list[Fact]] = {}
    published: dict[Any, list[Fact]] = {}
    skipped: dict[Any, list[Fact]] = {}
    withheld: dict[str, int] = {}
    """By connection: time of its first SEND that consumers may not get, or not yet; after lost bytes, it is read after its receipt."""
    for fact in facts:
        if fact.what == WITHHELD:
            withheld.setdefault(fact.where.connection, fact.where.time)
    for fact in facts:
        if fact.what == "delivered":
            subscriptions.setdefault((fact.values["subscription"], fact.values["server"]), []).append(fact)
        elif fact.what == "published" and fact.where.time <= withheld.get(fact.where.connection, fact.where.time):
            published.setdefault(fact.values["server"], []).append(fact)
        elif fact.what == SKIPPED:
            skipped.setdefault(fact.values["subscription"], []).append(fact)
    for (subscription, server), delivered in subscriptions.items():
        here = published.get(server, ())
        has_slow = (subscription, server) in slow
        known = has_slow or any(_is_behind(fact, subscription) for fact in facts)
        if not any(_report_skipped(topic, fact, here, delivered, report) for fact in skipped.get(subscription, ())) and here:
            known = _report_growth(topic, here, delivered, report, thresholds, is_known=known, has_slow=has_slow) or known
        if known:
            behind.add((subscription, server))
    return behind


_ORDER_MARKS = ("producer_name", "sequence_id", "num_messages_in_batch", "txnid_least_bits")


def order_marks(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the part of a message's metadata that `are_of_one_producer` reads: all of it may be very large."""
    marks = {name: metadata[name] for name in _ORDER_MARKS if name in metadata} if metadata else {}
    if "producer_name" in marks:
        marks["producer_name"] = bounded_name(marks["producer_name"])
    return marks


def are_of_one_producer(before: Mapping[str, Any], after: Mapping[str, Any], entries: int) -> bool:
    """Return True for two messages of one producer whose sequence ids show that it also sent all entries between them."""
    if "txnid_least_bits" in before or "txnid_least_bits" in after or before.get("producer_name") != after.get("producer_name"):
        return False  # messages of aborted transactions are never delivered
    first, messages = before.get("sequence_id", 0), before.get("num_messages_in_batch", 1)
    return bool(after.get("sequence_id", 0) - first - messages == entries - 1)


def _is_behind(fact: Fact, subscription: str | None) -> bool:
    """Return True for the fact that a consumer of a subscription is reported as behind, or as one that does not acknowledge."""
    values = fact.values
    return fact.what in (HOLDING, BUSY) and values["subscription"] == subscription and (values["behind"] or values["reported"])


def _report_growth(
    topic: str,
    published: Sequence[Fact],
    delivered: Sequence[Fact],
    report: ReportFinding,
    thresholds: Thresholds,
    *,
    is_known: bool,
    has_slow: bool,
) -> bool:
    """Report a backlog that grows, and the consumers that take too little, unless they are known to be behind (`is_known`).

    `has_slow`: one of them is too slow for its keys.

    Return True if these consumers are reported.
    """
    ledger = delivered[-1].values["position"][0]
    sent, got = _course(published, ledger), _course(delivered, ledger)
    if len(sent) < PARTS or len(got) < PARTS:
        return False
    began, end = max(sent[0][0], got[0][0]), sent[-1][0]
    begin = _begin_of_growth(sent, got, began)
    rest = max(thresholds.ns("backlog-growing-rest-seconds"), _longest_rest(got, begin))
    if end - begin < thresholds.ns("backlog-growing-seconds") or end - got[-1][0] > rest:
        return False
    lags = [_entry_at(sent, time) - _entry_at(got, time) for time in (begin + (end - begin) * part // PARTS for part in range(PARTS + 1))]
    came, went = (round(_entry_at(course, end) - _entry_at(course, begin)) for course in (sent, got))
    grown = came - went
    if grown < thresholds["backlog-growing-entries"] or came < thresholds["backlog-growing-factor"] * max(went, 1):
        return False
    if any(2 * PARTS * (after - before) < grown for before, after in pairwise(lags)):
        return False
    if end - begin < thresholds.ns("backlog-growing-burst-seconds") and _is_burst(sent, began, begin):
        return False
    values, act = delivered[-1].values, _holder(delivered)
    way = None if act == "client" else _way(delivered, went, end - begin)
    if way is not None:
        act = "client"
    text = f"The backlog of subscription {values['subscription']} on {topic} grew by {grown:,} entries in {duration(end - begin)}"
    text += f": {came:,} were published and {went:,} delivered"
    if act == "broker":
        text += ", though its consumers had permits all the time"
    elif way is not None:
        text += f", as its consumers ask for no more than {plural(way[0], 'message')} at once, and a round trip takes {duration(way[1])}"
    elif act == "client":
        text += ", as the consumer of most keys had" if has_slow else ", as its consumers had"
        text += " no permits most of the time"
    evidence = {
        "frames": frame_names([published[-1].where.name, delivered[-1].where.name]),
        "topic": topic,
        "subscription": values["subscription"],
        "grown": grown,
        "published": came,
        "delivered": went,
        "span_ns": end - begin,
        "act": act,
        "round_trip_ns": None if way is None else way[1],
        **thresholds.evidence(*(threshold.name for threshold in THRESHOLDS)),
    }
    report("backlog-growing", delivered[-1].where, f"{text}.", evidence)
    if act == "client" and not is_known and end - begin >= thresholds.ns("consumer-behind-backlog-seconds"):
        connections = list(dict.fromkeys(fact.where.connection for fact in delivered))[:DIAGNOSIS_NAMES_MAX]
        report("consumer-behind", delivered[-1].where, f"{text}.", evidence | {"connections": connections})
        return True
    return False


def _holder(delivered: Sequence[Fact]) -> str | None:
    """Return the cause of the backlog: the client, when its consumers have no permits; the broker; or None when it is uncertain."""
    ends: dict[tuple[str, int], tuple[Fact, Fact]] = {}
    for fact in delivered:
        consumer = consumer_of(fact)
        ends[consumer] = ends.get(consumer, (fact, fact))[0], fact
    lacks = [last.values["lacking_ns"] - first.values["lacking_ns"] for first, last in ends.values()]
    if not any(lacks):
        return "broker"
    spans = [last.where.time - first.where.time for first, last in ends.values()]
    return "client" if all(2 * lack >= span for lack, span in zip(lacks, spans, strict=True)) else None


def _way(delivered: Sequence[Fact], count: int, span: int) -> tuple[int, int] | None:
    """Return the most permits that the consumers had at once and the time of a round trip, if these limit the deliveries.

    In a capture at the consumers, permits are always on their way. The answer to a SUBSCRIBE took about as long.
    """
    latest = {consumer_of(fact): fact.values for fact in delivered}.values()
    queue, opening = sum(values["queue"] for values in latest), min(values["opening_ns"] for values in latest)
    took = queue * span // max(count, 1)
    return (queue, took) if _TRIP_MIN_NS <= took <= _TRIP_MAX_NS and opening >= _OPENING * took else None


def _begin_of_growth(sent: Course, got: Course, began: int) -> int:
    """Return the time until which a subscription kept up: the queues of its consumers may fill before its backlog grows."""
    lags = [(time, _entry_at(sent, time) - _entry_at(got, time)) for time in (began, *(time for time, _ in sent if time > began))]
    low = min(lag for _, lag in lags)
    return max(time for time, lag in lags if lag <= low + _LEVEL * (lags[-1][1] - low))


def _longest_rest(got: Course, begin: int) -> int:
    """Return the longest time between two deliveries since a backlog grows: a client grants permits when half its queue is worked off."""
    times = [time for time, _ in got if time >= begin]
    return max((after - before for before, after in pairwise(times)), default=0)


def _is_burst(sent: Course, began: int, begin: int) -> bool:
    """Return True when messages come faster since the growth began than before, over a period long enough to compare."""
    before, span = begin - began, sent[-1][0] - begin
    earlier, came = _entry_at(sent, begin) - _entry_at(sent, began), sent[-1][1] - _entry_at(sent, begin)
    return PARTS * before >= span and came * before > _BURST * earlier * span


def _course(facts: Iterable[Fact], ledger: int) -> Course:
    course: Course = []
    for fact in facts:
        number, entry = fact.values["position"]
        if number == ledger and (not course or (fact.where.time > course[-1][0] and entry >= course[-1][1])):
            course.append((fact.where.time, entry))
    return course


def _entry_at(course: Course, time: int) -> float:
    """Return the entry at a time, interpolated between two known ones."""
    behind = bisect_left(course, time, key=_time)
    if not 0 < behind < len(course):
        return course[0 if behind == 0 else -1][1]
    (before, low), (after, high) = course[behind - 1 : behind + 1]
    return low + (high - low) * (time - before) / (after - before)


def _time(point: tuple[int, int]) -> int:
    return point[0]


def _report_skipped(topic: str, skipped: Fact, published: Sequence[Fact], delivered: Sequence[Fact], report: ReportFinding) -> bool:
    """Report entries between two deliveries if they include a published message that no other consumer of the subscription got."""
    values, where = skipped.values, skipped.where._replace(time=skipped.values["time"])
    before, after = tuple(values["before"]), tuple(values["after"])
    earlier = [fact for fact in published if tuple(fact.values["position"]) < after and fact.where.time < where.time]
    within = [fact for fact in earlier if tuple(fact.values["position"]) > before]
    known = within or (earlier if values["sent"] else ())  # published within the capture, so no consumer had them earlier
    if not known or any(_had_before(fact, before, skipped) for fact in delivered):
        return False
    count = after[1] - before[1] - 1
    skipped_text = "the entry" if count == 1 else f"the {count:,} entries"
    text = f"{values['title']} got {_name(before)} and then {_name(after)}: its subscription never got {skipped_text} between"
    if within:
        entry, age = _name(within[0].values["position"]), duration(where.time - within[0].where.time)
        text += f", such as {entry}, which was published {age} earlier" if count > 1 else f", which was published {age} earlier"
    else:
        text += ", though the sequence ids of these two show that their producer sent messages between them"
    evidence = {
        "frames": frame_names([values["frame"], skipped.where.name, known[0].where.name]),
        "topic": topic,
        "subscription": values["subscription"],
        "consumer_id": values["consumer_id"],
        "consumer_name": values["consumer_name"],
        "before": [*before],
        "after": [*after],
        "count": count,
    }
    report("messages-skipped", where, f"{text}.", evidence)
    return True


def _had_before(fact: Fact, before: Sequence[int], skipped: Fact) -> bool:
    """Return True for a delivery after the entry `before` to another consumer, or to an earlier one with the same id."""
    is_own = consumer_of(fact) == consumer_of(skipped)
    time, until = fact.where.time, skipped.values["time"]
    return tuple(fact.values["position"]) > tuple(before) and (time < until if is_own else time <= until)


def _name(position: Sequence[int]) -> str:
    return f"{position[0]}:{position[1]}"
