"""The session of a dissector: its state for one connection."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pulsarscope.dissect.contract.events import Event, Exchange
from pulsarscope.dissect.contract.exchange import Request, answer, request_of, response_of
from pulsarscope.dissect.contract.frames import Note, Origin
from pulsarscope.dissect.contract.pairing import Pairing
from pulsarscope.model.records import ConnectionRow, FrameRow

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from pulsarscope.dissect.contract.capabilities import GivenSchema, PayloadDecoder


class SessionFrames(Protocol):
    """The frames of one connection as the engine presents them to its session, one after the other.

    The attributes are those of the current frame.
    """

    notes: Sequence[Note]
    """Findings about the frame's form, which the engine reports after the events. A session that checks the form itself clears them."""
    payload: bytes | None
    """The frame's payload, when messages or their findings are requested."""
    raw: bytes | None
    """The whole frame, when its dissector `keeps_frames`."""

    def __iter__(self) -> Iterator[FrameRow]:
        """Yield each frame; the engine writes its row, followed by the rows of the events reported before the next frame."""


class Session:
    """The state of one connection. It gets all frames in the order of their moments.

    It can be pickled, to continue in another process; the members of the dissector are not pickled with it.
    """

    def __init__(self, context: SessionContext) -> None:
        self.context = context

    def observe(self, frames: SessionFrames, events: list[Event]) -> None:
        """Complete the row of each frame with the names, request and latency that the session knows, and append events."""

    def observe_columns(self, columns: Any, place: int) -> int:  # noqa: ARG002 - a capability
        """Complete frames in the columns of a compiled reader, from a place on; return the place of the first frame that needs a row.

        They may cause no events except messages, which the columns keep. `columns` are those of the dissector's compiled reader.
        """
        return place

    def open_columns(self, columns: Any, places: tuple[int, int], entries: list[Event]) -> int:  # noqa: ARG002 - a capability
        """Open the messages of frames in columns from one place to another; return the place of the first frame that needs a row.

        It may return earlier if there are many messages. `entries` receives the `MessageEntry` objects; the frames may cause nothing else.
        """
        return places[0]

    def ask(self, frame: FrameRow, key: Hashable, events: list[Event]) -> None:
        """Let a frame wait for its answer under a key. The key None does not appear in rows: for protocols that answer in order."""
        events += [Exchange(given_up) for given_up in self.context.pairing.ask(key, request_of(frame, _shown(key)))]

    def answer(
        self, frame: FrameRow, key: Hashable, events: list[Event], error: str | None = None, error_message: str | None = None
    ) -> Request | None:
        """Pair a frame with the oldest waiting request of a key, if any.

        Args:
            frame: the answer.
            key: the key with which its request was registered.
            events: receives the exchange.
            error: name of the error in the frame; None if it reports none.
            error_message: the error in the words of the peer.
        """
        request = self.context.pairing.answer(key)
        if request is not None:
            answer(frame, request)
            frame.topic = request.topic
        events.append(Exchange(request, response_of(frame), error, error_message, _shown(key)))
        return request

    def finish(self, events: list[Event]) -> None:
        """Append the events of everything that is still waiting: the connection has ended."""
        events += [Exchange(request) for request in self.context.pairing.rest()]

    def waits(self) -> int:
        """Return how many bytes are kept for later frames; the engine bounds the sum over all connections."""
        return 0

    def let_go(self, events: list[Event]) -> None:
        """Forget everything that waits, as if nothing followed, and append its events: all connections together keep too much."""

    def describe(self, row: ConnectionRow) -> None:
        """Fill the protocol's columns of the connection row."""


def _shown(key: Hashable) -> str | None:
    return None if key is None else str(key)


class SessionSettings(msgspec.Struct, frozen=True):
    """The settings that all sessions of a run share."""

    kinds: frozenset[str]
    """Requested kinds of rows; a session may skip the work for others."""
    payloads: bool = False
    """True to open payloads for their findings, even if no message rows are requested."""
    payload: str | None = None
    """Form of the payload in message rows: base64, hex, text; None to omit it."""
    message_columns: tuple[str, ...] | None = None
    """Requested columns of message rows; None for all."""
    private_keys: tuple[RSAPrivateKey, ...] = ()
    """The user's keys, to decrypt end-to-end encrypted messages."""
    schemas: tuple[GivenSchema, ...] = ()
    """Schemas for payloads; the first one that fits a topic is used."""
    payload_decoders: tuple[tuple[str, PayloadDecoder], ...] = ()
    """Decoders of other packages, by name."""
    names: Mapping[str, str] = {}
    """Names from the user's files for values that are only numbers on the wire, by their form in rows."""

    @property
    def gives_values(self) -> bool:
        """Return True when messages may have values even if their connection shows no schema."""
        return bool(self.schemas or self.payload_decoders)


class SessionContext(msgspec.Struct):
    """The context of a session."""

    origin: Origin
    settings: SessionSettings
    from_start: bool = True
    """True when the capture holds the handshake: nothing was sent before the first frame."""
    pairing: Pairing = msgspec.field(default_factory=Pairing)
    """Requests that wait for their responses."""
