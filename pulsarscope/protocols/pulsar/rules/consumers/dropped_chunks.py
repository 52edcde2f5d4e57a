"""Chunked messages that a consumer dropped because chunks of other messages came between theirs.

A client keeps the chunks of a few incomplete messages. When another one begins, it drops the oldest, and later ignores its remaining
chunks: the application never gets the message, and the chunks are never acknowledged.
"""

from __future__ import annotations

from pulsarscope.dissect.contract.rules import RuleContext
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration, plural
from pulsarscope.protocols.pulsar.rules.consumers.held import UnackedState
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, may_lack

CODES = table(
    SESSION.warning(
        "chunk-dropped",
        "A consumer dropped chunked messages, because the chunks of other messages came between theirs.",
        "Raise maxPendingChunkedMessage to the number of producers that send chunks at the same time. The application never saw these "
        "messages; they come again when the consumer reconnects, or when an ack timeout is set.",
        to_act="the consumer's application",
    ),
)


def report_dropped(context: RuleContext, consumer: UnackedState, now: int) -> None:
    """Report that all entries that a consumer skipped are chunks of interrupted messages."""
    least = context.thresholds["consumer-not-acking-messages"]
    patience = max(
        context.thresholds.ns("chunk-stuck-seconds"), round(context.thresholds["consumer-rhythm-factor"] * consumer.longest_held)
    )
    held = consumer.entries.items()
    waiting = [entry for _, entry in held if entry.number > consumer.furthest and now - entry.where.time >= patience]
    if sum(entry.messages for entry in waiting) >= least:
        return  # the consumer has stopped
    passed = {position: entry for position, entry in held if entry.number < consumer.furthest}
    interrupted = consumer.chunks.interrupted
    uuids = sorted({entry.uuid or "" for entry in passed.values()})
    if not uuids or not all(interrupted.get(uuid) for uuid in uuids):
        return
    oldest = next(iter(passed.values())).where
    age = now - oldest.time
    if age < patience or may_lack(context, oldest.time, now):
        return
    consumer.reported = consumer.hole_reported = True
    text = f"{consumer.title} acknowledged none of {plural(len(passed), 'chunk')} of {plural(len(uuids), 'message')}, the oldest delivered "
    text += f"{duration(age)} before, though it acknowledged later messages: chunks of others came between."
    evidence = {
        "frames": [oldest.name],
        **consumer.evidence,
        "chunks": len(passed),
        "uuids": uuids[:SAMPLES_MAX],
        "message_ids": list(passed)[:SAMPLES_MAX],
        "age_ns": age,
        "act": "client",
        **context.thresholds.evidence("chunk-stuck-seconds", "consumer-rhythm-factor"),
    }
    context.report("chunk-dropped", oldest, text, evidence)
