"""Commands of a producer that closes."""

from __future__ import annotations

from tests.scenarios import command_frame

CLOSED = command_frame("CLOSE_PRODUCER", producer_id=1, request_id=2**64 - 1)
