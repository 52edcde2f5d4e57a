"""Frames whose payload is not requested, read in place, and frames that must be read as a whole, compared with the Python reader."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from pulsarscope.capture import BlockReader, expand_inputs
from pulsarscope.dissect.framing.compiled_splitter import CompiledSplitter
from pulsarscope.engine.local import Run
from pulsarscope.engine.options import Options
from tests.scenarios.both_readers import dissectors_of, reader, rows_of
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import copied, created, delivery, lookup, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import Conversation
from tests.scenarios.wire_mutations import damaged

KINDS = frozenset({"frame", "finding", "connection"})


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of frames of each call that reads only heads."""
    counts: list[int] = []
    read_heads = CompiledSplitter._read_heads

    def counting(self: CompiledSplitter, *arguments: Any) -> bool:
        before = self.frames
        is_done = read_heads(self, *arguments)
        counts.append(self.frames - before)
        return is_done

    monkeypatch.setattr(CompiledSplitter, "_read_heads", counting)
    return counts


def talk() -> Conversation:
    return connected().client(producer()).server(created())


def rows(path: Path, choice: str, read_bytes: int, **changes: Any) -> list[str]:
    options = Options(records=KINDS, columns=True, rules=False, payloads=False, dissectors=dissectors_of(choice))
    options = msgspec.structs.replace(options, **changes)
    with reader(choice):
        run = Run(expand_inputs([str(path)]), options, partial(BlockReader, read_bytes=read_bytes))
        return [repr(row) for part in run for row in rows_of(part.rows)]


def check(conversation: Conversation, folder: Path, read_bytes: int = 9_000, **changes: Any) -> list[str]:
    """Require equal rows, and return them."""
    path = folder / "in.pcap"
    write_pcap(path, conversation.packets)
    expected = rows(path, "off", read_bytes, **changes)
    assert rows(path, "require", read_bytes, **changes) == expected
    return expected


def bodies(count: int, size: int = 20_000, first: int = 0) -> list[bytes]:
    random = Random(size)  # noqa: S311 - repeatable
    return [send(1, number, random.randbytes(size)) for number in range(first, first + count)]


@pytest.mark.parametrize("mss", [500, 1448, 8948, 40_000, 60_000])
@pytest.mark.parametrize("read_bytes", [700, 30_000, 200_000])
def test_only_the_heads_of_large_frames_are_copied(tmp_path: Path, reads: list[int], mss: int, read_bytes: int) -> None:
    conversation = talk()
    for number in range(12):
        conversation.client(*bodies(1, 30_000, number), mss=mss).server(receipt(1, number))
    found = check(conversation, tmp_path, read_bytes)
    assert sum("'good'" in row for row in found) == 12
    assert sum(reads) > 6 or read_bytes == 200_000


def nearly(case: str, random: Random) -> bytes:
    """Return a frame that must be read as a whole, or bytes that are no frame."""
    body = random.randbytes(20_000)
    good = send(1, 3, body)
    return {
        "checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "checksum of its last segment": good[:30] + bytes([good[30] ^ 1]) + good[31:],
        "metadata that are long": send(1, 3, body, {"properties": [{"key": f"k{number}", "value": "v" * 50} for number in range(90)]}),
        "a command that is long": lookup(topic="persistent://t/n/" + "x" * 5_000),
        "another command": lookup(),
        "of a replicator": copied(9, 3),
        "a delivery": delivery(3),
        "a small one": send(1, 3, b""),
        "a size that cannot be": b"\0\0\0\2" + body,
        "a size that is too large": b"\x7f\0\0\0" + body,
        "damaged": damaged(random, good[:60]) + good[60:],
        "with texts": send(1, 3, body, {"properties": [{"key": "é", "value": "\U0001f600"}]}),
    }[case]


