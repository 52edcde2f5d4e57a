"""Tests over tables of cases: no case is left out, and each failure is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

MODULE = """
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize("end", ["open", "fin"])
@pytest.mark.parametrize(("times", "pause"), [(1, 2), pytest.param(3, 4, id="long"), (5, 6)])
def test_numbers(tmp_path, times, pause, end):
    assert not [*tmp_path.iterdir()]
    (tmp_path / "file").write_text(f"{times} {pause} {end}")
    assert (times, end) != (3, "fin"), "the wrong one"
    if times == 5:
        pytest.fail("none of five")


class TestMethods:
    used = False

    @pytest.mark.parametrize("text", ["a", "b"])
    def test_instances(self, text):
        assert not self.used
        self.used = True

    @pytest.mark.parametrize("text", ["a", "b", "c"])
    def test_skips(self, text):
        if text == "b":
            pytest.skip("not here")


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.xfail)])
def test_marks(number):
    assert number == 1


@pytest.mark.parametrize("seconds", [0, 0.5, 0])
def test_time(seconds):
    time.sleep(seconds)
"""

OF_SLOW_CASES = """
import pytest


@pytest.mark.parametrize("end", ["open", "fin"])
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_some(times, end):
    assert (times, end) not in {(2, "fin"), (3, "open")}


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_each(times):
    assert times != 3
"""


def run(folder: Path, *options: str, module: str = MODULE) -> str:
    """The output of pytest for the module."""
    test = folder / "test_of_tables.py"
    test.write_text(module)
    start = [sys.executable, "-m", "pytest", "-p", "tests.case_tables", "-p", "no:cacheprovider", "--rootdir", str(folder), "-rs"]
    arguments = [options[0].replace("MODULE", str(test)), *options[1:]] if options else [str(test)]
    return subprocess.run([*start, *arguments], capture_output=True, text=True, cwd=ROOT, check=False).stdout


@pytest.mark.slow
def test_all_cases_run_in_one_test_and_each_that_fails_is_named(tmp_path: Path) -> None:
    shown = run(tmp_path)
    assert "1 failed, 3 passed, 1 skipped, 1 xfailed" in shown
    assert "3 of 6 cases failed: times=3, pause=4, end='fin'; times=5, pause=6, end='open'; times=5, pause=6, end='fin'" in shown
    assert shown.count("AssertionError: the wrong one") == 1
    assert shown.count("Failed: none of five") == 2
    assert "1 of 3 cases: text='b': not here" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["MODULE", "--each-case"], "3 failed, 11 passed, 1 skipped, 1 xfailed"),
        (["MODULE::test_numbers[long-fin]"], "1 failed in"),
        (["MODULE::test_numbers[1-2-open]"], "1 passed in"),
    ],
)
def test_each_case_is_a_test_when_someone_asks_for_it(tmp_path: Path, options: list[str], expected: str) -> None:
    assert expected in run(tmp_path, *options)


@pytest.mark.slow
def test_slow_cases_are_a_test_of_their_own(tmp_path: Path) -> None:
    quick = run(tmp_path, "MODULE", "-m", "not slow", module=OF_SLOW_CASES)
    assert "1 failed, 2 deselected" in quick
    assert "1 of 4 cases failed: times=3, end='open'" in quick
    slow = run(tmp_path, "MODULE", "-m", "slow", module=OF_SLOW_CASES)
    assert "2 failed, 1 deselected" in slow
    assert "1 of 2 cases failed: times=2, end='fin'" in slow
    assert "1 of 3 cases failed: times=3" in slow
    for name in ("test_some", "test_some[slow]"):
        assert "1 of 2 cases failed: times=2, end='fin'" in run(tmp_path, f"MODULE::{name}", "-m", "slow", module=OF_SLOW_CASES)


@pytest.mark.slow
def test_the_case_that_takes_too_long_is_named(tmp_path: Path) -> None:
    assert "1 of 3 cases failed: seconds=0.5" in run(tmp_path, "MODULE::test_time", "--timeout=0.3")
