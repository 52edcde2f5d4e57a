"""The dissector contract, and cutting streams into frames: lengths, recognition by content, resync. Knows no one protocol."""

from __future__ import annotations

from pulsarscope.dissect.contract import Dissector
from pulsarscope.dissect.frame_splitter import Frame, FrameSplitter

__all__ = ["Dissector", "Frame", "FrameSplitter"]
