"""Deliveries to all consumers of a Shared or Key_Shared subscription: entries that none got, and the consumer that blocks others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, Where
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import consumer_of, frame_names, latest_seen
from pulsarscope.protocols.pulsar.rules.subscriptions.blocked import SHARED
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import HOLDING

THRESHOLDS = (
    counted(
        "messages-skipped-entries",
        3,
        "entries",
        "Consecutive entries that a Shared or Key_Shared subscription does not get; single ones are markers of transactions or "
        "replication.",
        "messages-skipped",
    ),
    counted(
        "consumer-behind-key-shared-entries",
        10,
        "entries",
        "Entries that no consumer of a Key_Shared subscription gets while one mostly lacks permits and another always has some.",
        "consumer-behind",
    ),
    in_seconds(
        "consumer-behind-key-shared-seconds",
        2.5,
        "Time from the first permits of the slow consumer to the end; bursts of messages are shorter.",
        "consumer-behind",
    ),
)

SPANS, WITHHELD = "spans", "withheld"
"""Kinds of facts of a topic: the deliveries to a consumer, and that some published messages are not for every consumer at once."""

AROUND = 5
"""Number of entries before and after skipped ones that the captured consumers must have got; otherwise, an uncaptured consumer may have the
skipped ones."""

FEW, MANY = 2, 10
"""With `MANY` entries after skipped ones, `FEW` before them are enough: another consumer would have got some of the many."""

HOLES_MAX = 2
"""Maximum number of holes in the deliveries to a subscription: more holes are the share of an uncaptured consumer, unless it is clear that
there is none."""

TURNS = 3
"""Number of entries, for each hole and captured consumer, that followed at once when one had used up its permits. An uncaptured consumer
would have had its turn after each of them."""

EXHAUSTED_MAX = 500
"""Most entries kept of one consumer that used up its permits."""

Span = tuple[int, int, Where]
"""First and last entry, and the first delivery."""


Subscription = tuple[str | None, str]
"""Name of a subscription, and its broker."""


class SubscriptionSpans(NamedTuple):
    """The evaluation of the deliveries to one subscription."""

    topic: str
    group: Sequence[Fact]
    """Facts of its consumers."""
    ledger: int
    """Latest ledger with deliveries."""
    merged: Sequence[Span]
    """Spans of all consumers in that ledger."""
    published: Sequence[Fact]
    """Facts of entries that were published for it."""
    report: ReportFinding
    thresholds: Thresholds


def may_be_elsewhere(subscription: str | None, server: str, position: Position, published_at: int, facts: Sequence[Fact]) -> bool:
    """Return True when an entry of a shared subscription may be at an unknown consumer, or among missing bytes.

    The known consumers then got only a share of the earlier entries.
    """
    group = [
        fact for fact in facts if fact.what == SPANS and (fact.values["subscription"], fact.values["server"]) == (subscription, server)
    ]
    if any(fact.values["lost_at"] >= published_at for fact in group):
        return True
    return sum(after[0] <= position[1] for _, after in pairwise(_merged(group, position[0]))) > HOLES_MAX


def spans_of(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> dict[Subscription, SubscriptionSpans]:
    """Return the spans of the subscriptions of a topic whose deliveries can be compared with what was published."""
    groups: dict[Subscription, list[Fact]] = {}
    for fact in facts:
        if fact.what == SPANS:
            groups.setdefault((fact.values["subscription"], fact.values["server"]), []).append(fact)
    if not groups or any(fact.what == WITHHELD for fact in facts):
        return {}
    spans = {}
    for subscription, group in groups.items():
        published = [fact for fact in facts if fact.what == "published" and fact.values["server"] == subscription[1]]
        if published and not any(fact.values["undecided"] for fact in group):
            ledger = max(fact.values["ledger"] for fact in group)
            spans[subscription] = SubscriptionSpans(topic, group, ledger, _merged(group, ledger), published, report, thresholds)
    return spans


def evaluate_slow_keys(spans: Mapping[Subscription, SubscriptionSpans], facts: Sequence[Fact]) -> set[Subscription]:
    """Report the consumers for whose keys others wait; return their subscriptions."""
    end = latest_seen(facts)
    shares = {consumer_of(fact): fact for fact in facts if fact.what == SHARED}
    return {each for each, evaluation in spans.items() if _is_ordered(evaluation) and _report_slow(evaluation, end, shares)}


def evaluate_spans(spans: Mapping[Subscription, SubscriptionSpans], facts: Sequence[Fact], behind: Collection[Subscription]) -> None:
    """Report messages that a subscription never got, and the consumers that are too slow.

    `behind`: subscriptions whose consumers are reported as too slow.
    """
    for (subscription, server), evaluation in spans.items():
        group, is_ordered = evaluation.group, _is_ordered(evaluation)
        waits = any(fact.what == HOLDING and fact.values["subscription"] == subscription for fact in facts)
        if not is_ordered or not (waits or any(fact.values["permits"] <= 0 and not fact.values["closed"] for fact in group)):
            since = _report_skipped(evaluation)
            if since is not None and (subscription, server) not in behind:
                _report_too_slow(evaluation, since)


def _is_ordered(evaluation: SubscriptionSpans) -> bool:
    """Return True for a subscription with Key_Shared consumers only."""
    return {fact.values["kind"] for fact in evaluation.group} == {"Key_Shared"}


def _merged(group: Sequence[Fact], ledger: int) -> list[Span]:
    """Return the spans of all consumers of a subscription in one ledger, joined where they touch."""
    merged: list[Span] = []
    spans = [(first, last, Where(*where)) for fact in group for number, first, last, where in fact.values["spans"] if number == ledger]
    for first, last, where in sorted(spans, key=lambda span: span[:2]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1]), merged[-1][2]
        else:
            merged.append((first, last, where))
    return merged


def _report_skipped(evaluation: SubscriptionSpans) -> int | None:
    """Report a hole in the deliveries to a subscription, if its messages were published within the capture.

    Return the time from which on they were published; None if there is none.
    """
    topic, group, ledger, merged, published, report, thresholds = evaluation
    holes, since = [*pairwise(merged)], None
    if len(holes) > HOLES_MAX:
        return _report_dropped(evaluation)
    for before, after in holes:
        count = after[0] - before[1] - 1
        where = after[2]
        known = next((fact for fact in published if fact.values["position"][0] == ledger and fact.values["position"][1] < after[0]), None)
        earlier, later = (last - first + 1 for first, last, *_ in (before, after))
        is_surrounded = later >= AROUND and (earlier >= AROUND or (earlier >= FEW and later >= MANY))
        if known is None or known.where.time > where.time or count < thresholds["messages-skipped-entries"] or not is_surrounded:
            continue
        if any(not fact.values["closed"] and fact.where.time < where.time for fact in group):
            continue  # a connection that neither continues nor ends: its rest may be missing
        # A consumer with permits gets its share of the messages; without one, another consumer may be preferred.
        was_full = any([ledger, before[1]] == [*position] for fact in group for position in fact.values["exhausted"])
        if not was_full and any(fact.where.time >= where.time and fact.values["began"] <= known.where.time for fact in group):
            continue
        if known.values["position"][1] > before[1] + 1 and count - (known.values["position"][1] - before[1] - 1) < AROUND:
            continue  # few of them are known to be published within the capture
        evidence = _hole_evidence(evaluation, (before, after), known, {"count": count})
        text = f"Subscription {evidence['subscription']} on {topic} got {ledger}:{before[1]} and then {ledger}:{after[0]}: "
        text += "its consumer never" if len(group) == 1 else f"none of its {len(group):,} consumers ever"
        text += f" got the {count:,} entries between, of which some were published meanwhile."
        if all(2 * fact.values["lacking_ns"] >= fact.values["life_ns"] for fact in group):
            text += f" {'It' if len(group) == 1 else 'They'} had no permits most of the time: the entries may have expired before."
        report("messages-skipped", where, text, evidence)
        since = _first_within(published, ledger, before[1]) if since is None else since
    return since


def _first_within(published: Sequence[Fact], ledger: int, entry: int) -> int | None:
    """Return the time at which the first message behind an entry was published."""
    return next((fact.where.time for fact in published if [*fact.values["position"]] > [ledger, entry]), None)


def _report_too_slow(evaluation: SubscriptionSpans, since: int) -> None:
    """Report the consumers of a subscription that mostly had no permits while messages were published, from `since` on, and dropped."""
    group, thresholds = evaluation.group, evaluation.thresholds
    slow = [fact for fact in group if 2 * fact.values["lacking_ns"] >= fact.values["life_ns"] and fact.values["acks"] > 1]
    least = thresholds.ns("consumer-behind-backlog-seconds")
    if len(slow) < len(group) or any(fact.values["life_ns"] < least or fact.values["began"] > since for fact in group):
        return  # those that come later find a backlog
    consumer = max(slow, key=lambda fact: fact.values["lacking_ns"])
    values = consumer.values
    text = f"{values['title']} had no permits for {duration(values['lacking_ns'])} of {duration(values['life_ns'])}"
    text += f", like {plural(len(group) - 1, 'other')} of its subscription" if len(group) > 1 else ""
    text += ": messages that were published meanwhile were dropped before it took them."
    evidence = {
        "frames": [consumer.where.name],
        "consumer_id": values["consumer_id"],
        "consumer_name": values["consumer_name"],
        "topic": evaluation.topic,
        "subscription": values["subscription"],
        "delivered": values["delivered"],
        "lacking_ns": values["lacking_ns"],
        "span_ns": values["life_ns"],
        "act": "client",
        **thresholds.evidence("consumer-behind-backlog-seconds"),
    }
    evaluation.report("consumer-behind", consumer.where, text, evidence)


def _hole_evidence(evaluation: SubscriptionSpans, hole: tuple[Span, Span], known: Fact, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the evidence of a hole between two spans; `known`: an entry published by then, `counts`: how much is missing."""
    (before, after), group, ledger = hole, evaluation.group, evaluation.ledger
    values = next((fact for fact in group if fact.where.connection == after[2].connection), group[0]).values
    return {
        "frames": frame_names([before[2].name, after[2].name, known.where.name]),
        "topic": evaluation.topic,
        "subscription": values["subscription"],
        "consumer_id": values["consumer_id"],
        "consumer_name": values["consumer_name"],
        "before": [ledger, before[1]],
        "after": [ledger, after[0]],
        **counts,
        **evaluation.thresholds.evidence("messages-skipped-entries"),
    }


