from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pulsarscope.capture import expand_inputs
from pulsarscope.engine.options import ALL_RECORDS
from pulsarscope.engine.parallel import process as module
from pulsarscope.engine.parallel.process import Process
from pulsarscope.engine.parallel.worker import Decode
from pulsarscope.model.errors import InternalError, OutputError
from pulsarscope.model.platform import load_native
from tests.places import CAPTURES
from tests.scenarios.hungry import Hungry, HungryReader
from tests.scenarios.options import Options
from tests.scenarios.processes import is_there

QUICKSTART = str(CAPTURES / "quickstart.pcapng")
DECODE = Decode(expand_inputs([QUICKSTART]), Options(ALL_RECORDS), 0, 1, None)


@pytest.fixture(params=["copied where it may be", "started anew"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "started anew":
        monkeypatch.setattr(module, "may_fork", lambda: False)


class Thresholds:
    def __call__(self) -> Iterator[tuple[int, ...]]:
        yield gc.get_threshold()


def test_one_that_was_left_takes_no_more_tasks() -> None:
    """A thread that feeds it may not know this yet."""
    with Process() as process:
        pass
    process.ask(DECODE)


def test_answers_come_in_the_order_of_the_tasks() -> None:
    with Process() as process:
        other = msgspec.structs.replace(DECODE, options=Options(frozenset({"connection"})))
        process.ask(other)
        process.ask(DECODE)
        want = [*other(), *DECODE()]
        assert [process.answer() for _ in want] == want


def test_it_is_gone_when_it_is_left() -> None:
    with Process() as process:
        process.ask(DECODE)
        process.ask(DECODE)
        assert is_there(process.number)
    assert not is_there(process.number)


def test_an_answer_for_which_there_is_not_enough_memory_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(_pipe: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(module, "receive", starved)
    with Process() as process:
        process.ask(DECODE)
        with pytest.raises(InternalError, match=r"^not enough memory for the answer of a decoding process"):
            process.answer()


def test_one_that_was_killed_is_an_output_error() -> None:
    with Process() as process:
        os.kill(process.number, signal.SIGKILL)
        process.ask(DECODE)
        with pytest.raises(OutputError, match=r"^one of the decoding processes was killed \(signal 9\); the output is not complete$"):
            process.answer()
        process.ask(DECODE)


def test_one_that_lacked_memory_is_reported_as_such() -> None:
    with Process() as process:
        process.ask(Hungry())
        with pytest.raises(InternalError, match="had not enough memory"):
            process.answer()


@pytest.mark.skipif(not sys.platform.startswith("linux") or load_native()[0] is None, reason="needs Linux and the compiled reader")
def test_one_whose_compiled_reader_lacked_memory_is_reported_as_such(capfd: pytest.CaptureFixture[str]) -> None:
    with Process() as process:
        process.ask(HungryReader())
        with pytest.raises(InternalError, match="had not enough memory"):
            process.answer()
    assert not capfd.readouterr().err


def test_one_that_failed_says_why_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with Process() as process:
        process.ask("no task")
        with pytest.raises(InternalError, match=r"^internal error: TypeError: 'str' object is not callable \(worker\.py:\d+\)"):
            process.answer()
    assert not capfd.readouterr().err


def test_the_collector_is_set_as_in_the_process_that_asks() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(123_456, 5, 6)
        with Process() as process:
            process.ask(Thresholds())
            assert process.answer()[:2] == (123_456, 5)
    finally:
        gc.set_threshold(*before)


def test_one_that_cannot_be_started_is_an_output_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_fork", lambda: False)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(OutputError, match="cannot start a decoding process: No such file"):
        Process()


def test_it_does_not_import_from_the_folder_it_is_started_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with Process() as process:
        process.ask(DECODE)
        assert process.answer() == next(DECODE())


def test_what_ends_us_at_the_terminal_does_not_end_it() -> None:
    with Process() as process:
        process.ask(DECODE)
        process.answer()
        assert os.getpgid(process.number) != os.getpgid(0)