@pytest.mark.parametrize("mss", [700, 9_000])
@pytest.mark.parametrize(
    "case",
    [
        "checksum",
        "checksum of its last segment",
        "metadata that are long",
        "a command that is long",
        "another command",
        "of a replicator",
        "a delivery",
        "a small one",
        "a size that cannot be",
        "a size that is too large",
        "damaged",
        "with texts",
    ],
)
def test_what_is_not_plain_between_large_frames_reads_as_by_the_reference(tmp_path: Path, reads: list[int], case: str, mss: int) -> None:
    for seed in range(4):
        random = Random(seed)  # noqa: S311 - repeatable
        frames = [*bodies(3), nearly(case, random), *bodies(3, first=4)]
        conversation = talk().client(*frames, mss=mss).server(*(receipt(1, number) for number in range(7))).close()
        check(conversation, tmp_path, random.randint(600, 50_000))
    assert sum(reads) > 4


@pytest.mark.parametrize("lost", [1, 700, 30_000])
def test_a_frame_that_is_cut_reads_as_by_the_reference(tmp_path: Path, reads: list[int], lost: int) -> None:
    frames = bodies(5)
    conversation = talk().client(*frames, bodies(1, first=5)[0][:-lost] if lost < 20_000 else b"").lose("client", lost)
    check(conversation.client(*bodies(4, first=6)).close(), tmp_path)
    check(talk().client(*frames, frames[0][:-700]).close(), tmp_path)
    check(talk().client(*frames, frames[0][:-700]), tmp_path)
    assert sum(reads) > 4


def test_frames_larger_than_blocks_wait_for_all_their_bytes(tmp_path: Path, reads: list[int]) -> None:
    check(talk().client(*bodies(3, 300_000), *bodies(20, 100)).server(receipt(1, 0)), tmp_path, 40_000)
    assert sum(reads) > 0


def test_payload_that_is_asked_for_is_not_left_out(tmp_path: Path, reads: list[int]) -> None:
    conversation = talk().client(*bodies(6)).server(*(receipt(1, number) for number in range(6)))
    check(conversation, tmp_path, records=KINDS | {"message"})
    check(conversation, tmp_path, payloads=True)
    check(conversation, tmp_path, raw=True, columns=False)
    assert not reads


def test_segments_out_of_order_and_captured_twice_read_as_by_the_reference(tmp_path: Path, reads: list[int]) -> None:
    for seed in range(6):
        random = Random(seed)  # noqa: S311 - repeatable
        conversation = talk().client(*bodies(12)).server(*(receipt(1, number) for number in range(12)))
        packets = conversation.packets
        for _ in range(3):
            at = random.randrange(40, len(packets) - 1)
            packets[at], packets[at + 1] = packets[at + 1], packets[at]
            packets.insert(at, packets[at - 1])
        conversation.packets[:] = [packet._replace(time_ns=packets[0].time_ns + number) for number, packet in enumerate(packets)]
        check(conversation, tmp_path)
    assert sum(reads) > 20


@pytest.mark.parametrize("read_bytes", [5_000, 40_000])
def test_after_a_gap_frames_are_read_in_columns_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    counts: list[int] = []
    read_plain = CompiledSplitter._read_plain

    def counting(self: CompiledSplitter, *arguments: Any) -> int:
        before = self.frames
        end = read_plain(self, *arguments)
        counts.append(self.frames - before)
        return end

    monkeypatch.setattr(CompiledSplitter, "_read_plain", counting)
    conversation = talk().client(*bodies(40, 300)).server(*(receipt(1, number) for number in range(40)))
    before = len(conversation.packets)
    for number in range(40, 1_000, 40):
        conversation.lose("client", 700) if number % 80 else conversation.lose("server", 20)
        for each in range(number, number + 40):
            conversation.client(*bodies(1, 300, each)).server(receipt(1, each))
    packets = conversation.packets
    for at in range(before + 30, len(packets) - 1, 150):  # and out of order
        packets[at], packets[at + 1] = (
            packets[at + 1]._replace(time_ns=packets[at].time_ns),
            packets[at]._replace(time_ns=packets[at + 1].time_ns),
        )
    found = check(conversation, tmp_path, read_bytes)
    assert sum("stream-gap" in row for row in found) > 20
    assert sum(counts) > 1_000
