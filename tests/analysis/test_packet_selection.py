"""The packets that rows stand for, and what is said about them."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import pytest
from hypothesis import given

from pulsarscope.analysis import packet_selection as module
from pulsarscope.analysis.packet_selection import PacketSelection
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, Row
from tests.scenarios.both_readers import reader
from tests.scenarios.chance import randoms

CLIENT, SERVER = "10.0.0.1:40000", "10.0.0.2:6650"
ENDPOINTS = {"0:1": (CLIENT, SERVER)}
SYN, FIN, RST, ACK = 2, 1, 4, 16


def frame(packet: int, offset: int, size: int, *, sub: int = 1, command: str | None = "SEND", direction: str = "client") -> FrameRow:
    return FrameRow(
        file=0, packet=packet, sub=sub, connection="0:1", direction=direction, offset=offset, size=size, command=command, status="ok"
    )


def selected(*rows: Row, opening: frozenset[str] | None = None) -> PacketSelection:
    selection = PacketSelection(opening)
    for row in rows:
        selection.select(row, ENDPOINTS)
    return selection


def comments_of(selection: PacketSelection, packet: int, start: int = 0, end: int = 0, **values: Any) -> list[str] | None:
    source = values.get("source", CLIENT)
    return selection.comments(values.get("file", 0), packet, values.get("connection", "0:1"), source, values.get("flags", ACK), start, end)


def test_all_packets_with_bytes_of_a_frame_are_wanted_and_name_it() -> None:
    selection = selected(frame(9, 100, 50))
    assert not selection.needs_frames
    assert [comments_of(selection, 7, *bytes_) for bytes_ in ((50, 100), (99, 101), (110, 120), (149, 160), (150, 160), (0, 0))] == [
        None,
        ["0:9.1 SEND"],
        ["0:9.1 SEND"],
        ["0:9.1 SEND"],
        None,
        None,
    ]
    assert comments_of(selection, 7, 110, 120, source=SERVER) is None
    assert comments_of(selection, 7, 110, 120, connection="0:3") is None
    assert selection.frames == 1


def test_a_packet_names_only_the_frames_asked_for() -> None:
    selection = selected(frame(4, 0, 10), frame(4, 20, 10, sub=3, command="PING"))
    assert comments_of(selection, 4, 0, 40) == ["0:4.1 SEND", "0:4.3 PING"]
    assert comments_of(selection, 5, 10, 20) is None


def test_frames_may_come_in_any_order_and_twice() -> None:
    selection = selected(frame(5, 20, 10), frame(4, 0, 10), frame(6, 10, 10), frame(4, 0, 10))
    assert selection.frames == 3
    assert comments_of(selection, 9, 5, 25) == ["0:4.1 SEND", "0:6.1 SEND", "0:5.1 SEND"]


def test_a_run_of_skipped_bytes_is_named_by_its_status() -> None:
    row = frame(4, 0, 10, command=None)
    row.status = "skipped"
    assert comments_of(selected(row), 4, 0, 10) == ["0:4.1 skipped"]


@pytest.mark.parametrize(
    ("row", "names"),
    [
        (MessageRow(file=0, packet=4, sub=1, connection="0:1"), {"4.1"}),
        (ExchangeRow(file=0, packet=4, sub=1, connection="0:1", response_file=0, response_packet=6, response_sub=2), {"4.1", "6.2"}),
        (ExchangeRow(file=0, packet=4, sub=1, connection="0:1"), {"4.1"}),
        (FindingRow(file=0, packet=6, sub=2, connection="0:1"), {"6.2"}),
        (FindingRow(file=0, packet=6, sub=2, connection="0:1", evidence={"frames": ["0:4.1", "0:5.1"]}), {"4.1", "5.1"}),
        (FindingRow(file=0, packet=6, sub=2, connection="0:1", evidence={"frames": 3}), {"6.2"}),
        (FindingRow(file=0, packet=6, sub=2, connection="0:1", evidence={"frames": ["nonsense", "1:2:3"]}), {"6.2"}),
        (FindingRow(code="not-a-capture"), set()),
    ],
)
def test_a_row_stands_for_its_frames(row: Row, names: set[str]) -> None:
    selection = selected(row)
    assert selection.needs_frames == bool(names)
    for packet, offset, sub in ((4, 0, 1), (5, 10, 1), (6, 20, 1), (6, 30, 2)):
        selection.resolve(frame(packet, offset, 10, sub=sub), ENDPOINTS)
    selected_names = {line for start in (0, 10, 20, 30) for line in comments_of(selection, 99, start, start + 10) or ()}
    assert selected_names == {f"0:{name} SEND" for name in names}


def test_a_finding_about_a_packet_stands_for_the_packet() -> None:
    row = FindingRow(file=0, packet=6, connection="0:1", code="stream-gap", text="5 bytes.")
    selection = selected(row)
    selection.annotate(row)
    assert comments_of(selection, 6) == ["stream-gap: 5 bytes."]
    assert comments_of(selection, 6, file=1) is None
    assert comments_of(selection, 7) is None
    assert selection.comments(0, 6, None, "", 0, 0, 0) is not None, "of no connection"


def test_a_connection_stands_for_all_its_packets_and_names_all_its_frames() -> None:
    selection = selected(ConnectionRow(file=0, packet=1, connection="0:1"))
    selection.resolve(frame(4, 0, 10), ENDPOINTS)
    assert comments_of(selection, 2) == []
    assert comments_of(selection, 4, 0, 10) == ["0:4.1 SEND"]
    assert comments_of(selection, 3, connection="0:3") is None


def test_findings_are_placed_where_the_frame_ends() -> None:
    selection = selected(frame(9, 0, 100))
    selection.annotate(FindingRow(file=0, packet=9, sub=1, code="checksum-mismatch", text="Bad \x1b[1m."))
    selection.annotate(FindingRow(file=0, packet=9, sub=2, code="frame-malformed", text="Another frame."))
    selection.annotate(FindingRow(code="capture-truncated", text="No packet."))
    assert comments_of(selection, 8, 0, 50) == ["0:9.1 SEND"]
    assert comments_of(selection, 9, 50, 120) == ["0:9.1 SEND", "checksum-mismatch: Bad \\x1b[1m."]


def test_what_opens_and_closes_a_wanted_connection_comes_along_when_asked_for() -> None:
    opening = frozenset({"CONNECT", "CONNECTED"})
    selection = selected(frame(9, 100, 50), opening=opening)
    assert selection.needs_frames
    selection.resolve(frame(4, 0, 20, command="CONNECT"), ENDPOINTS)
    selection.resolve(frame(5, 0, 20, command="CONNECTED", direction="server"), ENDPOINTS)
    selection.resolve(frame(6, 20, 80, command="PRODUCER"), ENDPOINTS)
    packets = [
        (1, SYN, CLIENT, 0, 0),
        (2, SYN | ACK, SERVER, 0, 0),
        (3, ACK, CLIENT, 0, 0),
        (4, ACK, CLIENT, 0, 20),
        (5, ACK, SERVER, 0, 20),
        (6, ACK, CLIENT, 20, 100),
        (7, ACK, SERVER, 0, 0),
        (9, ACK, CLIENT, 100, 150),
        (10, FIN | ACK, CLIENT, 0, 0),
        (11, RST, SERVER, 0, 0),
    ]
    selected_packets = [
        packet
        for packet, flags, source, start, end in packets
        if comments_of(selection, packet, start, end, flags=flags, source=source) is not None
    ]
    assert selected_packets == [1, 2, 3, 4, 5, 9, 10, 11]
    assert comments_of(selection, 12, flags=SYN, connection="0:3") is None


def test_names_are_kept_only_so_many_and_nameless_neighbours_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXTRACT_NAMED_FRAMES_MAX", 1)
    selection = selected(frame(4, 0, 10), frame(5, 10, 10), frame(6, 20, 10), frame(7, 40, 10))
    assert (selection.frames, selection.unnamed) == (4, 3)
    assert comments_of(selection, 9, 0, 50) == ["0:4.1 SEND"]
    assert comments_of(selection, 9, 25, 26) == []
    assert comments_of(selection, 9, 30, 40) is None
    kept = selection._streams["0:1"].from_client
    assert kept is not None
    assert len(kept._starts) == 3


def test_findings_are_kept_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXTRACT_FINDINGS_MAX", 1)
    row = FindingRow(file=0, packet=6, connection="0:1", code="stream-gap", text="5 bytes.")
    selection = selected(row)
    selection.annotate(row)
    selection.annotate(row)
    assert comments_of(selection, 6) == ["stream-gap: 5 bytes."]


@given(random=randoms)
def test_the_compiled_reader_keeps_frames_as_the_reference_does(random: Random) -> None:
    """Covers a stream with gaps, in batches that lack some frames, with frames that come late, far behind or again, or have no names."""
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    position = random.choice((0, 1 << 40))
    packet = 1
    frames = []
    for _ in range(random.randint(1, 120)):
        start = position + random.choice((0, 0, 0, 7, 1 << 34))
        position = start + random.choice((1, 60, 60, 5000))
        packet += random.randint(0, 3)
        name = (packet << 24 | random.randint(1, 300)) if random.random() < 0.95 else 0
        frames.append((start, position, random.randint(0, 1), name, random.randint(0, 2)))
    late = [frame for frame in frames if random.random() < random.choice((0, 0.1, 0.9))]
    size = random.randint(1, 60)
    kept = {}
    for choice in ("off", "require"):
        with reader(choice):
            of_choice = kept[choice] = module._SelectedFrames()
            for begin in range(0, len(frames), size):
                batch = frames[begin : begin + size]
                in_time = [frame for frame in batch if frame not in late and frame[3]]
                columns = [array("q", column).tobytes() for column in [*zip(*in_time, strict=True)][:4]]
                if choice == "off" or not in_time or not of_choice.extend(columns, [frame[4] for frame in in_time]):
                    for frame in in_time:
                        of_choice.add(*frame)
                for frame in batch:
                    if frame in late or not frame[3]:
                        of_choice.add(*frame)
            for frame in late[:3]:
                of_choice.add(*frame)
    looks = [(start, start + length) for start, *_ in frames for length in (1, 59, 61, 10_000)]
    expected = [kept["off"].within(*look) for look in looks]
    assert [kept["require"].within(*look) for look in looks] == expected
    with reader("require"):
        assert [bool(found) for found in expected] == [kept["require"].ranges(((), (24, {}))).meet(*look) for look in looks]
        assert [kept["require"].within(*look) for look in looks] == expected
