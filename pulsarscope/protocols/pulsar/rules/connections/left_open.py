"""Producers, consumers and connections that a client makes for a message or two, and leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.rules.connections.one_host import of_one_host
from pulsarscope.protocols.pulsar.rules.connections.storms import is_system_topic
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, may_lack
from pulsarscope.protocols.pulsar.text.formatting import host, port
from pulsarscope.protocols.pulsar.topics import bounded_name

LEFT = "left"
"""Fact about a connection that served one producer for hardly any SENDs, and was not closed afterwards."""

PROXIED = "proxied"
"""Fact about a connection that a proxy opened: it has one for each of its clients."""

_PERIODS = 4
"""Openings go on for longer than this many of the intervals that are enough for churn; those at a start are over before."""

HELD = in_seconds(
    "consumer-churn-held-seconds",
    10,
    "Time after which a consumer that holds messages and acknowledges none is left open, if others took less than a tenth of it.",
    "consumer-churn",
)


class LeftOpen(NamedTuple):
    """A producer or consumer that is open."""

    topic: str
    subscription: str | None
    """Durable subscription of a consumer."""
    where: Where
    """PRODUCER or SUBSCRIBE."""
    work: int
    latest: int = 0
    """Time of the latest work if known, in nanoseconds."""
    holds: bool = False
    """True if it holds messages and has acknowledged none."""


def report_left_open(context: RuleContext, kind: str, noun: str, most: float, opened: Iterable[LeftOpen], end: int) -> None:
    """Report the topics for which one after the other of a kind was opened, none of which was closed or did more than `most`.

    Consumers with subscriptions of their own stay open on purpose: each serves someone else. So may readers, if they do
    not come too often. Those of one subscription take messages from each other: what an earlier one has fetched, nobody receives.
    `noun`: what they do, before "each".
    """
    topics: dict[tuple[str, str | None], list[LeftOpen]] = {}
    for each in opened:
        if (0 < each.work <= most or each.holds) and not is_system_topic(each.topic):
            topics.setdefault((each.topic, each.subscription), []).append(each)
    for (topic, subscription), those in topics.items():
        left = _without_busy(those, end, context.thresholds.ns("consumer-churn-held-seconds"))
        if not left:
            continue
        first, last = left[0].where, left[-1].where
        worked = [each.work for each in left if each.work]
        if not _keep_coming([each.where.time for each in left], context.thresholds) or _grow(worked):
            continue
        if any(each.latest > following.where.time for each, following in pairwise(left)):
            continue  # they work at the same time
        if may_lack(context, first.time, end, CLIENT):
            continue
        text = f"Client {context.client} made {plural(len(left), kind)} on {topic} in {duration(last.time - first.time)} and closed "
        holding = len(left) - len(worked)
        text += f"none of them, with {average_work(sum(worked), len(left), noun)}"
        text += f": {holding:,} hold{'s' * (holding == 1)} messages that nobody processes." if holding else "."
        evidence = {"frames": frame_names([first.name, last.name]), "topic": topic, "count": len(left), "closed": 0, "holding": holding}
        rarely = last.time - first.time > (len(left) - 1) * context.thresholds.ns("churn-interval-seconds")
        may_serve = kind == "consumer" and subscription is None and rarely
        context.report("churn-undecided" if may_serve else f"{kind}-churn", first, text, evidence)


def chosen_name(fields: Mapping[str, Any]) -> str | None:
    """Return the name in a PRODUCER if the application chose it: the broker's own names tell nothing about whom a producer serves."""
    return bounded_name(fields.get("producer_name") or None) if fields.get("user_provided_producer_name", True) else None


def average_work(work: int, count: int, noun: str) -> str:
    """Return how much each of `count` producers or consumers did on average, as words: `noun` stands before "each" or "any"."""
    if not work:
        return f"no {noun} any"
    average = f"{work / count:.1f}".removesuffix(".0")
    return f"{'less than 0.1' if average == '0' else average} {noun.replace('s ', ' ', 1) if average == '1' else noun} each"


def _without_busy(opened: Sequence[LeftOpen], end: int, least: int) -> list[LeftOpen]:
    """Return those that worked, and the others that had ten times as long as these, and at least `least` ns; none if none worked."""
    times = [each.latest - each.where.time for each in opened if each.work]
    if not times:
        return []
    least = max(least, 10 * max(times))
    return [each for each in opened if each.work or end - each.where.time >= least]


def emit_left_open(context: RuleContext, key_rule: str, topic: str, name: str | None, sends: int, row: ConnectionRow) -> None:
    """Emit a connection with a single producer and this many SENDs, unless it was closed soon or by the broker."""
    limits, life = context.thresholds, row.end - row.start
    if not 0 < sends <= limits["producer-churn-sends"] or life < limits.ns("connection-churn-seconds") or is_system_topic(topic):
        return
    if (
        row.proxy_source is not None
        or row.opened == "midstream"
        or row.closed_by not in (None, CLIENT)
        or may_lack(context, row.start, row.end, CLIENT)
    ):
        return
    values = {"start": row.start, "lifetime": life, "topic": topic, "name": name, "sends": sends, "port": port(context.client)}
    context.emit_fact(key_rule, f"{host(context.client)}\n{context.server}", where_of(row), LEFT, values)


def evaluate_left_open(client: str, server: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report connections of a client to a server that were opened one after the other, each for hardly any SENDs, and left open.

    Producers with names of their own serve someone else each, and clients of several hosts may share an address.
    """
    topics: dict[tuple[str, str | None], list[Fact]] = {}
    for fact in sorted(facts, key=lambda fact: fact.values["start"]):
        topics.setdefault((fact.values["topic"], fact.values["name"]), []).append(fact)
    for (topic, _), left in topics.items():
        starts = [fact.values["start"] for fact in left]
        if not _keep_coming(starts, thresholds) or _grow([fact.values["sends"] for fact in left]):
            continue
        if not of_one_host([fact.values["port"] for fact in left]):
            continue
        work, lived = sum(fact.values["sends"] for fact in left) / len(left), max(fact.values["lifetime"] for fact in left)
        span = starts[-1] - starts[0]
        text = f"{client} opened {plural(len(left), 'connection')} to {server} in {duration(span)} and kept them open, for up to "
        text += f"{duration(lived)}; each served one producer on {topic}, with {work:.1f} SENDs on average."
        evidence = {
            "frames": frame_names(fact.where.name for fact in left),
            "connections": [fact.where.connection for fact in left[:DIAGNOSIS_NAMES_MAX]],
            "count": len(left),
            "topic": topic,
            "span_ns": span,
            "lived_max_ns": lived,
        }
        report("connection-churn", left[0].where, text, evidence)


def _keep_coming(starts: Sequence[int], thresholds: Thresholds) -> bool:
    """Return True for enough openings that follow each other steadily."""
    count, span = len(starts), starts[-1] - starts[0]
    if count < thresholds["churn-least"] or span < _PERIODS * thresholds.ns("churn-interval-seconds"):
        return False
    return span <= (count - 1) * thresholds.ns("churn-slow-interval-seconds")


def _grow(work: Sequence[int]) -> bool:
    """Return True when those opened earlier did more: they go on with their work, at a low rate."""
    half = len(work) // 2
    return sum(work[:half]) > 1.2 * sum(work[-half:])
