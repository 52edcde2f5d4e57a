"""A reader of big-endian integers and short strings from bytes that may end too soon."""

from __future__ import annotations

from struct import Struct

_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")


class ParseError(Exception):
    """The bytes are malformed."""


class ShortError(ParseError):
    """The bytes end within a value."""

    def __init__(self, needed: int) -> None:
        """Create the error with the position after the last byte of the value."""
        super().__init__("the frame ends too soon")
        self.needed = needed


class Cursor:
    """A position in data[position:end], which each read advances."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    def skip(self, size: int) -> int:
        """Skip `size` bytes, and return the position before them. Raises ShortError if there are fewer."""
        start = self.position
        if start + size > self.end:
            raise ShortError(start + size)
        self.position = start + size
        return start

    def int16(self) -> int:
        """Read a signed 16-bit integer."""
        value: int = _INT16.unpack_from(self.data, self.skip(2))[0]
        return value

    def int32(self) -> int:
        """Read a signed 32-bit integer."""
        value: int = _INT32.unpack_from(self.data, self.skip(4))[0]
        return value

    def int64(self) -> int:
        """Read a signed 64-bit integer."""
        value: int = _INT64.unpack_from(self.data, self.skip(8))[0]
        return value

    def short_string(self) -> bytes | None:
        """Read a string after an int16 length; return None for the length -1. Raises ParseError for any other negative length."""
        size = self.int16()
        if size < -1:
            raise ParseError(f"a string of {size:,} bytes is impossible")
        if size < 0:
            return None
        start = self.skip(size)
        return self.data[start : start + size]
