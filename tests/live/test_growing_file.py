"""Rows of a growing capture are those of the final capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from pulsarscope.capture import Inputs
from pulsarscope.engine.local import Run
from pulsarscope.engine.options import Options
from pulsarscope.live.growing_file import FollowedBlocks
from pulsarscope.model.errors import CaptureError
from pulsarscope.protocols import make_dissectors
from tests.places import CAPTURES
from tests.scenarios.command_line import execute_here

OPTIONS = Options(frozenset({"frame", "connection", "message", "exchange", "finding"}), rules=True, dissectors=make_dissectors)


class Steps(Event):
    """An event whose wait runs the next step instead, and that is set after the last one."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self._steps = list(steps)

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        if self._steps:
            self._steps.pop(0)()
        else:
            self.set()
        return self.is_set()


def followed(path: Path, *steps: Callable[[], object]) -> tuple[list[object], list[str]]:
    """Return the rows of a file that is followed during some steps, and the messages."""
    said: list[str] = []
    blocks = FollowedBlocks(str(path), said.append)
    blocks._stopped = Steps(*steps)
    with closing(blocks):
        return [row for batch in Run(Inputs(blocks.paths, None, []), OPTIONS, blocks) for row in batch.rows], said


def rows_of(*paths: Path) -> list[object]:
    return [row for batch in Run(Inputs(list(map(str, paths)), None, []), OPTIONS) for row in batch.rows]


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as file:
            file.write(data)

    return step


@pytest.mark.parametrize("name", ["quickstart.pcapng", "rw-shuffle.pcap", "go-nack-dlq-gz.pcap.gz"])
def test_a_file_that_comes_later_and_in_pieces_has_its_rows(name: str, tmp_path: Path) -> None:
    data = (CAPTURES / name).read_bytes()
    cuts = [0, 2, 30, 1_000, 5_001, len(data) // 2, len(data)]
    path = tmp_path / name
    rows, said = followed(path, *(append(path, data[start:end]) for start, end in pairwise(cuts)))
    assert (rows, said) == (rows_of(path), [])


@pytest.mark.parametrize(
    ("name", "what"),
    [("errors.pcap", "was replaced"), ("ipv6.pcap", "is shorter than before"), ("go-tls13.pcap", "was written anew")],
)
def test_what_comes_in_its_place_is_the_next_file(name: str, what: str, tmp_path: Path) -> None:
    first, second = CAPTURES / "quickstart.pcapng", CAPTURES / name
    path = tmp_path / "grows.pcap"
    path.write_bytes(first.read_bytes())

    def renew() -> None:
        if what == "was replaced":
            path.rename(tmp_path / "old.pcap")
        path.write_bytes(second.read_bytes())

    rows, said = followed(path, lambda: None, renew)
    assert [f"{path} {what}: it is read from its beginning, as file 1"] == said or "was written anew" in said[0]
    expected = [row for row in rows_of(first, second) if getattr(row, "code", None) != "time-backwards"]
    assert [row for row in rows if getattr(row, "code", None) != "time-backwards"] == expected


def test_bytes_behind_the_stop_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "grows.pcapng"
    data = (CAPTURES / "quickstart.pcapng").read_bytes()
    path.write_bytes(data[:20_000])
    rows, _ = followed(path)
    assert 0 < len(rows) < len(rows_of(CAPTURES / "quickstart.pcapng"))


@pytest.mark.parametrize(
    "command",
    [
        ("stats",),
        ("diagnose", "--fail-on", "never"),
        ("follow", "--topic", "stuck-t-20"),
        ("follow", "--consumer", "stuck"),
        ("follow", "--message", "96:2"),
        ("messages", "-Y", 'subscription == "stuck"'),
    ],
    ids=" ".join,
)
def test_commands_say_of_a_file_that_grew_what_they_say_of_it_whole(
    command: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "grows.pcap"
    data = (CAPTURES / "stuck-consumer.pcap").read_bytes()
    path.write_bytes(data)
    whole = execute_here(*command, str(path))
    path.write_bytes(data[:20_000])
    steps = append(path, data[20_000:50_000]), append(path, data[50_000:])
    monkeypatch.setattr("pulsarscope.live.growing_file.Event", lambda: Steps(*steps))
    grown = execute_here(*command, str(path), "--follow-file")
    assert (grown.returncode, grown.stdout) == (0, whole.stdout)
    assert grown.stderr.decode() == f"pulsarscope: following {path}, until Ctrl-C\n"


@pytest.mark.parametrize("command", ["decode", "stats", "diagnose"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tail", "2"), "cannot be combined with --tail"),
        (("--redact",), "--redact"),
        (("-j", "2"), "--jobs"),
        (("b.pcap",), "takes one file"),
    ],
)
def test_options_that_need_the_whole_file_are_refused(command: str, options: tuple[str, ...], message: str) -> None:
    if "--tail" in options and command != "decode":
        return
    refused = execute_here(command, str(CAPTURES / "quickstart.pcapng"), "--follow-file", *options)
    assert refused.returncode == 2
    assert message in refused.stderr.decode()


def test_a_capture_that_never_comes_is_missing_not_empty(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"in\.pcap cannot be read: No such file or directory"):
        followed(tmp_path / "in.pcap", lambda: None)
