"""Messages that the broker drops as duplicates, and sequence ids that go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, gap_note
from pulsarscope.protocols.pulsar.rules.sends.send_marks import has_same_bytes
from pulsarscope.protocols.pulsar.rules.sends.sequences import SESSIONS
from pulsarscope.protocols.pulsar.rules.sends.stored_twice import COPY, report_copies
from pulsarscope.protocols.pulsar.text.formatting import listing
from pulsarscope.protocols.pulsar.topics import named_topic

CODES = table(
    SESSION.warning(
        "message-duplicate-dropped",
        "The broker dropped messages as duplicates, but the capture does not show an earlier copy.",
        "If they were new, they are lost: sequence ids must rise for a producer name across restarts, see sequence-regression.",
        to_act="the producer's application",
    ),
    SESSION.note(
        "resend-deduplicated",
        "The broker dropped messages that were sent again, as deduplication is meant to.",
        "Nothing is lost: the first copies were stored, though their receipts may not have arrived.",
    ),
    SESSION.warning(
        "non-persistent-dropped",
        "The broker dropped messages of a non-persistent topic.",
        "It handles a limited number per connection at once: keep fewer in flight, spread producers over connections, or raise "
        "maxConcurrentNonPersistentMessagePerConnection. It also keeps none for a consumer without permits: let that one read faster.",
        to_act="the application",
    ),
    SESSION.warning(
        "sequence-regression",
        "Sequence ids of a producer go back, or their ranges overlap.",
        "With deduplication such messages are dropped: start a named producer after its last id (initialSequenceId), and do not "
        "share its name.",
        to_act="the producer's application",
    ),
)

FORGET_NS = 3_600_000_000_000
"""Time without facts after which a producer is evaluated: a producer that returns after an hour has nothing to resend."""


SHOWN_IDS = 5
"""Number of sequence ids that a sentence names."""

NON_PERSISTENT = "non-persistent://"


class ProducerReport(NamedTuple):
    """The source of the findings on one producer name and topic."""

    topic: str
    name: str
    report: ReportFinding

    def add(self, code: str, session: Fact, text: str, **evidence: Any) -> None:
        """Report a finding on a session, at its beginning; `text` follows the producer's name and client."""
        values = session.values
        sentence = f"Producer {self.name} of {self.topic} ({values['client']}){text}{gap_note(lost=values['lost'])}."
        where = session.where._replace(time=values["began"])
        self.report(code, where, sentence, {"topic": self.topic, "producer_name": self.name, **evidence})


