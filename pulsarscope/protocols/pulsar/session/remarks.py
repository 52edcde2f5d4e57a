"""The findings of a session about single frames and messages."""

from __future__ import annotations

from pulsarscope.dissect.contract.events import Event, Remark
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.records import FrameRow, MessageRow


def report_notes(frame: FrameRow, notes: list[Note], events: list[Event]) -> None:
    """Report findings about more than the form of a frame. They are not in its row, which must not depend on what else is requested."""
    if notes:
        place = {"offset": frame.offset, "size": frame.size}
        events.extend([Remark(code, frame, text, place) for code, text in dict.fromkeys(notes)])


def incomplete(row: MessageRow) -> Remark:
    """Return the finding that chunks of a message are missing; `row`: row of the last chunk."""
    text = f"A message of {row.chunks} chunks ends unfinished with the chunk of {frame_name(row.file, row.packet, row.sub)}."
    return Remark("chunk-incomplete", row, text, {"chunks": row.chunks}, whole=True)
