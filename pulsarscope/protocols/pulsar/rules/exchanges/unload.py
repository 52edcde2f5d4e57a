"""Topics whose clients are closed because of an unload, termination, migration or quota; and the time until the clients are back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import capitalized, frame_names
from pulsarscope.protocols.pulsar.rules.exchanges.departures import (
    AGAIN,
    BROKERS,
    ERRORS,
    QUOTA_ERRORS,
    SEEN,
    TERMINATED_ERRORS,
    TOPICS,
    UNRETURNED,
    is_moving,
)
from pulsarscope.protocols.pulsar.rules.exchanges.refusals import refusal_text
from pulsarscope.protocols.pulsar.text.formatting import error_text, host, listing, nouns_text

CODES = table(
    SESSION.note(
        "topic-unloaded",
        "The broker closed the producers and consumers of a topic, as it does to unload it.",
        "They look up the topic and reconnect by themselves; see the recovery times, and find out why the broker unloads the topic if "
        "you did not ask for it.",
    ),
    SESSION.note(
        "cursor-reset",
        "The broker closed the consumers of one subscription only, or redelivered acknowledged messages, as it does when the cursor "
        "is reset.",
        "They reconnect by themselves, and get messages again or miss some: find out who reset the cursor (pulsar-admin topics "
        "reset-cursor, another client's seek) or deleted the subscription.",
    ),
    SESSION.note(
        "unload-burst",
        "A broker closed the producers and consumers of several topics at once, as it does when it stops or sheds load.",
        "See topic-unloaded for how long each was away; many at a time make a storm of lookups.",
    ),
    SESSION.warning(
        "unload-loop",
        "The broker closes the producers and consumers of a topic again and again.",
        "Find out who unloads it: the load balancer (its own limits move a bundle once in 30 minutes), a script, or a broker that loses "
        "its metadata session. The broker's log says so; until then publishing stalls each time, and messages may be stored twice.",
        ("message-stored-twice", "slow-publish"),
        to_act="the broker's operators",
    ),
    SESSION.error(
        "topic-terminated",
        "A producer was refused because the topic is terminated.",
        "Nothing more can be published to it: write to another topic, or delete and recreate it.",
        to_act="the producer's application",
    ),
    SESSION.note(
        "end-of-topic", "Consumers have reached the end of a terminated topic.", "There is nothing more to receive: consumers may close."
    ),
    SESSION.note(
        "topic-migrated",
        "The topic has moved to another cluster, and the broker sent its clients there.",
        "Check that they reconnected there: they must be able to reach the address, and the new cluster must know their listener name.",
    ),
    SESSION.error(
        "quota-exceeded",
        "Producers were refused because the topic's backlog is over quota.",
        "Find the subscription that does not acknowledge, skip or expire its backlog, or raise the backlog quota.",
        to_act="the consumer's application",
    ),
)

THRESHOLDS = (
    in_seconds(
        "unload-burst-seconds",
        1,
        "Time between two closes that belong to one unload.",
        "topic-unloaded",
        "topic-migrated",
        "unload-burst",
        "cursor-reset",
    ),
    counted("unload-burst-topics", 3, "topics", "Topics that close together; one or two are findings of their own.", "unload-burst"),
    counted(
        "unload-loop-times",
        4,
        "times",
        "Unloads of one topic; a restart of three brokers, one after the other, moves a topic three times at most.",
        "unload-loop",
        least=2,
    ),
    in_seconds("unload-loop-seconds", 60, "Time for so many unloads; brokers take longer to restart.", "unload-loop"),
    in_seconds(
        "request-failed-moving-seconds",
        1.5,
        "Time for which a client whose topic moves is seen not to come back; clients ask again after 0.1 s, and twice that each time.",
        "request-failed",
    ),
    in_seconds(
        "topic-unloaded-seek-seconds",
        10,
        "Time after a SEEK within which the broker closes consumers because of it.",
        "topic-unloaded",
        "topic-migrated",
        "cursor-reset",
    ),
    in_seconds(
        "cursor-reset-settled-seconds",
        0.4,
        "Time between an ACK and the close of its consumer that shows that the broker got it in time; behind an unload, too, comes again "
        "what was acknowledged too late. Brokers keep all that they got before.",
        "cursor-reset",
    ),
    in_seconds(
        "messages-skipped-back-seconds",
        5,
        "Time until an Exclusive consumer that the broker closed is back; in a longer one, another consumer may have got its messages.",
        "messages-skipped",
    ),
)

FORGET_NS = 600_000_000_000
"""Time without facts after which a topic is evaluated: ten times a client's longest wait between two attempts (60 s)."""


