"""Consumers that stopped, compared with their topic in the capture: the messages published after their last one, and the time since.

A consumer's own connection falls silent with it. Its wait is therefore a fact, and the topic's other connections serve as the clock. The
codes are those of `permits.py` and `unacked.py`, which report what a single connection can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.dissect.contract.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import TYPICAL_ACKS, consumer_of, frame_names, latest_seen

CODES = table(
    SESSION.note(
        "consumer-undecided",
        "At the end of the capture a consumer takes or acknowledges nothing, or returns a message, but not for long enough to show "
        "that it is stuck.",
        "A longer capture would show an ACK or a FLOW of a consumer that works.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "consumer-starved-backlog-seconds",
        2.2,
        "Time without permits while the topic has newer messages; clients may group ACKs for up to 2 s.",
        "consumer-starved",
    ),
    in_seconds(
        "consumer-starved-done-seconds",
        1.5,
        "Time without permits while the topic has many newer messages, for a consumer that acknowledged all that it got, and half of its "
        "life; an application may pause its consumer for a moment.",
        "consumer-starved",
    ),
    counted(
        "consumer-starved-done-messages",
        5,
        "messages",
        "Messages that such a consumer got; one that asks for each when it wants it may be at work on the last, acknowledged before.",
        "consumer-starved",
    ),
    counted(
        "consumer-starved-done-turns",
        5,
        "times",
        "Rest of such a consumer compared with its longest turn so far; one that continues has rested as long before.",
        "consumer-starved",
        least=0,
    ),
    counted(
        "consumer-starved-done-entries",
        20,
        "entries",
        "Entries published behind such a consumer, which show that it should take more.",
        "consumer-starved",
    ),
    in_seconds(
        "consumer-not-acking-first-seconds",
        3,
        "Time from the first message to the end without any ACK, or since the latest of many that came ten times as fast; "
        "clients may group ACKs for up to 2 s.",
        "consumer-not-acking",
    ),
    in_seconds(
        "consumer-not-acking-collecting-seconds",
        20,
        "Time from the first message to the end of the capture without any ACK, for a consumer that still gets messages: an application "
        "may acknowledge a batch when it is complete.",
        "consumer-not-acking",
    ),
    in_seconds(
        "consumer-not-acking-older-seconds",
        4,
        "Time without any ACK for a consumer from before the capture, with four times as many messages: twice as long as clients group "
        "ACKs.",
        "consumer-not-acking",
    ),
    counted(
        "consumer-not-acking-older-factor",
        4,
        "times",
        "Unacknowledged messages of a consumer from before the capture without an ACK, compared with those of another consumer: its "
        "earlier ACKs are not in the capture.",
        "consumer-not-acking",
    ),
    in_seconds(
        "consumer-not-acking-stopped-seconds",
        5,
        "Time without an ACK up to the end, for a consumer that acknowledged before.",
        "consumer-not-acking",
    ),
    in_seconds(
        "consumer-stopping-seconds",
        15,
        "Rest of a consumer before its end, unless it has rested for longer than it worked: an application that shuts down takes nothing "
        "more until it has finished, in half of the 30 s that a container has for that.",
        "consumer-starved",
        "consumer-not-acking",
    ),
    counted(
        "consumer-rhythm-factor",
        3,
        "times",
        "Rest of a consumer compared with its longest turn so far (from a delivery to the next ACK or FLOW); a stuck one rests longer.",
        "consumer-starved",
        "consumer-not-acking",
        least=0,
    ),
    in_seconds("consumer-undecided-seconds", 1.5, "Rest of a consumer; those of any application are shorter.", "consumer-undecided"),
)

STEADY_TURNS = 10
"""A consumer is never slow if this many times its longest wait fits the limit, or this many times the most messages that ever waited."""

OF_READERS = ", as only readers of some clients may"
"""Text about a consumer from before the capture without an ACK: readers of DotPulsar, for example, acknowledge nothing."""

UNREADABLE = "; they are encrypted, and a client without the private key gives its application none of them"
"""Text about a consumer that has not acknowledged any of its encrypted messages."""

_TWO_KEEPALIVES = 60_000_000_000
"""Time without a packet, in nanoseconds, after which a connection has ended, though unseen: both sides send PINGs every 30 s."""

STARVING, HOLDING = "starving", "holding"
BUSY = "busy"
"""A consumer with few unacknowledged messages, or one that is reported for them."""
MISSING, PASSED = "missing", "passed"
"""Facts of non-persistent topics: a consumer without permits, and the number of messages that a producer has published."""


def evaluate_stuck(facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the consumers of a topic that had stopped when the topic was last seen."""
    resting = [fact for fact in facts if fact.what in (STARVING, HOLDING)]
    if not resting:
        return
    end = latest_seen(facts)
    busy = {consumer_of(fact) for fact in facts if fact.what in (HOLDING, BUSY)}
    published = [fact for fact in facts if fact.what == "published"]
    decided: set[tuple[str, int]] = set()
    undecided: dict[tuple[str, int], tuple[Fact, str, int]] = {}
    for fact in resting:
        values = fact.values
        consumer = consumer_of(fact)
        until = fact.where.time if values["closed"] else end
        if until - fact.where.time >= _TWO_KEEPALIVES:
            continue
        rest = until - max(values["since"], values["active_at"])
        count = _published_behind(values, published, until) if fact.what == STARVING else 0
        text, name = _starved(values, rest, until, count) if fact.what == STARVING else _holding(values, rest, until, thresholds)
        if (fact.what == STARVING and not count) or values.get("reported") or (fact.what == HOLDING and not values["enough"]):
            continue
        enough = values["enough"] or _has_small_queue(values, rest, count, thresholds)
        if fact.what == STARVING and consumer not in busy and _is_done(values, rest, until, count, thresholds):
            name = "consumer-starved-done-seconds"
        patience = max(thresholds.ns(name), round(thresholds["consumer-rhythm-factor"] * values["turn"]))
        went_on = values.get("taken_at", 0) - values["active_at"] >= patience
        if values["closed"] and not went_on and rest < stopping_ns(thresholds, values["begun"], values["active_at"]):
            continue
        if values.get("is_older"):
            least = thresholds["consumer-not-acking-older-factor"] * thresholds["consumer-not-acking-messages"]
            enough = values["acks"] > 0 or values["unacknowledged"] >= least
        if enough and not values.get("undecided") and rest >= patience:
            decided.add(consumer)
            code = "consumer-starved" if fact.what == STARVING else "consumer-not-acking"
            report(code, fact.where._replace(time=values["since"]), text, _evidence(fact, rest, count, thresholds, name))
        elif rest >= max(thresholds.ns("consumer-undecided-seconds"), values["turn"]) and (
            fact.what == STARVING or consumer not in undecided
        ):
            undecided[consumer] = fact, text, rest
    for consumer, (fact, text, rest) in undecided.items():
        if consumer not in decided:
            evidence = _evidence(fact, rest, None, thresholds, "consumer-undecided-seconds")
            where = fact.where._replace(time=fact.values["since"])
            report("consumer-undecided", where, text, evidence)


