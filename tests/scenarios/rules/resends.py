"""Refusals of messages."""

from __future__ import annotations

from tests.scenarios import command_frame

REFUSAL = command_frame("SEND_ERROR", producer_id=1, sequence_id=0, error="ChecksumError", message="Checksum failed on the broker")
