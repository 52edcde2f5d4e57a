"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from hypothesis import settings

import pulsarscope
from pulsarscope.model.garbage_collection import collect_rarely
from tests.case_tables import COUNTED_CASES, pytest_addoption, pytest_pycollect_makeitem
from tests.places import CAPTURES, TESTS

__all__ = ["pytest_addoption", "pytest_pycollect_makeitem"]

# Shared machines stall: a slow example is not a failure. Failures print how to reproduce them.
settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")

# Where compiled modules must not be kept, as in many containers, each process started by a test would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A job in the background ignores SIGINT, under nohup also SIGHUP, and so would every process that a test starts and then interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


collect_rarely()  # otherwise the collector takes a fifth of the time
os.environ.setdefault("PYTEST_XDIST_AUTO_NUM_WORKERS", str((os.cpu_count() or 1) + 1))  # some tests wait for the network or the clock
os.environ["XDG_CACHE_HOME"] = "/dev/null/none"  # disables indexes
os.environ["PULSARSCOPE_CONFIG"] = "off"  # ignores the configuration of the user who runs the tests


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures."""
    return CAPTURES


UNCOUNTED = (
    "architecture",
    "benchmarks",
    "cli/test_engine_run.py",
    "dissect/plugins/test_registry.py",
    "docs",
    "engine/test_timelines.py",
    "protocols/kafka07/test_broker.py",
    "spark",
    "test_captured_twice.py",
    "test_captures.py",
    "test_proxy_legs.py",
)
"""Tests over whole captures or all commands: what only they reach does not count, and counting would triple their time."""

_COUNTED = pytest.StashKey[bool]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose the tests that count for coverage, equally in every process: what only random inputs reach does not count."""
    cases: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        cases[test] += 1
        by_chance = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        is_left_out = by_chance or item.path.relative_to(TESTS).as_posix().startswith(UNCOUNTED)
        item.stash[_COUNTED] = cases[test] <= COUNTED_CASES and not is_left_out


_tracer: Any = None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import all modules, which counts for coverage, before tests are read: afterwards, only what tests reach counts."""
    global _tracer  # noqa: PLW0603 - one of the process
    _tracer = sys.gettrace()
    if _tracer is not None:  # otherwise a module would count only if a counted test imported it first
        runs_tests = hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None)
        for module in walk_packages(pulsarscope.__path__, "pulsarscope.") if runs_tests else ():
            if not module.name.startswith(("pulsarscope.__main__", "pulsarscope.spark")):
                import_module(module.name)
        sys.settrace(None)


def pytest_collection_finish() -> None:
    """Exclude all tests and modules from garbage collection."""
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Leave other tests out of coverage: the marker no_cover of pytest-cov does not do this in processes of xdist."""
    if item.stash[_COUNTED]:
        sys.settrace(_tracer)
    yield
    sys.settrace(None)
