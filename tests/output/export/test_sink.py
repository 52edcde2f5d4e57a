from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.output.export.sink import StandardOutput, open_sink, write_errors


def test_a_file_takes_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    sink = open_sink(str(path))
    sink.write(b"new")
    assert path.read_text() == "old"
    sink.finish()
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_an_abandoned_file_leaves_nothing_behind(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "out.json"))
    sink.write(b"half")
    sink.abandon()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_file_is_kept_under_a_name_that_says_so(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "out.json"))
    sink.write(b"half")
    assert sink.keep() == str(tmp_path / "out.json.partial")
    assert (tmp_path / "out.json.partial").read_bytes() == b"half"


def test_a_link_is_written_through_and_one_at_the_partial_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "target.partial").symlink_to(tmp_path / "victim")
    sink = open_sink(str(tmp_path / "link"))
    sink.write(b"new")
    sink.finish()
    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "victim").read_text() == "precious"


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
    with pytest.raises(UsageError, match="need a folder"):
        open_sink(str(tmp_path / "file"), folder=True)
    with pytest.raises(UsageError, match="give one with -o"):
        open_sink(None, folder=True)


def test_a_folder_of_files_is_finished_kept_or_abandoned_as_one(tmp_path: Path) -> None:
    kept = open_sink(str(tmp_path / "kept"), folder=True)
    kept.child("a").write(b"1")
    assert kept.keep() == str(tmp_path / "kept" / "*.partial")
    gone = open_sink(str(tmp_path / "gone"), folder=True)
    gone.child("a").write(b"1")
    gone.abandon()
    done = open_sink(str(tmp_path / "done"), folder=True)
    done.child("a").write(b"1")
    done.finish()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["done", "done/a", "kept", "kept/a.partial"]


def test_only_a_folder_has_children() -> None:
    with pytest.raises(UsageError, match="not a folder"):
        open_sink(None).child("a")


def test_a_closed_standard_output_is_an_output_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(OutputError, match="standard output: it is closed"):
        StandardOutput().write(b"x")


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
