"""Topics that leave their clients: unloaded, terminated, migrated or over quota; and how long until the clients are back."""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.rules import Fact, KeyRule, ReportFinding
from pulsarscope.model.findings import ERROR, NOTE, Code, table
from pulsarscope.protocols.pulsar.rules.departures import BROKERS, ERRORS, QUOTA_ERRORS, TERMINATED_ERRORS, TOPICS
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, host, seconds, some

CODES = table(
    Code(
        "topic-unloaded",
        NOTE,
        "session",
        "The broker closed producers and consumers of a topic, as when it unloads it.",
        "They look the topic up and come back by themselves; see the times to recover, and why a broker unloads if it was not you.",
    ),
    Code(
        "unload-burst",
        NOTE,
        "session",
        "A broker closed the producers and consumers of several topics at once, as when it stops or sheds load.",
        "See topic-unloaded for how long each was away; many at a time make a storm of lookups.",
    ),
    Code(
        "topic-terminated",
        ERROR,
        "session",
        "A producer was refused because the topic is terminated.",
        "Nothing can be published to it any more: write to another topic, or delete and create it.",
    ),
    Code(
        "end-of-topic",
        NOTE,
        "session",
        "Consumers have reached the end of a terminated topic.",
        "There is nothing more to receive: consumers may close.",
    ),
    Code(
        "topic-migrated",
        NOTE,
        "session",
        "The topic has moved to another cluster, and the broker sent its clients there.",
        "See whether they came back there: the address must be reachable for them, and known under their listener name.",
    ),
    Code(
        "quota-exceeded",
        ERROR,
        "session",
        "Producers were refused because the topic's backlog is over quota.",
        "Find the subscription that does not acknowledge, skip or expire its backlog, or raise the backlog quota.",
    ),
)

FORGET_NS = 600_000_000_000
"""Ten times the longest wait of a client between two attempts (60 s)."""

BURST_NS = 1_000_000_000
"""Closed within so long of each other: one event."""

BURST_TOPICS_MIN = 3
"""Topics closed together that are worth a word beside those on each; a bundle that moves has any number of them."""

SEEK_NS = 10_000_000_000
"""The consumers of a subscription that are closed so long after a SEEK of it are to begin at another place."""


