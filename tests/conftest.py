"""What all tests share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.places import CAPTURES

# Shared machines stall: a slow example is no failure. Failures print what reproduces them.
settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")

# A job in the background ignores SIGINT, under nohup SIGHUP, and so would every process that a test starts and then interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures."""
    return CAPTURES
