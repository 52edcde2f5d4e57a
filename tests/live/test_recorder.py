"""Recording of live packets."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.capture import BlockReader
from pulsarscope.live.packet_source import CapturedPackets
from pulsarscope.live.recorder import Recorder, Rotation, TriggeredRecorder
from pulsarscope.model.errors import OutputError
from pulsarscope.output.export.pcapng import interface_block, section_block, statistics_block
from tests.scenarios.live_packets import SECOND, START, captured

HEAD = section_block("test") + interface_block(1, 0, "eth0")


def numbers(*paths: str) -> list[int]:
    """Return the numbers in the packets of the files."""
    numbers_read = []
    for path in paths:
        for block in BlockReader(path):
            assert not [finding for finding in block.findings if finding.severity != "note"]
            numbers_read += [int.from_bytes(segment[6], "big") for segments in block.flows.values() for segment in segments]
    return numbers_read


def nothing() -> bytes:
    return b""


def test_one_file_holds_all(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(), nothing)
    for number in range(5):
        recorder(captured(number))
    recorder.end()
    assert numbers(str(tmp_path / "a.pcapng")) == [0, 1, 2, 3, 4]


def test_without_packets_it_is_a_capture_all_the_same(tmp_path: Path) -> None:
    Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(), nothing).end()
    assert numbers(str(tmp_path / "a.pcapng")) == []


def test_each_file_ends_with_what_was_lost(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(), lambda: statistics_block(START, 10, 3))
    recorder(captured(0))
    recorder.end()
    (finding,) = [finding for block in BlockReader(str(tmp_path / "a.pcapng")) for finding in block.findings]
    assert (finding.code, finding.evidence["packets"]) == ("packets-dropped", 3)


@given(st.integers(200, 2_000), st.integers(1, 60))
@settings(max_examples=30)
def test_packets_that_come_together_are_spread_over_files(tmp_path_factory: pytest.TempPathFactory, size: int, count: int) -> None:
    folder = tmp_path_factory.mktemp("ring")
    recorder = Recorder(str(folder / "a.pcapng"), HEAD, Rotation(size=len(HEAD) + size), nothing)
    together = [captured(number) for number in range(count)]
    recorder(CapturedPackets(b"".join(each.data for each in together), count, together[-1].time))
    recorder.end()
    assert numbers(*recorder.written) == list(range(count))
    assert all(Path(path).stat().st_size <= len(HEAD) + size for path in recorder.written)
    assert len(recorder.written) == -(-count // (size // len(together[0].data)))


@given(st.integers(1, 2_000), st.integers(1, 30))
@settings(max_examples=30)
def test_files_are_no_larger_than_asked_and_lose_nothing(tmp_path_factory: pytest.TempPathFactory, size: int, count: int) -> None:
    folder = tmp_path_factory.mktemp("ring")
    recorder = Recorder(str(folder / "a.pcapng"), HEAD, Rotation(size=size), nothing)
    for number in range(count):
        recorder(captured(number))
    recorder.end()
    assert numbers(*recorder.written) == list(range(count))
    assert sorted(recorder.written) == sorted(str(path) for path in folder.iterdir())
    least = len(HEAD) + len(captured(0).data)
    assert all(Path(path).stat().st_size <= max(size, least) for path in recorder.written)


def test_files_span_no_more_time_than_asked(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(seconds=2.0), nothing)
    for number in range(5):
        recorder(captured(number))
    recorder.end()
    assert [numbers(path) for path in recorder.written] == [[0, 1], [2, 3], [4]]
    assert Path(recorder.written[1]).name == "a_00002_20231114221322.pcapng"


def test_the_oldest_files_go(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(seconds=1.0, files=2), nothing)
    for number in range(5):
        recorder(captured(number))
    recorder.end()
    assert numbers(*recorder.written) == [3, 4]
    assert len(list(tmp_path.iterdir())) == 2
    assert recorder.files == 5


def test_an_interface_met_later_is_described_in_every_file_from_then_on(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), section_block("test"), Rotation(seconds=1.0), nothing)
    recorder.describe(interface_block(1, 0, "eth0"))
    recorder(captured(0))
    recorder(captured(1))
    recorder.end()
    assert [numbers(path) for path in recorder.written] == [[0], [1]]


@pytest.mark.parametrize("separate", [0, 1, 2], ids=lambda separate: f"{separate}-on-their-own")
def test_a_full_disk_leaves_the_packets_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separate: int) -> None:
    room = len(HEAD) + 2 * len(captured(0).data) + 10
    path = tmp_path / "a.pcapng"
    recorder = Recorder(str(path), HEAD, Rotation(), nothing)
    file = cast("BinaryIO", recorder._file)

    class Full:
        """File on a disk with limited space."""

        def write(self, view: memoryview) -> int:
            remaining = room - os.fstat(file.fileno()).st_size
            if remaining <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return file.write(view[:remaining])

        def fileno(self) -> int:
            return file.fileno()

        def close(self) -> None:
            file.close()

    monkeypatch.setattr(recorder, "_file", Full())
    packets = [captured(number) for number in range(3)]
    for part in packets[:separate]:
        recorder(part)
    with pytest.raises(OutputError, match=r"No space left.*packets before"):
        recorder(CapturedPackets(b"".join(each.data for each in packets[separate:]), 3 - separate, packets[-1].time))
    file.close()
    assert numbers(str(path)) == [0, 1]


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"its folder does not exist$"):
        Recorder(str(tmp_path / "none" / "a.pcapng"), HEAD, Rotation(), nothing)


def test_a_trigger_keeps_what_was_around_it(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(numbered=True), nothing)
    triggered = TriggeredRecorder(recorder, 2.0)
    for number in range(40):
        triggered(captured(number))
        if number in {11, 13, 31, 39}:  # two seconds late, as decoding may be
            triggered.trigger(START + (number - 1) * SECOND)
    triggered.end()
    assert [numbers(path) for path in recorder.written] == [[*range(8, 15)], [*range(28, 33)], [*range(36, 40)]]


def test_a_trigger_may_come_later_than_the_time_around_it_is_long(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(numbered=True), nothing)
    triggered = TriggeredRecorder(recorder, 1.0)
    for number in range(10):
        triggered(captured(number))
    triggered.trigger(START + 3 * SECOND)
    triggered.end()
    assert [numbers(path) for path in recorder.written] == [[2, 3, 4]]
    assert triggered.shortened == 0


def test_packets_that_a_trigger_finds_gone_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(numbered=True), nothing)
    monkeypatch.setattr("pulsarscope.live.recorder.LIVE_TRIGGER_MAX_BYTES", 4 * len(captured(0).data))
    triggered = TriggeredRecorder(recorder, 2.0)
    for number in range(10):
        triggered(captured(number))
    triggered.trigger(START + 7 * SECOND)
    triggered.trigger(START + 9 * SECOND)
    triggered.end()
    assert [numbers(path) for path in recorder.written] == [[6, 7, 8, 9]]
    assert triggered.shortened == 1


def test_without_a_trigger_there_is_no_file(tmp_path: Path) -> None:
    triggered = TriggeredRecorder(Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(numbered=True), nothing), 1.0)
    triggered(captured(0))
    triggered.end()
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_removed_is_no_error_of_the_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    recorder = Recorder(str(tmp_path / "a.pcapng"), HEAD, Rotation(seconds=1.0, files=1), nothing)
    recorder(captured(0))
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(OutputError, match=r"cannot remove .*a_00001_.*: Permission denied"):
        recorder(captured(1))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_device_that_is_full_is_one_line() -> None:
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left"):
        Recorder("/dev/full", HEAD, Rotation(), nothing)
