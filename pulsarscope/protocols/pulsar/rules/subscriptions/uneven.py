"""Consumers of a Shared subscription with many waiting messages while other consumers have acknowledged theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulsarscope.dissect.contract.rules import Fact, ReportFinding
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, consumer_of, latest_seen
from pulsarscope.protocols.pulsar.rules.subscriptions.spans import SPANS
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import HOLDING

THRESHOLDS = (
    counted(
        "consumer-behind-beside-factor",
        10,
        "times",
        "Unacknowledged messages of one Shared consumer compared with another's; their shares vary by less.",
        "consumer-behind",
    ),
    in_seconds(
        "consumer-behind-beside-seconds",
        10,
        "Time until a Shared consumer has acknowledged all that it holds, at its pace; it works off a burst sooner.",
        "consumer-behind",
    ),
)

MEASURED_ACKS = 3
"""ACKs needed to know that a consumer works, and how long it takes."""


def evaluate_uneven(facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report consumers that prefetched messages that others of their subscription could have processed by then."""
    shares = [fact for fact in facts if fact.what == SPANS and fact.values["kind"] == "Shared"]
    if len(shares) < 2:
        return
    end = latest_seen(facts)
    holding = {consumer_of(fact): fact for fact in facts if fact.what == HOLDING}
    for share in shares:
        held = holding.get(consumer_of(share))
        if held is None or held.values["acks"] < MEASURED_ACKS or any(held.values[name] for name in ("undecided", "reported", "behind")):
            continue
        count, until = held.values["unacknowledged"], share.where.time if share.values["closed"] else end
        waits, turn = until - held.values["since"], held.values["turn"]
        patience = max(thresholds.ns("consumer-behind-seconds"), round(thresholds["consumer-rhythm-factor"] * turn))
        if count < thresholds["consumer-behind-messages"] or waits < patience:
            continue  # it may have got them a moment ago, or acknowledge in groups
        # its pace while it has work; it may have been idle before
        rest = count * (until - held.values["busy_since"]) // max(held.values["acknowledged"], 1)
        if until - held.values["active_at"] >= patience or rest < thresholds.ns("consumer-behind-beside-seconds"):
            continue  # it has stopped, or is catching up after a burst
        most = count / thresholds["consumer-behind-beside-factor"]
        others = [
            other
            for other in shares
            if _are_together(other, share)
            and other.values["delivered"] >= count
            and _held_by(other, holding) <= most
            and (other.where.time if other.values["closed"] else end) >= held.values["since"] + patience
        ]
        if others:
            _report_uneven(share, held, others, rest, report, thresholds)


def _are_together(other: Fact, share: Fact) -> bool:
    is_same = consumer_of(other) == consumer_of(share)
    return not is_same and all(other.values[name] == share.values[name] for name in ("subscription", "server"))


def _held_by(share: Fact, holding: Mapping[tuple[str, int], Fact]) -> int:
    held = holding.get(consumer_of(share))
    return 0 if held is None else int(held.values["unacknowledged"])


def _report_uneven(share: Fact, held: Fact, others: Sequence[Fact], rest: int, report: ReportFinding, thresholds: Thresholds) -> None:
    values = held.values
    ledger, entry = values["oldest"]
    name = others[0].values["consumer_name"] or others[0].values["consumer_id"]
    text = (
        f"{share.values['title']} has {plural(values['unacknowledged'], 'message')} that wait for its application, from "
        f"{ledger}:{entry} on, and needs {duration(rest)} for them at its pace, while {plural(len(others), 'other consumer')} of the "
        f"subscription, such as {name}, acknowledged nearly all: a smaller receiver queue would leave these messages to them."
    )
    evidence = {
        "frames": [held.where.name],
        **{field: values[field] for field in ("consumer_id", "consumer_name", "topic", "subscription", "unacknowledged", "oldest")},
        "delivered": share.values["delivered"],
        "longest_turn_ns": values["turn"],
        "rest_ns": rest,
        "others": [other.values["consumer_name"] for other in others[:SAMPLES_MAX]],
        "act": "client",
        **thresholds.evidence(
            "consumer-behind-beside-factor",
            "consumer-behind-beside-seconds",
            "consumer-behind-messages",
            "consumer-behind-seconds",
            "consumer-rhythm-factor",
        ),
    }
    report("consumer-behind", held.where._replace(time=values["since"]), text, evidence)
