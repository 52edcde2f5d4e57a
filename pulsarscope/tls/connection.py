"""A TLS connection: the handshakes of both sides, whatever is in clear of them, and, with its secrets, all that is inside."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pulsarscope.inputs import tls_secrets as secrets
from pulsarscope.inputs.tls_secrets import Position, Secrets
from pulsarscope.model.limits import TLS_NAME_MAX_CHARACTERS, TLS_NAMES_MAX
from pulsarscope.model.text import escape
from pulsarscope.tcp.pieces import Gap, Item, Piece
from pulsarscope.tls import handshake
from pulsarscope.tls.decrypter import Opener
from pulsarscope.tls.direction import Direction
from pulsarscope.tls.handshake import TLS_1_2, TLS_1_3, ClientHello, Message, ServerHello
from pulsarscope.tls.record_layer import ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, Mark, TlsRecord
from pulsarscope.tls.suites import SUITES, is_opened

if TYPE_CHECKING:
    from pulsarscope.tls.keys import Key

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
    """Why nothing, or not all, of a connection was opened."""

    reason: str
    """no-handshake, no-secrets, unsupported, failed."""
    text: str
    """End of a sentence about the connection."""
    records: int
    """How many of them were refused by the keys."""


class TlsConnection:
    """Feed it the items of both streams, block by block: it gives those of what was said inside. Then finish it."""

    def __init__(self, known: Secrets, head_bytes: tuple[int, int] = (0, 0), *, spans: bool = False) -> None:
        """What is given of the connection.

        Args:
            known: secrets, of this connection and others; more may come to them.
            head_bytes: what stands before TLS in each stream, a PROXY protocol header for one; it is handed on as it is.
            spans: remember where in the streams what is handed on came from, for `place`.
        """
        self.directions = (Direction(head_bytes[0], spans=spans), Direction(head_bytes[1], spans=spans))
        self._known = known
        self._client: int | None = None
        self._client_hello: ClientHello | None = None
        self._server_hello: ServerHello | None = None
        self._version: int | None = None
        self._protocol: str | None = None
        self._holders: dict[int, tuple[str, list[str]]] = {}
        self._alerts: dict[int, str] = {}
        self._lacks_secrets = False
        self.protected = False
        """Something was said that is not in clear: both sides speak TLS."""

    # ---- streams

    def feed(self, items: Sequence[Sequence[Item]], file: int) -> tuple[list[Item], list[Item]]:
        """The items of stream 0 and of stream 1; their moments are packets of `file`."""
        entries: list[tuple[int, int, int, Piece | Gap]] = []
        for stream, some in enumerate(items):
            for item in some:
                if isinstance(item, Gap):
                    entries.append((item.moment, stream, 0, item))
                else:
                    entries += [(piece[3], stream, item.file, piece) for piece in item.pieces]
        entries.sort(key=_moment_of)
        for moment, stream, origin, entry in entries:
            direction, other = self.directions[stream], self.directions[1 - stream]
            if isinstance(entry, Gap):
                self._read_cut(stream)
                direction.lose(entry.size)
            else:
                direction.take(origin, entry)
            if direction.records.complete:
                self._read(stream, moment, (file, moment))
            if other.waits:
                self._read(1 - stream, moment, (file, moment))
        return self._taken()

    def finish(self, moment: int, file: int) -> tuple[list[Item], list[Item]]:
        """The streams have ended with packet `moment` of `file`."""
        for stream, direction in enumerate(self.directions):
            if direction.waits:
                self._read(stream, moment, (file, moment))
            self._read_cut(stream)
            direction.finish()
        return self._taken()

    def _taken(self) -> tuple[list[Item], list[Item]]:
        first, second = self.directions
        taken = first.items, second.items
        first.items, second.items = [], []
        return taken

    # ---- records

    def _read(self, stream: int, moment: int, place: Position) -> None:
        """All records of a stream that are whole, until one has to wait."""
        direction = self.directions[stream]
        direction.waits = False
        records = direction.records
        while not direction.given_up and (record := records.next()) is not None:
            if direction.opener is None or (record.kind != APPLICATION_DATA and self._version == TLS_1_3 and records.certain):
                if not self._read_clear(stream, record, place):
                    direction.wait()
                    break
                if direction.opener is None or record.kind != APPLICATION_DATA:
                    continue
            # What only seems to be a record in clear, among bytes whose records are lost, is refused by the keys.
            opened = direction.open(record, moment)
            if opened is None:
                direction.fail(record)
            else:
                (kind, content), mark = opened
                self._take_content(stream, record, kind, content, mark, moment, place)
        records.trim()

    def _read_clear(self, stream: int, record: TlsRecord, place: Position) -> bool:
        """A record before the keys; false when it is not, and they are not known yet. Application data stays the next record."""
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
            direction.give_up()
            return True
        direction.opener = self._opener(stream, place)
        if direction.opener is None:
            return False
        if record.kind == CHANGE_CIPHER_SPEC:
            direction.records.accept(record)
        return True

    def _read_cut(self, stream: int) -> None:
        """What is there of a record whose end is lost: the messages in it, when it is one before the keys."""
        direction = self.directions[stream]
        record = None if direction.opener is not None or direction.given_up else direction.records.beginning()
        if record is not None and record.kind == HANDSHAKE:
            self._glimpse_hello(stream)
            direction.clear_bytes = record.end
            for message in direction.messages.feed(record.body):
                self._take_message(stream, message)

    def _glimpse_hello(self, stream: int) -> None:
        """The client's hello while its end is missing: the answer to it is large, and would not wait for long."""
        record = self.directions[stream].records.beginning()
        if record is not None and record.kind == HANDSHAKE and self._client_hello is None:
            self._client_hello = handshake.begun_client_hello(record.body)
            if self._client_hello is not None:
                self._client = stream

    def _take_content(self, stream: int, record: TlsRecord, kind: int, content: bytes, mark: Mark, moment: int, place: Position) -> None:
        """What was in a record."""
        direction = self.directions[stream]
        opener = direction.opener
        early = opener is not None and opener.is_early
        if not early:
            direction.forget_early()
        if kind == APPLICATION_DATA:
            if early:
                direction.hold_early(record, content, mark)
            else:
                direction.hand_on(record, content, mark, moment)
        elif kind == HANDSHAKE:
            for message in direction.messages.feed(content):
                self._take_message(stream, message)
                if opener is not None and self._version == TLS_1_3:
                    self._follow_keys(direction, opener, message[0], moment)
        elif kind == ALERT:
            self._take_alert(stream, content)
        elif kind == CHANGE_CIPHER_SPEC and self._version != TLS_1_3:  # of a renegotiation
            direction.opener = self._opener(stream, place)
            if direction.opener is None:
                direction.give_up()

    @staticmethod
    def _follow_keys(direction: Direction, opener: Opener, kind: int, moment: int) -> None:
        """What a message of TLS 1.3 means for the keys of its sender."""
        if kind == handshake.END_OF_EARLY_DATA:
            direction.release_early(moment)
            opener.go_on()
        elif kind == handshake.FINISHED:
            opener.go_on()
        elif kind == handshake.KEY_UPDATE:
            opener.renew()

    # ---- the handshake

    @property
    def _is_unsupported(self) -> bool:
        """Whether nobody could open it, whatever secrets there are."""
        hello = self._server_hello
        return hello is not None and not is_opened(hello.suite, hello.version)

    def _opener(self, stream: int, place: Position) -> Opener | None:
        """What opens the records of a stream; None when something for it is not known at this place."""
        if self._client_hello is None:
            self._glimpse_hello(1 - stream)
        client, server, role = self._client_hello, self._server_hello, self._role(stream)
        if client is None or server is None or role is None or self._is_unsupported:
            return None
        suite = SUITES[server.suite]
        if server.version == TLS_1_3:
            labels = (secrets.HANDSHAKE[role], secrets.TRAFFIC[role])
            found = [self._known.find(label, client.random, place) for label in labels]
            early = self._known.find(secrets.EARLY, client.random, place) if role == 0 else None
            self._lacks_secrets = found[1] is None
            if found[1] is None:
                return None
            from pulsarscope.tls.keys import key_13  # noqa: PLC0415 - most runs meet no secrets

            keys = [key_13(suite, secret) for secret in (early, *found) if secret is not None]
            return Opener(keys, early=early is not None)
        master = self._known.find(secrets.MASTER_SECRET, client.random, place) or self._known.find_session(server.session_id, place)
        self._lacks_secrets = master is None
        if master is None:
            return None
        from pulsarscope.tls.keys import keys_12  # noqa: PLC0415 - as above

        both: tuple[Key, Key] = keys_12(suite, master, client.random, server.random, encrypt_then_mac=server.encrypt_then_mac)
        return Opener((both[role],))

    def _role(self, stream: int) -> int | None:
        """0 for the client's stream, 1 for the server's."""
        return None if self._client is None else int(stream != self._client)

    def _take_message(self, stream: int, message: Message) -> None:
        kind, body = message
        if kind == handshake.CLIENT_HELLO:
            hello = handshake.client_hello(body)
            if hello is not None:
                self._client = stream
                if self._client_hello is not None and self._client_hello.random != hello.random:
                    self._server_hello = self._version = None  # it begins anew
                self._client_hello = hello
        elif kind == handshake.SERVER_HELLO:
            answer = handshake.server_hello(body)
            if answer is not None:
                self._client = 1 - stream
                self._version = answer.version
                if not answer.is_retry:
                    self._server_hello = answer
                    self._protocol = answer.protocol
        elif kind == handshake.ENCRYPTED_EXTENSIONS:
            self._protocol = handshake.chosen_protocol(body)
        elif kind == handshake.CERTIFICATE:
            for der in handshake.certificates(body, self._version or TLS_1_2):
                from pulsarscope.tls.certificate import holder  # noqa: PLC0415 - as above

                found = holder(der)
                if found is not None:
                    self._holders[stream] = found
                break

    def _take_alert(self, stream: int, content: bytes) -> None:
        if len(content) == 2 and content[0] == _FATAL:
            self._alerts.setdefault(stream, _ALERTS.get(content[1], str(content[1])))

    # ---- what is known of it

    @property
    def client(self) -> int | None:
        """Index of the stream of the client."""
        return self._client

    @property
    def opened(self) -> bool:
        """Whether anything inside was read."""
        return any(direction.opened for direction in self.directions)

    def describe(self) -> str:
        """Version, names and algorithms, as far as they are known, in one line."""
        client, server = self._client_hello, self._server_hello
        words = [handshake.VERSIONS.get(server.version, f"TLS {server.version:#06x}") if server is not None else "TLS"]
        if client is not None and client.server_name is not None:
            words.append(f"sni={_shown(client.server_name)}")
        if self._protocol is not None:
            words.append(f"alpn={_shown(self._protocol)}")
        elif client is not None and client.protocols and (server is None or not self.opened):
            offered = ",".join(map(_shown, client.protocols[:TLS_NAMES_MAX]))
            words.append(f"alpn-offered={offered}")
        if server is not None:
            suite = SUITES.get(server.suite)
            words.append(f"cipher={suite.name if suite is not None else f'{server.suite:#06x}'}")
        for stream, (subject, names) in sorted(self._holders.items(), key=lambda entry: entry[0] == self._client):
            side = "client" if stream == self._client else "server"
            words.append(f'{side}-certificate="{_shown(subject)}"')
            if names:
                words.append(f"{side}-names={','.join(map(_shown, names[:TLS_NAMES_MAX]))}")
        for stream, alert in self._alerts.items():
            words.append(f"{'client' if stream == self._client else 'server'}-alert={alert}")
        return " ".join(words)

    @property
    def client_random(self) -> str | None:
        """What names the connection in a key log, in hex."""
        return None if self._client_hello is None else self._client_hello.random.hex()

    def unread(self) -> Undecrypted | None:
        """Why not all was opened; None when all was."""
        failed = sum(direction.failed for direction in self.directions)
        if failed:
            return Undecrypted("failed", f"{failed} of its records did not decrypt with the secrets given", failed)
        if not any(direction.given_up or direction.unread for direction in self.directions):
            return None
        if self._is_unsupported and self._server_hello is not None:
            return Undecrypted("unsupported", "its version or cipher suite is none that is decrypted", 0)
        if self._client_hello is None or self._server_hello is None:
            return Undecrypted("no-handshake", "its handshake is not in the capture, without which no secrets can open it", 0)
        if self._lacks_secrets:
            return Undecrypted("no-secrets", "no secrets of it are given", 0)
        return None

    def place(self, stream: int, start: int, end: int) -> tuple[int, int]:
        """Where in the stream itself that lies which was handed on from `start` to `end`: whole records."""
        spans = self.directions[stream].spans
        return (start, end) if spans is None else spans.place(start, end)


def _shown(text: str) -> str:
    """Text off the wire: bounded, and with nothing active in it."""
    return escape(text[:TLS_NAME_MAX_CHARACTERS]).replace(" ", "\\x20").replace('"', "\\x22")