def _report_dropped(evaluation: SubscriptionSpans) -> int | None:
    """Report slow consumers, without others in their subscription, that repeatedly missed some messages.

    Return the time from which on these were published; None if there are none.
    """
    topic, group, ledger, merged, published, report, thresholds = evaluation
    known = min((fact for fact in published if fact.values["position"][0] == ledger), key=lambda fact: fact.where, default=None)
    if known is None or any(2 * fact.values["lacking_ns"] < fact.values["life_ns"] for fact in group):
        return None
    full = [fact.values["exhausted"][-1] for fact in group if len(fact.values["exhausted"]) >= EXHAUSTED_MAX]
    until = min((entry for number, entry in full if number == ledger), default=merged[-1][1])
    holes = [(before, after) for before, after in pairwise(merged) if after[0] <= until]
    exhausted = {entry for fact in group for number, entry in fact.values["exhausted"] if number == ledger}
    followed = sum(first <= entry < last for entry in exhausted for first, last, _ in merged)
    wide = [
        (before, after)
        for before, after in holes
        if after[0] - before[1] > thresholds["messages-skipped-entries"] and known.values["position"][1] <= before[1] + 1
    ]
    if not wide or followed < TURNS * len(group) * len(holes):
        return None
    (before, after), count = wide[0], sum(after[0] - before[1] - 1 for before, after in wide)
    if any(not fact.values["closed"] and fact.where.time < wide[-1][1][2].time for fact in group):
        return None  # as for a single hole
    evidence = _hole_evidence(evaluation, wide[0], known, {"count": count, "holes": len(wide)})
    consumers = "its consumer" if len(group) == 1 else f"its {len(group):,} consumers"
    text = f"Subscription {evidence['subscription']} on {topic} never got {count:,} of {merged[-1][1] - merged[0][0] + 1:,} entries, in "
    text += f"{plural(len(wide), 'place')}, the first between {ledger}:{before[1]} and {ledger}:{after[0]}: "
    text += f"{consumers} had no permits most of the time, but got all others one after the other, "
    text += "as if no consumer outside the capture took any."
    report("messages-skipped", after[2], text, evidence)
    return _first_within(published, ledger, before[1])


