"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.places import ROOT

# Shared machines stall: a slow example is no failure. Failures print what reproduces them.
settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures."""
    return ROOT / "captures"
