"""What a dissector's session finds about a frame, as a row."""

from __future__ import annotations

from typing import Any, Protocol

from pulsarscope.dissect.frames import Origin
from pulsarscope.model.findings import Code
from pulsarscope.model.records import FindingRow


class Named(Protocol):
    """A frame, or what is kept of one."""

    file: int
    packet: int
    sub: int
    time: int

    @property
    def command(self) -> str | None:
        """None for bytes that are no frame."""


def frame_finding(known: Code, frame: Named, text: str, evidence: dict[str, Any], origin: Origin) -> FindingRow:
    """The finding that is `known`, of a frame: its command and name, then `text` without its end; evidence after the frame's name."""
    name = f"{frame.file}:{frame.packet}.{frame.sub}"
    source, connection, dissector = origin
    return FindingRow(
        source,
        frame.file,
        frame.packet,
        frame.sub,
        frame.time,
        connection,
        dissector,
        known.code,
        known.severity,
        known.layer,
        f"{frame.command or 'Bytes'} {name}: {text}.",
        {"frame": name, **evidence},
        known.hint,
    )
