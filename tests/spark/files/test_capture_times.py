from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[parquet]'")
from pulsarscope.spark.files.capture_times import NO_PACKETS, Times, TimesFolder, Window, widened


@pytest.mark.parametrize(
    ("window", "times", "overlaps"),
    [
        (Window(), (5, 9), True),
        (Window(9), (5, 9), True),
        (Window(10), (5, 9), False),
        (Window(until=5), (5, 9), True),
        (Window(until=4), (5, 9), False),
        (Window(6, 7), (5, 9), True),
        (Window(1, 20), (5, 9), True),
        (Window(0, 1), NO_PACKETS, False),
    ],
)
def test_a_window_has_both_its_ends(window: Window, times: Times, *, overlaps: bool) -> None:
    assert window.overlaps(times) is overlaps
    assert bool(window) is (window != Window())


def test_times_are_those_of_all_segments_whatever_their_order() -> None:
    flows = [[(1, time) for time in (7, 3, 9)], [(1, 4)]]
    assert widened(NO_PACKETS, flows) == (3, 9)  # type: ignore[arg-type]
    assert widened((5, 6), [[(1, 8)]]) == (5, 8)  # type: ignore[list-item]
    assert widened(NO_PACKETS, []) == NO_PACKETS


def test_a_capture_that_changes_while_it_is_read_is_not_noted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    folder = TimesFolder(str(tmp_path / "times"))
    note = folder.begin(str(tmp_path / "a"))
    (tmp_path / "a").write_bytes(b"12")
    note((5, 9))
    assert folder.reads([str(tmp_path / "a")], Window(20)) == [(True, 2)]
    note = folder.begin(str(tmp_path / "a"))
    note((5, 9))
    note((5, 9))
    paths = [str(tmp_path / name) for name in ("a", "gone")]
    assert folder.reads(paths, Window(20)) == [(False, 2), (True, 0)]
    folder.begin(paths[1])((5, 9))
    assert folder.reads(paths, Window(until=7)) == [(True, 2), (True, 0)]
    os.utime(tmp_path / "a", ns=(1, 1))
    assert folder.reads(paths, Window(20)) == [(True, 2), (True, 0)]


def test_a_folder_that_cannot_be_written_costs_a_second_read_alone(tmp_path: Path) -> None:
    (tmp_path / "times").touch()
    TimesFolder(str(tmp_path / "times")).begin(str(tmp_path / "times"))((5, 9))
    assert (tmp_path / "times").read_bytes() == b""
