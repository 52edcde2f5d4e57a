"""TLS connection: the cleartext of its handshake and, with its secrets, the decrypted streams."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pulsarscope.inputs import key_logs as secrets
from pulsarscope.inputs.key_logs import Position, Secrets
from pulsarscope.model.limits import TLS_NAME_MAX_CHARACTERS, TLS_NAMES_MAX
from pulsarscope.model.text import escape
from pulsarscope.tcp.pieces import Gap, Item, Piece
from pulsarscope.tls import handshake
from pulsarscope.tls.decrypter import Decrypter
from pulsarscope.tls.direction import Direction
from pulsarscope.tls.handshake import TLS_1_2, TLS_1_3, ClientHello, Message, ServerHello
from pulsarscope.tls.record_layer import ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, Mark, TlsRecord, WaitingRecord
from pulsarscope.tls.suites import SUITES, is_supported

if TYPE_CHECKING:
    from pulsarscope.tls.record_protection import Key


_ALERT_BYTES = 19
"""Size of an encrypted alert: two bytes, its type, and the authentication tag of 16 bytes. A Finished has 53 or more."""


def unfinished(version: int | None, client: Sequence[WaitingRecord], server: Sequence[WaitingRecord]) -> str | None:
    """Return how a handshake failed: refused by the client or the server, unfinished or unanswered; None when it may have succeeded.

    `client` and `server` are the records of each side after its last cleartext record, encrypted except for changes of the cipher.
    """
    if version != TLS_1_3:
        both = all(any(record.kind == CHANGE_CIPHER_SPEC for record in records) for records in (client, server))
        return None if both else "unfinished"
    sealed = [record for record in client if record.kind == APPLICATION_DATA]
    if not sealed:
        return "unfinished"
    if sealed[0].size == _ALERT_BYTES:
        return "refused-by-client"
    # After the client's Finished, a server sends tickets or data; a lone alert that does not answer an alert of the client is a refusal.
    after = [record for record in server if record.mark > sealed[0].mark]
    if len(after) == 1 and after[0].size == _ALERT_BYTES:
        asked = any(record.size == _ALERT_BYTES and record.mark < after[0].mark for record in sealed)
        return None if asked else "refused-by-server"
    # What follows the client's Finished is its first request.
    return "unanswered" if not after and len(sealed) > 1 and all(record.size != _ALERT_BYTES for record in sealed) else None


_moment_of = itemgetter(0)

_FATAL = 2
_ALERTS = {
    10: "unexpected_message",
    20: "bad_record_mac",
    22: "record_overflow",
    40: "handshake_failure",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}


class Undecrypted(NamedTuple):
    """Reason why a connection was not decrypted, or not completely."""

    reason: str
    """Reason: no-handshake, no-secrets, unsupported or failed."""
    text: str
    """The reason as the end of a sentence about the connection."""
    records: int
    """Number of records that no key decrypted."""


class TlsConnection:
    """Decryption of both streams of a connection, fed block by block, then finished."""

    def __init__(self, known: Secrets, head_bytes: tuple[int, int] = (0, 0), *, spans: bool = False) -> None:
        """Begin a connection, with secrets of this and other connections; more may be added later.

        The first `head_bytes` of each stream, such as a PROXY protocol header, are delivered unchanged. With `spans`, the positions of
        contents in the TLS streams are kept, for `place`.
        """
        self.directions = (Direction(head_bytes[0], spans=spans), Direction(head_bytes[1], spans=spans))
        self._known = known
        self._client: int | None = None
        self._client_hello: ClientHello | None = None
        self._server_hello: ServerHello | None = None
        self._version: int | None = None
        self._protocol: str | None = None
        self._certificates: dict[int, tuple[str, list[str], str]] = {}
        self._alerts: dict[int, str] = {}
        self._lacks_secrets = False
        self._unfinished: str | None = None
        self._gapped = False
        self.protected = False
        """True after the first encrypted record."""

    def feed(self, items: Sequence[Sequence[Item]], file: int) -> tuple[list[Item], list[Item]]:
        """Return the plaintext items of stream 0 and stream 1; the moments are packets of `file`."""
        entries: list[tuple[int, int, int, Piece | Gap]] = []
        for stream, stream_items in enumerate(items):
            for item in stream_items:
                if isinstance(item, Gap):
                    entries.append((item.moment, stream, 0, item))
                else:
                    entries += [(piece[3], stream, item.file, piece) for piece in item.pieces]
        entries.sort(key=_moment_of)
        for moment, stream, origin, entry in entries:
            direction, other = self.directions[stream], self.directions[1 - stream]
            if isinstance(entry, Gap):
                self._read_cut(stream)
                self._gapped = True
                direction.add_gap(entry.size)
            else:
                direction.take(origin, entry)
            if direction.records.can_continue:
                self._read(stream, moment, (file, moment))
            if other.waiting:
                self._read(1 - stream, moment, (file, moment))
        return self._take_items()

    def finish(self, moment: int, file: int) -> tuple[list[Item], list[Item]]:
        """End both streams at packet `moment` of `file`; return the remaining items."""
        for stream, direction in enumerate(self.directions):
            if direction.waiting:
                self._read(stream, moment, (file, moment))
            self._read_cut(stream)
        self._unfinished = self._how_unfinished()
        for direction in self.directions:
            direction.finish()
        return self._take_items()

    def _how_unfinished(self) -> str | None:
        """Return how the handshake failed; None when it may have succeeded, or began before the capture."""
        directions, client = self.directions, self._client
        if self._client_hello is None or client is None or self._gapped or any(one.stopped or one.decrypter for one in directions):
            return None
        return unfinished(self._version, directions[client].records.waiting(), directions[1 - client].records.waiting())

    def _take_items(self) -> tuple[list[Item], list[Item]]:
        first, second = self.directions
        items = first.items, second.items
        first.items, second.items = [], []
        return items

    def _read(self, stream: int, moment: int, place: Position) -> None:
        """Process the complete records of a stream, up to one that needs unknown keys."""
        direction = self.directions[stream]
        direction.waiting = False
        records = direction.records
        while not direction.stopped and (record := records.next()) is not None:
            if direction.decrypter is None or (record.kind != APPLICATION_DATA and self._version == TLS_1_3 and records.synchronized):
                if not self._read_clear(stream, record, place):
                    direction.wait()
                    break
                if direction.decrypter is None or record.kind != APPLICATION_DATA:
                    continue
            # An apparent cleartext record after lost bytes is refused if the keys do not decrypt it.
            if (decrypted := direction.open(record, moment)) is None:
                direction.fail(record)
            else:
                (kind, content), mark = decrypted
                self._take_content(stream, record, kind, content, mark, moment, place)
        records.trim()

    def _read_clear(self, stream: int, record: TlsRecord, place: Position) -> bool:
        """Process a cleartext record; return False for an encrypted one without known keys. Application data remain the next record."""
        direction = self.directions[stream]
        if record.kind == HANDSHAKE:
            direction.records.accept(record)
            direction.clear_bytes = record.end
            for message in direction.messages.feed(record.body):
                self._take_message(stream, message)
            return True
        if record.kind == ALERT:
            direction.records.accept(record)
            self._take_alert(stream, record.body)
            return True
        if self._version == TLS_1_3 and record.kind == CHANGE_CIPHER_SPEC:
            direction.records.accept(record)  # for middleboxes (RFC 8446 appendix D.4)
            return True
        self.protected = True
        if self._is_unsupported:
            direction.stop()
            return True
        direction.decrypter = self._decrypter(stream, place)
        if direction.decrypter is None:
            return False
        if record.kind == CHANGE_CIPHER_SPEC:
            direction.records.accept(record)
        return True

    def _read_cut(self, stream: int) -> None:
        """Process the messages in the available part of a cleartext record whose end is lost."""
        direction = self.directions[stream]
        record = None if direction.decrypter is not None or direction.stopped else direction.records.partial()
        if record is not None and record.kind == HANDSHAKE:
            self._read_partial_hello(stream)
            direction.clear_bytes = record.end
            for message in direction.messages.feed(record.body):
                self._take_message(stream, message)

    def _read_partial_hello(self, stream: int) -> None:
        """Take the client random from an incomplete ClientHello, because the records of the answer cannot be buffered indefinitely."""
        record = self.directions[stream].records.partial()
        if record is not None and record.kind == HANDSHAKE and self._client_hello is None:
            self._client_hello = handshake.partial_client_hello(record.body)
            if self._client_hello is not None:
                self._client = stream

    def _take_content(self, stream: int, record: TlsRecord, kind: int, content: bytes, mark: Mark, moment: int, place: Position) -> None:
        """Process decrypted content: `mark` names its record, `moment` made it available, `place` is where secrets must be known."""
        direction = self.directions[stream]
        decrypter = direction.decrypter
        early = decrypter is not None and decrypter.is_early
        if not early:
            direction.drop_early()
        if kind == APPLICATION_DATA:
            if early:
                direction.buffer_early(record, content, mark)
            else:
                direction.deliver(record, content, mark, moment)
        elif kind == HANDSHAKE:
            for message in direction.messages.feed(content):
                self._take_message(stream, message)
                if decrypter is not None and self._version == TLS_1_3:
                    self._follow_keys(direction, decrypter, message[0], moment)
        elif kind == ALERT:
            self._take_alert(stream, content)
        elif kind == CHANGE_CIPHER_SPEC and self._version != TLS_1_3:  # renegotiation
            direction.decrypter = self._decrypter(stream, place)
            if direction.decrypter is None:
                direction.stop()

    @staticmethod
    def _follow_keys(direction: Direction, decrypter: Decrypter, kind: int, moment: int) -> None:
        """Change the keys of the sender after a handshake message of TLS 1.3."""
        if kind == handshake.END_OF_EARLY_DATA:
            direction.release_early(moment)
            decrypter.next_key()
        elif kind == handshake.FINISHED:
            decrypter.next_key()
        elif kind == handshake.KEY_UPDATE:
            decrypter.update_key()

    @property
    def _is_unsupported(self) -> bool:
        """Return True when the negotiated version or cipher suite is not supported."""
        hello = self._server_hello
        return hello is not None and not is_supported(hello.suite, hello.version)

    def _decrypter(self, stream: int, place: Position) -> Decrypter | None:
        """Return the decrypter of a stream, None when a hello or secret is not known at this position in the capture."""
        if self._client_hello is None:
            self._read_partial_hello(1 - stream)
        client, server, role = self._client_hello, self._server_hello, (None if self._client is None else int(stream != self._client))
        if client is None or server is None or role is None or self._is_unsupported:
            return None
        suite = SUITES[server.suite]
        if server.version == TLS_1_3:
            labels = (secrets.HANDSHAKE[role], secrets.TRAFFIC[role])
            traffic_secrets = [self._known.find(label, client.random, place) for label in labels]
            early = self._known.find(secrets.EARLY, client.random, place) if role == 0 else None
            self._lacks_secrets = traffic_secrets[1] is None
            if traffic_secrets[1] is None:
                return None
            from pulsarscope.tls.record_protection import key_13  # noqa: PLC0415 - needed with secrets only

            keys = [key_13(suite, secret) for secret in (early, *traffic_secrets) if secret is not None]
            return Decrypter(keys, early=early is not None)
        master = self._known.find(secrets.MASTER_SECRET, client.random, place) or self._known.find_session(server.session_id, place)
        self._lacks_secrets = master is None
        if master is None:
            return None
        from pulsarscope.tls.record_protection import keys_12  # noqa: PLC0415 - as above

        pair: tuple[Key, Key] = keys_12(suite, master, client.random, server.random, encrypt_then_mac=server.encrypt_then_mac)
        return Decrypter((pair[role],))

    def _take_message(self, stream: int, message: Message) -> None:
        kind, body = message
        if kind == handshake.CLIENT_HELLO:
            if (hello := handshake.client_hello(body)) is not None:
                self._client = stream
                if self._client_hello is not None and self._client_hello.random != hello.random:
                    self._server_hello = self._version = None  # renegotiation
                self._client_hello = hello
        elif kind == handshake.SERVER_HELLO:
            if (answer := handshake.server_hello(body)) is not None:
                self._client = 1 - stream
                self._version = answer.version
                if not answer.is_retry:
                    self._server_hello = answer
                    self._protocol = answer.protocol
        elif kind == handshake.ENCRYPTED_EXTENSIONS:
            self._protocol = handshake.chosen_protocol(body)
        elif kind == handshake.CERTIFICATE:
            for der in handshake.certificates(body, self._version or TLS_1_2):
                from pulsarscope.tls.certificate import certificate_names  # noqa: PLC0415 - as above

                if (names := certificate_names(der)) is not None:
                    self._certificates[stream] = names
                break

    def _take_alert(self, stream: int, content: bytes) -> None:
        if len(content) == 2 and content[0] == _FATAL:
            self._alerts.setdefault(stream, _ALERTS.get(content[1], str(content[1])))

    @property
    def client(self) -> int | None:
        """Return the index of the client's stream, None when unknown."""
        return self._client

    @property
    def decrypted(self) -> bool:
        """Return True when at least one record was decrypted."""
        return any(direction.decrypted for direction in self.directions)

    def describe(self) -> str:
        """Return version, names and algorithms, if known, in one line."""
        client, server = self._client_hello, self._server_hello
        words = [handshake.VERSIONS.get(server.version, f"TLS {server.version:#06x}") if server is not None else "TLS"]
        if client is not None and client.server_name is not None:
            words.append(f"sni={_printable(client.server_name)}")
        if self._protocol is not None:
            words.append(f"alpn={_printable(self._protocol)}")
        elif client is not None and client.protocols and (server is None or not self.decrypted):
            offered = ",".join(map(_printable, client.protocols[:TLS_NAMES_MAX]))
            words.append(f"alpn-offered={offered}")
        if server is not None:
            suite = SUITES.get(server.suite)
            words.append(f"cipher={suite.name if suite is not None else f'{server.suite:#06x}'}")
        for stream, (subject, names, ends) in sorted(self._certificates.items(), key=lambda entry: entry[0] == self._client):
            side = "client" if stream == self._client else "server"
            words.append(f'{side}-certificate="{_printable(subject)}"')
            if names:
                words.append(f"{side}-names={','.join(map(_printable, names[:TLS_NAMES_MAX]))}")
            words.append(f"{side}-expires={ends}")
        if self._unfinished is not None and not self._alerts:
            words.append(f"handshake={self._unfinished}")
        for stream, alert in self._alerts.items():
            words.append(f"{'client' if stream == self._client else 'server'}-alert={alert}")
        return " ".join(words)

    @property
    def client_random(self) -> str | None:
        """Return the client random in hex, which identifies the connection in a key log."""
        return None if self._client_hello is None else self._client_hello.random.hex()

    def undecrypted(self) -> Undecrypted | None:
        """Return the reason for undecrypted data, None when all was decrypted."""
        if failed := sum(direction.failed for direction in self.directions):
            return Undecrypted("failed", f"{failed} of its records could not be decrypted with the given secrets", failed)
        if not any(direction.stopped or direction.undecrypted for direction in self.directions):
            return None
        if self._is_unsupported and self._server_hello is not None:
            return Undecrypted("unsupported", "its version or cipher suite is not supported", 0)
        if self._client_hello is None or self._server_hello is None:
            return Undecrypted("no-handshake", "its handshake is not in the capture, so no secrets can decrypt it", 0)
        if self._lacks_secrets:
            return Undecrypted("no-secrets", "its secrets are not known", 0)
        return None

    def place(self, stream: int, start: int, end: int) -> tuple[int, int]:
        """Return start and end in the TLS stream of the records that contain the plaintext from `start` to `end`."""
        spans = self.directions[stream].spans
        return (start, end) if spans is None else spans.place(start, end)


def _printable(text: str) -> str:
    """Escape and truncate text from the wire."""
    return escape(text[:TLS_NAME_MAX_CHARACTERS]).replace(" ", "\\x20").replace('"', "\\x22")
