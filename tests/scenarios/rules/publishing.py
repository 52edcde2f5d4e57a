"""Commands of a producer that closes."""

from __future__ import annotations

from tests.scenarios.commands import close_producer

CLOSED = close_producer(1)
