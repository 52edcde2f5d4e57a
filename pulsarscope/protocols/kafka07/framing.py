"""The arithmetic of frames, and the sizes of the fields at their start."""

from __future__ import annotations

from pulsarscope.dissect.contract.dissector import Framing
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES

HEADER_BYTES = 4
"""Size of the length, which does not count itself."""

ERROR_BYTES = 2

LEAST_FRAME_BYTES = HEADER_BYTES + ERROR_BYTES
"""Size of a response with nothing after its error."""

LOOKAHEAD_BYTES = 11
"""Length, type, count, length of the topic and its first letter; or length, error, size of a message and its magic."""

FRAMING = Framing(LEAST_FRAME_BYTES, FRAME_HARD_MAX_BYTES, LOOKAHEAD_BYTES, adds=HEADER_BYTES)
