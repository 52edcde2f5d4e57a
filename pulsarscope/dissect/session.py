"""The session of a dissector: all that it knows about one connection."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pulsarscope.dissect.events import Event, Exchange
from pulsarscope.dissect.exchange import Request, answer, request_of, response_of
from pulsarscope.dissect.frames import Note, Origin
from pulsarscope.dissect.pairing import Pairing
from pulsarscope.model.records import ConnectionRow, FrameRow

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from pulsarscope.dissect.capabilities import GivenSchema, PayloadDecoder


class SessionFrames(Protocol):
    """The frames of one connection as the engine shows them to its session, one after the other.

    The attributes are those of the present frame.
    """

    notes: Sequence[Note]
    """Findings about its form, which the engine reports behind the events; a session that judges the form itself empties them."""
    payload: bytes | None
    """Its payload, when messages or their findings are asked for."""
    raw: bytes | None
    """The whole frame, when its dissector `keeps_frames`."""

    def __iter__(self) -> Iterator[FrameRow]:
        """Give each frame; the engine writes its row, and behind it the rows of the events reported until the next one."""


class Session:
    """The knowledge about one connection. It is shown all frames in the order of their moments.

    It can be pickled, to go on in another process; the members of the dissector are not pickled with it.
    """

    def __init__(self, context: SessionContext) -> None:
        self.context = context

    def observe(self, frames: SessionFrames, events: list[Event]) -> None:
        """Complete the row of each frame with the names, the request and the latency that it knows, and append events."""

    def observe_columns(self, columns: Any, place: int) -> int:  # noqa: ARG002 - a capability
        """Complete frames in the columns of a compiled reader, from a place on; return that of the first one that needs a row.

        No event may come of them but messages, which the columns keep. `columns`: of the compiled reader of the dissector.
        """
        return place

    def open_columns(self, columns: Any, places: tuple[int, int], entries: list[Event]) -> int:  # noqa: ARG002 - a capability
        """Open the messages of frames in columns from one place up to another; return the place of the first one that needs a row.

        It may return before, when there are many messages. `entries` receives the `MessageEntry`s, and nothing else may come of the frames.
        """
        return places[0]

    def ask(self, frame: FrameRow, key: Hashable, events: list[Event]) -> None:
        """Let a frame wait for its answer under a key."""
        events += [Exchange(given_up) for given_up in self.context.pairing.ask(key, request_of(frame, str(key)))]

    def answer(self, frame: FrameRow, key: Hashable, events: list[Event], error: str | None = None) -> Request | None:
        """Pair a frame with the oldest request of a key, if one waits; `error`: name of the error with which it refuses."""
        request = self.context.pairing.answer(key)
        if request is not None:
            answer(frame, request)
            frame.topic = request.topic
        events.append(Exchange(request, response_of(frame), error, key=str(key)))
        return request

    def finish(self, events: list[Event]) -> None:
        """Append the events of all that still waits: the connection has ended."""
        events += [Exchange(request) for request in self.context.pairing.rest()]

    def waits(self) -> int:
        """Return how many bytes are kept for what may follow; the engine bounds those of all connections together."""
        return 0

    def let_go(self, events: list[Event]) -> None:
        """Forget what waits, as if nothing followed, and append its events: all connections together keep too much."""

    def describe(self, row: ConnectionRow) -> None:
        """Fill the protocol's columns of the connection row."""


class SessionSettings(msgspec.Struct, frozen=True):
    """The settings that all sessions of a run share."""

    kinds: frozenset[str]
    """Row kinds that are asked for; a session may leave out the work for others."""
    payloads: bool = False
    """Open payloads for their findings, even when no message rows are asked for."""
    payload: str | None = None
    """Form in which message rows give the payload: base64, hex, text; None for none."""
    message_columns: tuple[str, ...] | None = None
    """Columns of message rows that are asked for; None for all."""
    private_keys: tuple[RSAPrivateKey, ...] = ()
    """Keys of the user, to open what is encrypted end to end."""
    schemas: tuple[GivenSchema, ...] = ()
    """Schemas for payloads, the first that fits a topic counts."""
    payload_decoders: tuple[tuple[str, PayloadDecoder], ...] = ()
    """Decoders of other packages, by name."""
    names: Mapping[str, str] = {}
    """Names that the user's files give to what the wire has only a number for, by what stands for it otherwise."""

    @property
    def gives_values(self) -> bool:
        """Return True when any message may have a value, whatever its connection says of schemas."""
        return bool(self.schemas or self.payload_decoders)


class SessionContext(msgspec.Struct):
    """The circumstances of a session."""

    origin: Origin
    settings: SessionSettings
    from_start: bool = True
    """The capture holds the handshake: nothing was said before the first frame."""
    pairing: Pairing = msgspec.field(default_factory=Pairing)
    """The requests that wait for their responses."""