def _report_slow(evaluation: SubscriptionSpans, end: int, shares: Mapping[tuple[str, int], Fact]) -> bool:
    """Report the consumer without permits whose keys wait, while another consumer of its subscription always has permits."""
    _, group, ledger, merged, published, report, thresholds = evaluation
    until, least = end - thresholds.ns("key-shared-delivery-seconds"), thresholds.ns("consumer-behind-key-shared-seconds")
    present = [fact for fact in group if not (fact.values["closed"] and fact.where.time < until)]
    idle = [
        fact
        for fact in present
        if fact.values["permits"] > 0 and 10 * fact.values["lacking_ns"] <= fact.values["life_ns"] and end - fact.values["began"] >= least
    ]
    slow = [fact for fact in present if 2 * fact.values["lacking_ns"] >= fact.values["life_ns"] >= least and fact.values["acks"] > 1]
    due = [fact.values["position"][1] for fact in published if fact.values["position"][0] == ledger and fact.where.time <= until]
    if not idle or not slow or not merged or not due:
        return False
    consumer = max(slow, key=lambda fact: fact.values["lacking_ns"])
    values, beside = consumer.values, idle[0].values
    newest, begin = max(due), merged[0][0]
    got = sum(max(0, min(last, newest) - first + 1) for first, last, *_ in merged)
    missing = newest - begin + 1 - got
    exhausted = values["exhausted"][0]
    # No entry before it used up its permits may be missing; otherwise the capture lacks another consumer of the subscription.
    if missing < thresholds["consumer-behind-key-shared-entries"] or (exhausted[0] == ledger and merged[0][1] < exhausted[1]):
        return False
    text = f"{values['title']} had no permits for {duration(values['lacking_ns'])} of {duration(values['life_ns'])}: "
    text += f"{missing:,} entries wait for it or behind its keys, while consumer {beside['consumer_name']} beside it has permits."
    share = shares.get(consumer_of(consumer))
    busiest = None if share is None else share.values["busiest"]
    if share is not None and busiest is not None:
        kind, key, count = busiest
        total = share.values["delivered"]
        amount = f"All {total:,} entries" if count == total else f"At least {count:,} of the {total:,} entries"
        text += f" {amount} that it got have {kind} {key}, and a key goes to one consumer."
    evidence = {
        "frames": [consumer.where.name],
        "consumer_id": values["consumer_id"],
        "consumer_name": values["consumer_name"],
        "topic": values["topic"],
        "subscription": values["subscription"],
        "delivered": values["delivered"],
        "waiting": missing,
        "lacking_ns": values["lacking_ns"],
        "span_ns": values["life_ns"],
        "beside": beside["consumer_name"],
        "key": None if busiest is None else busiest[1],
        "act": "client",
        **thresholds.evidence("consumer-behind-key-shared-entries", "consumer-behind-key-shared-seconds"),
    }
    report("consumer-behind", consumer.where, text, evidence)
    return True
