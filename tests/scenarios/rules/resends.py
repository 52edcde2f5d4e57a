"""Refusals of messages."""

from __future__ import annotations

from tests.scenarios.commands import send_error

REFUSAL = send_error("ChecksumError", "Checksum failed on the broker")
