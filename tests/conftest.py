"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from pulsarscope.model.garbage_collection import collect_rarely
from tests.places import CAPTURES, TESTS

# Shared machines stall: a slow example is no failure. Failures print what reproduces them.
settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")

# Where it is forbidden to keep compiled modules, as in many containers, each process that a test starts would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A job in the background ignores SIGINT, under nohup SIGHUP, and so would every process that a test starts and then interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


collect_rarely()  # else the collector takes a fifth of the time
os.environ.setdefault("PYTEST_XDIST_AUTO_NUM_WORKERS", str((os.cpu_count() or 1) + 1))  # some tests wait for the network or the clock
os.environ["XDG_CACHE_HOME"] = "/dev/null/none"  # nor indexes
os.environ["PULSARSCOPE_CONFIG"] = "off"  # whatever the configuration of who runs the tests says


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures."""
    return CAPTURES


def pytest_collection_finish() -> None:
    """Have the collector leave out all tests and modules."""
    gc.freeze()


UNCOUNTED = (
    "architecture",
    "benchmarks",
    "cli/test_engine_run.py",
    "dissect/test_registry.py",
    "docs",
    "engine/test_timelines.py",
    "protocols/kafka07/test_broker.py",
    "spark",
    "test_captured_twice.py",
    "test_captures.py",
    "test_proxy_legs.py",
)
"""Tests that go over whole captures or all commands: what only they reach does not count, and counting would triple their time."""


COUNTED_CASES = 2
"""Cases of one test that count in a process: a table of a hundred reaches hardly more than its first rows."""

_cases: Counter[str] = Counter()


def _counts(item: pytest.Item) -> bool:
    """Return True for a test that counts for the coverage: what only chance reaches does not."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return False
    test = item.nodeid.partition("[")[0]
    _cases[test] += 1
    return _cases[test] <= COUNTED_CASES and not item.path.relative_to(TESTS).as_posix().startswith(UNCOUNTED)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Leave other tests out of the coverage: the marker no_cover of pytest-cov does not in the processes of xdist."""
    tracer = None if _counts(item) else sys.gettrace()
    if tracer is not None:
        sys.settrace(None)
    yield
    if tracer is not None:
        sys.settrace(tracer)
