"""One connection, from its first packet to its row."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.capture import BlockReader
from pulsarscope.dissect.contract.frames import KeptBytes
from pulsarscope.dissect.contract.session import SessionSettings
from pulsarscope.engine.connection import Settings, Timeline
from pulsarscope.engine.ended_timeline import EndedTimeline
from pulsarscope.inputs.key_logs import Secrets
from pulsarscope.model.findings import CAPTURE_CODES, TCP_CODES, TLS_CODES, join_codes
from pulsarscope.model.records import ROWS, ConnectionRow, FindingRow, FrameRow, RawFrame
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.tcp import Assembler
from tests.scenarios import Conversation, Packet, command_frame, pcap
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import CONNECT, CONNECTED, PING
from tests.scenarios.evaluation import Diagnosis
from tests.scenarios.tls.feeding import packets_of, secrets_of
from tests.scenarios.tls.peers import record

DISSECTOR = PulsarDissector()
CODES = join_codes((CAPTURE_CODES, TCP_CODES, TLS_CODES, DISSECTOR.codes))
LOOKUP = command_frame("LOOKUP", topic="t", request_id=1)


def settings(*kinds: str, **more: Any) -> Settings:
    return Settings((DISSECTOR,), CODES, SessionSettings(frozenset(kinds or ROWS)), **more)


class Lived:
    """A connection fed to its timeline: the timeline, and the resulting rows."""

    def __init__(self, packets: Sequence[Packet], chosen: Settings | None = None, read_bytes: int = 1 << 20) -> None:
        self.rows: list[Any] = []
        self.timelines: dict[str, Timeline] = {}
        self.ended: dict[str, EndedTimeline] = {}
        assembler = Assembler()
        for block in BlockReader(io.BytesIO(pcap(packets)), 0, read_bytes=read_bytes):
            self._take(assembler.feed(block), chosen or settings())
        self._take(assembler.finish(), chosen or settings())

    def _take(self, events: Sequence[Any], chosen: Settings) -> None:
        for event in events:
            name = event.connection.name
            if name in self.ended:
                self.ended[name].finish(event.connection, self.rows)
                continue
            timeline = self.timelines.get(name)
            if timeline is None:
                timeline = self.timelines[name] = Timeline(event.connection, chosen)
            timeline.observe(timeline.feed(event.items), self.rows)
            if event.ended:
                timeline.observe(timeline.close(event.connection.last_packet), self.rows)
                self.ended[name] = timeline.end(self.rows)
            if event.finished:
                self.ended[name].finish(event.connection, self.rows)

    @property
    def timeline(self) -> Timeline:
        (only,) = self.timelines.values()
        return only

    @property
    def row(self) -> ConnectionRow:
        (only,) = [row for row in self.rows if isinstance(row, ConnectionRow)]
        return only

    @property
    def codes(self) -> list[str | None]:
        return [row.code for row in self.rows if isinstance(row, FindingRow)]

    @property
    def commands(self) -> list[tuple[str | None, str | None]]:
        return [(row.direction, row.command) for row in self.rows if isinstance(row, FrameRow)]


def talk(**options: Any) -> Conversation:
    return Conversation(**options)


class TestTheRow:
    def test_a_whole_connection_is_described(self) -> None:
        connect = command_frame("CONNECT", client_version="c", auth_method_name="none", protocol_version=21)
        packets = talk().handshake().client(connect).server(CONNECTED, PING).client(LOOKUP[:10]).close().packets
        row = Lived(packets).row
        assert (row.client, row.server, row.opened, row.closed, row.closed_by) == (
            "10.0.0.1:40000",
            "10.0.0.2:6650",
            "syn",
            "fin",
            "client",
        )
        assert (row.connection, row.packet, row.packets, row.start, row.end) == (
            "0:1",
            1,
            len(packets),
            packets[0].time_ns,
            packets[-1].time_ns,
        )
        assert (row.client_bytes, row.client_frames, row.client_missing, row.client_skipped, row.client_tail) == (
            len(connect) + 10,
            1,
            0,
            0,
            10,
        )
        assert (row.server_bytes, row.server_frames, row.server_missing, row.server_skipped, row.server_tail) == (
            len(CONNECTED) + 13,
            2,
            0,
            0,
            0,
        )
        assert (row.dissector, row.client_version, row.server_version, row.protocol_version, row.auth_method) == (
            "pulsar",
            "c",
            "y",
            21,
            "none",
        )
        assert (row.tls, row.proxy_source) == (None, None)

    def test_a_proxy_header_names_the_source(self) -> None:
        packets = talk().handshake().client(b"PROXY TCP4 1.2.3.4 5.6.7.8 99 6650\r\n").client(CONNECT).server(CONNECTED).close().packets
        row = Lived(packets).row
        assert (row.proxy_source, row.client_skipped, row.client_frames) == ("1.2.3.4:99", 36, 1)

    def test_a_gap_is_missing_with_the_head_of_the_frame_that_it_cut(self) -> None:
        conversation = talk().handshake().client(CONNECT).server(CONNECTED).client(LOOKUP[:10]).lose("client", len(LOOKUP) - 10)
        packets = conversation.client(PING).client(PING).close().packets
        row = Lived(packets).row
        assert (row.client_missing, row.client_frames, row.client_skipped, row.client_tail) == (len(LOOKUP), 3, 0, 0)
        assert row.client_bytes == len(CONNECT) + len(LOOKUP) + 26

    def test_a_connection_of_nothing_recognised_is_all_skipped(self) -> None:
        row = Lived(talk(server=("10.0.0.2", 80)).handshake().client(b"GET / HTTP/1.1\r\n\r\n").close().packets).row
        assert (row.client_bytes, row.client_skipped, row.client_frames, row.dissector) == (18, 18, 0, None)

    def test_without_that_kind_there_is_none(self) -> None:
        lived = Lived(talk().handshake().client(CONNECT).close().packets, settings("frame"))
        assert [row.kind for row in lived.rows] == ["frame"]


class TestRoles:
    def test_who_sent_the_syn_is_the_client(self) -> None:
        lived = Lived(talk(client=("10.0.0.1", 6650), server=("10.0.0.2", 40000)).handshake().client(CONNECT).server(CONNECTED).packets)
        assert lived.row.client == "10.0.0.1:6650"
        assert lived.commands == [("client", "CONNECT"), ("server", "CONNECTED")]

    @pytest.mark.parametrize("port", [6650, 50000])
    def test_without_one_it_is_who_sends_what_only_clients_send(self, port: int) -> None:
        for first in ("client", "server"):
            conversation = talk(server=("10.0.0.2", port))
            parts = [("client", LOOKUP), ("server", command_frame("SUCCESS", request_id=4))]
            for side, frame in parts if first == "client" else parts[::-1]:
                getattr(conversation, side)(frame + PING)
            lived = Lived(conversation.packets)
            assert lived.row.client == "10.0.0.1:40000"
            assert ("client", "LOOKUP") in lived.commands
            assert ("server", "SUCCESS") in lived.commands

    def test_without_other_evidence_the_known_port_is_the_server_s(self) -> None:
        conversation = talk(client=("10.0.0.1", 6650), server=("10.0.0.2", 40000)).client(PING + PING)
        assert Lived(conversation.packets).row.server == "10.0.0.1:6650"

    def test_else_the_lower_port_is(self) -> None:
        for client, server in ((40000, 7000), (7000, 40000)):
            row = Lived(talk(client=("10.0.0.1", client), server=("10.0.0.2", server)).client(PING + PING).packets).row
            assert (row.server or "").endswith(":7000")

    def test_the_endpoints_are_known_while_it_lives(self) -> None:
        lived = Lived(talk().handshake().client(CONNECT).packets)
        assert lived.timeline.endpoints() == ("10.0.0.1:40000", "10.0.0.2:6650")
        assert lived.timeline.dissector == "pulsar"


class TestOtherProtocols:
    @pytest.mark.parametrize(
        ("port", "start", "codes"),
        [
            (6650, b"GET / HTTP/1.1\r\n\r\n", ["http-on-plain-port"]),
            (6650, b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1", ["tls-on-plain-port"]),
            (6651, b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1", ["tls-no-secrets"]),
            (6650, b"SSH-2.0-OpenSSH_9.0\r\n", ["not-pulsar"]),
            (6650, b"\xff" * 30, ["not-pulsar"]),
            (80, b"GET / HTTP/1.1\r\n\r\n", []),
            (443, b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1", []),
        ],
    )
    def test_on_a_port_of_a_known_protocol_they_are_a_finding(self, port: int, start: bytes, codes: list[str]) -> None:
        lived = Lived(talk(server=("10.0.0.2", port)).handshake().client(start).close().packets)
        assert lived.codes == codes
        assert lived.commands == []
        for row in lived.rows:
            if isinstance(row, FindingRow):
                assert (row.connection, row.packet) == ("0:1", 1)
                assert row.evidence == {"client": "10.0.0.1:40000", "server": f"10.0.0.2:{port}", "bytes": len(start)}
        assert lived.row.tls == ("TLS" if start[:1] == b"\x16" else None)

    def test_a_connection_without_a_byte_is_none(self) -> None:
        assert Lived(talk().handshake().close().packets).codes == []


class TestSettings:
    def test_a_forced_port_needs_no_proof(self) -> None:
        packets = talk(server=("10.0.0.2", 7000)).handshake().client(PING).close().packets
        assert Lived(packets).commands == [("client", "PING")]  # proven by the end of the stream
        assert Lived(packets, settings(forced={7000: DISSECTOR})).commands == [("client", "PING")]
        garbage = talk(server=("10.0.0.2", 7000)).handshake().client(b"\xff" * 20).close().packets
        assert Lived(garbage).row.dissector is None
        forced = Lived(garbage, settings(forced={7000: DISSECTOR}))
        assert (forced.row.dissector, forced.commands) == ("pulsar", [("client", None)])

    def test_only_what_is_asked_for_is_kept(self) -> None:
        assert settings("frame").kept() == KeptBytes()
        assert settings("message").kept() == KeptBytes(payload=True)
        assert settings("frame", raw=True).kept() == KeptBytes(raw=True)

    def test_raw_bytes_follow_their_frame(self) -> None:
        lived = Lived(talk().handshake().client(CONNECT).server(CONNECTED).packets, settings("frame", "exchange", raw=True))
        assert [type(row).__name__ for row in lived.rows] == ["FrameRow", "RawFrame", "FrameRow", "RawFrame", "ExchangeRow"]
        raws = [row.data for row in lived.rows if isinstance(row, RawFrame)]
        assert raws == [CONNECT, CONNECTED]


@pytest.mark.parametrize("read_bytes", [100, 300, 1000])
def test_blocks_make_no_difference(read_bytes: int) -> None:
    conversation = talk().handshake().client(CONNECT).server(CONNECTED, mss=7).client(LOOKUP, mss=5).server(PING, mss=1).lose("client", 30)
    packets = conversation.client(PING + PING, mss=9).client(b"\xff" * 40).reset().packets
    assert Lived(packets, read_bytes=read_bytes).rows == Lived(packets).rows


class TestTls:
    """A TLS connection instead of a plain one; `tests/tls` tests its content in all forms."""

    SAID = ((0, CONNECT), (1, CONNECTED), (0, LOOKUP), (1, PING))

    def lived(self, said: Sequence[tuple[int, bytes]] = SAID, *, known: bool = True, port: int = 6651, **more: Any) -> Lived:
        recording = record(said)
        secrets = secrets_of(recording.key_log) if known else Secrets()
        return Lived(packets_of(recording.flights, port), settings(secrets=secrets, **more))

    def test_counts_and_offsets_are_those_of_what_is_inside(self) -> None:
        plain = Lived(packets_of(self.SAID, 6651))
        inside = self.lived()
        assert inside.commands == plain.commands
        for name in ("bytes", "frames", "missing", "skipped", "tail"):
            for side in ("client", "server"):
                assert getattr(inside.row, f"{side}_{name}") == getattr(plain.row, f"{side}_{name}")
        offsets = [[row.offset for row in one.rows if isinstance(row, FrameRow)] for one in (inside, plain)]
        assert offsets[0] == offsets[1]
        assert (inside.row.tls or "").startswith("TLSv1.3 sni=broker.example cipher=")
        assert plain.row.tls is None
        assert inside.codes == []

    @pytest.mark.parametrize(("port", "codes"), [(6651, ["tls-no-secrets"]), (6650, ["tls-no-secrets"]), (443, [])])
    def test_without_secrets_it_is_a_note_on_the_ports_of_the_protocol(self, port: int, codes: list[str]) -> None:
        lived = self.lived(known=False, port=port)
        assert lived.codes == codes
        assert lived.row.dissector is None
        assert lived.row.client_bytes == lived.row.client_skipped

    def test_without_secrets_a_port_given_by_the_user_has_the_note_too(self) -> None:
        assert self.lived(known=False, port=443, forced={443: DISSECTOR}).codes == ["tls-no-secrets"]

    @pytest.mark.parametrize(("port", "reported"), [(6651, True), (6650, True), (443, False)])
    @pytest.mark.parametrize("whole", [True, False])
    def test_without_secrets_the_network_is_judged(self, port: int, tmp_path: Path, *, reported: bool, whole: bool) -> None:
        talk = Conversation(server=("10.0.0.2", port)).handshake()
        for side, data in record(self.SAID).flights:
            (talk.client if side == 0 else talk.server)(data)
        packets = talk.reset("client", foreign=True).packets
        lacking = [*packets[3:5], *packets[7:]]  # the handshake of TCP, and some bytes
        found = Diagnosis(write_pcap(tmp_path / "tls.pcap", packets if whole else lacking)).findings
        assert {row.code for row in found} == ({"reset-between", "tls-no-secrets"} if reported else set())
        assert {row.connection for row in found} == ({"0:1"} if reported else set())

    def test_on_a_port_given_by_the_user_it_is_read(self) -> None:
        assert self.lived(port=443, forced={443: DISSECTOR}).commands == self.lived().commands

    def test_other_protocols_inside_are_named(self) -> None:
        said = [(0, b"GET /admin/v2/clusters HTTP/1.1\r\n\r\n"), (1, b"HTTP/1.1 200 OK\r\n\r\n[]")]
        lived = self.lived(said, port=8443)
        assert (lived.row.tls or "").endswith(" content=http")
        assert (lived.row.dissector, lived.codes, lived.commands) == (None, [], [])
        assert lived.row.client_bytes == lived.row.client_skipped

    def test_a_proxy_header_may_come_before(self) -> None:
        recording = record(self.SAID)
        head = b"PROXY TCP4 192.0.2.7 10.0.0.2 4711 6651\r\n"
        packets = packets_of([(0, head + recording.flights[0][1]), *recording.flights[1:]], 6651)
        lived = Lived(packets, settings(secrets=secrets_of(recording.key_log)))
        assert lived.row.proxy_source == "192.0.2.7:4711"
        assert lived.row.client_skipped == len(head)
        assert lived.commands == [("client", None), *self.lived().commands]

    def test_who_says_hello_is_the_client_without_a_syn(self) -> None:
        recording = record(self.SAID)
        packets = packets_of(recording.flights, 40001)[3:]
        lived = Lived(packets, settings(secrets=Secrets()))
        assert (lived.row.client, lived.row.server) == ("10.0.0.1:40000", "10.0.0.2:40001")

    @pytest.mark.parametrize("read_bytes", [1, 97, 1000])
    def test_blocks_of_any_size_give_the_same(self, read_bytes: int) -> None:
        recording = record(self.SAID)
        chosen = settings(secrets=secrets_of(recording.key_log))
        packets = packets_of(recording.flights, mss=50)
        cut, whole = Lived(packets, chosen, read_bytes), Lived(packets, chosen)
        assert [row for row in cut.rows if isinstance(row, FrameRow)] == [row for row in whole.rows if isinstance(row, FrameRow)]
        assert cut.rows[-1] == whole.rows[-1]
