"""Captures that once violated an invariant, found by `benchmarks/fuzz.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz import REGRESSIONS, fuzz_options
from tests.scenarios.invariants import Invariants


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.pcap")), ids=lambda path: path.stem)
def test_invariants_hold_on_what_once_broke_them(path: Path, tmp_path: Path) -> None:
    Invariants(tmp_path, fuzz_options()).check(path.read_bytes())
