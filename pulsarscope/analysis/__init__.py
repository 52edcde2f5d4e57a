"""Folds over rows: statistics, latencies, diagnosis, comparison, packet selection. No module here knows a protocol."""
