"""The session of a dissector: all that it knows about one connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.dissect.exchange import Pairing
from pulsarscope.dissect.frames import Frame, Origin
from pulsarscope.model.records import ConnectionRow

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from pulsarscope.dissect.capabilities import GivenSchema, PayloadDecoder


class Session:
    """The knowledge about one connection, fed with frames in the order of their moments.

    It can be pickled, to go on in another process; the members of the dissector are not pickled with it.
    """

    def __init__(self, context: SessionContext) -> None:
        self.context = context

    def observe(self, directions: Sequence[str], frames: Sequence[Frame], out: list[Any]) -> None:
        """Append the rows that these frames complete, for each frame its own FrameRow first; `directions` by `Frame.stream`."""
        raise NotImplementedError

    def finish(self, out: list[Any]) -> None:
        """Append the rows that still wait: the connection has ended."""

    def describe(self, row: ConnectionRow) -> None:
        """Fill the protocol's columns of the connection row."""


class SessionContext(msgspec.Struct):
    """Circumstances of one connection, for the session that makes its rows."""

    origin: Origin
    kinds: frozenset[str]
    """Row kinds that are wanted; a session may leave out the work for others."""
    pairing: Pairing
    """Where its requests wait for their responses."""
    payloads: bool
    """Open payloads for their findings, even when no message rows are wanted."""
    payload: str | None
    """Form in which message rows give the payload: base64, hex, text; None for none."""
    message_columns: tuple[str, ...] | None = None
    """The columns that message rows must have, in this order, as `records.row_type`; None for whole rows."""
    private_keys: tuple[RSAPrivateKey, ...] = ()
    """Those that the user gave, to open what is encrypted end to end."""
    from_start: bool = True
    """The capture holds the handshake: nothing was said before the first frame."""
    schemas: tuple[GivenSchema, ...] = ()
    """Schemas for payloads, the first that fits a topic counts."""
    payload_decoders: tuple[tuple[str, PayloadDecoder], ...] = ()
    """Decoders of other packages, by name."""
