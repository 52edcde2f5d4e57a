"""Folds over the rows of sessions: latency, statistics, diagnosis, comparison. Knows no one protocol."""
