"""Brokers that hold back messages: a consumer with permits rests again and again although its topic has messages for it.

A dispatch rate limit looks like this: a few messages, then nothing until the next period. A completely silent broker is another finding
(`backlog.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from pulsarscope.dissect.contract.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import consumer_of, frame_names, title_of
from pulsarscope.protocols.pulsar.rules.subscriptions.spans import WITHHELD

CODES = table(
    SESSION.warning(
        "dispatch-limited",
        "A consumer has permits and there is a backlog, but the broker sends a few messages and then rests, again and again.",
        "Rests of equal length are those of a rate limit: look at the dispatch rates of broker, namespace, topic and subscription "
        "(pulsar-admin topics get-dispatch-rate, get-subscription-dispatch-rate), and raise the one that is reached. Without one look at "
        "the broker's reads from its bookies.",
        ("backlog-growing",),
        to_act="the broker's operators",
    ),
)

_LIMITED = ("dispatch-limited",)

THRESHOLDS = (
    in_seconds("dispatch-limited-seconds", 10, "Time with a backlog; a broker that reads old entries rests for less in all.", *_LIMITED),
    counted(
        "dispatch-limited-share",
        0.5,
        "of the time",
        "Rests with a backlog and with permits; a broker without a limit sends until one of them is used up.",
        *_LIMITED,
        least=0,
    ),
    in_seconds(
        "dispatch-limited-rest-seconds",
        0.2,
        "Shortest rest that counts: longer than the way to a bookie on another continent and back.",
        *_LIMITED,
    ),
    counted("dispatch-limited-rests", 5, "rests", "Rests in that time; a pause of the broker is a single one.", *_LIMITED),
)


def evaluate_limited(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the subscriptions whose consumers all rest with permits despite a backlog."""
    if any(fact.what == WITHHELD for fact in facts):
        return  # delayed messages, and those after an open transaction, must wait
    subscriptions: dict[tuple[str | None, str], list[Fact]] = {}
    for fact in facts:
        if fact.what == "delivered":
            subscriptions.setdefault((fact.values["subscription"], fact.values["server"]), []).append(fact)
    for (_, server), delivered in subscriptions.items():
        published = [fact for fact in facts if fact.what == "published" and fact.values["server"] == server]
        if published:
            _report_limited(topic, published, delivered, report, thresholds)


def _report_limited(
    topic: str, published: Sequence[Fact], delivered: Sequence[Fact], report: ReportFinding, thresholds: Thresholds
) -> None:
    times = [fact.where.time for fact in published]
    latest = [*accumulate((tuple(fact.values["position"]) for fact in published), max)]
    consumers: dict[tuple[str, int], list[Fact]] = {}
    for fact in delivered:
        consumers.setdefault(consumer_of(fact), []).append(fact)
    spans, idles, rests = [], [], []
    for course in consumers.values():
        if course[0].values["kind"] == "Key_Shared" and len(consumers) > 1:
            return  # the keys of the backlog may belong to another consumer
        span = idle = count = 0
        for before, after in pairwise(course):
            known = bisect_right(times, before.where.time)
            if known and latest[known - 1] > tuple(after.values["position"]):
                span += after.where.time - before.where.time
                idle += after.values["rested_ns"] - before.values["rested_ns"]
                count += after.values["rests"] - before.values["rests"]
        if span < thresholds.ns("dispatch-limited-seconds") or count < thresholds["dispatch-limited-rests"]:
            return
        if idle < thresholds["dispatch-limited-share"] * span:
            return
        spans.append(span)
        idles.append(idle)
        rests.append(count)
    last, span, idle, count = delivered[-1], max(spans), sum(idles) // len(idles), sum(rests)
    values = last.values
    who = title_of(last, len(consumers), topic)
    each = duration(sum(idles) // count)
    text = f"{who} waited with permits for {duration(idle)} of {duration(span)} while the topic had messages for it: the broker rested "
    text += f"{plural(count, 'time')}, for {each} on average."
    evidence = {
        "frames": frame_names([published[-1].where.name, last.where.name]),
        "topic": topic,
        "subscription": values["subscription"],
        "span_ns": span,
        "rested_ns": idle,
        "rests": count,
        "rest_ns": sum(idles) // count,
        "connections": list(dict.fromkeys(name for name, _ in consumers))[:DIAGNOSIS_NAMES_MAX],
        "act": "broker",
        **thresholds.evidence(*(threshold.name for threshold in THRESHOLDS)),
    }
    report("dispatch-limited", last.where, text, evidence)
