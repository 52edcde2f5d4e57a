"""Rows 103 to 114 and 121 to 124 of docs/bad_inputs.tsv: batches, chunks, codecs and sessions with contradictions."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import cramjam
import pytest
import zstandard

from pulsarscope.dissect.contract import pairing
from tests.scenarios import Conversation, Single, batch, command_frame, compress, message_metadata, payload_frame
from tests.scenarios.bad_inputs.cases import (
    CONNECT,
    CONNECTED,
    OPENING,
    PRODUCER,
    PRODUCER_SUCCESS,
    Seen,
    assert_promised,
    between,
    capture,
    exchange,
    look,
    opened,
    row,
    send,
    sent,
)
from tests.scenarios.bad_inputs.payloads import (
    BATCH,
    CASES,
    MIB,
    Case,
    batched,
    entry,
    packed,
    single,
)
from tests.scenarios.commands import PING, PONG, receipt
from tests.scenarios.encryption import Encryptor, key_file, rsa_key


@row(*range(103, 110), 111, 112, 114)
@pytest.mark.parametrize("case", CASES, ids=[f"{case.row}-{case.name}" for case in CASES])
def test_an_odd_entry_is_reported_and_costs_no_other(tmp_path: Path, case: Case) -> None:
    seen = look(capture(tmp_path, between(case.odd)))
    assert_promised(case.row, seen, case.codes)
    assert seen.exit == 0
    assert seen.commands == [*OPENING, *sent(1), "SEND", *sent(1)]
    odd = [message for message in seen.messages if message.payload != "hello"]
    assert [message.payload for message in odd] == case.payloads
    assert {message.status for message in odd} == {case.status}
    assert len(seen.messages) == len(odd) + 2


@row(103, 104)
def test_messages_of_a_batch_count_up(tmp_path: Path) -> None:
    seen = look(capture(tmp_path, between(batched(BATCH, 4))))
    assert [(one.batch_index, one.batch_size) for one in seen.messages if one.batch_size] == [(0, 4), (1, 4), (2, 4)]


# ---- chunks


def chunk(number: int, count: int, payload: bytes, uuid: str = "u", *, total: int = 12, **metadata: Any) -> bytes:
    described = message_metadata(
        sequence_id=1, uuid=uuid, chunk_id=number, num_chunks_from_msg=count, total_chunk_msg_size=total, **metadata
    )
    return send(1, payload, described)


PARTS = [b"abcd", b"efgh", b"ijkl"]
WHOLE = [chunk(number, 3, part) for number, part in enumerate(PARTS)]

CHUNKS: list[tuple[str, list[bytes], set[str], list[tuple[str | None, str | None]]]] = [
    ("in order", WHOLE, set(), [("ok", "abcdefghijkl")]),
    ("one twice", [WHOLE[0], WHOLE[1], WHOLE[1], WHOLE[2]], {"chunk-duplicate"}, [("ok", "abcdefghijkl")]),
    ("the last twice", [*WHOLE, WHOLE[2]], {"chunk-duplicate"}, [("ok", "abcdefghijkl")]),
    ("one missing", [WHOLE[0], WHOLE[2]], {"chunk-missing"}, [("incomplete", None)]),
    ("the first missing", WHOLE[1:], {"chunk-missing"}, [("incomplete", None)]),
    ("swapped", [WHOLE[1], WHOLE[0], WHOLE[2]], {"chunk-missing"}, [("incomplete", None)]),
    ("begun again", [WHOLE[0], *WHOLE], {"chunk-duplicate"}, [("ok", "abcdefghijkl")]),
    (
        "two interleaved",
        [frame for number in range(3) for frame in (WHOLE[number], chunk(number, 3, PARTS[number].upper(), "v"))],
        set(),
        [("ok", "abcdefghijkl"), ("ok", "ABCDEFGHIJKL")],
    ),
    ("an id beyond the count", [chunk(9, 3, b"zzzz"), *WHOLE], {"chunk-invalid"}, [("incomplete", None), ("ok", "abcdefghijkl")]),
    ("an id of -1", [chunk(-1, 3, b"zzzz"), *WHOLE], {"chunk-invalid"}, [("incomplete", None), ("ok", "abcdefghijkl")]),
    ("a count that changes", [WHOLE[0], chunk(1, 2, PARTS[1]), WHOLE[2]], {"chunk-invalid"}, [("ok", "abcdefghijkl")]),
    ("a total of 2^31 - 1", [chunk(n, 3, part, total=2**31 - 1) for n, part in enumerate(PARTS)], set(), [("ok", "abcdefghijkl")]),
    ("a total of -1", [chunk(n, 3, part, total=-1) for n, part in enumerate(PARTS)], set(), [("ok", "abcdefghijkl")]),
    ("a count of 2^31 - 1", [chunk(0, 2**31 - 1, b"zzzz")], set(), []),
]


@row(113)
@pytest.mark.parametrize(("frames", "codes", "messages"), [case[1:] for case in CHUNKS], ids=[case[0] for case in CHUNKS])
def test_chunks(tmp_path: Path, frames: list[bytes], codes: set[str], messages: list[tuple[str | None, str | None]]) -> None:
    seen = look(capture(tmp_path, between(*frames)))
    assert_promised(113, seen)
    assert seen.codes - {"chunk-incomplete"} == codes
    found = [(one.status, one.payload) for one in seen.messages if one.payload != "hello"]
    assert [one for one in found if one[0] != "incomplete" or codes] == messages


@pytest.mark.slow
@row(113)
def test_chunks_that_never_end_are_bounded(tmp_path: Path) -> None:
    open_sets = [chunk(0, 2, b"", f"uuid-{number}") for number in range(20_000)]
    seen = look(capture(tmp_path, between(*open_sets)))
    assert_promised(113, seen)
    assert seen.commands.count("SEND") == 20_002


# ---- memory


def zstd_bomb(size: int) -> bytes:
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()


def encrypted_bomb() -> bytes:
    ciphertext, metadata = Encryptor({"k": rsa_key().public_key()}).encrypt(zlib.compress(bytes(64 * MIB)))
    return packed("ZLIB", ciphertext, 64 * MIB, **metadata)


def many_properties(count: int) -> list[dict[str, str]]:
    return [{"key": f"{number:05x}", "value": ""} for number in range(count)]


def batch_of_properties() -> bytes:
    return batched(zstandard.compress(batch([Single(b"", {"properties": many_properties(60_000)})]) * 70), 70, compression="ZSTD")


def large_chunks(uuid: str) -> list[bytes]:
    """120 MiB; {} stands for the numbers."""
    return [chunk(0 if "{}" in uuid else number, 25, bytes(5 * MIB - 1000), uuid.format(number)) for number in range(24)]


def stored_chunks() -> list[bytes]:
    """As much as may wait, and the same again when it is complete and opened."""
    packer = zlib.compressobj(0)
    data = packer.compress(bytes(58 * MIB)) + packer.flush()
    parts = [data[start : start + 5 * MIB] for start in range(0, len(data), 5 * MIB)]
    return [chunk(number, len(parts), part, compression="ZLIB") for number, part in enumerate(parts)]


def hostile_keys() -> bytes:
    values = Random(1).randbytes(128 * 30_000)  # noqa: S311 - the same each time
    keys = [{"key": "k", "value": values[start : start + 128]} for start in range(0, len(values), 128)]
    return entry(b"x" * 40, encryption_keys=keys, encryption_param=bytes(12))


MEMORY: dict[str, tuple[int, Callable[[], list[bytes]]]] = {
    **{
        f"64 MiB of zeros in {codec}": (256, partial(lambda codec: [packed(codec, compress(codec, bytes(64 * MIB)), 64 * MIB)] * 3, codec))
        for codec in ("LZ4", "ZLIB", "ZSTD", "SNAPPY")
    },
    "64 MiB of zeros in framed SNAPPY": (256, lambda: [packed("SNAPPY", bytes(cramjam.snappy.compress(bytes(64 * MIB))), 0)]),
    "512 MiB of zeros in ZSTD": (160, lambda: [packed("ZSTD", zstd_bomb(512 * MIB), 0), packed("ZSTD", zstd_bomb(512 * MIB), 64 * MIB)]),
    "an encrypted bomb": (256, lambda: [encrypted_bomb()] * 3),
    "ten million messages": (256, lambda: [batched(zlib.compress(single(b"\x18\0") * 10_000_000), 2**31 - 1, compression="ZLIB")] * 3),
    "four million properties": (448, lambda: [batch_of_properties()] * 3),
    "metadata of produced messages that wait": (256, lambda: [entry(b"", properties=many_properties(200_000))] * 8),
    "metadata of chunks that wait": (256, lambda: [chunk(0, 2, b"", str(n), properties=many_properties(200_000)) for n in range(8)]),
    "120 MiB of chunks of one message": (150, lambda: large_chunks("u")),
    "120 MiB of chunks of several messages": (150, lambda: large_chunks("u{}")),
    "uuids of 5 MiB": (160, lambda: [chunk(0, 2, b"", f"{number}" + "u" * (5 * MIB - 200)) for number in range(12)]),
    "58 MiB of chunks that hold as much": (320, stored_chunks),
    "thirty thousand keys on one message": (160, lambda: [hostile_keys()]),
}
"""Peak memory that the whole process may take in MiB, of which any run takes 35; and the number of frames."""

MEASURED = """
import sys
from pathlib import Path
from pulsarscope.cli import main
try:
    main()
