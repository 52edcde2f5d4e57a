"""TLS connections of real peers, and rarer parts from our own writer."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.inputs.key_logs import Secrets
from pulsarscope.model.limits import TLS_FAILED_RECORDS_MAX, TLS_LOST_RECORDS_MAX, TLS_RECORD_MAX_BYTES, TLS_WAITING_MAX_BYTES
from pulsarscope.tls.connection import TlsConnection
from tests.scenarios.tls import sealing
from tests.scenarios.tls.feeding import Delivered, Packet, cut, feed, secrets_of
from tests.scenarios.tls.peers import CLIENT, SERVER, Recording, record
from tests.scenarios.tls.sealing import HANDSHAKE, Sealer

SAID = [(CLIENT, b"CONNECT"), (SERVER, b"CONNECTED" * 40), (CLIENT, b"x" * 40_000), (SERVER, b"y" * 17_000), (CLIENT, b"."), (SERVER, b"!")]
INSIDE = tuple(b"".join(data for side, data in SAID if side == sender) for sender in (CLIENT, SERVER))

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3

SUITES_1_2 = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "ec"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "ec"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "ec"),
    ("ECDHE-ECDSA-AES128-CCM", "ec"),
    ("ECDHE-ECDSA-AES256-CCM", "ec"),
    ("ECDHE-ECDSA-AES128-CCM8", "ec"),
    ("ECDHE-ECDSA-AES256-CCM8", "ec"),
    ("ECDHE-ECDSA-AES128-SHA256", "ec"),
    ("ECDHE-ECDSA-AES256-SHA384", "ec"),
    ("ECDHE-ECDSA-AES128-SHA", "ec"),
    ("ECDHE-ECDSA-AES256-SHA", "ec"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "rsa"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "rsa"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "rsa"),
    ("ECDHE-RSA-AES128-SHA256", "rsa"),
    ("ECDHE-RSA-AES256-SHA384", "rsa"),
    ("ECDHE-RSA-AES128-SHA", "rsa"),
    ("ECDHE-RSA-AES256-SHA", "rsa"),
    ("DHE-RSA-AES128-GCM-SHA256", "rsa"),
    ("DHE-RSA-AES256-GCM-SHA384", "rsa"),
    ("DHE-RSA-CHACHA20-POLY1305", "rsa"),
    ("DHE-RSA-AES128-CCM", "rsa"),
    ("DHE-RSA-AES256-CCM", "rsa"),
    ("DHE-RSA-AES128-CCM8", "rsa"),
    ("DHE-RSA-AES256-CCM8", "rsa"),
    ("DHE-RSA-AES128-SHA256", "rsa"),
    ("DHE-RSA-AES256-SHA256", "rsa"),
    ("AES128-GCM-SHA256", "rsa"),
    ("AES256-GCM-SHA384", "rsa"),
    ("AES128-CCM", "rsa"),
    ("AES256-CCM", "rsa"),
    ("AES128-CCM8", "rsa"),
    ("AES256-CCM8", "rsa"),
    ("AES128-SHA256", "rsa"),
    ("AES256-SHA256", "rsa"),
    ("AES128-SHA", "rsa"),
    ("AES256-SHA", "rsa"),
]


def read(recording: Recording, known: Secrets | None = None, sizes: tuple[int, ...] = (1460,), block: int = 1 << 30) -> Delivered:
    known = secrets_of(recording.key_log) if known is None else known
    return feed(TlsConnection(known), cut(recording.flights, sizes), block)


def check(got: Delivered, inside: tuple[bytes, ...] = INSIDE) -> None:
    assert (got.plain(CLIENT), got.plain(SERVER)) == inside
    assert got.connection.undecrypted() is None
    assert [direction.undecrypted for direction in got.connection.directions] == [0, 0]


@pytest.mark.parametrize(("ciphers", "certificate"), SUITES_1_2)
def test_every_suite_of_1_2_is_read(ciphers: str, certificate: str) -> None:
    got = read(record(SAID, TLS_1_2, ciphers, certificate))
    check(got)
    assert got.connection.describe().startswith("TLSv1.2 sni=broker.example cipher=TLS_")


def test_1_3_is_read() -> None:
    got = read(record(SAID, TLS_1_3))
    check(got)
    described = got.connection.describe()
    assert described.startswith("TLSv1.3 sni=broker.example cipher=TLS_AES_256_GCM_SHA384")
    assert 'server-certificate="CN=broker" server-names=broker.example,localhost,127.0.0.1' in described


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_resumed_session_is_read_with_the_secrets_of_its_own_connection(version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    first = record(SAID, version, context=context)
    second = record(SAID, version, context=context, session=first.session)
    assert second.reused
    check(read(second))
    got = read(second, secrets_of(first.key_log))
    assert (got.plain(CLIENT), got.plain(SERVER)) == (b"", b"")


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_session_without_tickets_is_read(version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    first = record(SAID, version, "ECDHE-ECDSA-AES128-GCM-SHA256", context=context, options=ssl.OP_NO_TICKET)
    check(read(record(SAID, version, "ECDHE-ECDSA-AES128-GCM-SHA256", context=context, session=first.session, options=ssl.OP_NO_TICKET)))


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_names_protocols_and_the_certificates_of_both_are_reported(version: ssl.TLSVersion) -> None:
    recording = record(SAID, version, alpn=("h2", "http/1.1"), client_certificate=True)
    described = read(recording).connection.describe()
    assert "sni=broker.example alpn=h2 " in described
    assert 'server-certificate="CN=broker"' in described
    assert 'client-certificate="CN=broker"' in described
    undecrypted = read(recording, Secrets()).connection.describe()
    assert "sni=broker.example alpn" in undecrypted
    assert ('server-certificate="CN=broker"' in undecrypted) == (version == TLS_1_2)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("sizes", [(1,), (5, 1), (7, 1460, 1), (100_000,)])
@pytest.mark.parametrize("block", [1, 3, 1 << 30])
def test_how_it_is_cut_does_not_matter(version: ssl.TLSVersion, sizes: tuple[int, ...], block: int) -> None:
    recording = record([(CLIENT, b"ask" * 50), (SERVER, b"answer" * 700)], version)
    check(read(recording, sizes=sizes, block=block), (b"ask" * 50, b"answer" * 700))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    said=st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=3000)), max_size=6),
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=5),
    block=st.integers(1, 40),
    version=st.sampled_from([TLS_1_2, TLS_1_3]),
)
def test_whatever_is_said_however_it_is_cut_comes_out_the_same(
    said: list[tuple[int, bytes]], sizes: list[int], block: int, version: ssl.TLSVersion
) -> None:
    recording = record(said, version)
    got = read(recording, sizes=tuple(sizes), block=block)
    check(got, tuple(b"".join(data for side, data in said if side == sender) for sender in (CLIENT, SERVER)))
    uncut = read(recording, sizes=tuple(sizes))
    for side in (CLIENT, SERVER):
        assert got.pieces(side) == uncut.pieces(side)
        moments = [piece[3] for piece in got.pieces(side)]
        assert moments == sorted(moments)


def test_content_is_named_by_the_packet_that_completed_its_record() -> None:
    recording = record(SAID, TLS_1_2, "ECDHE-ECDSA-AES128-GCM-SHA256")
    packets = cut(recording.flights, (997,))
    got = feed(TlsConnection(secrets_of(recording.key_log)), packets)
    for side in (CLIENT, SERVER):
        ends = []
        offset = 0
        for number, packet in enumerate(packets, 1):
            if packet.side == side:
                offset += len(packet.data)
                ends.append((offset, number))
        stream, position, sender = recording.stream(side), 0, []
        while position < len(stream):
            kind, size = stream[position], int.from_bytes(stream[position + 3 : position + 5], "big")
            position += 5 + size
            if kind == 23:
                sender.append(next(number for end, number in ends if end >= position))
        assert [(packet, time // 1_000_000_000, moment) for _, packet, time, moment in got.pieces(side)] == [
            (number, number, number) for number in sender
        ]


@pytest.mark.parametrize(("suite", "inside"), [(0xC02F, b"before and after"), (0xC030, b"before "), (0x000A, b"before ")])
def test_a_handshake_within_tls_1_2_brings_keys_of_its_own(suite: int, inside: bytes) -> None:
    client, server = sealing.Sealer12(CLIENT), sealing.Sealer12(SERVER)
    flights: list[tuple[int, bytes]] = []
    key_log = b""
    for number, (chosen, content) in enumerate([(0xC02F, b"before "), (suite, b"and after")]):
        randoms, master_secret = (bytes((number, 1)) * 16, bytes((number, 2)) * 16), bytes((number,)) * 48
        key_log += b"CLIENT_RANDOM %s %s\n" % (randoms[CLIENT].hex().encode(), master_secret.hex().encode())
        flights.append((CLIENT, client.record(sealing.client_hello(randoms[CLIENT]), HANDSHAKE)))
        flights.append((SERVER, server.record(sealing.server_hello_12(chosen, randoms[SERVER]), HANDSHAKE)))
        for side, sealer in ((CLIENT, client), (SERVER, server)):
            flights.append((side, sealer.change(master_secret, *randoms) + sealer.record(sealing.FINISHED, HANDSHAKE)))
        flights.append((CLIENT, client.record(content)))
    got = feed(TlsConnection(secrets_of(key_log)), cut(flights, (1460,)))
    assert got.plain(CLIENT) == inside
    undecrypted = got.connection.undecrypted()
    assert (undecrypted and undecrypted.reason) == {0xC02F: None, 0xC030: "failed", 0x000A: "unsupported"}[suite]


# ---- TLS 1.3 from our own writer


def inside(flights: list[tuple[int, bytes]], log: bytes, sizes: tuple[int, ...] = (1460,)) -> Delivered:
    return feed(TlsConnection(secrets_of(log)), cut(flights, sizes))


ALL_SECRETS = (*sealing.HANDSHAKES, *sealing.TRAFFIC)


@pytest.mark.parametrize("suite", sealing.SUITES)
@pytest.mark.parametrize("sizes", [(1460,), (1,)])
def test_every_suite_of_1_3_is_read(suite: int, sizes: tuple[int, ...]) -> None:
    client, server = (Sealer(label, suite) for label in sealing.TRAFFIC)
    said = [(CLIENT, client.seal(b"ask")), (SERVER, server.seal(b"answer" * 1000)), (CLIENT, client.seal(b"more"))]
    got = inside([*sealing.handshake(suite), *said], sealing.key_log(*ALL_SECRETS, suite=suite), sizes)
    check(got, (b"askmore", b"answer" * 1000))


def test_padding_tickets_and_empty_records_are_not_content() -> None:
    client, server = map(Sealer, sealing.TRAFFIC)
    said = [
        (SERVER, server.seal(sealing.TICKET[:3], HANDSHAKE) + server.seal(sealing.TICKET[3:], HANDSHAKE)),
        (CLIENT, client.seal(b"ask", padding=300) + client.seal(b"", padding=20) + client.seal(b"\0\0")),
        (SERVER, server.seal(b"answer")),
    ]
    check(inside([*sealing.handshake(), *said], sealing.key_log(*ALL_SECRETS)), (b"ask\0\0", b"answer"))


def test_keys_are_updated_on_either_side() -> None:
    client, server = map(Sealer, sealing.TRAFFIC)
    said = [(CLIENT, client.seal(b"1") + client.update() + client.seal(b"2")), (SERVER, server.seal(b"a") + server.update())]
    said += [(SERVER, server.seal(b"b") + server.update() + server.seal(b"c")), (CLIENT, client.seal(b"3") + client.update())]
    check(inside([*sealing.handshake(), *said, (CLIENT, client.seal(b"4"))], sealing.key_log(*ALL_SECRETS)), (b"1234", b"abc"))


def test_a_server_may_ask_for_another_hello() -> None:
    flights = sealing.handshake()
    retry = sealing.clear(HANDSHAKE, sealing.server_hello(random=sealing.RETRY_RANDOM)) + sealing.CHANGE_CIPHER_SPEC
    again = (CLIENT, sealing.CHANGE_CIPHER_SPEC + flights[0][1])
    client = Sealer(sealing.TRAFFIC[0])
    got = inside([flights[0], (SERVER, retry), again, *flights[1:], (CLIENT, client.seal(b"ask"))], sealing.key_log(*ALL_SECRETS))
    check(got, (b"ask", b""))


def early_flights(*, accepted: bool) -> list[tuple[int, bytes]]:
    early, client = Sealer(sealing.EARLY), Sealer(sealing.TRAFFIC[0])
    hello, answer, finished = sealing.handshake()
    first = hello[1] + sealing.CHANGE_CIPHER_SPEC + early.seal(b"early ") + early.seal(b"data ")
    last = (early.seal(sealing.END_OF_EARLY_DATA, HANDSHAKE) if accepted else b"") + finished[1][6:]
    return [(CLIENT, first), answer, (CLIENT, last), (CLIENT, client.seal(b"and more"))]


def test_early_data_that_the_server_takes_is_content() -> None:
    check(inside(early_flights(accepted=True), sealing.key_log(sealing.EARLY, *ALL_SECRETS)), (b"early data and more", b""))


def test_more_early_data_than_is_held_is_a_gap_of_its_length() -> None:
    early, client = Sealer(sealing.EARLY), Sealer(sealing.TRAFFIC[0])
    hello, answer, finished = sealing.handshake()
    buffered = b"e" * (TLS_WAITING_MAX_BYTES - 10_000)
    said = early.seal(buffered) + early.seal(b"x" * 15_000) + early.seal(b"y" * 5) + early.seal(sealing.END_OF_EARLY_DATA, HANDSHAKE)
    flights = [hello, answer, (CLIENT, said + finished[1][6:] + client.seal(b"."))]
    got = inside(flights, sealing.key_log(sealing.EARLY, *ALL_SECRETS))
    assert got.plain(CLIENT) == buffered + b"?" * 15_005 + b"."
    assert got.connection.directions[CLIENT].missing == 15_005


@pytest.mark.parametrize("labels", [(sealing.EARLY, *ALL_SECRETS), ALL_SECRETS], ids=["known", "unknown"])
def test_early_data_that_the_server_refuses_is_none(labels: tuple[str, ...]) -> None:
    check(inside(early_flights(accepted=False), sealing.key_log(*labels)), (b"and more", b""))


def test_the_secrets_of_the_handshake_are_not_needed() -> None:
    client, server = map(Sealer, sealing.TRAFFIC)
    said = [(CLIENT, client.seal(b"ask")), (SERVER, server.seal(b"answer"))]
    check(inside([*sealing.handshake(), *said], sealing.key_log(*sealing.TRAFFIC)), (b"ask", b"answer"))


def test_a_side_whose_answer_comes_first_in_the_capture_waits_for_it() -> None:
    client, server = map(Sealer, sealing.TRAFFIC)
    hello, answer, finished = sealing.handshake()
    flights = [hello, (CLIENT, finished[1] + client.seal(b"ask")), (SERVER, answer[1] + server.seal(b"answer"))]
    got = inside(flights, sealing.key_log(*ALL_SECRETS))
    check(got, (b"ask", b"answer"))
    assert got.pieces(CLIENT)[0][1:] == (2, 2_000_000_000, 3)  # named after its packet, readable with the next


# ---- loss and damage


def lossy(lost: range, *, update: bool = False, sizes: int = 100) -> tuple[Delivered, bytes]:
    """Draw records of the client, one per packet, some of them lost, and the plaintext with question marks for lost content."""
    client = Sealer(sealing.TRAFFIC[0])
    records, said = [], []
    for number in range(40):
        content = bytes((65 + number % 26,)) * (sizes + number)
        records.append(client.seal(content))
        said.append(b"?" * len(content) if number in lost else content)
        if update and number == lost[-1]:
            client.update()
    packets = cut(sealing.handshake(), (10_000,))
    packets += [Packet(CLIENT, b"" if number in lost else data, len(data) if number in lost else 0) for number, data in enumerate(records)]
    return feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), packets), b"".join(said)


@pytest.mark.parametrize("lost", [range(1), range(5, 6), range(3, 30), range(38)])
def test_after_lost_records_the_count_is_found_again_and_the_gap_is_as_long_as_their_content(lost: range) -> None:
    got, said = lossy(lost)
    assert got.plain(CLIENT) == said
    assert got.connection.undecrypted() is None
    assert got.connection.directions[CLIENT].missing == said.count(b"?")


def test_a_key_update_may_be_lost_with_the_records() -> None:
    got, said = lossy(range(5, 9), update=True)
    assert got.plain(CLIENT).replace(b"?", b"") == said.replace(b"?", b"")
    assert len(got.gaps(CLIENT)) == 1


@pytest.mark.parametrize("first", [1, 4, 7, 100])
@pytest.mark.parametrize("size", [1, 3, 50, 700])
def test_a_gap_anywhere_loses_the_records_that_it_touches_and_no_more(first: int, size: int) -> None:
    client = Sealer(sealing.TRAFFIC[0])
    contents = [bytes((97 + number,)) * 90 for number in range(12)]
    records = [client.seal(content) for content in contents]
    stream = b"".join(records)
    touched = range(first // len(records[0]), (first + size - 1) // len(records[0]) + 1)
    packets = cut(sealing.handshake(), (10_000,))
    packets += [Packet(CLIENT, stream[:first]), Packet(CLIENT, b"", size), *cut([(CLIENT, stream[first + size :])], (33,))]
    got = feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), packets)
    assert got.plain(CLIENT) == b"".join(b"?" * 90 if number in touched else content for number, content in enumerate(contents))


@pytest.mark.parametrize(("remaining", "read"), [(42, False), (43, True), (60, True)])
def test_of_a_hello_the_end_may_be_lost_but_not_the_random(remaining: int, read: bool) -> None:
    client, server = map(Sealer, sealing.TRAFFIC)
    (_, hello), *rest = sealing.handshake()
    flights = [*rest, (SERVER, server.seal(b"answer")), (CLIENT, client.seal(b"ask"))]
    packets = [Packet(CLIENT, hello[:remaining]), Packet(CLIENT, b"", len(hello) - remaining), *cut(flights, (1460,))]
    got = feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), packets)
    assert (got.plain(CLIENT), got.plain(SERVER)) == ((b"ask", b"answer") if read else (b"", b""))
    assert got.connection.directions[CLIENT].clear_bytes == remaining


def test_the_answer_to_a_hello_does_not_wait_for_the_end_of_it() -> None:
    server = Sealer(sealing.TRAFFIC[1])
    (_, hello), answer, _ = sealing.handshake()
    flights = [answer, *[(SERVER, server.seal(b"answer" * 1000)) for _ in range(5)]]
    packets = [Packet(CLIENT, hello[:60]), *cut(flights, (1460,)), Packet(CLIENT, b"", len(hello) - 60)]
    got = feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), packets)
    assert got.plain(SERVER) == b"answer" * 5000


def test_messages_before_the_loss_in_a_record_are_read() -> None:
    client = Sealer(sealing.TRAFFIC[0])
    (_, hello), (_, answer), finished = sealing.handshake()
    answer = sealing.clear(HANDSHAKE, sealing.server_hello() + sealing.message(11, bytes(3000)))
    lost = Packet(SERVER, b"", len(answer) - 1000)
    packets = [Packet(CLIENT, hello), Packet(SERVER, answer[:1000]), lost, *cut([finished, (CLIENT, client.seal(b"ask"))], (1460,))]
    got = feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), packets)
    assert got.plain(CLIENT) == b"ask"


def test_what_seems_to_be_a_record_in_clear_behind_a_gap_is_none() -> None:
    client = Sealer(sealing.TRAFFIC[0])
    records = [client.seal(content) for content in (b"one", b"two", b"three")]
    packets = [
        *cut(sealing.handshake(), (10_000,)),
        Packet(CLIENT, b"", len(records[0] + records[1])),
        Packet(CLIENT, b"\x16\x03\x03\0\x02"),
    ]
    got = feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), [*packets, Packet(CLIENT, records[2]), Packet(CLIENT, b"\x17")])
    assert got.plain(CLIENT).endswith(b"three")
    assert got.connection.undecrypted() is None


def test_a_damaged_record_is_a_gap_of_its_content_and_counted() -> None:
    client = Sealer(sealing.TRAFFIC[0])
    first, second, third = (client.seal(content) for content in (b"one", b"two", b"three"))
    got = inside([*sealing.handshake(), (CLIENT, first + second[:-1] + b"\0" + third)], sealing.key_log(*ALL_SECRETS))
    assert got.plain(CLIENT) == b"one???three"
    undecrypted = got.connection.undecrypted()
    assert undecrypted is not None
    assert (undecrypted.reason, undecrypted.records) == ("failed", 1)


def test_after_too_much_damage_nothing_more_is_tried_and_all_is_counted() -> None:
    client = Sealer(sealing.TRAFFIC[0])
    good = client.seal(b"good")
    bad = b"".join(client.seal(b"bad")[:-1] + b"\0" for _ in range(TLS_FAILED_RECORDS_MAX + 1))
    rest = client.seal(b"good again")
    got = inside([*sealing.handshake(), (CLIENT, good + bad + rest)], sealing.key_log(*ALL_SECRETS), (50,))
    direction = got.connection.directions[CLIENT]
    assert got.plain(CLIENT) == b"good"
    assert (direction.stopped, direction.failed) == (True, TLS_FAILED_RECORDS_MAX + 1)
    assert (direction.length, direction.undecrypted) == (4 + len(bad + rest), len(bad + rest))


def test_more_lost_records_than_are_searched_for_are_not_found_again() -> None:
    got, _ = lossy(range(38), sizes=1)
    assert got.connection.undecrypted() is None
    client = Sealer(sealing.TRAFFIC[0])
    gone = b"".join(client.seal(b"") for _ in range(TLS_LOST_RECORDS_MAX + 2))
    packets = [*cut(sealing.handshake(), (10_000,)), Packet(CLIENT, b"", len(gone)), *cut([(CLIENT, client.seal(b"x"))], (100,))]
    got = feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), packets)
    assert got.plain(CLIENT) == b""
    assert got.connection.directions[CLIENT].missing == len(gone)
    undecrypted = got.connection.undecrypted()
    assert undecrypted is not None
    assert undecrypted.reason == "failed"


def test_a_partial_record_at_the_end_is_counted() -> None:
    record = Sealer(sealing.TRAFFIC[0]).seal(b"ask")
    got = inside([*sealing.handshake(), (CLIENT, record[:-1])], sealing.key_log(*ALL_SECRETS))
    assert got.connection.directions[CLIENT].undecrypted == len(record) - 1


# ---- unreadable content


def test_without_secrets_it_says_so_and_holds_little() -> None:
    connection = TlsConnection(Secrets())
    got = feed(connection, cut(record(SAID).flights, (1460,)))
    assert (got.plain(CLIENT), got.plain(SERVER)) == (b"", b"")
    undecrypted = connection.undecrypted()
    assert undecrypted is not None
    assert undecrypted.reason == "no-secrets"
    assert connection.protected
    assert not connection.decrypted


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_wrong_secrets_open_nothing(version: ssl.TLSVersion) -> None:
    recording = record(SAID, version)
    wrong = b"\n".join(line[:-8] + b"deadbeef" for line in recording.key_log.splitlines())
    got = read(recording, secrets_of(wrong))
    undecrypted = got.connection.undecrypted()
    assert undecrypted is not None
    assert undecrypted.reason == "failed"
    assert undecrypted.records > 0
    assert (got.plain(CLIENT), got.plain(SERVER)) == (b"", b"")


def test_without_the_handshake_it_says_so() -> None:
    client = Sealer(sealing.TRAFFIC[0])
    got = inside([(CLIENT, client.seal(b"ask") * 200)], sealing.key_log(*ALL_SECRETS))
    undecrypted = got.connection.undecrypted()
    assert undecrypted is not None
    assert undecrypted.reason == "no-handshake"


@pytest.mark.parametrize(
    ("suite", "version"),
    [(0x000A, 0x0303), (0x1301, 0x0302), (0x1301, 0x0303), (0xC013, 0x0304)],
    ids=["suite", "version", "suite-of-1.3", "suite-of-1.2"],
)
def test_what_nobody_decrypts_is_named(suite: int, version: int) -> None:
    flights = [(CLIENT, sealing.clear(HANDSHAKE, sealing.client_hello()))]
    flights.append((SERVER, sealing.clear(HANDSHAKE, sealing.server_hello(suite, version=version)) + sealing.CHANGE_CIPHER_SPEC))
    master = b"CLIENT_RANDOM %s %s\n" % (sealing.CLIENT_RANDOM.hex().encode(), b"5e" * 48)
    got = inside([*flights, (SERVER, sealing.clear(23, b"z" * 50))], master + sealing.key_log(*ALL_SECRETS))
    undecrypted = got.connection.undecrypted()
    assert undecrypted is not None
    assert undecrypted.reason == "unsupported"


def test_secrets_that_come_late_open_what_waited() -> None:
    known = Secrets()
    known.add(sealing.key_log(*ALL_SECRETS).splitlines(), (0, 5))
    client = Sealer(sealing.TRAFFIC[0])
    flights = [*sealing.handshake(), (CLIENT, client.seal(b"one ")), (CLIENT, client.seal(b"two ")), (CLIENT, client.seal(b"three"))]
    got = feed(TlsConnection(known), cut(flights, (10_000,)))
    assert got.plain(CLIENT) == b"one two three"
    assert [(packet, moment) for _, packet, _, moment in got.pieces(CLIENT)] == [(4, 6), (5, 6), (6, 6)]


@pytest.mark.parametrize("size", [16_384, TLS_RECORD_MAX_BYTES - 17])
def test_the_largest_record_waits_for_its_secrets(size: int) -> None:
    known = Secrets()
    known.add(sealing.key_log(*ALL_SECRETS).splitlines(), (0, 4))
    flights = [*sealing.handshake(), (CLIENT, Sealer(sealing.TRAFFIC[0]).seal(b"x" * size)), (SERVER, b"\x17")]
    assert feed(TlsConnection(known), cut(flights, (30_000,))).plain(CLIENT) == b"x" * size


def test_secrets_that_come_too_late_open_nothing() -> None:
    known = Secrets()
    known.add(sealing.key_log(*ALL_SECRETS).splitlines(), (0, 6))
    client = Sealer(sealing.TRAFFIC[0])
    flights = [*sealing.handshake(), (CLIENT, client.seal(b"x" * (TLS_WAITING_MAX_BYTES // 2)) * 2)]
    flights += [(CLIENT, client.seal(b"two ")), (CLIENT, b"\x17"), (CLIENT, b"\x03")]
    got = feed(TlsConnection(known), cut(flights, (30_000,)))
    assert got.plain(CLIENT) == b""
    assert got.connection.directions[CLIENT].stopped


def test_fatal_alerts_are_reported() -> None:
    flights = [(CLIENT, sealing.clear(HANDSHAKE, sealing.client_hello())), (SERVER, sealing.clear(sealing.ALERT, b"\x02\x30"))]
    assert inside(flights, b"").connection.describe() == "TLS server-alert=unknown_ca"


def test_names_off_the_wire_are_escaped_and_bounded() -> None:
    name = b'a\x1b[31m b"' + b"n" * 5000
    extension = b"\0\0" + sealing.vector(sealing.vector(b"\0" + sealing.vector(name, 2), 2), 2)
    flights = [(CLIENT, sealing.clear(HANDSHAKE, sealing.client_hello(extensions=extension)))]
    described = inside(flights, b"").connection.describe()
    assert described.startswith("TLS sni=a\\x1b[31m\\x20b\\x22nnn")
    assert len(described) < 300


def test_bytes_before_tls_are_handed_on_as_they_are() -> None:
    recording = record(SAID)
    head = b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n"
    flights = [(CLIENT, head), *recording.flights]
    got = feed(TlsConnection(secrets_of(recording.key_log), (len(head), 0)), cut(flights, (10,)))
    assert got.plain(CLIENT) == head + INSIDE[CLIENT]


def test_the_place_of_content_is_that_of_its_records() -> None:
    client = Sealer(sealing.TRAFFIC[0])
    start = len(sealing.handshake()[0][1] + sealing.handshake()[2][1])
    records = [client.seal(content) for content in (b"one", b"two", b"three")]
    ends = [start + sum(map(len, records[:count])) for count in range(4)]
    flights = [*sealing.handshake(), (CLIENT, b"".join(records))]
    connection = TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS)), spans=True)
    feed(connection, cut(flights, (1460,)))
    assert connection.place(CLIENT, 0, 3) == (ends[0], ends[1])
    assert connection.place(CLIENT, 2, 4) == (ends[0], ends[2])
    assert connection.place(CLIENT, 6, 11) == (ends[2], ends[3])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_make_it_fail(data: st.DataObject) -> None:
    client, server = map(Sealer, sealing.TRAFFIC)
    flights = [*sealing.handshake(), (CLIENT, client.seal(b"ask" * 40)), (SERVER, server.seal(b"answer" * 40))]
    streams = [bytearray(data) for _, data in flights]
    for _ in range(data.draw(st.integers(1, 6))):
        stream = streams[data.draw(st.integers(0, len(streams) - 1))]
        position = data.draw(st.integers(0, len(stream) - 1))
        stream[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    packets = [Packet(side, bytes(stream)) for (side, _), stream in zip(flights, streams, strict=True) if stream]
    got = feed(TlsConnection(secrets_of(sealing.key_log(*ALL_SECRETS))), packets)
    got.connection.describe()
    got.connection.undecrypted()
    for side in (CLIENT, SERVER):
        direction = got.connection.directions[side]
        assert direction.length == len(got.plain(side)) + direction.undecrypted + direction.missing - sum(
            gap.size for gap in got.gaps(side)
        )
