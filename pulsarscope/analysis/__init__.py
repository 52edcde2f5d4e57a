"""Folds over the rows of sessions: the rules of the dissectors, latency, statistics. Knows no one protocol."""

from __future__ import annotations

from pulsarscope.engine.packed_facts import keep
from pulsarscope.engine.rule_engine import LOSS_CODES, Closed, EmitFact, RuleEngine

__all__ = ["LOSS_CODES", "Closed", "EmitFact", "RuleEngine", "keep"]
