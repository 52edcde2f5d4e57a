"""A connection from its first packet to its row: the TCP facts, the conversation in it, the dissector's session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.frames import FrameBatch, KeptBytes, Origin
from pulsarscope.dissect.contract.generic_codes import DISSECTOR_FAILED
from pulsarscope.dissect.contract.legs import ANCHOR
from pulsarscope.dissect.contract.session import SessionContext, SessionSettings
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.dissect.framing.conversation import Conversation
from pulsarscope.dissect.plugins.isolation import Failure, failure
from pulsarscope.engine.ended_timeline import EndedTimeline, nothing_left, packed_row
from pulsarscope.engine.session_rows import SessionRows
from pulsarscope.engine.transport import Transport, is_plain, upgrades_of
from pulsarscope.inputs.key_logs import Secrets
from pulsarscope.model.findings import BY_CAPTURING, Code, Finding
from pulsarscope.model.flow import CLIENT, SERVER, source_port
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, RawFrame, Row, finding_row

if TYPE_CHECKING:
    from pulsarscope.tcp import Connection
    from pulsarscope.tcp.pieces import Item
    from pulsarscope.tls.connection import TlsConnection


UNASSIGNED_FRAMES_MAX = 1000
"""Frames kept until one shows which side is the client; keep-alives do not show it, and then the ports decide."""

HELD_FINDINGS_MAX = 150
"""TCP findings kept for a connection whose protocol is not yet known."""


_AS_OPENED, _REVERSED = (CLIENT, SERVER), (SERVER, CLIENT)
"""Directions of stream 0 and stream 1."""

_kept = cache(KeptBytes)


class Settings(msgspec.Struct, frozen=True):
    """The settings that all connections of a run share."""

    dissectors: tuple[Dissector, ...]
    codes: Mapping[str, Code]
    session: SessionSettings
    forced: Mapping[int, Dissector] = {}
    """Dissectors by server port, chosen by the user: content is not examined there."""
    source: str | None = None
    raw: bool = False
    """True to put a RawFrame after each frame row."""
    secrets: Secrets = msgspec.field(default_factory=Secrets)
    """Secrets of TLS connections, including those found in captures."""
    places: bool = False
    """True to record the places of frames in the streams of TLS connections, for `Timeline.place`."""
    columns: bool = False
    """True when frames may stay in the columns of a compiled reader."""

    @property
    def reads_whole(self) -> bool:
        """Return True when a compiled reader may read whole connections: only frames recognised by content are requested."""
        plain = not (self.forced or self.raw or (self.session.payloads and self.session.gives_values))
        kinds = {FrameRow.kind, FindingRow.kind, ConnectionRow.kind, ExchangeRow.kind, ANCHOR}
        return plain and self.dissectors[0].compiled is not None and self.session.kinds <= kinds

    def kept(self) -> KeptBytes:
        """Return the bytes that must be kept in addition to frames."""
        return _kept("message" in self.session.kinds or self.session.payloads, self.raw, self.columns)


class Timeline:
    """A connection: TCP segments and gaps in, frames to order and their rows out."""

    __slots__ = (
        "_conversation",
        "_directions",
        "_failures",
        "_held",
        "_rows",
        "_settings",
        "_transport",
        "_unassigned",
        "_undecided",
        "connection",
    )

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self._settings = settings
        forced = self._forced(connection, settings) if settings.forced else None
        self._conversation = Conversation(
            settings.dissectors if forced is None else (forced,),
            settings.kept(),
            Origin(settings.source, connection.name, ""),
            from_start=connection.opened == "syn",
            forced=forced is not None,
        )
        self._undecided = True  # whether it is TLS
        self._transport: Transport | None = None  # unless it is plain
        self._rows: SessionRows | None = None  # once the protocol and its sender are known
        self._directions = _AS_OPENED
        self._unassigned: FrameBatch | None = None  # frames whose sender is not yet known
        self._failures: tuple[Failure, ...] = ()  # exceptions of the dissector, except those of reader and session
        self._held: tuple[Finding, ...] = ()  # TCP findings, held until it is known that the connection is worth them

    @staticmethod
    def _forced(connection: Connection, settings: Settings) -> Dissector | None:
        servers = connection.streams if connection.client is None else (connection.streams[1 - connection.client],)
        ports = (source_port(stream.key) for stream in servers)
        return next((settings.forced[port] for port in ports if port in settings.forced), None)

    @property
    def _tls(self) -> TlsConnection | None:
        return None if self._transport is None else self._transport.tls

    @property
    def source(self) -> str | None:
        """The vantage point."""
        return self._settings.source

    @property
    def dissector(self) -> str | None:
        """Name of the protocol, once it is known."""
        found = self._conversation.dissector
        return None if found is None else found.name

    def endpoints(self) -> tuple[str, str]:
        """Return (client, server); a guess by port until a SYN or a frame shows them."""
        client = self._client()
        return self.connection.endpoint(client), self.connection.endpoint(1 - client)

    # ---- frames

    def feed(self, items: Sequence[Sequence[Item]]) -> FrameBatch:
        """Return the frames that these items of both streams complete, in the order of their moments."""
        if self._undecided:
            items = self._look(items)
        elif self._transport is not None:
            items = self._transport.feed(items, self.connection.last_file)
        return self._ready(self._conversation.feed(items))

    def close(self, moment: int) -> FrameBatch:
        """Return the last frames: the streams ended with packet `moment`."""
        closed_by = self.connection.closed_by
        is_open = closed_by is None and self.connection.closed == "open"
        cut_short = is_open or closed_by == 1, is_open or closed_by == 0  # nobody received the rest
        if self._transport is None:
            return self._ready(self._conversation.finish(moment, cut_short), at_end=True)
        frames = self._conversation.feed(self._transport.finish(moment, self.connection.last_file))
        frames.extend(self._conversation.finish(moment, cut_short))
        return self._ready(frames, at_end=True)

    def waits(self) -> int:
        """Return the number of bytes kept because more may follow."""
        size = self._conversation.waits()
        return size if self._rows is None else size + self._rows.waits()

    def let_go(self) -> tuple[FrameBatch, list[Row | RawFrame]]:
        """Return the frames so far, truncated, and the rows of everything that waits, because all connections together keep too much."""
        rows: list[Row | RawFrame] = []
        if self._rows is not None:
            self._rows.let_go(rows)
        return self._ready(self._conversation.let_go(self.connection.last_packet)), rows

    def _look(self, items: Sequence[Sequence[Item]]) -> Sequence[Sequence[Item]]:
        """Decide between TLS and plain bytes; return the items so far for the conversation."""
        if not (items[0] or items[1]):
            return items
        if self._transport is None:
            upgrades = upgrades_of(self._settings.dissectors)
            self._undecided = not is_plain(items, upgrades)
            if not self._undecided:
                return items
            self._transport = Transport(self._settings.secrets, spans=self._settings.places, upgrades=upgrades)
        items = self._transport.feed(items, self.connection.last_file)
        if self._transport.decided:
            self._undecided = False
            if self._transport.tls is None:
                self._transport = None
        return items

    def _ready(self, frames: FrameBatch, *, at_end: bool = False) -> FrameBatch:
        if self._rows is not None:
            return frames
        dissector = self._conversation.dissector
        if dissector is None:
            return FrameBatch()
        if self._unassigned is not None:
            if frames.rows and self._unassigned.rows and frames.rows[0].file != self._unassigned.rows[-1].file:
                self._unassigned.moments[:] = [0] * len(self._unassigned)  # all packets of this file are later
            self._unassigned.extend(frames)
            frames = self._unassigned
        if not self._assign_roles(dissector, frames) and not at_end and len(frames) < UNASSIGNED_FRAMES_MAX:
            self._unassigned = frames
            return FrameBatch()
        self._unassigned = None
        connection, settings = self.connection, self._settings
        if connection.client is None:
            connection.set_client(self._client())
        self._directions = _AS_OPENED if connection.client == 0 else _REVERSED
        context = SessionContext(self._conversation.origin, settings.session, connection.opened == "syn")
        self._rows = SessionRows(dissector, context, raw=settings.raw, connection=connection)
        frames.assign(self._directions)
        self._conversation.assign(self._directions)
        return frames

    def _assign_roles(self, dissector: Dissector, frames: FrameBatch) -> bool:
        """Identify the client, if no SYN shows it, by a command that only one side sends; return False if there is none."""
        connection = self.connection
        if connection.client is None:
            try:
                client = frames.client(dissector.sender)
            except Exception as error:  # noqa: BLE001 - other people's code
                client = None
                self._failures += (failure(dissector, "sender", error),)
            if client is not None:
                connection.set_client(client)
        return connection.client is not None

    def _client(self) -> int:
        """Return the index of the client's stream; a guess by port if nothing shows it."""
        if self.connection.client is not None:
            return self.connection.client
        if self._tls is not None and self._tls.client is not None:
            return self._tls.client
        ports = [source_port(stream.key) for stream in self.connection.streams]
        known = [any(port in dissector.ports for dissector in self._settings.dissectors) for port in ports]
        if known[0] != known[1]:
            return 1 if known[0] else 0
        return 1 if ports[0] < ports[1] else 0

    def findings(self, found: Sequence[Finding]) -> list[Finding]:
        """Return the findings to report; TCP findings only for a known protocol, as the row of any other connection has the counts.

        Those about the network of a connection in TLS are reported at its end, if its port belongs to a known protocol.
        """
        if not (found or self._held):
            return []
        if self._rows is None:
            of_tcp = [finding for finding in found if finding.layer == "tcp"]
            self._held += tuple(of_tcp[: max(HELD_FINDINGS_MAX - len(self._held), 0)])
            return [finding for finding in found if finding.layer != "tcp"]
        held, self._held = self._held, ()
        return [*held, *found]

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Return start and end of the bytes of a frame in the TCP stream; inside TLS, those of whole records."""
        start = row.offset
        end = start + row.size
        if self._tls is None:
            return start, end
        return self._tls.place(self._directions.index(row.direction or CLIENT), start, end)

    def in_tls(self) -> bool:
        """Return True when the TCP stream is TLS."""
        return self._tls is not None

    def preamble(self) -> tuple[int, int]:
        """Return the size of the TLS handshake at the start of the client's and of the server's stream; 0 without TLS."""
        tls, client = self._tls, self._client()
        return (0, 0) if tls is None else (tls.directions[client].clear_bytes, tls.directions[1 - client].clear_bytes)

    # ---- rows

    def observe(self, frames: FrameBatch, out: list[Row | RawFrame]) -> None:
        """Append the rows of these frames."""
        if self._rows is not None:
            self._rows.observe(frames, out)

    def observe_columns(self, batch: ColumnBatch) -> None:
        """Complete frames in columns."""
        if self._rows is not None:
            self._rows.observe_columns(batch, self._settings.kept())

    def open_columns(self, batch: ColumnBatch, out: list[Row | RawFrame]) -> Iterator[None]:
        """Append the rows of the messages in columns of frames; yield whenever there may be many."""
        return iter(()) if self._rows is None else self._rows.open_columns(batch, self._settings.kept(), out)

    def end(self, out: list[Row | RawFrame]) -> EndedTimeline:
        """Append the rows of everything that still waits; return the remainder of the connection, for which late packets are counted."""
        recognised = self._rows is not None
        if self._rows is not None:
            self._rows.finish(out)
        wanted = "connection" in self._settings.session.kinds
        row = self._connection_row() if wanted or not recognised or self._tls is not None else None
        doubt = None if row is None else self._of_tls(row) or (None if recognised else self._foreign(row))
        for failed in self._all_failures():
            row = row or self._connection_row()
            out.append(
                finding_row(self._finding(DISSECTOR_FAILED, failed.text, row, failed._asdict()), self._settings.source, failed.dissector)
            )
        rest = self._settings.source, self.dissector if recognised else None
        if doubt is None and not wanted:
            return nothing_left(*rest)
        held = [found for found in self._held if not found.counted] if doubt is not None and doubt.layer == "tls" else ()
        of_network = tuple(found for found in held if self._settings.codes[found.code].to_act not in (None, BY_CAPTURING))
        return EndedTimeline(packed_row(row) if row and wanted else None, doubt, *rest, of_network)

    @property
    def closing(self) -> tuple[str, int] | None:
        """First FIN or RST and its time; None for a connection that was not closed."""
        connection = self.connection
        return None if connection.closed_by is None else (connection.closing_how, connection.closing_time)

    def _of_tls(self, row: ConnectionRow) -> Finding | None:
        """Return the finding about unread TLS, if decryption failed or the port belongs to a known protocol."""
        tls = self._tls
        unread = None if tls is None else tls.undecrypted()
        if tls is None or unread is None:
            return None
        failed = unread.reason == "failed"
        port = _server_port(row)
        if not (failed or (tls.protected and (port in self._settings.forced or self._owner(port) is not None))):
            return None
        code = "tls-no-secrets" if unread.reason in ("no-secrets", "no-handshake") else "tls-decrypt-failed"
        evidence: dict[str, Any] = {"tls": row.tls, "reason": unread.reason}
        if tls.client_random is not None:
            evidence["client_random"] = tls.client_random
        if failed:
            evidence["records"] = unread.records
        return self._finding(code, f"the connection is TLS, and {unread.text}", row, evidence)

    def _owner(self, port: int) -> Dissector | None:
        """Return the dissector that expects its protocol on a port."""
        return next((dissector for dissector in self._settings.dissectors if port in dissector.ports), None)

    def _foreign(self, row: ConnectionRow) -> Finding | None:
        """Return the finding about traffic of another protocol on the port of a known one."""
        if not (row.client_bytes or row.server_bytes):
            return None
        port = _server_port(row)
        dissector = self._owner(port)
        if dissector is None:
            return None
        try:
            return self._finding(*dissector.foreign(self._carried, port), row, {})
        except Exception as error:  # noqa: BLE001 - other people's code
            self._failures += (failure(dissector, "foreign", error),)
            return None

    def _all_failures(self) -> list[Failure]:
        """Return the distinct exceptions of dissectors on this connection."""
        of_session = () if self._rows is None else self._rows.failures
        return [*dict.fromkeys((*self._conversation.failures, *of_session, *self._failures))]

    @property
    def _carried(self) -> str | None:
        """Name of another protocol that the connection carries."""
        return self._conversation.foreign if self._tls is None or self._tls.decrypted else "TLS"

    def _finding(self, code: str, text: str, row: ConnectionRow, more: Mapping[str, Any]) -> Finding:
        evidence = {"client": row.client, "server": row.server, "bytes": (row.client_bytes or 0) + (row.server_bytes or 0), **more}
        text = f"Connection {row.connection}: {text}."
        place = {"file": row.file, "packet": row.packet, "time": row.time}
        return self._settings.codes[code].at(text, evidence, **place, connection=row.connection)

    def _connection_row(self) -> ConnectionRow:
        connection = self.connection
        client = self._client()
        where = self._settings.source, connection.file, connection.packet, None, connection.start, connection.name, self.dissector
        row = ConnectionRow(*where)
        row.client, row.server = self.endpoints()
        row.start = connection.start
        row.client_bytes, row.client_frames, row.client_missing, row.client_skipped, row.client_tail = self._account(client)
        row.server_bytes, row.server_frames, row.server_missing, row.server_skipped, row.server_tail = self._account(1 - client)
        row.client_dropped, row.server_dropped = connection.streams[client].dropped, connection.streams[1 - client].dropped
        row.end = connection.ending
        row.opened, row.closed = connection.opened, connection.closed
        if connection.closed_by is not None:
            row.closed_by = CLIENT if connection.closed_by == client else SERVER
        if self._tls is not None:
            row.tls = self._tls.describe()
            if row.dissector is None and self._tls.decrypted and self._carried is not None:
                row.tls += f" content={self._carried.lower()}"
        row.process, row.pod = (", ".join(names) or None for names in connection.owners or ((), ()))
        account = self._conversation.account(client)
        if account is not None:
            row.proxy_source = account.proxy_source
        if self._rows is not None:
            self._rows.describe(row)
        return row

    def _account(self, stream: int) -> tuple[int, int, int, int, int]:
        """Return (bytes, frames, missing, skipped, tail) of a stream; these and the bytes in frames add up."""
        length, missing = self.connection.streams[stream].length, self.connection.streams[stream].missing
        account = self._conversation.account(stream)
        if account is None:
            return length, 0, missing, length - missing, 0
        if self._tls is not None:
            inside = self._tls.directions[stream]
            return inside.length, account.frames, inside.missing + account.cut, account.skipped + inside.undecrypted, account.tail
        return length, account.frames, missing + account.cut, account.skipped, account.tail


def _server_port(row: ConnectionRow) -> int:
    return int(row.server.rpartition(":")[2])
