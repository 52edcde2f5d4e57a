"""Tests over tables of cases, with all cases of a test in one item of pytest, as reporting most cases takes longer than running them.

Cases stay independent: all of them run, each with its own folder and instance, and a failure names every case that failed.
Cases marked slow are an item of their own beside the others. `--each-case`, or the name of one case
(`test_file.py::test[4-100-open]`), makes an item of each, as pytest does by default.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import pytest

EACH_CASE = "--each-case"

COUNTED_CASES = 2
"""Cases of a test that count for coverage: a table of a hundred hardly reaches more than its first rows."""

TIMEOUT = "from pytest-timeout"

SLOW = "slow"

SLOW_CASES = f"[{SLOW}]"
"""End of the name of the slow cases of a test, in the form of a case: the name of the test alone chooses these, too."""

SLOW_SECONDS_MAX = 900
"""Seconds for all slow cases of a test, any of which alone could take a good part of those for a test."""

_SHARED = frozenset({"tmp_path", "captures"})
"""Fixtures that the cases of a test may share; each case gets a folder within the first."""

_MARKED: type[Any] = type(pytest.param())

Case = Mapping[str, Any]
"""Values of one case by argument."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our option."""
    parser.addoption(EACH_CASE, action="store_true", help="make a test of each case of a table, rather than one of all")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[TableItem] | None:
    """Make one item of all cases of a table, and one of those that are slow, unless single cases are requested."""
    names_cases = any("[" in chosen.removesuffix(SLOW_CASES) for chosen in collector.config.args)
    if not name.startswith("test") or names_cases or collector.config.getoption(EACH_CASE):
        return None
    return table_items(collector, name, obj)


class FailedCasesError(Exception):
    """Raised if cases of a test failed."""

    def __init__(self, failures: Sequence[tuple[Case, pytest.ExceptionInfo[BaseException]]], count: int) -> None:
        super().__init__(f"{len(failures)} of {count} cases failed: {'; '.join(case_name(case) for case, _ in failures)}")
        self.failures = failures


class TableItem(pytest.Function):
    """A test with all its cases."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002 - of the base
        """Return each case that failed, with its traceback."""
        if not isinstance(excinfo.value, FailedCasesError):
            return super().repr_failure(excinfo)
        shown = [f"______ {case_name(case)}\n{super(TableItem, self).repr_failure(failure)}" for case, failure in excinfo.value.failures]
        return "\n\n".join([*shown, str(excinfo.value)])


def case_name(case: Case) -> str:
    """Return the arguments of a case as text."""
    return ", ".join(f"{name}={value!r:.200}" for name, value in case.items())


def table_items(collector: Any, name: str, test: Any) -> list[TableItem] | None:
    """Return the items of a test over a table; None if the test has no table, or each of its cases needs its own item."""
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    tables = [mark for mark in marks if mark.name == "parametrize"]
    if not tables or not inspect.isfunction(test) or hasattr(test, "hypothesis"):
        return None
    others = [mark for mark in marks if mark.name != "parametrize"]
    if not all(map(_is_slow, others)) or any(True for _ in collector.iter_markers()):
        return None  # marks may choose, skip or time single tests
    cases = _cases(tables)
    is_method = inspect.isclass(collector.obj)
    parameters = [*inspect.signature(test).parameters.values()]
    if not cases or not {parameter.name for parameter in parameters[is_method:]} <= {*cases[0][0]} | _SHARED:
        return None
    signature = inspect.Signature([parameter for parameter in parameters if parameter.name not in cases[0][0]])
    items: list[TableItem] = []
    for slow in (False, True):
        chosen = [case for case, is_slow in cases if (is_slow or bool(others)) == slow]
        if chosen:
            items.append(_item(collector, f"{name}{SLOW_CASES}" if items else name, test, chosen, signature, slow=slow))
    return items


def _item(collector: Any, name: str, test: Any, cases: Sequence[Case], signature: inspect.Signature, *, slow: bool) -> TableItem:
    def run(**shared: Any) -> None:
        _run(test, (collector.obj,) if inspect.isclass(collector.obj) else (), cases, shared)

    # From the wrapped function, pytest takes the place of the test.
    run.__dict__ |= {"__wrapped__": test, "__signature__": signature, "pytestmark": []}
    item: TableItem = TableItem.from_parent(collector, name=name, callobj=run)
    if slow:
        item.add_marker(SLOW)
        item.add_marker(pytest.mark.timeout(SLOW_SECONDS_MAX))
    return item


def _is_slow(mark: pytest.Mark) -> bool:
    return mark.name == SLOW and not mark.args and not mark.kwargs


def _cases(tables: Sequence[pytest.Mark]) -> list[tuple[Case, bool]] | None:
    """Return the cases of a test, in the order of pytest, and which are marked slow; None if some have other marks or more than values."""
    of_tables: list[list[tuple[Case, bool]]] = []
    for table in tables:
        if len(table.args) != 2 or not {*table.kwargs} <= {"ids"}:
            return None
        names, rows = table.args
        names = names.replace(" ", "").strip(",").split(",") if (is_text := isinstance(names, str)) else [*names]
        bare = is_text and len(names) == 1
        rows = [row if isinstance(row, _MARKED) else pytest.param(*(row,) if bare else row) for row in rows]
        if not all(_is_slow(getattr(mark, "mark", mark)) for row in rows for mark in row.marks):
            return None
        of_tables.append([(dict(zip(names, row.values, strict=True)), bool(row.marks)) for row in rows])
    return [
        ({name: value for part, _ in parts for name, value in part.items()}, any(slow for _, slow in parts))
        for parts in product(*of_tables)
    ]


def _run(test: Callable[..., object], classes: Sequence[type], cases: Sequence[Case], shared: Mapping[str, Any]) -> None:
    """Run a test, possibly a method of a class, with each case. Raises FailedCasesError; skips if some cases did and none failed."""
    failures: list[tuple[Case, pytest.ExceptionInfo[BaseException]]] = []
    skipped: list[str] = []
    for number, case in enumerate(cases):
        if number == COUNTED_CASES:
            sys.settrace(None)
        fixtures = dict(shared)
        if "tmp_path" in shared:
            fixtures["tmp_path"] = folder = shared["tmp_path"] / str(number)
            folder.mkdir()
        try:
            test(*[made() for made in classes], **fixtures, **case)
        except pytest.skip.Exception as skip:
            skipped.append(f"{case_name(case)}: {skip}")
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever makes a test fail
            failures.append((case, pytest.ExceptionInfo.from_exception(error)))
            if TIMEOUT in str(error):
                break  # the timer of the test has expired, and covers no further case
    if failures:
        raise FailedCasesError(failures, len(cases))
    if skipped:
        pytest.skip(f"{len(skipped)} of {len(cases)} cases: {'; '.join(skipped)}")
