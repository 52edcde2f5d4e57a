"""Postcard, a protocol made up for the guide docs/adding-a-protocol.md."""

from __future__ import annotations

import struct

from pulsarscope import wire

HEAD = struct.Struct(">I2sBI")
COMMANDS = {1: "PUT", 2: "TAKEN"}
LOST = wire.Code("postcard-lost", wire.ERROR, "session", "A card was not taken.", "Write again.")


class PostcardDissector(wire.Dissector):
    """Postcard on port 7700."""

    name = "postcard"
    ports = frozenset({7700})
    framing = wire.Framing(smallest=HEAD.size + 1, largest=1 << 16, lookahead=HEAD.size)
    codes = {LOST.code: LOST}

    def decode(self, data: bytes, start: int, end: int) -> wire.Decoded:
        """Read one card."""
        _, magic, kind, number = HEAD.unpack_from(data, start)
        body = start + HEAD.size
        if magic == b"PC" and kind == 1 and body + 2 <= end and body + 2 + data[body + 1] <= end:
            text = body + 2 + data[body + 1]
            box = data[body + 2 : text].decode("utf-8", "backslashreplace")
            return "PUT", {"number": number, "stamp": data[body], "box": box}, None, None, None, text - start, wire.OK, None
        if magic == b"PC" and kind == 2 and body + 1 == end:
            return "TAKEN", {"number": number, "trouble": data[body]}, None, None, None, None, wire.OK, None
        return None, None, None, None, None, None, wire.MALFORMED, [("frame-malformed", f"not a card, of kind {kind}")]

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool) -> wire.Candidate | None:
        """Look for the magic, a known kind and a possible length."""
        seen = position + HEAD.size
        if seen > end:
            return wire.Candidate(0, seen, "wait", 0)
        length, magic, kind, _ = HEAD.unpack_from(data, position)
        if magic != b"PC" or kind not in COMMANDS or not self.framing.smallest <= length + 4 <= self.framing.largest:
            return None
        return wire.Candidate(length + 4, seen, "likely", 0)

    def find_candidate(self, data: bytes, position: int, end: int) -> int:
        """Jump to the next magic."""
        return max(data.find(b"PC", position + 4, end) - 4, -1)

    def opens(self, data: bytes, position: int, end: int) -> str | None:
        """Return the sender of the first frame of a stream, which proves the protocol by itself."""
        found = self.recognise(data, position, end, 0, checksums=False)
        return self.sender(COMMANDS[data[position + 6]]) if found and found.proof in ("sure", "likely") else None

    def sender(self, command: str) -> str | None:
        """Return the sender of a command, for captures that begin in the middle."""
        return {"PUT": "client", "TAKEN": "server"}.get(command)

    def session(self, context: wire.SessionContext) -> wire.Session:
        """Begin a connection."""
        return PostcardSession(context)

    @property
    def vocabulary(self) -> wire.Vocabulary:
        """Fields that a filter can name."""
        number, stamp = wire.FieldType("number", "int64", "Number of the card."), wire.FieldType("stamp", "int64", "Price of the card.")
        put = (number, wire.FieldType("box", "string", "The box it is put in."))
        taken = (number, wire.FieldType("trouble", "int64", "0: none."))
        return wire.Vocabulary({"PUT": put, "TAKEN": taken}, {"frame.extra": (stamp,), "message.extra": (stamp,)})

    @property
    def follow_kinds(self) -> wire.FollowKinds:
        """A card is followed by its number."""
        return {"message": lambda name: lambda row: str((row.fields or {}).get("number")) == name}


class PostcardSession(wire.Session):
    """Pairs the cards with their answers."""

    def observe(self, frames: wire.SessionFrames, events: list[wire.Event]) -> None:
        """Complete the frames, and report their events."""
        for frame in frames:
            fields = frame.fields or {}
            if frame.command == "PUT":
                frame.topic, frame.num_messages, frame.extra = fields["box"], 1, {"stamp": fields.pop("stamp")}
                self.ask(frame, fields["number"], events)
                if frames.payload is not None:
                    message = wire.message_row(frame, "produce")
                    message.extra = frame.extra
                    events.append(wire.SingleMessage(message, frames.payload))
            elif frame.command == "TAKEN":
                trouble = fields["trouble"]
                self.answer(frame, fields["number"], events, error=f"trouble {trouble}" if trouble else None)
                if trouble:
                    events.append(wire.Remark(LOST.code, frame, f"card {fields['number']} is not taken", {"trouble": trouble}))
