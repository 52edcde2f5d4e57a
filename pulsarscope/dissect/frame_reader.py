"""The reader of the frames of one connection: the whole interface.

`conversation.Conversation` is its reference in Python, and a compiled reader can stand beside it as long as it gives the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pulsarscope.dissect.frames import FrameBatch

if TYPE_CHECKING:
    from pulsarscope.dissect.contract import Dissector
    from pulsarscope.tcp.pieces import Item


class StreamAccount(NamedTuple):
    """The bytes of one stream by what became of them, beside those in whole frames."""

    frames: int = 0
    """Whole frames, malformed ones included."""
    skipped: int = 0
    """Bytes that are not framed."""
    cut: int = 0
    """Bytes of heads of frames whose rest fell into a gap."""
    tail: int = 0
    """Bytes of an unfinished last frame."""
    proxy_source: str | None = None
    """Source endpoint of a PROXY protocol header."""


class FrameReader(Protocol):
    """Reads the frames of one connection. The batches depend on the bytes and their packets alone, not on how they are cut into blocks."""

    dissector: Dissector | None
    """The protocol, once the bytes have shown it."""

    @property
    def foreign(self) -> str | None:
        """Name of another protocol that the first bytes show."""

    def feed(self, items: Sequence[Sequence[Item]]) -> FrameBatch:
        """Read the next segments and gaps of stream 0 and of stream 1, each in stream order."""

    def finish(self, moment: int, *, is_open: bool = False) -> FrameBatch:
        """Read the rest: packet `moment` was the last one; `is_open`: neither a FIN nor a RST ended the connection."""

    def assign(self, directions: Sequence[str]) -> None:
        """Give the frames that follow the directions of stream 0 and stream 1."""

    def waits(self) -> int:
        """Return how many bytes are held for frames that are not complete."""

    def let_go(self, moment: int) -> FrameBatch:
        """Return the frames that are there so far, truncated, at packet `moment`, and hold nothing; more may follow."""

    def account(self, stream: int) -> StreamAccount | None:
        """Return the account of a stream; None as long as no protocol is known."""
