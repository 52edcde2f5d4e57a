"""Frames, samples and qualifications that the findings of several rules share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pulsarscope.dissect.contract.rules import Fact, ReportedFinding, RuleContext, Where
from pulsarscope.model.findings import GAP_CODES
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import STREAM_FINDINGS_MAX
from pulsarscope.model.records import ConnectionRow, ExchangeRow

SAMPLES_MAX = 10
"""Frames, ids and similar items that the evidence of one finding lists; counts are always exact."""

TYPICAL_ACKS = 10
"""ACKs needed to know how long a consumer usually takes."""

SHORTEST_FRAME = 13
"""Bytes of a PING or a PONG; a SUCCESS to a small request id has 14."""

Sample = TypeVar("Sample")


def add_sample(samples: list[Sample], sample: Sample) -> None:
    """Append a sample, unless there are enough."""
    if len(samples) < SAMPLES_MAX:
        samples.append(sample)


def frame_names(names: Iterable[str | None]) -> list[str]:
    """Return the first names of frames, each once."""
    return list(dict.fromkeys(name for name in names if name))[:SAMPLES_MAX]


def consumer_of(fact: Fact) -> tuple[str, int]:
    """Return connection and id of the consumer that a fact is about."""
    return fact.where.connection, fact.values["consumer_id"]


def title_of(fact: Fact, consumers: int, topic: str) -> str:
    """Return the name of `consumers` consumers of one subscription in a text; the fact is about one of them."""
    values = fact.values
    return str(values["title"]) if consumers == 1 else f"{consumers} consumers of subscription {values['subscription']} on {topic}"


def latest_seen(facts: Iterable[Fact]) -> int:
    """Return the latest time in the facts: the time of a fact or, if it has one, the end of its connection."""
    latest: int = max(fact.values.get("seen", fact.where.time) for fact in facts)
    return latest


def response_name(row: ExchangeRow) -> str:
    """Return the name of the frame that answered a request."""
    return frame_name(row.response_file, row.response_packet, row.response_sub)


def gap_note(*, lost: bool) -> str:
    """Return the qualification of a finding on a connection with missing bytes."""
    return "; the capture lacks bytes" if lost else ""


def closed_windows(context: RuleContext, host: str) -> list[ReportedFinding]:
    """Return the findings about a receive window that a host of the connection closed."""
    return [window for window in context.reported("zero-window") if window.evidence.get("host") == host]


def held_up(context: RuleContext, since: int, until: int) -> int:
    """Return the longest time, of those that overlap a stretch of time, for which the network held up either side, in nanoseconds."""
    return _longest_within(context, ("held_up",), since, until)


def way_delay(context: RuleContext, since: int, until: int) -> int:
    """Return the longest time after which the path acknowledged data, or for which it held up either side, near a stretch; nanoseconds.

    Near is what is no further away than the stretch is long: not each acknowledgment is measured.
    """
    near = until - since
    return _longest_within(context, ("held_up", "on_way"), since - near, until + near)


def _longest_within(context: RuleContext, names: Iterable[str], since: int, until: int) -> int:
    losses = [loss.evidence.get(name, ()) for loss in context.reported("network-loss") for name in names]
    return max((took for times in losses for took, began in times if began <= until and since <= began + took), default=0)


def lacks_acks(context: RuleContext) -> bool:
    """Return True if only data acknowledged what came late: whether the network or a program took so long cannot be told."""
    return any(loss.evidence.get("unsure") for loss in context.reported("network-loss"))


def gaps_in(context: RuleContext) -> list[ReportedFinding]:
    """Return the first findings about bytes of a connection that are missing in the capture."""
    found = [finding for code in GAP_CODES for finding in context.reported(code)] if context.lost else []
    # A few places that the snap length cut are known one by one; the finding that counts them comes at the end of the connection.
    return [
        gap for gap in found if not ("reason" in gap.evidence and gap.evidence.get("count", STREAM_FINDINGS_MAX + 1) <= STREAM_FINDINGS_MAX)
    ]


def may_lack_frames(context: RuleContext) -> bool:
    """Return True when an answer, a close or a PRODUCER of a connection may have been missed since it was first seen."""
    return context.lost and any(context.reported(code) for code in (*GAP_CODES, "memory-cap"))


def answers_lost(context: RuleContext, since: int) -> int:
    """Return how many answers to requests up to `since` may be among the server's missing bytes."""
    gaps = [gap.evidence for gap in _gaps_of(context, context.server) if since <= gap.where.time]
    # Each of many short pieces, which one finding counts together, may belong to another answer.
    return sum(max(-(-(gap.get("size") or gap.get("bytes", 0)) // SHORTEST_FRAME), gap.get("count", 1)) for gap in gaps)


def places_lost(context: RuleContext) -> int:
    """Return in how many places the whole connection lacks bytes of the client: each may hide a request."""
    gaps = [gap.evidence for gap in _gaps_of(context, context.client)]
    totals = [gap for gap in gaps if "count" in gap]
    return sum(gap["count"] for gap in totals) if totals else len(gaps)


def may_lack(context: RuleContext, since: int, until: int, side: str = CLIENT) -> bool:
    """Return True when a frame of one side may be among the missing bytes between two times.

    `until` is the current time: how many later rows are already known differs between ways of running.
    """
    if not gaps_in(context):
        return False
    sender = context.client if side == CLIENT else context.server
    return any(size >= SHORTEST_FRAME for size in _gaps(context, sender, since, until))


def latest_lack(context: RuleContext, until: int, side: str = CLIENT) -> int:
    """Return the time of one side's latest missing bytes, up to the current time `until`; -1: none are missing."""
    sender = context.client if side == CLIENT else context.server
    times = [gap.where.time for gap in _gaps_of(context, sender) if gap.where.time <= until]
    return until if len(times) >= STREAM_FINDINGS_MAX else max(times, default=-1)


def latest_gap(context: RuleContext, until: int) -> int:
    """Return the time of either side's latest missing bytes, up to the current time `until`; -1: none are missing."""
    return max((gap.where.time for gap in gaps_in(context) if gap.where.time <= until), default=-1)


def _gaps(context: RuleContext, sender: str, since: int, until: int) -> list[int]:
    """Return the sizes of the gaps in what one side sent between two times."""
    gaps = _gaps_of(context, sender)
    sizes = [gap.evidence.get("size") or gap.evidence.get("bytes", 0) for gap in gaps if since <= gap.where.time <= until]
    if len(gaps) >= STREAM_FINDINGS_MAX and gaps[-1].where.time <= until:
        sizes.append(SHORTEST_FRAME)  # later ones are only counted, and reported at the end
    return sizes


def _gaps_of(context: RuleContext, sender: str) -> list[ReportedFinding]:
    return [finding for finding in gaps_in(context) if finding.sender == sender]


def unanswered(context: RuleContext, asked: Iterable[Where]) -> list[Where]:
    """Return the requests, oldest first, whose answers cannot be among the missing bytes."""
    excused, rest = 0, []
    for where in reversed([*asked]):  # the latest request has the fewest missing bytes after it
        if excused < answers_lost(context, where.time):
            excused += 1
        else:
            rest.append(where)
    return rest[::-1]


def is_half_open(row: ConnectionRow) -> bool:
    """Return True when the broker closed its half and the client, whose stream is complete in the capture, did not."""
    return row.closed_by == SERVER and row.client_bytes > row.client_missing == 0


_DATA_PATH = frozenset({"SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW"})
_KEEP_ALIVE = frozenset({"PING", "PONG"})


def is_in_use(row: ConnectionRow, latest: frozenset[str]) -> bool:
    """Return True when a producer or consumer from before the capture worked up to the end; `latest`: latest commands of both sides."""
    return row.opened == "midstream" and bool(latest & _DATA_PATH) and latest <= _DATA_PATH | _KEEP_ALIVE


def capitalized(text: str) -> str:
    """Return a sentence with its first letter in upper case, and all others unchanged."""
    return text[0].upper() + text[1:]
