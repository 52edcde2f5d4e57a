"""Postcard, a protocol made up for the tests, and its dissector: all that a package of someone else needs to bring, in one module.

A frame: uint32 length of the rest · "PC" · kind · uint32 number · body. PUT (1): uint8 stamp, uint8 and a box, then the text; TAKEN (2):
uint8 trouble, 0 is none. Each PUT is answered by the TAKEN of its number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar

from pulsarscope.dissect.capabilities import FieldType, FollowKinds, FollowTest, Ranges, Vocabulary
from pulsarscope.dissect.contract import Candidate, Dissector, Framing
from pulsarscope.dissect.events import PRODUCE, Event, Exchange, SingleMessage, message_row
from pulsarscope.dissect.exchange import answer, request_of, response_of
from pulsarscope.dissect.frames import MALFORMED, OK, TRUNCATED, Decoded
from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Rules, where_of
from pulsarscope.dissect.session import Session, SessionContext, SessionFrames
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import ERROR, NOTE, WARNING, Code, table
from pulsarscope.model.records import FrameRow, MessageRow

HEAD = struct.Struct(">I2sBI")
COMMANDS = {1: "PUT", 2: "TAKEN"}
SENDERS = {"PUT": "client", "TAKEN": "server"}
FRAME_MAX_BYTES = 1 << 16

CODES = table(
    Code("frame-malformed", ERROR, "frame", "A card that cannot be read.", "Look at it with -x."),
    Code("frame-too-large", ERROR, "frame", "A card larger than any.", "Look at it with -x."),
    Code("frame-truncated", WARNING, "frame", "Part of a card.", "The rest is not in the capture."),
    Code("bytes-skipped", NOTE, "frame", "Bytes that are no card.", "They follow a gap."),
    Code("not-postcard", WARNING, "session", "Something else is spoken on the port.", "Check who uses it."),
)
LOST_CARD = Code("postcard-lost", ERROR, "session", "A card was not taken.", "Write again.")


class PostcardDissector(Dissector):
    """Postcards."""

    name = "postcard"
    ports = frozenset({7700})
    codes = CODES
    framing = Framing(HEAD.size + 1, FRAME_MAX_BYTES, HEAD.size)

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        """One whole card."""
        _, magic, kind, number = HEAD.unpack_from(data, start)
        at = start + HEAD.size
        if magic == b"PC" and kind == 1 and at + 2 <= end and at + 2 + data[at + 1] <= end:
            box_end = at + 2 + data[at + 1]
            fields = {"number": number, "stamp": data[at], "box": data[at + 2 : box_end].decode("utf-8", "backslashreplace")}
            return "PUT", fields, None, None, None, box_end - start, OK, None
        if magic == b"PC" and kind == 2 and at + 1 == end:
            return "TAKEN", {"number": number, "trouble": data[at]}, None, None, None, None, OK, None
        return None, None, None, None, None, None, MALFORMED, [("frame-malformed", f"no card of kind {kind}")]

    def decode_partial(self, data: bytes, start: int, end: int) -> Decoded:
        """The head of a card."""
        kind = data[start + 6] if end - start > 6 else 0
        return COMMANDS.get(kind), None, None, None, None, None, TRUNCATED, None

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
        """Whether a card may begin here."""
        del budget, checksums
        if end - position < HEAD.size:
            return Candidate(0, position + HEAD.size, "wait", 0)
        size, magic, kind, _ = HEAD.unpack_from(data, position)
        if magic != b"PC" or kind not in COMMANDS or not self.framing.smallest <= size + 4 <= FRAME_MAX_BYTES:
            return None
        return Candidate(size + 4, position + HEAD.size, "likely", 0)

    def find_candidate(self, data: bytes, position: int, end: int) -> int:
        """Where "PC" stands, four bytes further."""
        found = data.find(b"PC", position + 4, end)
        return found - 4 if found >= 0 else -1

    def opens(self, data: bytes, position: int, end: int) -> str | None:
        """Only a client sends a PUT."""
        found = self.recognise(data, position, end, 0)
        return SENDERS[COMMANDS[data[position + 6]]] if found is not None and found.size else None

    def sender(self, command: str) -> str | None:
        """The side of each."""
        return SENDERS.get(command)

    def foreign(self, name: str | None, port: int) -> tuple[str, str]:
        """Something else on our port."""
        return "not-postcard", f"{name or 'an unknown protocol'} is spoken on port {port}"

    def session(self, context: SessionContext) -> PostcardSession:
        """A new session."""
        return PostcardSession(context)

    @property
    def rules(self) -> Rules:
        """What judges a connection."""
        return Rules({LOST_CARD.code: LOST_CARD}, (LostCards,))

    @property
    def summary(self) -> Callable[[FrameRow], str]:
        """The words of a frame."""
        return lambda row: "  ".join(f"{key} {value}" for key, value in (row.fields or {}).items())

    @property
    def message_summary(self) -> Callable[[MessageRow], str]:
        """The words of a message."""
        return lambda row: f"{row.topic}  {row.payload_size} B"

    @property
    def explain(self) -> Callable[[str, Any], str | None]:
        """What 0 means."""
        return lambda name, value: "none" if name == "trouble" and value == 0 else None

    @property
    def vocabulary(self) -> Vocabulary:
        """The fields of both commands, and the stamp."""
        number = FieldType("number", "int64", "Number of the card.")
        stamp = FieldType("stamp", "int64", "What the card cost.")
        return Vocabulary(
            commands={
                "PUT": (number, FieldType("box", "string", "The box it is put in.")),
                "TAKEN": (number, FieldType("trouble", "int64", "0: none.")),
            },
            objects={"frame.extra": (stamp,), "message.extra": (stamp,)},
            values={"frame.command": tuple(SENDERS)},
        )

    @property
    def follow_kinds(self) -> FollowKinds:
        """A message is followed by the number of its card."""

        def of_card(name: str) -> FollowTest:
            if not name.isdigit():
                message = f"{name} is no number of a card"
                raise UsageError(message)
            return lambda row: (row.fields or {}).get("number") == int(name)

        return {"message": of_card}

    def ranges(self, data: bytes) -> Ranges:
        """The head, and the rest."""
        names = [(0, 4, "length", 0), (4, 6, "magic", 0), (6, 7, "kind", 0), (7, 11, "number", 0), (11, len(data), "body", 0)]
        return data, [one for one in names if one[1] <= len(data)]


class PostcardSession(Session):
    """The knowledge about one connection."""

    def observe(self, frames: SessionFrames, events: list[Event]) -> None:
        """Name the box of each card, and pair what was put with what was taken."""
        pairing = self.context.pairing
        for frame in frames:
            fields = frame.fields or {}
            if frame.command == "PUT" and fields:
                frame.topic, frame.num_messages = fields["box"], 1
                frame.extra = {"stamp": fields.pop("stamp")}
                pairing.ask(fields["number"], request_of(frame, str(fields["number"])))
                if frames.payload is not None:
                    row = message_row(frame, PRODUCE)
                    row.status, row.extra = "ok", frame.extra
                    events.append(SingleMessage(row, frames.payload))
            elif frame.command == "TAKEN" and fields:
                request = pairing.answer(fields["number"])
                if request is not None:
                    answer(frame, request)
                    frame.topic = request.topic
                    events.append(Exchange(request, response_of(frame), "TROUBLE" if fields["trouble"] else None))

    def finish(self, events: list[Event]) -> None:
        """Report the cards that nobody took."""
        events += map(Exchange, self.context.pairing.rest())


class LostCards(ConnectionRule):
    """Says which cards were not taken."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context

    def _taken(self, row: FrameRow) -> None:
        if row.fields and row.fields["trouble"]:
            number = row.fields["number"]
            self._context.report(LOST_CARD.code, where_of(row), f"Card {number} was not taken.", {"number": number})

    frames: ClassVar[Handlers] = {"TAKEN": _taken}
