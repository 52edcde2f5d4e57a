"""Folds over the rows of sessions: the rules of the dissectors, latency, statistics. Knows no one protocol."""

from __future__ import annotations

from pulsarscope.analysis.doctor import LOSS_CODES, Closed, Doctor, Tell
from pulsarscope.analysis.story import keep

__all__ = ["LOSS_CODES", "Closed", "Doctor", "Tell", "keep"]
