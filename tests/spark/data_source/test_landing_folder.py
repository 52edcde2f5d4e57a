"""Detection of finished captures in a folder."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from shutil import copy, copy2

import pytest

from pulsarscope.model.errors import CaptureError
from pulsarscope.spark.data_source.landing_folder import LandingFolder, NamedCaptures
from pulsarscope.spark.files.remote_files import content_mark
from tests.scenarios import Conversation, write_pcap

SECOND = 1_000_000_000
BEGUN = 1_700_000_000
SETTLE = 60.0


def land(path: Path, first: float, *, modified: float | None = None, packets: int = 3) -> Path:
    """Write a capture; `first` and `modified` are its first packet and last change, in seconds after the first capture."""
    write_pcap(path, Conversation(start_ns=int((BEGUN + first) * SECOND)).handshake().packets[:packets])
    os.utime(path, (BEGUN + (first + 9 if modified is None else modified),) * 2)
    return path


def names(landing: LandingFolder, now: float, *, take_all: bool = False) -> list[str]:
    return [Path(landed.path).name for landed in landing.poll(now, take_all=take_all)]


def watching(folder: Path, source_by: str = "none") -> LandingFolder:
    return LandingFolder(str(folder), source_by, SETTLE, [])


@pytest.mark.parametrize(
    "ring",
    [
        ["ring.pcap", "ring.pcap1", "ring.pcap2"],
        ["ring.pcap8", "ring.pcap9", "ring.pcap10"],
        ["eth0-20261121-235950.pcap", "eth0-20261121-235959.pcap", "eth0-20261122-000008.pcap"],
        ["bus_00001_20261121235950.pcapng", "bus_00002_20261121235959.pcapng", "bus_00003_20261122000008.pcapng"],
    ],
    ids=["-C", "-C, later", "-G", "live --rotate"],
)
def test_a_file_of_a_ring_is_finished_when_the_next_one_has_begun(tmp_path: Path, ring: list[str]) -> None:
    landing = watching(tmp_path)
    for number, name in enumerate(ring):
        land(tmp_path / name, 10 * number)
    assert names(landing, 0) == []  # it may still be growing
    assert names(landing, 1) == ring[:-1]
    assert names(landing, 2) == []
    assert names(landing, SETTLE) == ring[-1:]


def test_a_file_that_is_written_to_is_left_until_it_has_settled(tmp_path: Path) -> None:
    landing = watching(tmp_path)
    for second in range(5):
        land(tmp_path / "one.pcap", 0, modified=second, packets=1 + second // 2)
        assert names(landing, 50 * second) == []
    assert names(landing, 200 + SETTLE - 1) == []
    assert names(landing, 200 + SETTLE) == ["one.pcap"]


def test_captures_of_two_interfaces_do_not_finish_each_other(tmp_path: Path) -> None:
    """Their names look like those of a ring, but both are still growing."""
    landing = watching(tmp_path)
    for second in range(5):
        land(tmp_path / "eth0.pcap", 0, modified=100 + second)
        land(tmp_path / "eth1.pcap", 1, modified=100 + second)
        assert names(landing, second) == []


def test_those_that_land_together_are_taken_by_their_first_packets_then_by_name(tmp_path: Path) -> None:
    for name, first in (("d", 3), ("c", 1), ("b", 3), ("a", 2)):
        land(tmp_path / name, first, packets=2 + (name == "d"))
    (tmp_path / "e").write_bytes((tmp_path / "a").read_bytes()[:24])
    landing = watching(tmp_path)
    assert names(landing, 0, take_all=True) == ["c", "a", "b", "d", "e"]
    land(tmp_path / "early", 0)
    (capture,) = landing.poll(0, take_all=True)
    assert (capture.position, capture.first_time) == (5, BEGUN * SECOND)


def test_a_ring_that_begins_anew_gives_its_names_to_other_captures(tmp_path: Path) -> None:
    landing = watching(tmp_path)
    for turn in range(3):
        for number in range(2):
            land(tmp_path / f"ring.pcap{number}", 20 * turn + 10 * number)
        assert names(landing, turn, take_all=True) == ["ring.pcap0", "ring.pcap1"]
    assert names(landing, 9, take_all=True) == []


def test_what_was_taken_is_not_taken_again(tmp_path: Path) -> None:
    """Not after a restart either, nor if it is compressed, touched, or has grown."""
    landing = watching(tmp_path)
    path = land(tmp_path / "a.pcap", 0)
    known = landing.poll(0, take_all=True)
    again = LandingFolder(str(tmp_path), "none", SETTLE, known)
    assert names(again, 0, take_all=True) == []
    os.utime(path)
    assert names(again, 1, take_all=True) == []
    assert again.grown == []
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert names(again, 2, take_all=True) == []
    assert again.grown == []
    write_pcap(path, Conversation(start_ns=BEGUN * SECOND).handshake().close().packets)
    assert names(again, 3, take_all=True) == []
    assert again.grown == [str(path)]
    assert names(again, 4, take_all=True) == again.grown == []


def test_only_captures_are_taken_those_that_are_damaged_too(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no capture")
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "folder.pcap").mkdir()
    (tmp_path / "gone.pcap").symlink_to("nowhere")
    land(tmp_path / ".hidden.pcap", 0)
    land(tmp_path / "cut.pcap", 0).write_bytes(b"\xd4\xc3\xb2\xa1\x02\x00")
    assert names(watching(tmp_path), 0, take_all=True) == ["cut.pcap"]


def test_each_has_its_source(tmp_path: Path) -> None:
    for host in ("a", "b"):
        land(tmp_path / f"{host}-1.pcap", 0)
    assert [landed.source for landed in watching(tmp_path, r"/(.)-1\.pcap$").poll(0, take_all=True)] == ["a", "b"]


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be read: No such file"):
        watching(tmp_path / "nowhere").poll(0)


def test_names_that_no_table_could_hold_are_passed_over(tmp_path: Path) -> None:
    land(tmp_path / os.fsdecode(b"a\xff.pcap"), 0)
    land(tmp_path / "_b.pcap", 0)
    land(tmp_path / "c\nä.pcap", 0)
    assert names(watching(tmp_path), SETTLE, take_all=True) == ["c\nä.pcap"]


def test_a_copy_is_not_taken_whatever_its_name(tmp_path: Path) -> None:
    """Not in the same poll, nor later; from another vantage point it is another capture."""
    first = land(tmp_path / "a.pcap", 0)
    copy(first, tmp_path / "b.pcap")
    landing = watching(tmp_path)
    assert names(landing, 0, take_all=True) == ["a.pcap"]
    first.rename(tmp_path / "c.pcap")
    assert names(landing, 1, take_all=True) == []
    copy(tmp_path / "b.pcap", tmp_path / "host2-a.pcap")
    assert names(watching(tmp_path, r"(host\d)-"), 0, take_all=True) == ["b.pcap", "host2-a.pcap"]


@pytest.mark.parametrize("packets", [3, 900])
def test_content_is_known_by_size_head_and_tail(tmp_path: Path, packets: int) -> None:
    """Covers files that are shorter and longer than both ends."""
    path = tmp_path / "a.pcap"
    data = bytes(range(256)) * packets
    marks = set()
    for changed in (data, data + b"\0", b"\1" + data[1:], data[:-1] + b"\0"):
        path.write_bytes(changed)
        marks.add(content_mark(str(path)))
        assert content_mark(path.as_uri()) == content_mark(str(path))
    assert len(marks) == 4


def test_captures_that_are_named_are_taken_once_from_overlapping_places(tmp_path: Path) -> None:
    """Files that were just written are left for later."""
    for folder in ("monday", "all"):
        (tmp_path / folder).mkdir()
    for number in range(3):
        copy2(land(tmp_path / "monday" / f"{number}.pcap", 10 * number), tmp_path / "all" / f"copy{number}.pcap")
    now = BEGUN + 29 + SETTLE - 1
    named = NamedCaptures([str(tmp_path / "monday")], "none", SETTLE, [])
    known = named.poll(0, clock=now)
    assert [Path(landed.path).name for landed in known] == ["0.pcap", "1.pcap"]
    assert (named.listed, named.left) == (3, 1)
    (tmp_path / "notes.txt").write_text("no capture")
    again = NamedCaptures([str(tmp_path / "all" / "*.pcap"), str(tmp_path / "monday"), str(tmp_path / "notes.txt")], "none", SETTLE, known)
    assert [Path(landed.path).name for landed in again.poll(0, clock=now + 1)] == ["copy2.pcap"]
    assert (again.listed, again.left) == (6, 0)
    assert [finding.code for finding in again.findings] == ["not-a-capture"]
    assert again.poll(1, clock=now + 2) == []
    with pytest.raises(CaptureError, match="matches no file"):
        NamedCaptures([str(tmp_path / "none*")], "none", SETTLE, known).poll(0)


def test_connections_are_closed_once_behind_the_latest_capture(tmp_path: Path) -> None:
    folder = LandingFolder(str(tmp_path), "none", 0, [])
    assert folder.close() == []
    for position in (0, 2):
        land(tmp_path / f"{position}.pcap", position)
        assert [landed.position for landed in folder.poll(0, take_all=True)] == [position]
        assert [(entry.position, entry.closes) for entry in folder.close()] == [(position + 1, True)]
        assert folder.close() == []
