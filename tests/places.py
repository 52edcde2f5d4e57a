"""Folders that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAPTURES = ROOT / "captures"
DOCS = ROOT / "docs"
PACKAGE = ROOT / "pulsarscope"
TESTS = ROOT / "tests"
