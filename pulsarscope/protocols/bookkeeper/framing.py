"""The arithmetic of frames, and the sizes of the fields at their start."""

from __future__ import annotations

from struct import Struct

from pulsarscope.dissect.contract.dissector import Framing
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES

LENGTH_BYTES = 4

HEAD = Struct(">BBH")
"""Version, operation, flags; in version 0, all four bytes are the operation."""

BODY = LENGTH_BYTES + HEAD.size
"""Start of the body in a frame of versions 0 to 2."""

LEAST_FRAME_BYTES = BODY

LOOKAHEAD_BYTES = 11
"""Length and (in version 3) the header up to the tag of the transaction id."""

FRAMING = Framing(LEAST_FRAME_BYTES, FRAME_HARD_MAX_BYTES, LOOKAHEAD_BYTES)
