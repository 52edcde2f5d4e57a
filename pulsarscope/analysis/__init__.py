"""Folds over the rows of sessions: the rules of the dissectors, latency, statistics. Knows no one protocol."""

from __future__ import annotations

from pulsarscope.analysis.doctor import Closed, Doctor

__all__ = ["Closed", "Doctor"]
