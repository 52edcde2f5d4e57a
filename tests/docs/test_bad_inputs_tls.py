"""The rows of the catalogue about TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pulsarscope.model.limits import KEY_LOG_LINE_MAX_BYTES
from tests.scenarios import Conversation
from tests.scenarios.bad_inputs.cases import (
    CONNECT,
    CONNECTED,
    HEALTHY,
    PRODUCER,
    PRODUCER_SUCCESS,
    assert_promised,
    capture,
    look,
    row,
    send,
)
from tests.scenarios.capture_bytes import Pcapng
from tests.scenarios.commands import receipt
from tests.scenarios.tls import sealing
from tests.scenarios.tls.feeding import packets_of
from tests.scenarios.tls.peers import CLIENT, SERVER, Flight, Recording, record
from tests.scenarios.tls.sealing import HANDSHAKE, Sealer

SAID = [(CLIENT, CONNECT), (SERVER, CONNECTED), (CLIENT, PRODUCER), (SERVER, PRODUCER_SUCCESS)]
for _number in range(3):
    SAID += [(CLIENT, send(_number)), (SERVER, receipt(1, _number, entry=_number))]

BLOCKS = Pcapng()
ALL_SECRETS = (*sealing.HANDSHAKES, *sealing.TRAFFIC)


@pytest.fixture(scope="module", params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def healthy(request: pytest.FixtureRequest) -> Recording:
    return record(SAID, request.param)


def logged(tmp_path: Path, key_log: bytes, name: str = "secrets.log") -> Path:
    path = tmp_path / name
    path.write_bytes(key_log)
    return path


@row(115)
def test_without_secrets_tls_is_named_and_with_them_it_is_read(tmp_path: Path, healthy: Recording) -> None:
    path = capture(tmp_path, packets_of(healthy.flights))
    seen = look(path)
    assert_promised(115, seen, {"tls-no-secrets"})
    assert seen.commands == []
    (finding,) = seen.findings
    assert "--tls-keylog" in (finding.hint or "")
    seen = look(path, key_logs=[logged(tmp_path, healthy.key_log)])
    assert_promised(115, seen, set())
    assert seen.commands == HEALTHY


@row(115)
def test_secrets_of_another_session_are_none(tmp_path: Path, healthy: Recording) -> None:
    other = record(SAID)
    seen = look(capture(tmp_path, packets_of(healthy.flights)), key_logs=[logged(tmp_path, other.key_log)])
    assert_promised(115, seen, {"tls-no-secrets"})


@row(115)
def test_junk_in_key_logs_is_counted(tmp_path: Path, healthy: Recording) -> None:
    junk = b"# a comment\r\n\r\nCLIENT_RANDOM zz zz\r\n\0\x1b[2J\nCLIENT_RANDOM 00\n" + b"A" * (2 * KEY_LOG_LINE_MAX_BYTES) + b"\n"
    again = b"\n".join(line[:-4] + b"0000" for line in healthy.key_log.splitlines())
    key_log = logged(tmp_path, junk + healthy.key_log.replace(b"\n", b"\r\n") + again)
    seen = look(capture(tmp_path, packets_of(healthy.flights)), key_logs=[key_log])
    assert_promised(115, seen, {"tls-key-log-malformed"})
    assert seen.findings[0].evidence is not None
    assert seen.findings[0].evidence["lines"] == 5
    assert seen.commands == HEALTHY


def pcapng(flights: list[Flight], *blocks: tuple[int, bytes]) -> bytes:
    """A capture with a key log before each of these packets."""
    data = BLOCKS.section() + BLOCKS.interface()
    for number, packet in enumerate(packets_of(flights)):
        data += b"".join(BLOCKS.secrets(key_log) for before, key_log in blocks if before == number)
        data += BLOCKS.packet(packet.data, ticks=packet.time_ns // 1000)
    return data


@row(116)
@pytest.mark.parametrize("place", [0, 3, 6, 9], ids=["first", "before-the-hello", "within", "after-the-handshake"])
def test_secrets_of_the_capture_hold_from_their_place_on(tmp_path: Path, healthy: Recording, place: int) -> None:
    seen = look(capture(tmp_path, pcapng(healthy.flights, (place, healthy.key_log)), "secrets.pcapng"))
    assert_promised(116, seen, set())
    assert seen.commands == HEALTHY


@row(116)
def test_secrets_may_come_in_parts_and_with_junk(tmp_path: Path, healthy: Recording) -> None:
    lines = healthy.key_log.splitlines(keepends=True)
    parts = [(place, line) for place, line in enumerate(lines)]
    seen = look(capture(tmp_path, pcapng(healthy.flights, *parts, (1, b"junk\n")), "secrets.pcapng"))
    assert_promised(116, seen, {"tls-key-log-malformed"})
    assert seen.commands == HEALTHY


@row(116)
def test_secrets_after_the_connection_are_of_no_use_to_it(tmp_path: Path, healthy: Recording) -> None:
    data = pcapng(healthy.flights) + BLOCKS.secrets(healthy.key_log)
    seen = look(capture(tmp_path, data, "secrets.pcapng"))
    assert_promised(116, seen, {"tls-no-secrets"})


@row(116)
def test_a_block_of_secrets_that_claims_more_than_it_has(tmp_path: Path, healthy: Recording) -> None:
    block = BLOCKS.secrets(healthy.key_log)
    data = pcapng(healthy.flights)
    head = len(BLOCKS.section() + BLOCKS.interface())
    longer = block[:12] + (len(healthy.key_log) + 5000).to_bytes(4, "little") + block[16:]
    seen = look(capture(tmp_path, data[:head] + longer + data[head:], "secrets.pcapng"))
    assert_promised(116, seen)
    assert seen.commands == HEALTHY


def sealed(*said: bytes) -> list[Flight]:
    """A handshake, CONNECT and CONNECTED, then these records of the client."""
    client, server = map(Sealer, sealing.TRAFFIC)
    return [*sealing.handshake(), (CLIENT, client.seal(CONNECT)), (SERVER, server.seal(CONNECTED)), *((CLIENT, data) for data in said)]


@row(117)
@pytest.mark.parametrize(
    "odd",
    [
        b"\x17\x03\x03\0\0",
        b"\x17\x03\x03\xff\xff" + bytes(90),
        b"\x63\x03\x03\0\x05hello",
        b"\x17\x09\x09\0\x05hello",
        b"\x17\x03\x03\0\x20" + bytes(32),
    ],
    ids=["empty", "too-long", "type", "version", "no-content"],
)
def test_records_that_cannot_be_are_passed_over(tmp_path: Path, odd: bytes) -> None:
    client = Sealer(sealing.TRAFFIC[0])
    client.seal(CONNECT)
    flights = sealed(client.seal(PRODUCER), odd, client.seal(send(0)) + client.seal(send(1)))
    seen = look(capture(tmp_path, packets_of(flights)), key_logs=[logged(tmp_path, sealing.key_log(*ALL_SECRETS))])
    assert_promised(117, seen)
    assert seen.commands == ["CONNECT", "CONNECTED", "PRODUCER", "SEND", "SEND"]


@row(117)
def test_records_that_do_not_decrypt_are_reported_once(tmp_path: Path) -> None:
    client = Sealer(sealing.TRAFFIC[0])
    client.seal(CONNECT)
    bad = [client.seal(send(number))[:-1] + b"\0" for number in range(40)]
    flights = sealed(*bad, client.seal(send(50)))
    seen = look(capture(tmp_path, packets_of(flights)), key_logs=[logged(tmp_path, sealing.key_log(*ALL_SECRETS))])
    assert_promised(117, seen)
    assert len(seen.texts("tls-decrypt-failed")) == 1
    assert seen.commands == ["CONNECT", "CONNECTED"]


@row(118)
def test_after_a_gap_reading_goes_on_at_the_next_whole_record(tmp_path: Path) -> None:
    client = Sealer(sealing.TRAFFIC[0])
    client.seal(CONNECT)
    records = [client.seal(send(number)) for number in range(20)]
    packets = packets_of(sealed(*records))
    connection = packets[9:-3]
    lost = packets.index(next(packet for packet in connection if records[7] in packet.data))
    del packets[lost : lost + 6]
    seen = look(capture(tmp_path, packets), key_logs=[logged(tmp_path, sealing.key_log(*ALL_SECRETS))])
    assert_promised(118, seen)
    assert "stream-gap" in seen.codes
    assert seen.commands.count("SEND") == 17
    assert "tls-decrypt-failed" not in seen.codes


@row(119)
def test_a_start_in_the_middle_is_named(tmp_path: Path, healthy: Recording) -> None:
    packets = packets_of(healthy.flights)
    application_data = next(number for number, packet in enumerate(packets) if number > 12 and packet.data[54:55] == b"\x17")
    seen = look(capture(tmp_path, packets[application_data:]), key_logs=[logged(tmp_path, healthy.key_log)])
    assert_promised(119, seen, {"tls-no-secrets"})
    assert "handshake" in seen.texts("tls-no-secrets")[0]


@row(119)
def test_suites_that_are_not_decrypted_are_named(tmp_path: Path) -> None:
    hello = sealing.clear(HANDSHAKE, sealing.client_hello())
    answer = sealing.clear(HANDSHAKE, sealing.server_hello(0x000A, version=0x0303)) + sealing.CHANGE_CIPHER_SPEC
    seen = look(capture(tmp_path, packets_of([(CLIENT, hello), (SERVER, answer + sealing.clear(23, bytes(64)))])))
    assert_promised(119, seen, {"tls-decrypt-failed"})
    assert "cipher=0x000a" in (seen.connections[0].tls or "")


@row(119)
def test_key_updates_early_data_and_another_hello_are_read(tmp_path: Path) -> None:
    early, client, server = Sealer(sealing.EARLY), *map(Sealer, sealing.TRAFFIC)
    hello, answer, finished = sealing.handshake()
    first = hello[1] + sealing.CHANGE_CIPHER_SPEC + early.seal(CONNECT)
    last = early.seal(sealing.END_OF_EARLY_DATA, HANDSHAKE) + finished[1][6:]
    flights = [(CLIENT, first), answer, (CLIENT, last), (SERVER, server.seal(CONNECTED) + server.update())]
    flights += [(CLIENT, client.update() + client.seal(PRODUCER)), (SERVER, server.seal(PRODUCER_SUCCESS))]
    key_log = logged(tmp_path, sealing.key_log(sealing.EARLY, *ALL_SECRETS))
    seen = look(capture(tmp_path, packets_of(flights)), key_logs=[key_log])
    assert_promised(119, seen, set())
    assert seen.commands == HEALTHY[:4]


@row(120)
@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_may_just_end(tmp_path: Path, healthy: Recording, reset: bool) -> None:
    closing = 2  # a close_notify of each side
    conversation = Conversation(server=("10.0.0.2", 6651)).handshake()
    for side, data in healthy.flights[:-closing]:
        (conversation.client, conversation.server)[side](data)
    packets = conversation.reset().packets if reset else conversation.packets
    seen = look(capture(tmp_path, packets), key_logs=[logged(tmp_path, healthy.key_log)])
    assert_promised(120, seen, {"connection-reset"} if reset else set())
    assert seen.commands == HEALTHY


@row(120)
def test_a_handshake_that_is_refused_says_why(tmp_path: Path) -> None:
    flights = [(CLIENT, sealing.clear(HANDSHAKE, sealing.client_hello())), (SERVER, sealing.clear(sealing.ALERT, b"\x02\x28"))]
    seen = look(capture(tmp_path, packets_of(flights)))
    assert_promised(120, seen, {"tls-no-secrets"})
    assert seen.connections[0].tls == "TLS server-alert=handshake_failure"