def is_collecting(since: int, middle: int, now: int) -> bool:
    """Return True when messages kept coming for at least half of the time since the first; `middle`: when half of them had come."""
    return 4 * (middle - since) >= now - since


def stopping_ns(thresholds: Thresholds, begun: int | None, active_at: int) -> int:
    """Return how long a consumer may rest before its end when its application shuts down, in nanoseconds.

    `begun`: time of its SUBSCRIBE, None if that was before the capture; `active_at`: time of its last action, 0 if there was none.
    """
    longest = thresholds.ns("consumer-stopping-seconds")
    if not active_at:
        return 0
    return longest if begun is None else min(longest, active_at - begun)


def _is_done(values: dict[str, Any], rest: int, until: int, count: int, thresholds: Thresholds) -> bool:
    """Return True for a consumer that holds nothing and has been idle far longer than ever before, and for as long as it worked."""
    if rest < thresholds["consumer-starved-done-turns"] * values["turn"] or 2 * rest < until - values["begun"]:
        return False
    is_enough = values["delivered"] >= thresholds["consumer-starved-done-messages"] and count >= thresholds["consumer-starved-done-entries"]
    return is_enough and values["active_at"] > values["since"]


def evaluate_dropped(facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the consumers of a non-persistent topic that missed messages because they had no permits."""
    consumers = [fact for fact in facts if fact.what == MISSING]
    end = max(fact.where.time for fact in facts)
    for fact in consumers:
        values = fact.values
        if values["undecided"]:
            continue
        until, since = fact.where.time if values["closed"] else end, values["since"]
        passed = _passed(facts, since, until)
        dropped = sum(count for count, _ in passed)
        text = f"{values['title']} had no permits when {dropped:,} messages or more were published: the broker keeps none of them for it."
        if values["permits"] > 0 or dropped < thresholds["consumer-not-acking-messages"]:
            if values["lost"] or (values["permits"] > 0 and not values["refilled"]):
                continue
            since = values["begun"]
            passed = _passed(facts, since, until)
            published = sum(count for count, _ in passed)
            got = sum(other.values["delivered"] for other in consumers if other.values["subscription"] == values["subscription"])
            dropped = published - got
            times = f" {plural(values['refilled'], 'time')}" if values["refilled"] else ""
            text = f"{values['title']} ran out of permits{times}: of {published:,} entries that were published meanwhile, its subscription "
            text += f"got at most {got:,}; the broker keeps none of the others for it."
        if dropped < thresholds["consumer-not-acking-messages"]:
            continue
        evidence = _evidence(fact, until - since, None, thresholds, "consumer-not-acking-messages")
        frames = [fact.where.name, *(name for _, name in passed)]
        report("non-persistent-dropped", fact.where, text, {**evidence, "frames": frame_names(frames), "count": dropped})


def _has_small_queue(values: dict[str, Any], rest: int, count: int, thresholds: Thresholds) -> bool:
    """Return True for a consumer that got few messages because it granted few permits, or whose application took none of its messages."""
    if count < thresholds["consumer-not-acking-messages"]:
        return False
    return not values["granted"] or (values["delivered"] > 1 and rest >= thresholds.ns("consumer-not-acking-first-seconds"))


def _passed(facts: Sequence[Fact], since: int, until: int) -> list[tuple[int, str]]:
    """Return, per producer connection, how many entries it is known to have published between two times, and its last receipt."""
    passed: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.what == PASSED and since < fact.where.time <= until:
            passed.setdefault(fact.where.connection, []).append(fact)
    return [(seen[-1].values["position"][1] - seen[0].values["position"][1], seen[-1].where.name) for seen in passed.values()]


def _published_behind(values: dict[str, Any], published: Sequence[Fact], until: int) -> int:
    """Return how many entries the topic is known to have after the last one of a consumer; at least 1 if it has any."""
    last = values["last"]
    behind = [
        fact.values["position"]
        for fact in published
        if fact.where.time <= until
        and fact.values["server"] == values["server"]
        and (fact.values["position"] > last if last else fact.where.time > values["since"])
    ]
    if not behind:
        return 0
    oldest, newest = tuple(last) if last else (min(behind)[0], min(behind)[1] - 1), max(behind)
    return int(newest[1] - oldest[1]) if newest[0] == oldest[0] else len(behind)


def _starved(values: dict[str, Any], rest: int, until: int, count: int) -> tuple[str, str]:
    life = duration(until - values["begun"])
    if values["granted"]:
        text = f"{values['title']} used up its {plural(values['granted'], 'permit')} with {plural(values['delivered'], 'message')}"
        text += f" and did nothing for the last {duration(rest)} of {life}"
    else:
        text = f"{values['title']} granted no permits in {life}"
    text += f", though the topic has at least {count:,} more."
    return text, "consumer-starved-backlog-seconds"


def _holding(values: dict[str, Any], rest: int, until: int, thresholds: Thresholds) -> tuple[str, str]:
    ledger, entry = values["oldest"]
    text = f"{values['title']} has {plural(values['unacknowledged'], 'message')} unacknowledged, the oldest ({ledger}:{entry}) for "
    text += duration(until - values["since"])
    if not values["active_at"]:
        name = "consumer-not-acking-older-seconds" if values["is_older"] else "consumer-not-acking-first-seconds"
        if not values["closed"] and is_collecting(values["since"], values["middle"], until):
            name = "consumer-not-acking-collecting-seconds"
        why = f"{OF_READERS if values['is_older'] else ''}{UNREADABLE if values['is_encrypted'] else ''}"
        return f"{text}, and acknowledged none{why}.", name
    text = f"{text}, and its latest ACK was {duration(rest)} before."
    is_typical = values["acks"] >= TYPICAL_ACKS
    steady = is_typical and values["turn"] * STEADY_TURNS <= thresholds.ns("consumer-not-acking-first-seconds")
    steady |= is_typical and values["unacknowledged"] >= STEADY_TURNS * max(values["most_held"], 1)
    return text, "consumer-not-acking-first-seconds" if steady else "consumer-not-acking-stopped-seconds"


def _evidence(fact: Fact, rest: int, count: int | None, thresholds: Thresholds, name: str) -> dict[str, Any]:
    values = fact.values
    names = ("granted", "delivered", "permits", "unacknowledged", "oldest")
    return {
        "frames": [fact.where.name],
        "consumer_id": values["consumer_id"],
        "consumer_name": values["consumer_name"],
        "topic": values["topic"],
        "subscription": values["subscription"],
        **{name: values[name] for name in names if name in values},
        **({"published_behind": count} if count else {}),
        "rest_ns": rest,
        "longest_turn_ns": values["turn"],
        "act": "client",
        **thresholds.evidence(name, "consumer-rhythm-factor"),
    }
