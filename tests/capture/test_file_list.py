from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.model.errors import CaptureError, UsageError
from tests.scenarios.capture_bytes import SECOND, START, Pcapng, Record, pcap, segment_packet


def capture(seconds: int) -> bytes:
    return pcap([Record(segment_packet(b"x"), START + seconds * SECOND)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of captures with names in the reverse order of their times, and other files."""
    (tmp_path / "a.pcap").write_bytes(capture(30))
    (tmp_path / "b.gz").write_bytes(gzip.compress(capture(20)))
    (tmp_path / "c").write_bytes(Pcapng().section() + Pcapng().interface() + Pcapng().packet(segment_packet(), ticks=START // 1000))
    (tmp_path / "d.pcap").write_bytes(pcap())
    (tmp_path / "notes.txt").write_text("not a capture\n")
    (tmp_path / "empty").touch()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "deep.pcap").write_bytes(capture(1))
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def names(inputs: Inputs) -> list[str]:
    return [Path(path).name for path in inputs.paths]


def test_several_are_ordered_by_their_first_packets_then_by_name(folder: Path) -> None:
    (folder / "a2.pcap").write_bytes(capture(30))
    arguments = [str(folder / name) for name in ("d.pcap", "a2.pcap", "a.pcap", "b.gz", "c")]
    inputs = expand_inputs(arguments)
    assert names(inputs) == ["c", "b.gz", "a.pcap", "a2.pcap", "d.pcap"]
    assert inputs.sizes == sum(Path(argument).stat().st_size for argument in arguments)
    assert inputs.findings == []


def test_a_folder_gives_the_captures_in_it_and_below(folder: Path) -> None:
    (folder / "inner" / "back").symlink_to(folder)
    (folder / "void").mkdir()
    inputs = expand_inputs([str(folder)])
    assert names(inputs) == ["c", "deep.pcap", "b.gz", "a.pcap", "d.pcap"]
    assert inputs.findings == []


def test_a_file_in_a_folder_that_begins_like_a_capture_is_reported(folder: Path) -> None:
    (folder / "old").write_bytes(pcap(version=(2, 3)))
    inputs = expand_inputs([str(folder)])
    assert [finding.code for finding in inputs.findings] == ["not-a-capture"]


def test_a_glob_gives_its_matches(folder: Path) -> None:
    assert names(expand_inputs([str(folder / "[ab].*")])) == ["b.gz", "a.pcap"]


def test_a_name_with_glob_characters_is_a_name_first(folder: Path) -> None:
    (folder / "x[1].pcap").write_bytes(capture(0))
    assert names(expand_inputs([str(folder / "x[1].pcap")])) == ["x[1].pcap"]


def test_what_is_named_and_no_capture_is_a_finding(folder: Path) -> None:
    arguments = [str(folder / name) for name in ("notes.txt", "a.pcap", "gone.pcap", "no*match", "empty", "inner/none")]
    arguments += [str(folder / "void"), "a\0b"]
    (folder / "void").mkdir()
    inputs = expand_inputs(arguments)
    assert names(inputs) == ["a.pcap"]
    codes = [finding.code for finding in inputs.findings]
    assert codes == [
        "not-a-capture",
        "file-unreadable",
        "file-unreadable",
        "not-a-capture",
        "file-unreadable",
        "not-a-capture",
        "file-unreadable",
    ]
    assert "notes.txt is text, not a capture" in inputs.findings[0].text
    assert "No such file or directory" in inputs.findings[1].text
    assert {finding.file for finding in inputs.findings} == {None}


def test_pipes_and_standard_input_are_taken_unread_and_come_last(folder: Path) -> None:
    inputs = expand_inputs(["-", str(folder / "pipe"), str(folder / "d.pcap")])
    assert inputs.paths == ["-", str(folder / "d.pcap"), str(folder / "pipe")]
    assert inputs.sizes is None


def test_a_capture_named_twice_is_read_once(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "a.pcap")
    inputs = expand_inputs([str(folder / "a.pcap"), str(folder / "a.pcap"), str(folder / "link")])
    assert names(inputs) == ["a.pcap"]
    assert [finding.code for finding in inputs.findings] == ["packet-duplicate", "packet-duplicate"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("notes.txt", "notes.txt is text, not a capture. Give a pcap"),
        ("old.snoop", "old.snoop is a snoop capture (convert it first: editcap -F pcapng). Give a pcap"),
        ("empty", "is empty"),
        ("gone", "cannot be read: No such file or directory"),
        ("void", "void is a folder without captures. Give"),
        ("hosts", "hosts is a folder without captures. Give"),
        ("loop", "cannot be read: "),
        ("evil\n\x1b[2J", "evil\\n\\x1b[2J"),
    ],
)
def test_nothing_left_is_an_error_of_one_line(folder: Path, argument: str, words: str) -> None:
    (folder / "void").mkdir()
    (folder / "hosts" / "a").mkdir(parents=True)
    (folder / "old.snoop").write_bytes(b"snoop\x00\x00\x00")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "evil\n\x1b[2J").write_text("text")
    with pytest.raises(CaptureError) as caught:
        expand_inputs([str(folder / argument)])
    message = str(caught.value)
    assert words in message
    assert message.isprintable()


def test_an_empty_argument_is_shown() -> None:
    with pytest.raises(CaptureError, match=r'^"" is not the name of a file'):
        expand_inputs([""])


def test_nothing_left_of_several_says_how_many(folder: Path) -> None:
    with pytest.raises(CaptureError, match=r"none of 2 inputs is a capture; the first: .*notes.txt is text"):
        expand_inputs([str(folder / "notes.txt"), str(folder / "gone")])


def test_no_argument_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        expand_inputs([])


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Return a folder of capture rings of two hosts at the same time."""
    for number, name in enumerate(("b/host-2.pcap1", "a/host-1.pcap1", "b/host-2.pcap0", "a/host-1.pcap0")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(capture(10 - number))
    return tmp_path


@pytest.mark.parametrize(
    ("source_by", "want"),
    [
        ("none", []),
        ("dir", ["{0}/a", "{0}/a", "{0}/b", "{0}/b"]),
        (r"host-\d", ["host-1", "host-1", "host-2", "host-2"]),
        (r"(\d)\.pcap", ["1", "1", "2", "2"]),
        ("host-2", [None, None, "host-2", "host-2"]),
        ("interface", []),
    ],
)
def test_hosts_are_distinguished_by_folder_or_by_what_is_found_in_paths(hosts: Path, source_by: str, want: list[str | None]) -> None:
    inputs = expand_inputs([str(hosts / "*" / "*")], source_by)
    assert inputs.sources == [source and source.replace("{0}", str(hosts)) for source in want]
    assert inputs.by_interface is (source_by == "interface")
    names = [Path(path).name for path in inputs.paths]
    if want:
        assert names == ["host-1.pcap0", "host-1.pcap1", "host-2.pcap0", "host-2.pcap1"]
        assert [inputs.continues(file) for file in range(4)] == [False, True, False, True]
        assert inputs.vantage_points() == [range(2), range(2, 4)]
    else:
        assert names == ["host-1.pcap0", "host-2.pcap0", "host-1.pcap1", "host-2.pcap1"]


@pytest.mark.parametrize(("source_by", "why"), [("(", "regular expression for paths"), ("eth0", "matches no path of a capture")])
def test_a_word_that_names_no_host_is_refused(hosts: Path, source_by: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        expand_inputs([str(hosts / "a")], source_by)


@pytest.mark.parametrize("source_by", ["dir", r"([^/]*)/[^/]*$"])
def test_names_of_hosts_are_text_whatever_bytes_are_in_a_path(folder: Path, source_by: str) -> None:
    host = folder / os.fsdecode(b"a\xff")
    host.mkdir()
    (host / "x.pcap").write_bytes(capture(1))
    (source,) = expand_inputs([str(host / "x.pcap")], source_by).sources
    assert source is not None
    assert source.endswith("a\\xff")
