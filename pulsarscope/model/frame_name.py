"""The name of a frame: the packet that completed it, and its position among the frames that this packet completed."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"(\d{1,9}):(\d{1,11})(?:\.(\d{1,7}))?", re.ASCII)


def frame_name(file: int | None, packet: int | None, sub: int | None) -> str:
    """Return a name as text: "0:30.2" is the second frame that packet 30 of file 0 completed."""
    return f"{file}:{packet}.{sub}"


class FrameName(NamedTuple):
    """The name of a frame. Names sort in the order of their frames in the capture."""

    file: int
    """Position of the file in the run's list, from 0."""
    packet: int
    """Number of the packet in its file, from 1."""
    sub: int
    """Number of the frame among those that the packet completed, from 1."""

    def __str__(self) -> str:
        return frame_name(*self)

    @classmethod
    def parse(cls, text: str) -> FrameName | None:
        """Return the name in a text, with sub 0 for the name of a packet ("0:30"); None when the text is not a name."""
        match = _NAME.fullmatch(text)
        return None if match is None else cls(*map(int, match.groups("0")))