def _evaluate_topic(topic: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """What happened to the clients of one topic."""
    refused = [fact for fact in facts if fact.what == "refused"]
    _report_refused(
        "quota-exceeded", "the backlog quota is exceeded", topic, [one for one in refused if one.values["error"] in QUOTA_ERRORS], report
    )
    _report_refused(
        "topic-terminated", "the topic is terminated", topic, [one for one in refused if one.values["error"] in TERMINATED_ERRORS], report
    )
    ended = [fact for fact in facts if fact.what == "end"]
    if ended:
        names = some(sorted({fact.values["name"] for fact in ended}))
        evidence = {"frames": frames(fact.where.name for fact in ended), "topic": topic, "count": len(ended)}
        report("end-of-topic", ended[0].where, f"{count(len(ended), 'consumer')} reached the end of topic {topic}: {names}.", evidence)
    for burst in _bursts(facts):
        _report_departure(topic, burst, facts, report)


def _bursts(facts: Sequence[Fact]) -> list[list[Fact]]:
    """Closed one soon after the other; one that came back in between begins the next. A seek closes consumers, too: that is no loss."""
    bursts: list[list[Fact]] = []
    back: set[tuple[str, str]] = set()
    sought: dict[str | None, int] = {}
    for fact in facts:
        if fact.what == "back":
            back.add(_client(fact))
        elif fact.what == "seek":
            sought[fact.values["subscription"]] = fact.where.time
        elif fact.where.time - sought.get(fact.values.get("subscription"), -SEEK_NS) < SEEK_NS:
            continue
        elif fact.what in ("closed", "migrated"):
            if not bursts or abs(fact.where.time - bursts[-1][-1].where.time) > BURST_NS or _client(fact) in back:
                bursts.append([])
                back.clear()
            bursts[-1].append(fact)
    return bursts


def _client(fact: Fact) -> tuple[str, str]:
    """Host and name: what a producer or consumer keeps across connections."""
    return host(fact.values["client"]), fact.values["name"]


def _report_refused(code: str, why: str, topic: str, refused: Sequence[Fact], report: ReportFinding) -> None:
    if not refused:
        return
    first = refused[0]
    names = some(list(dict.fromkeys(fact.values["name"] for fact in refused)))
    span = seconds(refused[-1].where.time - first.where.time)
    times = f"{count(len(refused), 'attempt')} within {span}" if len(refused) > 1 else "1 attempt"
    text = f"Topic {topic} refused {names}, because {why}: {times} with {first.values['error']}: {first.values['message']}."
    evidence = {
        "frames": frames(name for fact in refused for name in (fact.where.name, fact.values["frame"])),
        "topic": topic,
        "error": first.values["error"],
        "count": len(refused),
    }
    report(code, first.where, text, evidence)


def _report_departure(topic: str, burst: Sequence[Fact], facts: Sequence[Fact], report: ReportFinding) -> None:
    """One burst, and what became of each client: judged up to the next time that it was closed."""
    first = burst[0]
    migrated = next((fact for fact in burst if fact.what == "migrated"), None)
    clients: dict[tuple[str, str], Fact] = {}
    for fact in burst:
        clients.setdefault(_client(fact), fact)
    outcomes = {client: _outcome(client, fact, facts, burst[-1].where.time) for client, fact in clients.items()}
    recovered = [took for took, _, _ in outcomes.values() if took is not None]
    if all(why in ERRORS for _, why, _ in outcomes.values()):
        return  # The refusal is a finding of its own.
    urls = sorted({fact.values["url"] for fact in burst if fact.values.get("url")})
    not_ready = sum(
        fact.what == "refused" and fact.values["error"] == "ServiceNotReady" and fact.where.time >= first.where.time for fact in facts
    )
    text = f"The broker closed {some([name for _, name in clients])} of {topic}"
    if len(clients) > 1:
        text += f" within {seconds(burst[-1].where.time - first.where.time)}"
    if urls:
        text += f" and sent {'them' if len(clients) > 1 else 'it'} to {some(urls)}"
    if recovered:
        whom = "all" if len(recovered) == len(clients) else f"{len(recovered)} of {len(clients)}"
        text += "; it came back after" if len(clients) == 1 else f"; {whom} came back, the last after"
        text += f" {seconds(max(recovered))}"
    lost = [
        f"{name} ({f'refused with {why}' if why else 'not seen to ask'})" for (_, name), (took, why, _) in outcomes.items() if took is None
    ]
    if lost:
        text += f"; not seen to come back: {some(lost)}"
    if not_ready:
        text += f"; {count(not_ready, 'request')} met ServiceNotReady"
    evidence = {
        "frames": frames([*(fact.where.name for fact in burst), *(frame for _, _, frame in outcomes.values())]),
        "topic": topic,
        "closed": len(clients),
        "recovered_ns": {name: took for (_, name), (took, _, _) in outcomes.items()},
        "urls": urls,
        "service_not_ready": not_ready,
    }
    report("topic-migrated" if migrated else "topic-unloaded", first.where, f"{text}.", evidence)


def _outcome(client: tuple[str, str], closed: Fact, facts: Sequence[Fact], since: int) -> tuple[int | None, str | None, str | None]:
    """(time until it was back or None, the error with which it was refused, the frame that says so)."""
    refusal: tuple[str | None, str | None] = None, None
    for fact in facts:
        if fact.where <= closed.where or _client(fact) != client:
            continue
        if fact.what == "back":
            return fact.values["back"] - closed.where.time, None, fact.values["frame"]
        if fact.what == "closed" and fact.where.time > since:
            break
        if fact.what == "refused":
            refusal = fact.values["error"], fact.values["frame"]
    return None, *refusal


def _evaluate_broker(broker: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Many topics closed one soon after the other."""
    bursts: list[list[Fact]] = []
    for fact in facts:
        if not bursts or abs(fact.where.time - bursts[-1][-1].where.time) > BURST_NS:
            bursts.append([])
        bursts[-1].append(fact)
    for burst in bursts:
        topics = list(dict.fromkeys(fact.values["topic"] for fact in burst))
        if len(topics) < BURST_TOPICS_MIN:
            continue
        kinds = [count(sum(fact.values["kind"] == kind for fact in burst), kind) for kind in ("producer", "consumer")]
        first, span = burst[0].where, burst[-1].where.time - burst[0].where.time
        text = f"Broker {broker} closed {' and '.join(kinds)} of {len(topics):,} topics within {seconds(span)}: {some(topics)}."
        evidence = {"frames": frames(fact.where.name for fact in burst), "topics": len(topics), "closed": len(burst), "span_ns": span}
        report("unload-burst", first, text, evidence)


KEYS = (KeyRule(TOPICS, FORGET_NS, _evaluate_topic, early=True), KeyRule(BROKERS, FORGET_NS, _evaluate_broker, early=True))
