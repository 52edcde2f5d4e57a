"""Twenty questions that operators ask: the findings that answer each, and similar cases that must not have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pulsarscope.engine.local import run
from pulsarscope.model.findings import ERROR, NOTE, WARNING
from pulsarscope.protocols.pulsar import rules
from tests.places import CAPTURES
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.options import Options
from tests.scenarios.rules import (
    acks,
    backlog,
    cases,
    closing,
    deduplication,
    journey,
    key_shared,
    permits,
    producers,
    redelivery,
    sizes,
    transactions,
    unacked,
    unload,
)

Source = str | Callable[[], Sequence[Conversation]]
"""The name of a capture, or a maker of the connections in one."""


class Sign(NamedTuple):
    """A finding that answers the question."""

    code: str
    severity: str
    talk: Source
    commands: tuple[str | None, ...]
    """Commands of the frames that its evidence names, in order."""
    evidence: dict[str, Any]
    """Other evidence that it must have; there may be more."""


class Question(NamedTuple):
    """A question with its signs and its near-misses."""

    number: int
    words: str
    signs: tuple[Sign, ...]
    near: tuple[Source, ...]
    """Cases that look similar and must have none of these codes."""


def about(nanoseconds: float) -> Any:
    """A duration, approximate because steps between packets add to it."""
    return pytest.approx(nanoseconds, abs=10 * cases.MILLISECOND)


QUESTIONS = (
    Question(
        1,
        "Why does my consumer get nothing?",
        (
            Sign(
                "consumer-starved",
                WARNING,
                "stuck-consumer.pcap",
                ("MESSAGE",),
                {"consumer_name": "cons-stuck", "permits": 0, "granted": 8, "delivered": 8, "act": "client"},
            ),
            Sign(
                "broker-silent",
                WARNING,
                backlog.silent,
                ("MESSAGE", "SEND_RECEIPT"),
                {"permits": 9, "backlog": [7, 2], "last_delivered": [7, 1], "act": "broker"},
            ),
            Sign(
                "permits-negative",
                NOTE,
                lambda: [permits.below_zero()],
                ("MESSAGE",),
                {"permits": -7, "granted": 53},
            ),
        ),
        (cases.consumer_at_its_own_pace, "quickstart.pcapng"),
    ),
    Question(
        2,
        "Is it blocked on unacknowledged messages; which one is the hole?",
        (
            Sign(
                "consumer-not-acking",
                WARNING,
                "stuck-consumer.pcap",
                ("MESSAGE",),
                {"unacknowledged": 8, "oldest": [96, 0], "limit": 50_000, "oldest_age_ns": 5_421_569_000},
            ),
            Sign(
                "ack-hole",
                WARNING,
                unacked.with_a_hole,
                ("MESSAGE",),
                {"message_id": [7, 3], "later_acknowledged": 27, "unacknowledged": 1},
            ),
        ),
        (unacked.one_after_the_other,),
    ),
    Question(
        3,
        "Where was the message corrupted?",
        (
            Sign("checksum-mismatch", ERROR, "raw-checksum.pcap", ("SEND",), {"frame": "0:22.1"}),
            Sign("message-corrupted", ERROR, "raw-checksum.pcap", ("SEND", "SEND_ERROR"), {"sent": 1, "bad": 1, "refused": 1}),
            Sign(
                "message-corrupted",
                ERROR,
                cases.damaged_behind_the_broker,
                ("SEND", "MESSAGE"),
                {"entry": "7:0", "subscriptions": ["s"], "bad": 1, "good": 0},
            ),
            Sign("consumer-corrupt", ERROR, "raw-checksum.pcap", ("ACK",), {"validation_error": "UncompressedSizeCorruption"}),
            Sign("resend-loop", WARNING, cases.refused_again_and_again, ("SEND", "SEND_ERROR") * 3, {"refused": 3}),
        ),
        (cases.refused_without_damage,),
    ),
    Question(
        4,
        "Why is the producer already connected, or fenced?",
        (
            Sign(
                "producer-busy",
                ERROR,
                "errors.pcap",
                ("PRODUCER", "ERROR"),
                {
                    "holders": [{"frame": "0:12.1", "connection": "0:1", "name": "same-name"}],
                    "attempts": [{"frame": "0:25.1", "epoch": 0, "mode": "Shared"}],
                    "count": 1,
                },
            ),
            Sign(
                "producer-fenced",
                ERROR,
                "java-errors.pcap",
                ("PRODUCER", "PRODUCER_SUCCESS", "PRODUCER"),
                {"producer_name": "am-fence", "fenced": [{"frame": "0:92.1", "connection": "0:16", "name": "am-wait"}]},
            ),
        ),
        (producers.free_again,),
    ),
    Question(
        5,
        "Who causes the storm of redeliveries?",
        (
            Sign(
                "redelivery-storm",
                WARNING,
                lambda: [redelivery.repeated(25)],
                ("MESSAGE", *("REDELIVER_UNACKNOWLEDGED_MESSAGES",) * 9),
                {"message_id": [7, 2], "redelivery_count": 25, "requests": 25, "redelivered": 25, "period_ns": about(30 * SECOND)},
            ),
            Sign(
                "redeliver-all",
                NOTE,
                "shared-nack-dlq.pcap",
                ("REDELIVER_UNACKNOWLEDGED_MESSAGES",),
                {"consumer_name": "cons-a", "count": 1},
            ),
        ),
        (lambda: [redelivery.repeated(16)],),
    ),
    Question(
        6,
        "Is lookup looping?",
        (Sign("lookup-loop", WARNING, lambda: cases.redirects(4), ("LOOKUP", "LOOKUP_RESPONSE") * 5, {"redirects": 4, "circle": True}),),
        (lambda: cases.redirects(1),),
    ),
    Question(
        7,
        "What is acknowledged of a batch?",
        (
            Sign("batch-partly-acked", NOTE, "acks-batchindex.pcap", ("ACK",), {"batches": 5, "messages": 13}),
            Sign(
                "acked-redelivered", NOTE, cases.acked_and_again, ("ACK", "MESSAGE"), {"message_id": [7, 0], "batch_indexes": [0, 1, 2, 3]}
            ),
        ),
        (cases.the_rest_again,),
    ),
    Question(
        8,
        "Is a chunked message lost or stuck?",
        (
            Sign(
                "chunk-stuck",
                WARNING,
                lambda: cases.chunked([0, 1, 3]),
                ("SEND", "MESSAGE", "MESSAGE", "MESSAGE"),
                {"uuid": "u-1", "chunks": 4, "stored": 4, "delivered": 3, "missing": [2], "out_of_order": 1},
            ),
            Sign(
                "chunk-size-mismatch",
                ERROR,
                lambda: cases.chunked(range(4), total_chunk_msg_size=30),
                ("SEND",) * 4,
                {"bytes": 28, "announced": 30},
            ),
        ),
        (lambda: cases.chunked([0, 1, 1, 2, 3]), "java-chunk-interleaved.pcap.zst"),
    ),
    Question(
        9,
        "Who closed the connection, and why?",
        (
            Sign(
                "connection-closed-by-broker",
                WARNING,
                "java-errors.pcap",
                ("SEND", "SEND_RECEIPT"),
                {"closed": "fin", "closed_by": "server", "idle_ns": 1_009_000, "unanswered": {"SEND": 1}, "open": 1},
            ),
            Sign("connection-closed-by-client", NOTE, cases.left_waiting, ("SEND", "PRODUCER_SUCCESS"), {"unanswered": {"SEND": 1}}),
            Sign(
                "keepalive-lost",
                WARNING,
                closing.half_dead,
                ("PONG", "PING", "PING"),
                {"silent": "client", "pings": 2, "pongs_before": 1, "silent_ns": about(30 * SECOND), "closed_by": "server"},
            ),
            Sign(
                "reconnect-loop",
                WARNING,
                "token-auth-py.pcap",
                ("ERROR",) * 10,
                {"count": 15, "reasons": {"AuthenticationError": 14, "AuthorizationError": 1}},
            ),
        ),
        (cases.orderly_end, "token-refresh-java.pcap"),
    ),
    Question(
        10,
        "Too many requests, or a storm of lookups?",
        (
            Sign(
                "too-many-requests",
                ERROR,
                lambda: cases.many_lookups(refused=3),
                ("LOOKUP", "LOOKUP"),
                {"refused": {"LOOKUP": 3}, "lookups": 50, "outstanding_max": 50},
            ),
        ),
        (lambda: cases.many_lookups(refused=0),),
    ),
    Question(
        11,
        "Is a transaction stuck or aborted?",
        (
            Sign(
                "txn-open",
                WARNING,
                cases.outlived,
                ("NEW_TXN_RESPONSE", "ADD_PARTITION_TO_TXN"),
                {"txn": "(3,5)", "ttl_ns": 60 * SECOND, "age_ns": about(90 * SECOND), "closed_by": None},
            ),
            Sign("txn-failed", ERROR, cases.expired, ("END_TXN", "END_TXN_RESPONSE"), {"txn": "(3,5)", "error": "TransactionNotFound"}),
        ),
        ("lo-java-txn.pcap", lambda: [transactions.ended(transactions.begun(), "ABORT")]),
    ),
    Question(
        12,
        "Did de-duplication drop my message?",
        (
            Sign(
                "message-duplicate-dropped",
                WARNING,
                deduplication.dropped_at_once,
                ("SEND_RECEIPT", "SEND_RECEIPT"),
                {"count": 2, "stored": 10},
            ),
            Sign("sequence-regression", WARNING, deduplication.dropped_at_once, ("PRODUCER", "SEND"), {"sequence_id": 5, "stored": 10}),
        ),
        (deduplication.sent_again,),
    ),
    Question(
        13,
        "Who sent the incompatible schema?",
        (
            Sign(
                "schema-incompatible",
                ERROR,
                "errors.pcap",
                ("PRODUCER", "ERROR", "PRODUCER"),
                {"schema": {"type": "Avro", "name": "Bad", "bytes": 145}, "known": {"type": "Avro", "name": "Item", "bytes": 240}},
            ),
        ),
        (cases.schema_that_is_taken, "java-schemas.pcap"),
    ),
    Question(
        14,
        "Why is publishing slow; why does a send time out?",
        (
            Sign(
                "slow-publish",
                WARNING,
                lambda: cases.slow_receipts(1_500 * cases.MILLISECOND, 12),
                ("SEND", "SEND_RECEIPT"),
                {
                    "sends": 12,
                    "p50_ns": about(1_500 * cases.MILLISECOND),
                    "p99_ns": about(1_500 * cases.MILLISECOND),
                    "max_ns": about(1_500 * cases.MILLISECOND),
                    "in_flight_max": 1,
                    "zero_windows": 0,
                },
            ),
            Sign("send-unanswered", WARNING, lambda: cases.no_receipt(4 * SECOND), ("SEND",), {"count": 1, "waited_ns": about(4 * SECOND)}),
        ),
        (
            lambda: cases.slow_receipts(900 * cases.MILLISECOND, 12),
            lambda: cases.slow_receipts(9 * SECOND, 1),
            lambda: cases.no_receipt(SECOND // 2),
        ),
    ),
    Question(
        15,
        "What is the latency from end to end, whatever the clocks say?",
        (
            Sign(
                "clock-skew", NOTE, lambda: cases.published_by_a_clock(cases.HOUR), ("SEND",), {"offset_ns": about(cases.HOUR), "sends": 1}
            ),
            Sign("clock-skew", NOTE, "rw-portreuse.pcap", ("MESSAGE",), {"offset_ns": 46_230_744_000, "entries": 69}),
        ),
        (lambda: cases.published_by_a_clock(0, pause=90 * SECOND), "quickstart.pcapng"),
    ),
    Question(
        16,
        "What did the unload, or the restart, do to clients?",
        (
            Sign(
                "topic-unloaded",
                NOTE,
                "unload-terminate.pcap",
                ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "PRODUCER_SUCCESS", "SUCCESS"),
                {"closed": 2, "recovered_ns": {"producer prod-1": 120_519_000, "consumer cons-1 of s": 119_855_000}},
            ),
            Sign("unload-burst", NOTE, lambda: [unload.stopping(12)], ("CLOSE_PRODUCER",) * 10, {"topics": 12, "closed": 12}),
        ),
        ("seek-reader.pcap", cases.orderly_end),
    ),
    Question(
        17,
        "Is Key_Shared stuck or out of order?",
        (
            Sign(
                "key-on-two-consumers",
                WARNING,
                key_shared.on_two_consumers,
                ("MESSAGE", "MESSAGE"),
                {"key": "k", "message_ids": [[7, 1], [7, 4]], "overlap_ns": about(6 * SECOND)},
            ),
            Sign(
                "key-out-of-order",
                WARNING,
                key_shared.out_of_order,
                ("MESSAGE", "MESSAGE"),
                {"message_id": [7, 3], "after": [7, 5], "key": "k"},
            ),
        ),
        (cases.key_that_moves,),
    ),
    Question(
        18,
        "Why is the exclusive subscription busy?",
        (
            Sign(
                "consumer-busy",
                ERROR,
                "errors.pcap",
                ("SUBSCRIBE", "ERROR"),
                {"subscription": "excl", "holders": [{"frame": "0:35.1", "connection": "0:1", "name": "one"}], "count": 1},
            ),
        ),
        (cases.subscription_that_is_free_again,),
    ),
    Question(
        19,
        "Why does the adjusted frame length exceed?",
        (
            Sign("tls-on-plain-port", WARNING, "raw-not-pulsar.pcap", (), {"client": "10.9.0.13:53852", "server": "10.9.0.1:6650"}),
            Sign("http-on-plain-port", WARNING, "raw-not-pulsar.pcap", (), {"client": "10.9.0.13:53834", "server": "10.9.0.1:6650"}),
            Sign("frame-too-large", ERROR, "raw-strange.pcap", (None,), {"frame": "0:19.1"}),
            Sign(
                "message-too-large",
                ERROR,
                lambda: [sizes.sending(10, sizes.LIMIT + 1, sizes.LIMIT + 100)],
                ("SEND", "SEND"),
                {"count": 2, "largest": sizes.LIMIT + 100, "max_message_size": sizes.LIMIT},
            ),
        ),
        (lambda: [sizes.sending(sizes.LIMIT)], "proxy-v1.pcap", "proxy-v2.pcap"),
    ),
    Question(
        20,
        "Did my acknowledgment arrive?",
        (
            Sign("ack-unanswered", WARNING, acks.unanswered, ("ACK", "ACK"), {"count": 2, "subscription": "s"}),
            Sign("ack-failed", ERROR, acks.refused, ("ACK", "ACK_RESPONSE"), {"error": "PersistenceError"}),
            Sign("ack-after-close", WARNING, acks.behind_the_close, ("CLOSE_CONSUMER", "ACK"), {"count": 1}),
        ),
        (acks.answered,),
    ),
)


def examined(folder: Path, talk: Source) -> Diagnosis:
    """Return the diagnosis of a case."""
    return Diagnosis(CAPTURES / talk) if isinstance(talk, str) else diagnose(folder, *talk())


SIGNS = [pytest.param(sign, id=f"{question.number}-{sign.code}") for question in QUESTIONS for sign in question.signs]
NEAR = [pytest.param(question, talk, id=str(question.number)) for question in QUESTIONS for talk in question.near]


def test_the_questions_are_those_from_one_to_twenty() -> None:
    assert [question.number for question in QUESTIONS] == list(range(1, 21))
    assert len({question.words for question in QUESTIONS}) == 20
    assert all(question.signs and question.near for question in QUESTIONS)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_question_is_answered_with_its_evidence(sign: Sign, tmp_path: Path) -> None:
    diagnosis = examined(tmp_path, sign.talk)
    rows = diagnosis.of(sign.code)
    assert rows, sorted({row.code or "" for row in diagnosis.findings})
    row = rows[0]
    evidence = row.evidence or {}
    names = evidence["frames"] if "frames" in evidence else [evidence["frame"]] if "frame" in evidence else []
    assert row.severity == sign.severity
    assert tuple(diagnosis.frames[name].command for name in names) == sign.commands
    assert {key: evidence.get(key) for key in sign.evidence} == sign.evidence


@pytest.mark.parametrize(("question", "talk"), NEAR)
def test_what_only_looks_alike_is_no_answer(question: Question, talk: Source, tmp_path: Path) -> None:
    diagnosis = examined(tmp_path, talk)
    assert diagnosis.frames
    assert {row.code for row in diagnosis.findings}.isdisjoint(sign.code for sign in question.signs)


@pytest.mark.parametrize("offset", [0, cases.HOUR, -cases.HOUR])
def test_a_latency_from_end_to_end_does_not_depend_on_the_producer_s_clock(
    offset: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect, journeys = journey.collecting()
    monkeypatch.setattr(rules, "RULES", collect)
    sender, taker = cases.published_by_a_clock(offset, pause=3 * SECOND)
    packets = sorted((*sender.packets, *taker.packets), key=lambda packet: packet.time_ns)
    path = write_pcap(tmp_path / "talk.pcap", packets)
    list(run([str(path)], Options(frozenset({"frame", "finding"}), rules=True)))
    item = journeys["7:0"]
    (delivered,) = item.deliveries
    assert item.latency_ns(delivered) == about(3 * SECOND)
    assert delivered.acked is not None
