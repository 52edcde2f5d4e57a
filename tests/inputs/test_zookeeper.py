"""Dumps of ZooKeeper; those in tests/inputs/dumps were written by version 3.9.5 and its SnapshotFormatter from the same tree."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
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


def read(*paths: str) -> Dump:
    """Read a dump, possibly compressed, like the command line does."""

    def decompress(chunks: Iterator[bytes]) -> tuple[Iterator[bytes], ReadProgress]:
        progress = ReadProgress()
        return decompressed(chunks, progress, file=0), progress

    return read_dump(paths, decompress)


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
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0 and so on", "it is neither text, nor a snapshot or a log of a server$"),
        (b"\0\x7f\n/path\tvalue\n", "it is neither text, nor a snapshot or a log of a server$"),
        (b"{", "the file: not valid JSON"),
        (b"ZKSN\0\0\0\2", "byte 8: the snapshot is cut"),
    ],
)
def test_what_holds_no_node_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "dump"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=f"is not a dump of ZooKeeper: {why}"):
        read(str(path))


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaptureError, match="holds no snapshot"):
        read(str(tmp_path))
    for path in (tmp_path / "nowhere", "a\0b"):
        with pytest.raises(CaptureError, match="cannot be read"):
            read(str(path))
    monkeypatch.setattr(zookeeper, "REGISTRY_MAX_BYTES", 100)
    with pytest.raises(CaptureError, match="larger than"):
        read(str(SNAPSHOT))


@pytest.mark.parametrize("head", ["", "\n", "Connecting to localhost:2181\n"])
def test_a_session_may_begin_with_its_prompt(head: str) -> None:
    session = SESSION[SESSION.index("[zk: ") :]
    assert values(Dump((head + session).encode())) == {"/brokers/ids/0": BROKER, "/brokers/topics/orders/0": "2"}


LONG = "/consumers/group-with-a-long-name/offsets/a-topic-with-a-long-name/0-0"


@pytest.mark.parametrize("cut", [30, 50, len(LONG) - 1])
@pytest.mark.parametrize("wrap", [" \r", "\n"])
def test_a_path_that_the_terminal_wraps_is_one(cut: int, wrap: str) -> None:
    prompt = "[zk: zookeeper-with-a-long-name.example:2181(CONNECTED) 7] get "
    dump = Dump(f"{prompt}{LONG[:cut]}{wrap}{LONG[cut:]}\n10452\ncZxid = 0x14\n[zk: h(CONNECTED) 8] quit\n".encode())
    assert values(dump) == {LONG: "10452"}


@pytest.mark.parametrize("behind", ["cZxid = 0x14", "[zk: h(CONNECTED) 8] quit", "", "/b\tc"])
def test_a_long_command_with_its_value_is_not_taken_for_a_wrapped_one(behind: str) -> None:
    assert values(Dump(f"[zk: zookeeper.example:2181(CONNECTED) 7] get {LONG}\n10452\n{behind}\n".encode()))[LONG] == "10452"


@pytest.mark.parametrize("answer", ["Node does not exist: /x", "Authentication is not valid : /x", "Insufficient permission : /x"])
def test_a_node_that_is_not_shown_has_no_value(answer: str) -> None:
    assert values(Dump(f"[zk: h(CONNECTED) 1] get /x\n{answer}\n[zk: h(CONNECTED) 2] get /y\nv\n".encode())) == {"/y": "v"}
    assert values(Dump(f"/x\tbefore\n[zk: h(CONNECTED) 1] get /x\n{answer}\n".encode())) == {"/x": "before"}


def test_a_recorded_session_of_zkcli_is_read() -> None:
    dump = read(str(DUMPS / "zkcli39.txt"))
    assert dump.notes == []
    found = values(dump)
    assert found["/consumers/g-topic2/offsets/topic2/0-1"] == "775"
    assert found["/kafka-b/brokers/ids/7"] == "host7-1350000000000:host7.example.com:6667"
    assert not {path for path in found if "nosuch" in path or "vm-179532" in path}


def test_a_snapshot_compressed_with_snappy_is_read() -> None:
    dump = read(str(DUMPS / "zookeeper-3.9.snappy"))
    assert (dump.damaged, dump.notes) == (False, [])
    assert values(dump)["/consumers/g-topic2/offsets/topic2/0-1"] == "775"


@pytest.mark.parametrize("size", [20, 100, 2_000, 2_900])
def test_a_cut_or_damaged_snapshot_of_snappy_is_reported(size: int) -> None:
    data = (DUMPS / "zookeeper-3.9.snappy").read_bytes()
    assert Dump(data[:size]).damaged
    assert Dump(data[:size] + bytes([data[size] ^ 0xFF]) + data[size + 1 :]).nodes is not None


LOG = gzip.decompress((DUMPS / "zookeeper-3.9.5.log.gz").read_bytes())


def test_a_log_gives_what_its_transactions_leave() -> None:
    """Recorded from 3.9.5: a container, an ephemeral node whose session ended, a deleted node, a node that was set again."""
    dump = Dump(LOG)
    assert (dump.damaged, dump.notes) == (False, [])
    found = values(dump)
    assert found["/consumers/g/offsets/t/0-0"] == "4711"
    assert found["/container"] == "inside"
    assert "/brokers/ids" in found
    assert not found.keys() & {"/gone", "/brokers/ids/0"}


@pytest.mark.parametrize("size", range(16, 1_400, 83))
def test_a_cut_log_gives_what_came_before(size: int) -> None:
    assert len(Dump(LOG[:size]).nodes) <= len(Dump(LOG).nodes) + 2
    damaged = Dump(LOG[:size] + bytes([LOG[size] ^ 0xFF]) + LOG[size + 1 :])
    assert damaged.damaged


def test_a_folder_of_a_server_is_its_latest_snapshot_and_the_logs_behind_it(tmp_path: Path) -> None:
    (tmp_path / "snapshot.0").write_bytes(b"ZKSN")
    (tmp_path / "snapshot.1").write_bytes(SNAPSHOT.read_bytes())
    (tmp_path / "log.1").write_bytes(LOG)
    (tmp_path / "acceptedEpoch").write_text("1")
    dump = read(str(tmp_path))
    assert not dump.damaged
    assert values(dump)["/consumers/billing/offsets/orders/0-0"] == "10452"
    assert values(dump)["/container"] == "inside"
    (tmp_path / "snapshot.1").rename(tmp_path / "snapshot.ffff")  # later than everything in the log
    assert "/container" not in values(read(str(tmp_path)))


def test_several_files_are_one_registry_with_places_that_name_them(tmp_path: Path) -> None:
    for name, text in (("a", "/a\t1\n"), ("b", "/b\t2\nwhat is this\n")):
        (tmp_path / name).write_text(text)
    dump = read(str(tmp_path / "a"), str(tmp_path / "b"))
    assert dump.nodes == [Node("/a", "1", "a: line 1"), Node("/b", "2", "b: line 1")]
    assert [note.place for note in dump.notes] == ["b: line 2"]
