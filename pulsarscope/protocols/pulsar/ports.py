"""Ports on which brokers listen by default."""

from __future__ import annotations

PLAIN_PORT, TLS_PORT = 6650, 6651
