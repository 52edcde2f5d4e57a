"""The command `index`, and its uses."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.capture import Block, BlockReader
from pulsarscope.cli.arguments.extract_request import ExtractRequest
from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.commands.index import IndexRequest, index
from pulsarscope.cli.packet_copy import write_packets
from pulsarscope.cli.run_command import run_command
from pulsarscope.model.errors import OutputError, UsageError
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.recapture import packets_of

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def small_captures_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for an index of captures of any size."""
    monkeypatch.setattr("pulsarscope.cli.indexes.INDEX_USED_MIN_BYTES", 0)


@pytest.fixture
def capture(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copy(captures / "errors.pcap", tmp_path / "a.pcap"))


@pytest.mark.parametrize("beside", [False, True])
def test_an_index_is_written_once_and_anew_when_the_capture_changes(capture: Path, tmp_path: Path, capsys: Captured, beside: bool) -> None:
    request = IndexRequest(files=[str(capture)], beside=beside)
    assert index(request) == 0
    assert "written: " in capsys.readouterr().err
    (place,) = tmp_path.glob("*.psidx" if beside else "cache/pulsarscope/*.psidx")
    assert place.stat().st_mode & 0o77 == 0
    assert index(request) == 0
    assert "up to date: " in capsys.readouterr().err
    capture.write_bytes(capture.read_bytes()[:-10])
    assert index(request) == 4
    said = capsys.readouterr().err
    assert "of another state" in said
    assert "written: " in said


@pytest.mark.parametrize("first", [True, False])
def test_an_index_of_what_is_readable_says_what_is_not_and_is_of_the_captures_alone(capture: Path, capsys: Captured, first: bool) -> None:
    absent = str(capture.with_name("absent.pcap"))
    files = [absent, str(capture)] if first else [str(capture), absent]
    for _ in ("written", "up to date"):
        assert index(IndexRequest(files=files, quiet=True)) == 4
        assert capsys.readouterr().err.startswith(f"pulsarscope: {absent} cannot be read: ")
    assert run_command(CommandRequest(files=[str(capture)], filter="command == CONNECT")) == 0
    assert "no findings in single frames" in capsys.readouterr().out
    assert index(IndexRequest(files=[str(capture), str(capture)])) == 0
    assert "up to date" in capsys.readouterr().err


def test_an_index_needs_pyarrow_and_says_so(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"^index needs pyarrow: .* -m pip install .*\[parquet\]"):
        index(IndexRequest(files=[str(capture)]))


