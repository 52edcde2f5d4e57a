"""Big-endian integers and short strings, read one after another from bytes that may end too soon."""

from __future__ import annotations

from struct import Struct

_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")


class WireError(Exception):
    """The bytes cannot be what they are read as."""


class ShortError(WireError):
    """The bytes end before the value does."""

    def __init__(self, needed: int) -> None:
        """`needed`: position after the last byte that the value takes."""
        super().__init__("the frame ends too soon")
        self.needed = needed


class Cursor:
    """Reads data[position:end]."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    def skip(self, size: int) -> int:
        """Go `size` bytes on; returns the position before.

        Raises:
            ShortError: there are fewer.
        """
        start = self.position
        if start + size > self.end:
            raise ShortError(start + size)
        self.position = start + size
        return start

    def int16(self) -> int:
        """A signed 16-bit integer."""
        value: int = _INT16.unpack_from(self.data, self.skip(2))[0]
        return value

    def int32(self) -> int:
        """A signed 32-bit integer."""
        value: int = _INT32.unpack_from(self.data, self.skip(4))[0]
        return value

    def int64(self) -> int:
        """A signed 64-bit integer."""
        value: int = _INT64.unpack_from(self.data, self.skip(8))[0]
        return value

    def short_string(self) -> bytes | None:
        """An int16 length and so many bytes; None for the length -1.

        Raises:
            WireError: any other negative length.
        """
        size = self.int16()
        if size < -1:
            raise WireError(f"a string of {size} bytes cannot be")
        if size < 0:
            return None
        start = self.skip(size)
        return self.data[start : start + size]
