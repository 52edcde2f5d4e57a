"""The acceptance table: captures are made once, a wrong result gives no figure, a target is reached or missed."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from benchmarks import acceptance, traffic
from benchmarks.acceptance import COMPILED, PYTHON, READERS, ROWS, SUITE, Captures, Row, judge, seconds, tool_of, unlike
from benchmarks.measure import TOOLS, Measurement, count
from benchmarks.traffic import Content


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny", "sync"):
        monkeypatch.setitem(acceptance.GENERATED, name, partial(traffic.steady, name=name, megabytes=0.2, seed=1))


@pytest.fixture
def captures(small: None, tmp_path: Path) -> Captures:
    del small
    return Captures(tmp_path / "suite", {})


def row(runs: str, target: float | None, bound: str = acceptance.AT_MOST) -> Row:
    return Row("x", "what", runs, seconds, bound, {PYTHON: target}, "{:.0f} s")


@pytest.mark.parametrize("promise", ROWS, ids=lambda promise: f"{promise.letter}: {promise.what}")
def test_a_row_names_tools_and_captures_that_there_are(promise: Row) -> None:
    given = {"given-tiny", "mixed", "shortconn"}
    for run in promise.runs.split():
        tool, _, capture = run.partition(":")
        assert tool in SUITE
        assert promise.targets.keys() <= READERS.keys()
        assert capture.removesuffix("-x10").removesuffix("-apart") in {*acceptance.GENERATED, "disorder", "quickstart", *given}


def test_a_capture_is_made_once_and_its_content_is_known(captures: Captures) -> None:
    path, content = captures.get("tiny")
    made = path.stat().st_mtime_ns
    assert captures.get("tiny") == (path, content)
    assert path.stat().st_mtime_ns == made
    assert content.frames > content.messages > 0


def test_ten_copies_contain_ten_times_as_much_and_disorder_the_same(captures: Captures) -> None:
    _, content = captures.get("sync")
    path, of_copies = captures.get("sync-x10")
    assert of_copies == content.times(10)
    found = Measurement(path, "frames", TOOLS["frames"])
    count(found, path.parent)
    assert found.frames == of_copies.frames
    assert captures.get("disorder")[1] == captures.get("tiny")[1]


def test_files_apart_contain_together_what_that_many_copies_do(captures: Captures) -> None:
    _, content = captures.get("sync")
    path, of_files = captures.get("sync-apart")
    assert of_files == content.times(6)
    found = Measurement(path, "frames", TOOLS["frames"])
    count(found, path.parent)
    assert found.frames == of_files.frames
    assert found.size == sum(file.stat().st_size for file in path.iterdir())


def test_a_capture_half_made_is_made_again(captures: Captures) -> None:
    path, content = captures.get("tiny")
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    path.with_suffix(".json").unlink()
    assert captures.get("tiny") == (path, content)
    assert path.read_bytes() == whole


def test_the_content_of_a_given_capture_is_what_the_peer_finds(captures: Captures, tmp_path: Path) -> None:
    path, content = captures.get("sync")
    given = Captures(tmp_path / "other", {"mixed": path})
    assert given.get("mixed") == (path, Content(content.frames, 0))
    assert given.get("mixed-x10")[1] == Content(10 * content.frames, 0)


@pytest.mark.parametrize(
    ("target", "bound", "verdict"),
    [
        (1000, acceptance.AT_MOST, "reached"),
        (1000, acceptance.AT_LEAST, "**missed**"),
        (0, acceptance.AT_LEAST, "reached"),
        (0, acceptance.AT_MOST, "**missed**"),
        (None, acceptance.AT_MOST, ""),
    ],
)
def test_a_figure_is_held_against_its_target(
    captures: Captures, monkeypatch: pytest.MonkeyPatch, target: float | None, bound: str, verdict: str
) -> None:
    monkeypatch.setattr(acceptance, "interleave", lambda runs, _: runs[0].cpu.append(10))
    assert judge(row("help:quickstart", target, bound), PYTHON, captures, 1)[:2] == ("10 s", verdict)


def test_a_fast_wrong_answer_is_none(captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITE, "frames", TOOLS["frames"]._replace(command="echo {}"))
    figure, verdict, _ = judge(row("frames:sync", 1000), PYTHON, captures, 1)
    assert figure.startswith("frames finds 0 of ")
    assert verdict == "**wrong**"


@pytest.mark.parametrize(("reader", "value"), [(COMPILED, "require"), (PYTHON, "off")])
def test_our_tools_run_with_the_reader_of_the_row_and_peers_as_they_are(reader: str, value: str) -> None:
    assert tool_of("frames", reader).command.startswith(f"env PULSARSCOPE_NATIVE={value} ")
    assert tool_of("dpkt", reader) == SUITE["dpkt"]


def test_a_reader_that_is_not_there_has_no_figure(captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "find_spec", lambda _: None)
    promise = row("help:quickstart", 1)._replace(targets={COMPILED: 1})
    assert judge(promise, COMPILED, captures, 1)[:2] == ("pulsarscope_native is not installed", "not measured")


def test_messages_are_checked_too() -> None:
    run = Measurement(acceptance.QUICKSTART, "all", TOOLS["all"], found=Counter(SEND=5, messages=3))
    assert acceptance.wrong([run], [Content(5, 3)]) == []
    assert acceptance.wrong([run], [Content(5, 4)]) == ["all finds 3 of 4 messages of quickstart.pcapng"]


def test_a_tool_that_fails_has_no_figure(captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITE, "help", SUITE["help"]._replace(command="false"))
    assert judge(row("help:quickstart", 1), PYTHON, captures, 1)[:2] == ("help: exit code 1: []", "**wrong**")


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ("frames:mixed", "no mixed capture was given"),
        ("frames:mixed-x10", "no mixed capture was given"),
        ("odd:sync", "odd is not installed"),
    ],
)
def test_what_is_missing_is_reported(captures: Captures, monkeypatch: pytest.MonkeyPatch, runs: str, reason: str) -> None:
    monkeypatch.setitem(SUITE, "odd", TOOLS["frames"]._replace(needs="odd"))
    assert judge(row(runs, 1), PYTHON, captures, 1)[:2] == (reason, "not measured")


def test_frames_that_differ_are_counted(captures: Captures) -> None:
    one, other = (Measurement(acceptance.QUICKSTART, "same", SUITE["same"]) for _ in range(2))
    one.found, other.found = Counter("abc"), Counter("abd")
    assert unlike([one, other]) == 2
    disorder = next(row for row in ROWS if row.figure is unlike)
    assert judge(disorder, PYTHON, captures, 1)[:2] == ("0", "reached")


@pytest.mark.usefixtures("small")
def test_the_tables_are_printed_and_a_missed_target_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "ROWS", (row("frames:sync", -1), row("frames:mixed", 1)))
    with pytest.raises(SystemExit) as end:
        acceptance.main([str(tmp_path), "--rounds", "1", "--markdown", str(tmp_path / "table.md")])
    assert end.value.code == 1
    table = capsys.readouterr().out
    assert table == (tmp_path / "table.md").read_text()
    assert "≤ -1 s | **missed** |" in table
    assert "| x | what | Python | no mixed capture was given | ≤ 1 s | not measured |" in table
    assert "| x | pulsarscope decode (frames, NDJSON) | Python | sync.pcap | 0.2 |" in table
