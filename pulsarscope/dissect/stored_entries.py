"""Entries of one protocol in the storage of another: what opens them into messages."""

from __future__ import annotations

from collections.abc import Callable

from pulsarscope.dissect.events import MessageEntry
from pulsarscope.dissect.session import SessionSettings
from pulsarscope.model.records import FrameRow

OpenStored = Callable[[FrameRow, tuple[int, int], bytes], MessageEntry | None]
"""Opener of a stored entry: (frame that brings it, its ledger and its number in that, payload) → its messages; None for no whole one."""

MakeStoredOpener = Callable[[SessionSettings], OpenStored | None]