def test_what_killed_commands_left_in_the_cache_goes_with_the_next_index(capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "pulsarscope"
    folder.mkdir(parents=True)
    left, in_work = folder / "0123.psidx.1.incomplete", folder / "4567.psidx.2.incomplete"
    for path in (left, in_work):
        path.write_bytes(b"ARROW1")
    os.utime(left, (1, 1))
    assert index(IndexRequest(files=[str(capture)])) == 0
    assert sorted(folder.glob("*.incomplete")) == [in_work]


@pytest.mark.parametrize("longest", ["the name of the capture", "the folder of the cache"])
def test_where_no_index_can_be_looked_for_there_is_none(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, longest: str
) -> None:
    """Names that are too long fail like folders that the user may not read."""
    if longest == "the folder of the cache":
        monkeypatch.setenv("XDG_CACHE_HOME", f"/{'x' * 256}")
    else:
        capture = capture.rename(tmp_path / f"{'a' * 250}.pcap")
        (tmp_path / "cache" / "pulsarscope").mkdir(parents=True)
    assert run_command(CommandRequest(files=[str(capture)], filter="command == ERROR")) == 0
    assert "ERROR" in capsys.readouterr().out


@pytest.mark.parametrize(
    "values", [{"filter": "command == ERROR"}, {"subject": ("connection", "#1")}, {"filter": "time < 10ms", "format": "csv"}]
)
def test_commands_give_the_same_with_an_index_and_without_reading_the_capture(
    capture: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, values: dict[str, object]
) -> None:
    request = CommandRequest(files=[str(capture)], **values)  # type: ignore[arg-type]
    assert run_command(request) == 0
    expected = capsys.readouterr().out
    assert index(IndexRequest(files=[str(capture)], quiet=True)) == 0
    monkeypatch.setattr("pulsarscope.cli.run_command.start_run", None)
    assert run_command(request) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(("suffix", "more", "looked"), [("", 0, 1), ("", 1, 0), (".gz", 1, 1)])
def test_an_index_is_looked_for_where_decoding_takes_longer(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, suffix: str, more: int, looked: int
) -> None:
    if suffix:
        capture.write_bytes(gzip.compress(capture.read_bytes()))
        capture = capture.rename(f"{capture}{suffix}")
    (tmp_path / "cache" / "pulsarscope").mkdir(parents=True)
    monkeypatch.setattr("pulsarscope.cli.indexes.INDEX_USED_MIN_BYTES", capture.stat().st_size + more)
    searches: list[Any] = []

    def find(inputs: Any, *_: Any, **__: Any) -> tuple[None, None]:
        searches.append(inputs)
        return None, None

    monkeypatch.setattr("pulsarscope.cli.indexes.find_index", find)
    assert run_command(CommandRequest(files=[str(capture)], filter="command == ERROR")) == 0
    assert "ERROR" in capsys.readouterr().out
    assert len(searches) == looked


def test_a_stale_index_is_reported_and_not_used(capture: Path, capsys: Captured) -> None:
    assert index(IndexRequest(files=[str(capture)], quiet=True)) == 0
    capture.write_bytes(capture.read_bytes()[:-1000])
    assert run_command(CommandRequest(files=[str(capture)], filter="command == CONNECT")) == 4
    captured = capsys.readouterr()
    assert "it is not used; pulsarscope index makes a new one" in captured.err
    assert "CONNECT" in captured.out


def parts_of(path: Path, folder: Path, count: int) -> list[str]:
    """A capture as a rotated set of files."""
    packets = packets_of(path)
    share = -(-len(packets) // count)
    return [str(write_pcap(folder / f"part{at}.pcap", packets[at * share : (at + 1) * share])) for at in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["stuck-consumer.pcap", "rw-shuffle.pcap", "quickstart.pcapng", "go-nack-dlq-gz.pcap.gz", "a set of three", "a set joined by cat"],
)
def test_extract_gives_the_same_by_index(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, name: str
) -> None:
    """Covers copies and disorder, packets without bytes, several files, and frames that begin in one file and end in the next."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for limit, value in (("INDEX_PORTION_BYTES", 3000), ("INDEXED_PACKETS_PER_CHUNK", 40)):
        monkeypatch.setattr(f"pulsarscope.index.writer.{limit}", value)
    files = parts_of(captures / "compress-zlib.pcap", tmp_path, 3) if name.startswith("a set") else [str(captures / name)]
    if name.endswith("joined by cat"):
        (tmp_path / "joined.pcap").write_bytes(b"".join(Path(file).read_bytes() for file in files))
        files = [str(tmp_path / "joined.pcap")]
    frames = list(ps.open(*files).frames())
    middle = frames[len(frames) // 2]
    topic = next(frame.topic for frame in frames if frame.topic)
    requests = [
        ExtractRequest(files=files, out=str(tmp_path / f"{at}.pcapng"), filter=text, context=bool(at % 2))
        for at, text in enumerate(
            (f'connection == "{middle.connection}"', f'topic == "{topic}" && size > 60', "command in {ACK,SEND_RECEIPT}")
        )
    ]
    assert [write_packets(request) for request in requests] == [0] * 3
    expected = [(tmp_path / f"{at}.pcapng").read_bytes() for at in range(3)], capsys.readouterr().err
    assert index(IndexRequest(files=files, quiet=True)) == 0
    monkeypatch.setattr("pulsarscope.cli.packet_copy.start_run", None)
    assert [write_packets(request) for request in requests] == [0] * 3
    assert ([(tmp_path / f"{at}.pcapng").read_bytes() for at in range(3)], capsys.readouterr().err) == expected


def test_extract_reads_only_the_parts_of_a_capture_that_hold_the_packets(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("pulsarscope.index.writer.INDEX_PORTION_BYTES", 2000)
    read: list[int] = []

    class Noted(BlockReader):
        def __next__(self) -> Block:
            block = super().__next__()
            read.append(block.bytes_read)
            return block

    path = captures / "stuck-consumer.pcap"
    assert index(IndexRequest(files=[str(path)], quiet=True)) == 0
    monkeypatch.setattr("pulsarscope.index.selected_packets.BlockReader", Noted)
    assert write_packets(ExtractRequest(files=[str(path)], out=str(tmp_path / "o"), filter="command == CONNECT", quiet=True)) == 0
    assert 0 < sum(read) < path.stat().st_size / 10


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("go-tls13-dsb.pcapng", {"filter": "command == SEND"}),  # frames lie in TLS records, whose places no index has
        ("rw-ipfrag.pcap", {"filter": "command == CONNECT"}),
        ("errors.pcap", {"filter": "command == CONNECT", "limit": 1}),
        ("errors.pcap", {"filter": "command == CONNECT", "redact": True}),
        ("errors.pcap", {}),
        ("errors.pcap", {"kinds": "finding", "filter": "severity == error"}),
    ],
)
def test_what_an_index_lacks_is_read_by_extract(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, values: dict[str, Any]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = [str(captures / name)]
    assert index(IndexRequest(files=files, quiet=True)) == 0
    monkeypatch.setattr("pulsarscope.index.run.IndexRun.selected", None)
    assert write_packets(ExtractRequest(files=files, out=str(tmp_path / "o"), quiet=True, **values)) == 0
    assert (tmp_path / "o").stat().st_size


def test_pipes_and_several_captures_beside_are_refused(capture: Path) -> None:
    with pytest.raises(UsageError, match="pipes cannot be indexed"):
        index(IndexRequest(files=["-"]))
    other = shutil.copy(capture, capture.with_name("b.pcap"))
    with pytest.raises(UsageError, match="for one capture"):
        index(IndexRequest(files=[str(capture), str(other)], beside=True))
    assert index(IndexRequest(files=[str(capture), str(other)], quiet=True)) == 0


def test_an_index_goes_into_a_folder(capture: Path, tmp_path: Path, capsys: Captured) -> None:
    other = shutil.copy(capture, capture.with_name("b.pcap"))
    request = IndexRequest(files=[str(capture), str(other)], into=str(tmp_path / "new" / "indexes"))
    for said in ("written: ", "up to date: "):
        assert index(request) == 0
        assert said in capsys.readouterr().err
    assert len([*(tmp_path / "new" / "indexes").iterdir()]) == 1
    assert not (tmp_path / "cache").exists()
    with pytest.raises(UsageError, match="two places"):
        index(IndexRequest(files=[str(capture)], into="x", beside=True))
    with pytest.raises(OutputError, match="cannot be written"):
        index(IndexRequest(files=[str(capture)], into=str(capture)))