def _evaluate_sessions(key: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report regressions, dropped messages and those stored twice in the sessions of one producer name on one topic."""
    sessions = [fact for fact in facts if fact.what != COPY]
    copies = [fact for fact in facts if fact.what == COPY]
    topic, _, name = key.partition("\n")
    if named_topic(topic) is None:  # sessions from before the capture, and later ones, whose topic is another key
        topics = [named for session in sessions if (named := named_topic(session.values["topic"])) is not None]
        if len(topics) < len(sessions) or copies:
            report_copies(topics[0] if topics else topic, name, sessions if len(topics) < len(sessions) else (), copies, report)
        for session in sessions:
            if named_topic(session.values["topic"]) is None:
                _report_regressions(ProducerReport(topic, name, report), session, deduplicates=False)
        return
    report_copies(topic, name, sessions, copies, report)
    producer = ProducerReport(topic, name, report)
    if topic.startswith(NON_PERSISTENT):  # such a topic stores nothing, so the broker remembers no sequence id
        for session in sessions:
            _report_not_handled(producer, session)
        return
    deduplicates = any(_stored(session) >= 0 or session.values["dropped_count"] for session in sessions)
    for index, session in enumerate(sessions):
        _report_regressions(producer, session, deduplicates=deduplicates)
        if (first := session.values["first"]) is None:
            continue
        known = _known_bytes(session, sessions[:index])
        if _stored(session) >= first and not (known and known.issuperset(number for number, _ in session.values["dropped_marks"])):
            _report_restart(producer, session, sessions[:index])
        if session.values["dropped_count"]:
            _report_dropped(producer, session, sessions[:index], known)


def _report_not_handled(producer: ProducerReport, session: Fact) -> None:
    """Report messages whose receipts name no entry (-1:-1), which is how a broker answers messages for which it has no room."""
    values = session.values
    if values["dropped_count"]:
        text = f": the broker dropped {values['dropped_count']:,} of {plural(values['sent'], 'SEND')}, which no consumer gets"
        frames = frame_names(frame for frame, _ in map(tuple, values["dropped"]))
        producer.add("non-persistent-dropped", session, text, frames=frames, count=values["dropped_count"], sent=values["sent"])


def _report_regressions(producer: ProducerReport, session: Fact, *, deduplicates: bool) -> None:
    values = session.values
    again = _sent_again(session)
    lower = _lower_count(session, deduplicates=deduplicates)
    regressions = [
        (frame, number, highest)
        for frame, number, highest, is_reused in values["regressions"]
        if number not in again and (number == highest or (lower and (is_reused or lower > values["reused_count"])))
    ]
    if not regressions:
        return
    _, number, highest = regressions[0]
    times = (0 if again else values["repeated_count"]) + lower
    ids = _sample_text([f"{sent} after {highest_before}" for _, sent, highest_before in regressions], times)
    text = f" sent {plural(times, 'message')} with a sequence id that is not above those before: {ids}"
    producer.add(
        "sequence-regression",
        session,
        f"{text}{'; the broker de-duplicates' if deduplicates else ''}",
        frames=frame_names(frame for frame, _, _ in regressions),
        count=times,
        sequence_id=number,
        highest_before=highest,
    )


def _lower_count(session: Fact, *, deduplicates: bool) -> int:
    """Return how many messages have a significantly lower id than earlier ones.

    Key-based batches of Java interleave their ranges but repeat no id, which is harmless unless the broker de-duplicates. After missing
    bytes, a producer may have restarted.
    """
    values = session.values
    if deduplicates:
        lower: int = values["lower_count"]
    elif values["uncertain"]:
        lower = 0
    elif values["interleaves"]:
        lower = values["reused_count"]
    else:
        lower = values["lower_count"] - values["again_count"]
    return lower


def _sent_again(session: Fact) -> set[int]:
    """Return the ids that were sent twice in a row and dropped the second time; an empty set if a producer repeats most of its ids."""
    values = session.values
    if values["repeated_count"] * 2 > values["sent"]:
        return set()
    twice = {number for _, number, highest, _ in values["regressions"] if number == highest}
    return twice if twice <= {number for _, number in values["dropped"]} else set()


def _report_restart(producer: ProducerReport, session: Fact, earlier: Sequence[Fact]) -> None:
    """Report a session that begins at or below the id that the broker remembers, unless it resends messages without a receipt."""
    values = session.values
    first, stored = values["first"], values["stored"]
    if not earlier and values["epoch"]:
        return  # A reconnect of a producer whose earlier connection is not in the capture.
    if earlier and earlier[-1].values["confirmed"] < first <= earlier[-1].values["highest"]:
        return
    confirmed = f", {earlier[-1].values['confirmed']} had its receipt" if earlier else ""
    text = (
        f" begins with sequence id {first}, though the broker has stored up to {stored}{confirmed}: messages up to {stored} will be dropped"
    )
    names = frame_names([session.where.name, values["first_frame"]])
    producer.add("sequence-regression", session, text, frames=names, sequence_id=first, stored=stored)


def _known_bytes(session: Fact, earlier: Sequence[Fact]) -> set[int]:
    """Return the dropped ids whose bytes equal those of an earlier session, so that nothing new is lost."""
    marks = {number: mark for previous in earlier for number, _, _, mark in previous.values["tail"]} if session.values["dropped"] else {}
    return {number for number, mark in session.values["dropped_marks"] if has_same_bytes(marks.get(number), mark)}


def _report_dropped(producer: ProducerReport, session: Fact, earlier: Sequence[Fact], known: set[int]) -> None:
    values = session.values

    again = _sent_again(session)

    def is_resend(lowest: int, highest: int) -> bool:
        """Return True when these ids were sent twice in a row, or in an earlier session without a receipt or outside the capture.

        Ids that were sent with the same bytes also count.
        """
        if {lowest, highest} <= again or {lowest, highest} <= known:
            return True
        if not earlier:
            return bool(values["epoch"])
        return any(previous.values["confirmed"] < lowest and highest <= previous.values["highest"] for previous in earlier)

    samples = dict.fromkeys(map(tuple, [*values["dropped"], values["dropped_highest"]]))
    resent = [(frame, number) for frame, number in samples if is_resend(number, number)]
    fresh = [(frame, number) for frame, number in samples if not is_resend(number, number)]
    # Ids without a sample lie between the lowest and the highest. If only one of these two was resent, they do not count as resent.
    all_resent = is_resend(values["dropped_lowest"], values["dropped_highest"][1])
    resends = values["dropped_count"] if all_resent else len(resent)
    for code, dropped, times, kind in (
        ("message-duplicate-dropped", fresh, values["dropped_count"] - resends, ", though the capture shows no earlier copy"),
        ("resend-deduplicated", resent, resends, " that were sent again" if again else " that were sent again after a reconnect"),
    ):
        if dropped:
            ids = _sample_text([str(number) for _, number in dropped], times)
            noun = "sequence ids" if times > 1 else "sequence id"
            text = f": the broker dropped {times:,} of {plural(values['sent'], 'SEND')} as duplicates{kind}: {noun} {ids}"
            names = frame_names(frame for frame, _ in dropped)
            producer.add(code, session, text, frames=names, count=times, stored=values["stored"])


def _sample_text(names: Sequence[str], times: int) -> str:
    """Return the first of some names, which are a sample of this number, and how many more there are."""
    shown = names[:SHOWN_IDS]
    more = times - len(shown)
    return f"{', '.join(shown)} and {more:,} more" if more > 0 else listing(shown)


def _stored(session: Fact) -> int:
    """Return the highest sequence id that the broker remembers when the session begins; -1 if there is none or the capture lacks it."""
    stored: int | None = session.values["stored"]
    return -1 if stored is None else stored


def _decides(fact: Fact) -> bool:
    """Return True for a fact that may cause a finding on its own; most producers connect once."""
    values = fact.values
    if fact.what == COPY or values["regressions"] or values["dropped_count"] or values["twice"]:
        return True
    return values["first"] is not None and _stored(fact) >= values["first"]


KEYS = (KeyRule(SESSIONS, FORGET_NS, _evaluate_sessions, early=True, decides=_decides, compares=True),)
