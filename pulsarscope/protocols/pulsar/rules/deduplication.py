"""Messages that the broker drops as duplicates, and sequence ids that go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.dissect.rules import Fact, KeyRule, ReportFinding, Where
from pulsarscope.model.findings import NOTE, WARNING, Code, table
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, lacking, some
from pulsarscope.protocols.pulsar.rules.sequences import SESSIONS

CODES = table(
    Code(
        "message-duplicate-dropped",
        WARNING,
        "session",
        "The broker dropped messages as duplicates that were not seen sent before.",
        "If they were new, they are lost: sequence ids must rise for a producer name across restarts, see sequence-regression.",
    ),
    Code(
        "resend-deduplicated",
        NOTE,
        "session",
        "The broker dropped messages that were sent again, as deduplication is meant to.",
        "Nothing is lost: their first copies were stored, and the receipts for them were not.",
    ),
    Code(
        "sequence-regression",
        WARNING,
        "session",
        "Sequence ids of a producer go back, or their ranges overlap.",
        "With deduplication such messages are dropped: start a named producer behind its last id (initialSequenceId), do not share a name.",
    ),
)

FORGET_NS = 3_600_000_000_000
"""A producer that comes again an hour after its last connection has nothing to send again."""


def _evaluate_sessions(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """The sessions of one producer name on one topic, in their order."""
    topic, _, name = key.partition("\n")
    who = f"Producer {name} of {topic}"
    evidence = {"topic": topic, "producer_name": name}
    deduplicates = any(_stored(fact) >= 0 or fact.values["dropped_count"] for fact in facts)
    for index, fact in enumerate(facts):
        values = fact.values
        _report_back(who, fact, evidence, deduplicates, report)
        if values["first"] is None:
            continue
        earlier = facts[:index]
        if _stored(fact) >= values["first"]:
            _report_restart(who, fact, earlier, evidence, report)
        if values["dropped_count"]:
            _report_dropped(who, fact, earlier, evidence, report)


def _report_back(who: str, fact: Fact, evidence: dict[str, Any], deduplicates: bool, report: ReportFinding) -> None:
    values = fact.values
    # Key-based batches of Java interleave their ranges, which harms nobody unless the broker de-duplicates.
    back = [one for one in values["back"] if deduplicates or one[1] == one[2]]
    if not back:
        return
    _, number, highest = back[0]
    times = values["repeated_count"] + (values["lower_count"] if deduplicates else 0)
    ids = some([f"{sent} behind {highest}" for _, sent, highest in back])
    text = (
        f"{who} ({values['client']}) sent {count(times, 'message')} with a sequence id that is not above those before: {ids}"
        f"{'; the broker de-duplicates' if deduplicates else ''}{lacking(lost=values['lost'])}."
    )
    extra = {"frames": frames(one[0] for one in back), "count": times, "sequence_id": number, "highest_before": highest}
    report("sequence-regression", _at(fact), text, evidence | extra)


def _report_restart(who: str, fact: Fact, earlier: Sequence[Fact], evidence: dict[str, Any], report: ReportFinding) -> None:
    """It begins at or below what the broker remembers: to send again what got no receipt is right, anything else is not."""
    values = fact.values
    first, stored = values["first"], values["stored"]
    if not earlier and values["epoch"]:
        return  # A reconnect of a producer whose earlier connection is not in the capture.
    if earlier and first > earlier[-1].values["confirmed"] and first <= earlier[-1].values["highest"]:
        return
    before = f", {earlier[-1].values['confirmed']} had its receipt" if earlier else ""
    text = (
        f"{who} ({values['client']}) begins with sequence id {first}, though the broker has stored up to {stored}{before}: "
        f"messages up to {stored} will be dropped{lacking(lost=values['lost'])}."
    )
    extra = {"frames": frames([fact.where.name, values["first_frame"]]), "sequence_id": first, "stored": stored}
    report("sequence-regression", _at(fact), text, evidence | extra)


def _report_dropped(who: str, fact: Fact, earlier: Sequence[Fact], evidence: dict[str, Any], report: ReportFinding) -> None:
    values = fact.values

    def sent_before(lowest: int, highest: int) -> bool:
        """Not confirmed by then, so that the client had to send these again; or that is not in the capture."""
        if not earlier:
            return bool(values["epoch"])
        return any(one.values["confirmed"] < lowest and highest <= one.values["highest"] for one in earlier)

    samples = dict.fromkeys([*values["dropped"], values["dropped_highest"]])
    again = [one for one in samples if sent_before(one[1], one[1])]
    fresh = [one for one in samples if not sent_before(one[1], one[1])]
    # Those without a sample are between the lowest and the highest: when the two are not of a kind, they are not known to be sent again.
    all_again = sent_before(values["dropped_lowest"], values["dropped_highest"][1])
    agains = values["dropped_count"] if all_again else len(again)
    for code, dropped in (("message-duplicate-dropped", fresh), ("resend-deduplicated", again)):
        if not dropped:
            continue
        times = values["dropped_count"] - agains if dropped is fresh else agains
        ids = some([str(number) for _, number in dropped])
        kind = "that were sent again after a reconnect" if dropped is again else "that were not seen to wait for a receipt"
        text = (
            f"{who} ({values['client']}): the broker dropped {times:,} of {count(values['sent'], 'SEND')} as duplicates {kind}, "
            f"sequence id {ids}{lacking(lost=values['lost'])}."
        )
        report(code, _at(fact), text, evidence | {"frames": frames(one[0] for one in dropped), "count": times, "stored": values["stored"]})


def _stored(fact: Fact) -> int:
    """The highest sequence id that the broker remembers when the producer begins; -1: none, or not in the capture."""
    stored: int | None = fact.values["stored"]
    return -1 if stored is None else stored


def _at(fact: Fact) -> Where:
    return fact.where._replace(time=fact.values["began"])


KEYS = (KeyRule(SESSIONS, FORGET_NS, _evaluate_sessions, early=True),)