class Outcome(NamedTuple):
    """Outcome for a client after it was closed."""

    recovered_ns: int | None
    """Time until it was back; None when the capture does not show it back."""
    error: str | None
    """Error of its latest refused attempt."""
    frame: str | None
    """Answer to its attempt."""


def _evaluate_topic(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report refusals, the end of a terminated topic, and each burst of closed clients."""
    for code, errors in (("quota-exceeded", QUOTA_ERRORS), ("topic-terminated", TERMINATED_ERRORS)):
        refused = [fact for fact in facts if fact.what == "refused" and fact.values["error"] in errors]
        if refused:
            _report_refused(code, topic, refused, report)
    _report_unserved(topic, facts, report, thresholds)
    ended = [fact for fact in facts if fact.what == "end"]
    if ended:
        names = sorted(name for _, name in {_client(fact) for fact in ended})
        evidence = {"frames": frame_names(fact.where.name for fact in ended), "topic": topic, "count": len(names)}
        text = f"{capitalized(nouns_text(names))} reached the end of topic {topic}."
        report("end-of-topic", ended[0].where, text, evidence)
    unloads: list[list[Fact]] = []
    for burst in _departures(facts, thresholds):
        _report_unreturned(burst, facts, report, thresholds)
        reset = _sign_of_reset(burst, facts, thresholds.ns("unload-burst-seconds"))
        if not reset and all(fact.values.get("unknown") and fact.values["noun"] == "consumer" for fact in burst):
            continue  # an unload, or the reset of a cursor while producers are not in the capture
        if _report_departure(topic, burst, facts, report, reset) == "topic-unloaded":
            unloads.append(burst)
    _report_loop(topic, unloads, report, thresholds)


def _departures(facts: Sequence[Fact], thresholds: Thresholds) -> list[list[Fact]]:
    """Group closes that follow each other soon. A client that came back in between begins the next group. Closes by a SEEK do not count."""
    burst_ns, seek_ns = thresholds.ns("unload-burst-seconds"), thresholds.ns("topic-unloaded-seek-seconds")
    bursts: list[list[Fact]] = []
    returned: set[tuple[str, str]] = set()
    seeks: dict[str | None, int] = {}
    for fact in facts:
        if fact.what == "back":
            returned.add(_client(fact))
        elif fact.what == "seek":
            seeks[fact.values["subscription"]] = fact.where.time
        elif fact.where.time - seeks.get(fact.values.get("subscription"), -seek_ns) < seek_ns:
            continue
        elif fact.what in ("closed", "migrated"):
            if not bursts or abs(fact.where.time - bursts[-1][-1].where.time) > burst_ns or _client(fact) in returned:
                bursts.append([])
                returned.clear()
            bursts[-1].append(fact)
    return bursts


def _sign_of_reset(burst: Sequence[Fact], facts: Sequence[Fact], burst_ns: int) -> str:
    """Return the sign of a reset when all closed clients have one subscription: another client stayed, or they get messages again."""
    (subscription, *others) = {fact.values.get("subscription") for fact in burst}
    if others or subscription is None:
        return ""
    first, until = burst[0].where.time, burst[-1].where.time + burst_ns
    staying: set[tuple[str, str]] = set()
    for fact in facts:
        client = fact.where.connection, fact.values["name"]
        if fact.what == "back" and fact.values["back"] <= first and fact.values["subscription"] != subscription:
            staying.add(client)
        elif fact.what in ("closed", "migrated", "left") and fact.where.time <= until:
            staying.discard(client)
    if staying:
        return ", and no other client of the topic"
    for fact in facts:
        if fact.what in ("closed", "migrated") and fact.where.time > until:
            break
        if fact.what == AGAIN and fact.values["subscription"] == subscription and fact.where.time >= first:
            ledger, entry = fact.values["position"]
            return f", and sent {ledger}:{entry} again ({fact.where.name}), which was acknowledged"
    return ""


def _report_unreturned(burst: Sequence[Fact], facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report closed consumers that came back and did not get again what they had not acknowledged."""
    closes = {fact.where.name for fact in burst}
    for fact in facts:
        if fact.what != UNRETURNED or fact.values["closed"] not in closes:
            continue
        values = fact.values
        (ledger, entry), (after_ledger, after), count = (values["evidence"][name] for name in ("before", "after", "count"))
        missing = "some entries" if count is None else "the entry" if count == 1 else f"the {count:,} entries"
        text = f"{values['title']} came back {duration(values['away_ns'])} after the broker had closed it, and went on with "
        text += f"{after_ledger}:{after}: it did not get {missing} again that it had not acknowledged, {'' if count == 1 else 'from '}"
        text += f"{ledger}:{entry}{'' if count == 1 else ' on'}. What its client had not given to the application by then is lost to it."
        frames = {"frames": [values["closed"], fact.where.name]}
        report("messages-skipped", fact.where, text, frames | values["evidence"] | thresholds.evidence("messages-skipped-back-seconds"))


def _client(fact: Fact) -> tuple[str, str]:
    """Return host and name, which a producer or consumer keeps over reconnects."""
    return host(fact.values["client"]), fact.values["name"]


def _report_refused(code: str, topic: str, refused: Sequence[Fact], report: ReportFinding) -> None:
    first = refused[0]
    names = nouns_text(list(dict.fromkeys(fact.values["name"] for fact in refused)))
    span = duration(refused[-1].where.time - first.where.time)
    times = f" {len(refused):,} times within {span}" if len(refused) > 1 else ""
    text = f"Topic {topic} refused {names}{times} with {error_text(first.values['error'], first.values['message'])}."
    evidence = {
        "frames": frame_names(name for fact in refused for name in (fact.where.name, fact.values["frame"])),
        "topic": topic,
        "error": first.values["error"],
        "count": len(refused),
    }
    report(code, first.where, text, evidence)


def _report_unserved(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report refusals of a moving topic to which no client of the same host came back, unless the client was notified of its deletion.

    A client comes back within a second: a capture that ends before, or lacks bytes, does not show that it failed.
    """
    patience = thresholds.ns("request-failed-moving-seconds")
    seen: dict[str, list[Fact]] = {}
    back: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for fact in facts:
        if fact.what == "back":
            back[host(fact.values["client"])] = fact.values["back"]
        elif fact.what == "deleted":
            deleted[host(fact.values["client"])] = fact.where.time
        elif fact.what == SEEN:
            seen.setdefault(host(fact.values["client"]), []).append(fact)
    for fact in facts:
        values, where = fact.values, fact.where
        if fact.what != "refused" or not is_moving(values["error"], values["message"]):
            continue
        client = host(values["client"])
        came_back = back.get(client, 0)
        ends = seen.get(client, ())
        if any(end.values["unseen"] or (end.values["open"] and end.where.time - where.time < patience) for end in ends):
            continue
        if came_back < where.time and deleted.get(client, -1) < came_back:
            request, error = values["request"], values["error"]
            text = refusal_text(f"{request} of {client} for {topic}", request, error, values["message"])
            evidence = {"frames": [where.name, values["frame"]], "request": request, "topic": topic, "error": error}
            evidence |= thresholds.evidence("request-failed-moving-seconds")
            report("request-failed", where, text, evidence)


def _report_loop(topic: str, unloads: Sequence[Sequence[Fact]], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report a topic that is unloaded too often to be intended."""
    least, times = int(thresholds["unload-loop-times"]), [unload[0].where.time for unload in unloads]
    if not any(later - earlier <= thresholds.ns("unload-loop-seconds") for earlier, later in zip(times, times[least - 1 :], strict=False)):
        return
    clients = {_client(fact) for unload in unloads for fact in unload}
    connections = list(dict.fromkeys(fact.where.connection for unload in unloads for fact in unload))
    span, pauses = times[-1] - times[0], sorted(later - earlier for earlier, later in pairwise(times))
    text = f"The broker unloaded {topic} {len(unloads):,} times in {duration(span)}, about every {duration(pauses[len(pauses) // 2])}: "
    text += f"it closed {nouns_text(sorted(name for _, name in clients))}."
    evidence = {
        "frames": frame_names(unload[0].where.name for unload in unloads),
        "connections": connections[:DIAGNOSIS_NAMES_MAX],
        "topic": topic,
        "count": len(unloads),
        "span_ns": span,
        **thresholds.evidence("unload-loop-times", "unload-loop-seconds"),
    }
    report("unload-loop", unloads[0][0].where, text, evidence)


def _report_departure(topic: str, burst: Sequence[Fact], facts: Sequence[Fact], report: ReportFinding, reset: str) -> str | None:
    """Report one burst with the outcome of each client, unless refusals that have their own findings explain all of it.

    Return the code of the finding.
    """
    first = burst[0]
    clients: dict[tuple[str, str], Fact] = {}
    for fact in burst:
        clients.setdefault(_client(fact), fact)
    span = burst[-1].where.time - first.where.time
    outcomes = {client: _outcome(client, fact, facts, burst[-1].where.time) for client, fact in clients.items()}
    if all(outcome.error in ERRORS for outcome in outcomes.values()):
        return None
    urls = sorted({fact.values["url"] for fact in burst if fact.values.get("url")})
    not_ready = sum(
        fact.what == "refused" and fact.values["error"] == "ServiceNotReady" and fact.where.time >= first.where.time for fact in facts
    )
    text = f"The broker closed {nouns_text([name for _, name in clients])} on {topic}"
    if span:
        text += f" within {duration(span)}"
    if urls:
        text += f" and sent {'them' if len(clients) > 1 else 'it'} to {listing(urls)}"
    text += reset
    text += _recovery_text(outcomes)
    if not_ready:
        text += f"; {plural(not_ready, 'request')} got ServiceNotReady"
    evidence = {
        "frames": frame_names([*(fact.where.name for fact in burst), *(outcome.frame for outcome in outcomes.values())]),
        "topic": topic,
        "closed": len(clients),
        "recovered_ns": {name: outcome.recovered_ns for (_, name), outcome in outcomes.items()},
        "urls": urls,
        "service_not_ready": not_ready,
    }
    is_migrated = any(fact.what == "migrated" for fact in burst)
    code = "topic-migrated" if is_migrated else "cursor-reset" if reset else "topic-unloaded"
    report(code, first.where, f"{text}.", evidence)
    return code


def _recovery_text(outcomes: dict[tuple[str, str], Outcome]) -> str:
    text = ""
    recovered = [outcome.recovered_ns for outcome in outcomes.values() if outcome.recovered_ns is not None]
    if recovered:
        number = "all" if len(recovered) == len(outcomes) else f"{len(recovered)} of {len(outcomes)}"
        text += "; it came back after" if len(outcomes) == 1 else f"; {number} came back, the last after"
        text += f" {duration(max(recovered))}"
    missing: dict[str | None, list[str]] = {}
    for (_, name), outcome in outcomes.items():
        if outcome.recovered_ns is None:
            missing.setdefault(outcome.error, []).append(name)
    for error, names in missing.items():
        who = ("it" if len(outcomes) == 1 else "all") if len(names) == len(outcomes) else nouns_text(names)
        verb = "was" if len(names) == 1 else "were"
        text += f"; {who} {verb} refused with {error}" if error else f"; {who} {verb} not seen to come back"
    return text


def _outcome(client: tuple[str, str], closed: Fact, facts: Sequence[Fact], until: int) -> Outcome:
    """Return the outcome for a client, up to the next time after `until` that it was closed."""
    outcome = Outcome(None, None, None)
    for fact in facts:
        if fact.where <= closed.where or not (_client(fact) == client or _is_same_unnamed(fact, closed)):
            continue
        if fact.what == "back":
            return Outcome(fact.values["back"] - closed.where.time, None, fact.values["frame"])
        if fact.what == "closed" and fact.where.time > until:
            break
        if fact.what == "refused":
            outcome = Outcome(None, fact.values["error"], fact.values["frame"])
    return outcome


def _is_same_unnamed(fact: Fact, closed: Fact) -> bool:
    """Return True for a producer of the same host and id, when both asked without a name: the broker chooses a new name each time."""
    asked = closed.values.get("asked")
    return asked is not None and fact.values.get("asked") == asked and host(fact.values["client"]) == host(closed.values["client"])


def _evaluate_broker(broker: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report bursts in which a broker closed the clients of several topics."""
    bursts: list[list[Fact]] = []
    for fact in facts:
        if not bursts or abs(fact.where.time - bursts[-1][-1].where.time) > thresholds.ns("unload-burst-seconds"):
            bursts.append([])
        bursts[-1].append(fact)
    for burst in bursts:
        topics = list(dict.fromkeys(fact.values["topic"] for fact in burst))
        if len(topics) < thresholds["unload-burst-topics"]:
            continue
        clients = [plural(sum(fact.values["kind"] == noun for fact in burst), noun) for noun in ("producer", "consumer")]
        first, span = burst[0].where, burst[-1].where.time - burst[0].where.time
        text = f"Broker {broker} closed {' and '.join(clients)} of {len(topics):,} topics within {duration(span)}: {listing(topics)}."
        evidence = {"frames": frame_names(fact.where.name for fact in burst), "topics": len(topics), "closed": len(burst), "span_ns": span}
        report("unload-burst", first, text, evidence)


KEYS = (KeyRule(TOPICS, FORGET_NS, _evaluate_topic, early=True), KeyRule(BROKERS, FORGET_NS, _evaluate_broker, early=True))
