"""Blocks of a pcapng file, read independently of the package."""

from __future__ import annotations

import struct
from typing import NamedTuple


class Block(NamedTuple):
    kind: int
    body: bytes

    def options(self, start: int) -> list[tuple[int, bytes]]:
        """Codes and values of options, which must have an end."""
        parsed: list[tuple[int, bytes]] = []
        while True:
            code, length = struct.unpack_from("<HH", self.body, start)
            if not code:
                assert start + 4 == len(self.body)
                return parsed
            parsed.append((code, self.body[start + 4 : start + 4 + length]))
            start += 4 + length + -length % 4


def blocks(data: bytes) -> list[Block]:
    parsed = []
    while data:
        kind, length = struct.unpack_from("<II", data)
        assert length % 4 == 0
        assert struct.unpack_from("<I", data, length - 4) == (length,)
        parsed.append(Block(kind, data[8 : length - 4]))
        data = data[length:]
    return parsed


def comments(data: bytes) -> list[str]:
    """Comments of the packets, "" for none."""
    parsed = []
    for block in blocks(data):
        if block.kind == 6:
            captured = struct.unpack_from("<I", block.body, 12)[0]
            start = 20 + captured + -captured % 4
            parsed.append(dict(block.options(start))[1].decode() if start < len(block.body) else "")
    return parsed
