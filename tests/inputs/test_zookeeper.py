"""Dumps of ZooKeeper; those in tests/inputs/dumps were written by version 3.9.5 and its SnapshotFormatter from one tree."""

from __future__ import annotations

import gzip
import io
import sys
from functools import partial
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture.formats.compression import ReadProgress, decompressed
from pulsarscope.inputs import zookeeper
from pulsarscope.inputs.zookeeper import Dump, Node, read_dump
from pulsarscope.model.errors import CaptureError

DUMPS = Path(__file__).resolve().parent / "dumps"
SNAPSHOT = DUMPS / "zookeeper-3.9.5.snapshot"
FORMATTED = DUMPS / "zookeeper-3.9.5.formatter.txt"

BROKER = "kafka-a-1346867214003:kafka-a.example:9092"

SESSION = f"""\
Welcome to ZooKeeper!
JLine support is enabled

WATCHER::

WatchedEvent state:SyncConnected type:None path:null
[zk: localhost:2181(CONNECTED) 0] ls /brokers/ids
[0, 1]
[zk: localhost:2181(CONNECTED) 1] get /brokers/ids/0
{BROKER}
cZxid = 0x14
ctime = Tue Sep 04 10:46:54 PDT 2012
dataLength = 42
numChildren = 0
[zk: localhost:2181(CONNECTED) 2] get -s /brokers/topics/orders/0
2
[zk: localhost:2181(CONNECTED) 3] quit
"""


def read(path: str) -> Dump:
    """Read a dump that may be compressed, as the command line does."""
    progress = ReadProgress()
    return read_dump(path, partial(decompressed, progress=progress, file=0), progress)


def values(dump: Dump) -> dict[str, str]:
    return {node.path: node.value for node in dump.nodes}


def test_a_snapshot_of_the_server_and_its_text_form_say_the_same() -> None:
    snapshot, formatted = read(str(SNAPSHOT)), read(str(FORMATTED))
    assert snapshot.notes == formatted.notes == []
    assert values(snapshot) == values(formatted)
    assert len(snapshot.nodes) == FORMATTED.read_text().count("\n/")
    assert values(snapshot)["/brokers/ids/0"] == BROKER
    assert values(snapshot)["/consumers/billing/offsets/orders/0-0"] == "10452"
    assert values(snapshot)["/consumers"] == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a\tb\n", {"/a": "b"}),
        ("/a/with space\tb c\r\n/d\t\r\n", {"/a/with space": "b c", "/d": ""}),
        ("/a   b:c\n/d = e\n", {"/a": "b:c", "/d": "e"}),
        ("/a\nb\n/c\n   d\n\n/e\n/f\n", {"/a": "b", "/c": "d", "/e": "", "/f": ""}),
        (SESSION, {"/brokers/ids/0": BROKER, "/brokers/topics/orders/0": "2"}),
        ("get /a\nb\n", {"/a": "b"}),
        ('{"/a": "b", "/n": null, "/o": {"t": 1}, "/i": 7}', {"/a": "b", "/n": "", "/o": '{"t":1}', "/i": "7"}),
        ('[{"path": "/a", "value": "b"}, {"path": "/c", "data": "d"}]', {"/a": "b", "/c": "d"}),
        ('{"path": "/a", "value": "b"}\n\n{"path": "/c", "data": "d"}\n', {"/a": "b", "/c": "d"}),
        ("/a\tfirst\n/a\n/b\tb\n", {"/a": "first", "/b": "b"}),
        ("/a\tfirst\n/a\tlast\n", {"/a": "last"}),
    ],
)
def test_text_and_json_of_several_tools_are_read(text: str, expected: dict[str, str]) -> None:
    dump = Dump(text.encode())
    assert values(dump) == expected
    assert (dump.notes, dump.damaged) == ([], False)


def test_a_node_says_on_which_line_its_value_stands() -> None:
    assert Dump(b"# \n\n/a\tb\n/c\n\nd\n").nodes == [Node("/a", "b", "line 3"), Node("/c", "d", "line 6")]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("/a\tb\nwhat is this\n", "line 2", '"what is this" is neither a path nor a value'),
        ("/a\n  data = !!!\n", "line 2", "not base64"),
        ('{"/a": "b"', "the file", "not valid JSON"),
        ('{"/a": "b"}\n{"/c" "d"}\n', "line 2", "not valid JSON"),
        ('{"/a": "b", "c": "d"}', "object 1", '"c" is not a path'),
        ("[1]", "object 1", "not an object"),
        ("[" * 100_000, "the file", "not valid JSON"),
        ('{"/a": ' + "9" * 5_000 + "}", "the file", "not valid JSON"),
    ],
)
def test_what_is_odd_is_noted_with_its_place(text: str, place: str, words: str) -> None:
    (note,) = Dump(text.encode()).notes
    assert note.place == place
    assert words in note.text


def test_text_that_is_no_utf8_is_kept_visibly() -> None:
    assert values(Dump(b"/a\t\xff\x1b[2J\n")) == {"/a": "\\xff\x1b[2J"}


@pytest.mark.parametrize("size", range(4, SNAPSHOT.stat().st_size - 40, 97))
def test_a_cut_snapshot_gives_what_came_before(size: int) -> None:
    complete, cut = Dump(SNAPSHOT.read_bytes()), Dump(SNAPSHOT.read_bytes()[:size])
    assert cut.damaged
    assert cut.nodes == complete.nodes[: len(cut.nodes)]
    assert "cut or damaged" in cut.notes[0].text


def test_a_snapshot_of_another_version_is_refused() -> None:
    data = bytearray(SNAPSHOT.read_bytes())
    data[7] = 3
    assert "version 3" in Dump(bytes(data)).notes[0].text


@given(st.binary(max_size=400), st.sampled_from([b"", b"ZKSN\x00\x00\x00\x02", b"{", b"["]), st.integers(0, 2_800), st.binary(max_size=8))
def test_no_bytes_make_it_fail(tail: bytes, head: bytes, at: int, patch: bytes) -> None:
    snapshot = SNAPSHOT.read_bytes()
    for data in (head + tail, snapshot[:at] + patch + snapshot[at + len(patch) :]):
        assert {type(part) for node in Dump(data).nodes for part in node} <= {str}


def test_compressed_dumps_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = read(str(SNAPSHOT)).nodes
    for name, data in (("x.gz", gzip.compress(SNAPSHOT.read_bytes())), ("x.zst", zstandard.compress(SNAPSHOT.read_bytes()))):
        (tmp_path / name).write_bytes(data)
        assert read(str(tmp_path / name)).nodes == plain
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SNAPSHOT.read_bytes())))
    assert read("-").nodes == plain


def test_a_cut_compressed_dump_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"/a\tb\n" * 1_000)[:-10])
    dump = read(str(path))
    assert dump.damaged
    assert values(dump) == {"/a": "b"}
    assert "gzip file is cut" in dump.notes[-1].text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"[]", "it is empty"),
        (b"\xd4\xc3\xb2\xa1 and so on", "line 1: .* neither a path nor a value"),
        (b"{", "the file: not valid JSON"),
        (b"ZKSN\0\0\0\2", "byte 8: the snapshot is cut"),
    ],
)
def test_what_holds_no_node_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "dump"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=f"is not a dump of ZooKeeper: {why}"):
        read(str(path))


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "nowhere", tmp_path, "a\0b"):
        with pytest.raises(CaptureError, match="cannot be read"):
            read(str(path))
    monkeypatch.setattr(zookeeper, "REGISTRY_MAX_BYTES", 100)
    with pytest.raises(CaptureError, match="larger than"):
        read(str(SNAPSHOT))
