from __future__ import annotations

import errno
import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.output.export.sink import ClosedStandardOutput, StandardOutput, identity, open_sink, write_errors
from tests.places import CAPTURES
from tests.scenarios.command_line import COMMAND


def test_a_file_takes_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    sink = open_sink(str(path))
    sink.write(b"new")
    assert path.read_text() == "old"
    sink.finish()
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


@pytest.mark.parametrize(("suffix", "opened"), [(".gz", gzip.decompress), (".ZST", unzstd)])
def test_a_file_is_compressed_by_its_suffix(tmp_path: Path, suffix: str, opened: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"out.ndjson{suffix}"
    sink = open_sink(str(path))
    sink.write(b"rows" * 1_000)
    sink.finish()
    assert opened(path.read_bytes()) == b"rows" * 1_000
    again = open_sink(str(path))
    again.write(b"others")
    again.abandon()
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(UsageError, match=r"compressed as \.gz or \.zst, not as \.xz"):
        open_sink(str(tmp_path / "out.ndjson.xz"))
    assert list(tmp_path.iterdir()) == [path]


def test_an_abandoned_file_leaves_nothing_behind(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "out.json"))
    sink.write(b"half")
    sink.abandon()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_file_is_kept_under_a_name_that_says_so(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "out.json"))
    sink.write(b"half")
    (kept,) = tmp_path.iterdir()
    assert sink.keep() == str(kept)
    assert kept.name.startswith("out.json.")
    assert kept.name.endswith(".partial")
    assert kept.read_bytes() == b"half"


@pytest.mark.parametrize("target", ["target", "missing"])
def test_a_link_to_a_file_is_refused_with_nothing_touched(tmp_path: Path, target: str) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(UsageError, match="symbolic link: name the file itself"):
        open_sink(str(tmp_path / "link"))
    assert {path.name for path in tmp_path.iterdir()} == {"target", "link"}
    assert (tmp_path / "target").read_text() == "old"


@pytest.mark.skipif(not Path("/dev/stdout").is_symlink(), reason="/dev/stdout is a link on Linux")
def test_the_link_to_standard_output_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """If it is a file: a pipe is written."""
    with (tmp_path / "out").open("wb") as out:
        command = [*COMMAND, "decode", str(CAPTURES / "quickstart.pcapng"), "-o", "/dev/stdout"]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == UsageError.exit_code
    assert b"/dev/stdout is a symbolic link: leave out -o for standard output" in done.stderr


def test_a_link_to_a_device_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(os.devnull)
    sink = open_sink(str(tmp_path / "link"))
    sink.write(b"x")
    sink.finish()
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("name", ["out.partial", "out", "a"])
def test_no_other_file_is_removed_or_written(tmp_path: Path, name: str) -> None:
    """`extract big.pcap.partial -o big.pcap` did this."""
    before = {f"{name}{suffix}": f"{name}{suffix}" for suffix in (".partial", ".1.partial", ".tmp", "~")}
    for other, text in before.items():
        (tmp_path / other).write_text(text)
    sink = open_sink(str(tmp_path / name))
    sink.write(b"new")
    sink.finish()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {**before, name: "new"}


def test_two_runs_with_one_output_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first, second, third = (open_sink(str(path)) for _ in range(3))
    for sink, data in ((first, b"1"), (second, b"2"), (third, b"3"), (first, b"1"), (second, b"2")):
        sink.write(data)
    first.finish()
    assert path.read_bytes() == b"11"
    third.abandon()
    second.finish()
    assert path.read_bytes() == b"22"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444, 0o755])
def test_a_replaced_file_keeps_its_mode_and_the_unfinished_one_has_no_more(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(mode)
    sink = open_sink(str(path))
    assert all(entry.stat().st_mode & 0o777 == mode for entry in tmp_path.iterdir())
    sink.write(b"new")
    sink.finish()
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_text() == "new"


def test_a_new_file_has_the_mode_that_the_user_s_mask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        open_sink(str(tmp_path / "out")).finish()
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_an_input_is_refused_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("precious")
    (tmp_path / "same").hardlink_to(tmp_path / "in")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "frame.parquet").hardlink_to(tmp_path / "in")
    inputs = frozenset({found for found in [identity(str(tmp_path / "in"))] if found})
    for name in ("in", "same", "folder/../in"):
        with pytest.raises(UsageError, match="is one of the inputs"):
            open_sink(str(tmp_path / name), inputs=inputs)
    with pytest.raises(UsageError, match="is one of the inputs"):
        open_sink(f"{tmp_path}/in/.", inputs=inputs)
    for name in ("in/", "other/"):
        with pytest.raises(UsageError, match="is a folder: name a file"):
            open_sink(f"{tmp_path}/{name}", inputs=inputs)
    with pytest.raises(UsageError, match="is one of the inputs"):
        open_sink(str(tmp_path / "folder"), folder=True, inputs=inputs).child("frame.parquet")
    assert (tmp_path / "in").read_text() == "precious"