finally:
    print([line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")][0], file=sys.stderr)
"""


@row(97, 109, 112, 113)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of one process")
@pytest.mark.parametrize("case", MEMORY)
@pytest.mark.slow
def test_whatever_is_claimed_the_process_stays_small(case: str, tmp_path: Path) -> None:
    mebibytes, frames = MEMORY[case]
    path, key, out = capture(tmp_path, between(*frames())), tmp_path / "k.pem", tmp_path / "out"
    key.write_bytes(key_file(rsa_key()))
    command = [sys.executable, "-c", MEASURED, "messages", str(path), "--format", "ndjson", "-o", str(out), "--private-key", str(key)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stderr.splitlines()[-1]) < mebibytes << 10
    lines = out.read_text().splitlines()
    assert sum('"payload_size":5,' in line and '"status":"ok"' in line for line in lines) >= 2, "the healthy ones around it"


# ---- sessions


def session(*steps: tuple[str, bytes]) -> Conversation:
    conversation = Conversation().handshake().client(CONNECT).server(CONNECTED)
    for side, frame in steps:
        (conversation.client if side == "c" else conversation.server)(frame)
    return conversation


def lookup(number: int, topic: str = "t") -> bytes:
    return command_frame("LOOKUP", topic=topic, request_id=number)


def lookup_response(number: int) -> bytes:
    return command_frame("LOOKUP_RESPONSE", brokerServiceUrl="pulsar://b", response="Connect", request_id=number)


def statuses(seen: Seen) -> list[tuple[str | None, str | None, str | None]]:
    return [(one.request, one.response, one.status) for one in seen.exchanges]


OK_CONNECT = ("CONNECT", "CONNECTED", "ok")

SESSIONS: list[tuple[int, str, Conversation, list[tuple[str | None, str | None, str | None]]]] = [
    (
        121,
        "a request id used twice while it waits",
        session(("c", lookup(5)), ("c", lookup(5)), ("s", lookup_response(5)), ("s", lookup_response(5))),
        [OK_CONNECT, ("LOOKUP", "LOOKUP_RESPONSE", "ok"), ("LOOKUP", "LOOKUP_RESPONSE", "ok")],
    ),
    (
        121,
        "a response to nothing",
        session(("s", lookup_response(5))),
        [OK_CONNECT, (None, "LOOKUP_RESPONSE", "unrequested")],
    ),
    (
        121,
        "a response of another kind",
        session(("c", lookup(5)), ("s", command_frame("SUCCESS", request_id=5))),
        [OK_CONNECT, ("LOOKUP", None, "unanswered"), (None, "SUCCESS", "unrequested")],
    ),
    (
        121,
        "request id 2^64 - 1",
        session(("c", lookup(2**64 - 1)), ("s", lookup_response(2**64 - 1))),
        [OK_CONNECT, ("LOOKUP", "LOOKUP_RESPONSE", "ok")],
    ),
    (
        123,
        "a receipt for nothing",
        session(("c", PRODUCER), ("s", PRODUCER_SUCCESS), ("s", receipt(1, 9, entry=9))),
        [OK_CONNECT, ("PRODUCER", "PRODUCER_SUCCESS", "ok"), (None, "SEND_RECEIPT", "unrequested")],
    ),
    (
        123,
        "a sequence that goes back",
        session(
            ("c", PRODUCER),
            ("s", PRODUCER_SUCCESS),
            ("c", send(5)),
            ("s", receipt(1, 5, entry=5)),
            ("c", send(3)),
            ("s", receipt(1, 3, entry=3)),
        ),
        [OK_CONNECT, ("PRODUCER", "PRODUCER_SUCCESS", "ok"), ("SEND", "SEND_RECEIPT", "ok"), ("SEND", "SEND_RECEIPT", "ok")],
    ),
    (
        123,
        "a receipt passed over",
        session(("c", PRODUCER), ("s", PRODUCER_SUCCESS), ("c", send(1)), ("c", send(2)), ("s", receipt(1, 2, entry=2))),
        [OK_CONNECT, ("PRODUCER", "PRODUCER_SUCCESS", "ok"), ("SEND", None, "unanswered"), ("SEND", "SEND_RECEIPT", "ok")],
    ),
    (123, "a PING without PONG", session(("c", PING)), [OK_CONNECT, ("PING", None, "unanswered")]),
    (123, "a PONG without PING", session(("s", PONG)), [OK_CONNECT, (None, "PONG", "unrequested")]),
    (123, "permits of 2^32 - 1", session(("c", command_frame("FLOW", consumer_id=1, messagePermits=2**32 - 1))), [OK_CONNECT]),
    (124, "CONNECTED twice", session(("s", CONNECTED)), [OK_CONNECT, (None, "CONNECTED", "unrequested")]),
    (
        124,
        "CONNECT behind data",
        session(("c", PRODUCER), ("s", PRODUCER_SUCCESS), ("c", CONNECT), ("s", CONNECTED)),
        [OK_CONNECT, ("PRODUCER", "PRODUCER_SUCCESS", "ok"), OK_CONNECT],
    ),
    (
        124,
        "requests before CONNECTED",
        Conversation().handshake().client(CONNECT, PRODUCER).server(CONNECTED, PRODUCER_SUCCESS),
        [OK_CONNECT, ("PRODUCER", "PRODUCER_SUCCESS", "ok")],
    ),
    (
        124,
        "authentication in a circle",
        session(
            *[
                (side, frame)
                for _ in range(3)
                for side, frame in (
                    ("s", command_frame("AUTH_CHALLENGE", challenge={"auth_data": b"?"})),
                    ("c", command_frame("AUTH_RESPONSE", response={"auth_data": b"!"})),
                )
            ]
        ),
        [OK_CONNECT, *[("AUTH_CHALLENGE", "AUTH_RESPONSE", "ok")] * 3],
    ),
]


@row(121, 123, 124)
@pytest.mark.parametrize(
    ("number", "conversation", "exchanges"), [(case[0], *case[2:]) for case in SESSIONS], ids=[f"{case[0]}-{case[1]}" for case in SESSIONS]
)
def test_a_session_out_of_step_pairs_what_belongs_together(
    tmp_path: Path, number: int, conversation: Conversation, exchanges: list[tuple[str | None, str | None, str | None]]
) -> None:
    seen = look(capture(tmp_path, conversation.packets))
    assert_promised(number, seen)
    assert seen.exit == 0
    assert Counter(statuses(seen)) == Counter(exchanges)


@row(121)
def test_requests_that_nobody_answers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "PENDING_REQUESTS_MAX", 10)
    seen = look(capture(tmp_path, session(*[("c", lookup(number)) for number in range(15)]).packets))
    assert_promised(121, seen)
    assert "session-cap" in seen.codes
    assert statuses(seen).count(("LOOKUP", None, "unanswered")) == 15


@row(122)
@pytest.mark.parametrize(("closed", "last"), [(False, "orders"), (True, "second")])
def test_a_producer_id_means_what_it_meant_first_until_it_is_closed(tmp_path: Path, closed: bool, last: str) -> None:
    second = command_frame("PRODUCER", topic="persistent://public/default/second", producer_id=1, request_id=2)
    conversation = exchange(opened(), 0)
    if closed:
        conversation.server(command_frame("CLOSE_PRODUCER", producer_id=1, request_id=(1 << 64) - 1))
    conversation.client(second).server(command_frame("PRODUCER_SUCCESS", request_id=2, producer_name="p2"))
    seen = look(capture(tmp_path, exchange(conversation, 1).close().packets))
    assert_promised(122, seen)
    assert [message.topic for message in seen.messages] == ["persistent://public/default/orders", f"persistent://public/default/{last}"]


@row(122)
def test_ids_that_nobody_gave_a_meaning_have_a_ledger_for_a_topic(tmp_path: Path) -> None:
    message = payload_frame("MESSAGE", message_metadata(), b"x", consumer_id=4, message_id={"ledgerId": 1, "entryId": 2})
    seen = look(capture(tmp_path, session(("c", send(0)), ("s", receipt(1, 0, entry=0)), ("s", message), ("s", message)).packets))
    assert_promised(122, seen)
    assert [(one.direction, one.topic, one.status) for one in seen.messages] == [
        ("produce", "topic of ledger 7", "ok"),
        ("deliver", "topic of ledger 1", "ok"),
        ("deliver", "topic of ledger 1", "ok"),
    ]