@pytest.mark.parametrize("moment", ["write", "close"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, moment: str) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    sink = open_sink(str(path))
    written = sink.file

    def fail(_data: bytes = b"") -> None:
        written.close()
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sink, "stream", SimpleNamespace(write=fail if moment == "write" else written.write, close=fail))
    if moment == "close":
        sink.write(b"new")
    with pytest.raises(OutputError, match=os.strerror(number)):
        sink.write(b"new") if moment == "write" else sink.finish()
    sink.abandon()
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {"out": "old"}


@pytest.mark.parametrize("present", [False, True])
def test_a_killed_run_leaves_nothing_half_under_the_final_name(tmp_path: Path, present: bool) -> None:
    path = tmp_path / "out"
    if present:
        path.write_text("old")
    program = """if True:
        import os, signal, sys
        from pulsarscope.output.export.sink import open_sink
        sink = open_sink(sys.argv[1])
        sink.write(bytes(1 << 20))
        sink.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -signal.SIGKILL
    assert path.exists() == present
    assert not present or path.read_text() == "old"


def test_a_device_is_written_in_place_and_says_when_it_is_full() -> None:
    sink = open_sink("/dev/full")
    sink.write(b"x")
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left on device"):
        sink.finish()
    sink.abandon()


@pytest.mark.parametrize("name", ["no/such/folder/out", "n" * 300])
def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        open_sink(str(tmp_path / name))


def test_files_and_folders_are_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a folder: name a file"):
        open_sink(str(tmp_path))
    with pytest.raises(UsageError, match="-o is empty: name a file"):
        open_sink("")
    with pytest.raises(UsageError, match="is a file, and a folder is needed"):
        open_sink(str(tmp_path / "file"), folder=True)
    with pytest.raises(UsageError, match="give one with -o"):
        open_sink(None, folder=True)


def test_a_folder_of_files_is_finished_kept_or_abandoned_as_one(tmp_path: Path) -> None:
    kept = open_sink(str(tmp_path / "kept"), folder=True)
    kept.child("a").write(b"1")
    assert kept.keep() == str(tmp_path / "kept" / "*.partial")
    (unfinished,) = (tmp_path / "kept").glob("a.*.partial")
    gone = open_sink(str(tmp_path / "gone"), folder=True)
    gone.child("a").write(b"1")
    gone.abandon()
    done = open_sink(str(tmp_path / "done"), folder=True)
    done.child("a").write(b"1")
    done.finish()
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == ["done", "done/a", "kept", f"kept/{unfinished.name}"]


def test_only_a_folder_has_children() -> None:
    with pytest.raises(UsageError, match="not a folder"):
        open_sink(None).child("a")


@pytest.mark.parametrize("closed", [None, ClosedStandardOutput()])
def test_a_closed_standard_output_is_an_output_error(monkeypatch: pytest.MonkeyPatch, closed: ClosedStandardOutput | None) -> None:
    monkeypatch.setattr("sys.stdout", closed)
    with pytest.raises(OutputError, match="standard output: it is closed"):
        StandardOutput().write(b"x")


def test_text_and_bytes_for_a_closed_standard_output_are_output_errors() -> None:
    closed = ClosedStandardOutput()
    with pytest.raises(OutputError, match="standard output: it is closed"):
        print("x", file=closed)
    with pytest.raises(OutputError, match="standard output: it is closed"):
        getattr(closed, "buffer")  # noqa: B009 - the attribute alone raises
    assert not closed.isatty()
    closed.flush()  # as the interpreter does when it ends


def test_a_closed_pipe_stays_what_it_is() -> None:
    with pytest.raises(BrokenPipeError), write_errors("x"):
        raise BrokenPipeError


def test_a_signal_in_the_middle_of_a_write_loses_nothing() -> None:
    program = """if True:
        import signal
        from pulsarscope.output.export.sink import open_sink
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # while the pipe is full
        sink = open_sink(None)
        sink.write(bytes(300_000))
        sink.finish()
    """
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=unbuffered) as process:
        time.sleep(1)
        assert process.stdout is not None
        assert len(process.stdout.read()) == 300_000
