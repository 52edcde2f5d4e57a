"""Selected rows: a table of filters and the rows that they choose."""

from __future__ import annotations

import pytest
from msgspec import structs

from pulsarscope.filter import Filter, FilterError
from pulsarscope.model.records import FrameRow, RawFrame
from tests.filter.samples import ACK, ALL, BAD, CATALOGUE, ENDPOINTS, FINDING, MESSAGE, NOTE, RECEIPT, SEND, chosen, make
from tests.scenarios import rows

FRAMES = "send receipt ack connected bad skipped unknown"

CASES = [
    # names of commands, in any case
    ("command == SEND", "send bad"),
    ("command == send", "send bad"),
    ('command == "Send"', "send bad"),
    ("command != SEND", "receipt ack connected unknown"),
    ("not command == SEND", "receipt ack connected skipped unknown"),
    ("command in {SEND, ACK}", "send ack bad"),
    ("command not in {SEND, ACK}", "receipt connected skipped unknown"),
    ("!(command in {SEND, ACK})", "receipt connected skipped unknown"),
    ("command == UNKNOWN_99", "unknown"),
    ("command contains CONN", "connected"),
    ('command matches "^(ACK|CONN)"', "ack connected"),
    ("command", "send receipt ack connected bad unknown"),
    ("!command", "skipped"),
    ("send", "send bad"),
    ("SEND", "send bad"),
    ("send_receipt", "receipt"),
    ("ack || connected", "ack connected"),
    # fields of one command, and of any command
    ("send.sequence_id == 7", "send bad"),
    ("SEND.sequence_id >= 7", "send bad"),
    ("Send.producer_id == 3", "send"),
    ("send.sequence_id", "send bad"),
    ("not send.sequence_id", "receipt ack connected skipped unknown"),
    ("send.is_chunk", ""),
    ("send.is_chunk == false", "send"),
    ("send.is_chunk != true", "send"),
    ("fields.sequence_id == 7", "send receipt bad"),
    ("fields.message_id.ledgerId == 26", "receipt ack"),
    ("fields.message_id.ledgerId == 27", "ack"),
    ("fields.message_id.ledgerId != 27", "receipt"),
    ("not fields.message_id.ledgerId == 27", "send receipt connected bad skipped unknown"),
    ("ack.message_id.ack_set == 5", "ack"),
    ("ack.message_id.ack_set in {4..9}", "ack"),
    ("ack.ack_type == Individual", "ack"),
    ("ack.ack_type == individual", "ack"),
    ("ack.ack_type == Cumulative", ""),
    ('connected.server_version contains "4.1"', "connected"),
    ("connected.protocol_version >= 0x15", "connected"),
    ("fields.highest_sequence_id == 18446744073709551615", "send"),
    ("fields.highest_sequence_id == -1", "send"),
    ("fields", "send receipt ack connected bad unknown"),
    ("fields.unknown", "unknown"),
    ('fields.unknown["3"] == 61:62', "unknown"),
    ('fields.unknown["3"] contains "cd"', "unknown"),
    ('metadata.unknown["99"] == 5', "send"),
    # metadata
    ("metadata", "send bad"),
    ('metadata.producer_name == "orders-1"', "send"),
    ('metadata.producer_name contains "orders"', "send"),
    ('metadata.producer_name[0:6] == "orders"', "send"),
    ('metadata.producer_name[:6] == "orders"', "send"),
    ('metadata.producer_name[-2:] == "-1"', "send bad"),
    ('metadata.producer_name[-2:1] == "-"', "send bad"),
    ('metadata.producer_name[7:] == "1"', "send"),
    ('metadata.producer_name[7] == "1"', "send"),
    ('metadata.producer_name[-1] == "1"', "send bad"),
    ('metadata.producer_name[0-2] == "ord"', "send"),
    ("metadata.producer_name[8:]", "bad"),
    ('metadata.properties.key == "color"', "send"),
    ('metadata.properties["color"] == "red"', "send"),
    ('metadata.properties["color"] == "blue"', "send"),
    ('metadata.properties["color"] != "red"', ""),
    ('metadata.properties["color"] != "green"', "send"),
    ('metadata.properties["n"] == "red"', ""),
    ('metadata.properties["none"]', ""),
    ('metadata.replicate_to == "west"', "send"),
    ('metadata.replicate_to != "west"', ""),
    ('metadata.replicate_to != "north"', "send"),
    ('metadata.replicate_to contains "ea"', "send"),
    ("metadata.schema_version == 00:00:00:01", "send"),
    ("metadata.schema_version == 0x00000001", "send"),
    ("metadata.schema_version[3] == 0x01", "send"),
    ("metadata.schema_version contains 00:01", "send"),
    ('metadata.schema_version matches "\\x00\\x01$"', "send"),
    ("metadata.compression == lz4", "send"),
    ("metadata.publish_time > 1777629600000", "send bad"),
    # columns
    ('topic matches "^persistent://acme/"', "bad"),
    ("topic contains 'acme'", "bad"),
    ("size > 4KiB", "skipped"),
    ("size >= 5KB", "skipped"),
    ("size > 4.9KB", "skipped"),
    ("size == 5000B", "skipped"),
    ("frame.size == 5000", "skipped"),
    ("frame.size in {1..200}", "send receipt ack connected bad unknown"),
    ("frame.size in {1..99, 5000}", "skipped"),
    ("status == skipped", "skipped"),
    ("frame.status != ok", "skipped"),
    ("direction == server", "receipt connected"),
    ("checksum.status == bad", "bad"),
    ("checksum_status == bad", "bad"),
    ('checksum.stored == "11111111"', "bad"),
    ('checksum.computed != "11111111"', "send bad"),
    ("checksum", "send bad"),
    ("latency > 50ms", "receipt"),
    ("latency < 0.06s", "exchange"),
    ("latency == 60ms", "receipt"),
    ("latency in {1us..1ms}", "exchange"),
    ("latency_ns >= 60000000", "receipt"),
    ("latency_ns < 1ms", "exchange"),
    ('frame.request == "0:4.1"', "receipt"),
    # findings
    ("finding == checksum-mismatch", "bad finding"),
    ('finding == "stream-gap"', "note"),
    ("finding", "bad skipped finding note"),
    ("findings", "bad skipped"),
    ("finding != checksum-mismatch", "skipped note"),
    ("finding.severity == error", "bad finding"),
    ("finding.severity == note", "skipped note"),
    ("finding.layer == tcp", "note"),
    ('finding.code contains "mismatch"', "bad finding"),
    ("severity == error", "finding"),
    ("code == stream-gap", "note"),
    ("evidence.count > 2", "finding"),
    ('evidence.frames == "0:4.1"', "finding"),
    ('text contains "CRC32"', "finding note"),
    # messages
    ('key == "k1"', "message"),
    ('key in {"k1", "k2"}', "message"),
    ('message.key in {"a", "b"}', ""),
    ('message.key in {"a".."l"}', "message"),
    ("message.key", "message"),
    ("not message.key", "plain"),
    ("message", "message plain"),
    ("message || exchange", "message plain exchange failed"),
    ("encrypted", "message"),
    ("encrypted == false", "plain"),
    ("not encrypted", "plain"),
    ("message.direction == produce", "plain"),
    ("compression == LZ4", "message"),
    ("compression != NONE", "message"),
    ("message.payload_size > 1KB", "message"),
    ("message.redelivery_count >= 2", "message plain"),
    ('properties["a"] == "1"', "message"),
    ('properties.a == "1"', "message"),
    ('properties.b == "1"', ""),
    ("payload[0:4] == 01:02:03:04", "message"),
    ("payload[0:2] == 01:02", "message"),
    ('payload[4:] == "hello"', "message"),
    ('payload contains "hello"', "message"),
    ("payload contains 03:04", "message"),
    ('payload matches "h.llo$"', "message"),
    ("payload", "message"),
    ("ordering_key == 0a:0b:0c", "message"),
    ("ordering_key[0] == 0x0a", "message"),
    ("value.amount > 12", "message"),
    ("value.amount == 12.5", "message"),
    ('value.tags == "y"', "message"),
    ('value.tags != "y"', ""),
    ('value.who.name == "Ann"', "message"),
    ('value["who"].name matches "^A"', "message"),
    ("value.ok == true", "message"),
    ("value.ok == 1", ""),
    ('value.amount == "12.5"', ""),
    ("value.nothing", ""),
    ("event_time < 2026-05-01T10:00:00Z", "message"),
    ("publish_time == 2026-05-01T10:00:00.123456788Z", "message plain"),
    # exchanges
    ("exchange", "exchange failed"),
    ("exchange.request == LOOKUP", "exchange failed"),
    ("response == lookup_response", "exchange"),
    ("error", "failed"),
    ("error == TopicNotFound", "failed"),
    ("error == topicnotfound", "failed"),
    ('error_message matches "(?i)NO SUCH"', "failed"),
    ("exchange.status == error", "failed"),
    ('exchange.key == "5"', "exchange failed"),
    # connections, and rows by their connection
    ("server_missing > 0", "connection"),
    ("closed_by == client", "connection"),
    ("opened == syn && closed == fin", "connection"),
    ("connection.protocol_version == 21", "connection"),
    ('connection == "0:2"', "ack connected"),
    ('frame.connection == "0:2"', "ack connected"),
    ('connection.client contains "10.0.0.1"', "connection"),
    ('frame.client contains "2001:db8::7"', "ack connected"),
    ("frame.ip == 10.0.0.1", "send receipt skipped unknown"),
    ("frame.ip == 10.0.0.0/8", "send receipt skipped unknown"),
    ("frame.ip != 10.0.0.1", "ack connected"),
    ('frame.ip == "2001:db8::/32"', "ack connected"),
    ("frame.ip in {10.0.0.9, 10.0.0.1}", "send receipt skipped unknown"),
    ('frame.ip contains "2001"', "ack connected"),
    ("frame.server.port == 6651", "ack connected"),
    ("frame.client.port in {40000..50000}", "ack connected"),
    ("frame.port == 6650", "send receipt skipped unknown"),
    ("connection.ip == 10.0.0.1", "connection"),
    ("server.ip == 10.0.0.2 && connection.packets", "connection"),
    # times and places
    ("frame.packet == 9", "ack"),
    ("frame.packet in {9, 20..21}", "ack skipped unknown"),
    ("frame.time > 5ms", "bad skipped unknown"),
    ("frame.time >= 2026-05-01T10:00:00.140Z", "skipped unknown"),
    ("frame.time >= 2026-05-01T10:00:00.143456789", "skipped unknown"),
    ("frame.time >= 2026-05-01T12:00:00.143456789+02:00", "skipped unknown"),
    ('frame.time >= "2026-05-01T10:00:00.143456789Z"', "skipped unknown"),
    ("frame.time >= 1777629600.143456789", "skipped unknown"),
    ("frame.time < 2026-05-01", ""),
    ("frame.time > 2026-05-01", FRAMES),
    ("frame.time in {5ms..12ms}", "ack bad"),
    ("connection.start == 2026-05-01T10:00:00.123456789Z", "connection"),
    ("file == 1", ""),
    ("source", ""),
    # combinations
    ("frame", FRAMES),
    ("frame && size > 1000", "skipped"),
    ("command == SEND && size == 100 && status == ok", "send bad"),
    ("command == SEND and not finding", "send"),
    ("command == SEND AND NOT finding", "send"),
    ("(command == SEND || command == ACK) && !finding", "send ack"),
    ("command == ACK || command == SEND && finding", "ack bad"),
    ("not not command == ACK", "ack"),
    ("!!command == ACK", "ack"),
    # a kind without a field is not shown, whatever the comparison, unless the other side decides
    ('not command == SEND || key == "k1"', "receipt ack connected skipped unknown message"),
    ('not (command == SEND && key == "k1")', "receipt ack connected skipped unknown plain exchange failed"),
    ('frame.command == ACK || message.key == "k1"', "ack message"),
    ('topic contains "orders" && command', "send receipt bad"),
    ("not topic", "ack connected skipped unknown"),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_a_filter_chooses(text: str, expected: str) -> None:
    assert chosen(text) == expected


def test_there_are_many_cases() -> None:
    assert len({text for text, _ in CASES}) == len(CASES) >= 150


def test_rows_keep_their_order_and_are_counted_by_kind() -> None:
    made = make("size >= 100 || payload_size > 5", "frame", "message")
    given = [row for row in ALL.values() if row.kind in {"frame", "message"}]
    assert made.select(given, ENDPOINTS) == [row for row in given if row.kind == "frame" or row is MESSAGE]
    assert made.seen == {"frame": 7, "message": 2}
    assert made.kept == {"frame": 7, "message": 1}
    made.select(given, ENDPOINTS)
    assert made.seen == {"frame": 14, "message": 4}


def test_the_bytes_of_a_frame_follow_it() -> None:
    first, second = RawFrame(b"1", []), RawFrame(b"2", [])
    passed = make("command == SEND_RECEIPT", "frame").select([SEND, first, RECEIPT, second], ENDPOINTS)
    assert [row is given for row, given in zip(passed, [RECEIPT, second], strict=True)] == [True, True]


def test_a_finding_that_nobody_asked_for_comes_with_its_frame() -> None:
    elsewhere = rows.finding(packet=12)
    assert make("command == SEND", "frame").select([SEND, FINDING, RECEIPT, elsewhere], ENDPOINTS) == [SEND, FINDING]


def test_a_finding_that_nobody_asked_for_comes_when_the_filter_looks_for_it() -> None:
    assert make('finding == "stream-gap"', "frame").select([SEND, FINDING, NOTE], ENDPOINTS) == [NOTE]
    assert make('connection == "0:1"', "frame").select([NOTE], ENDPOINTS) == [NOTE]


def test_what_is_wrong_with_the_input_is_reported_whatever_the_filter() -> None:
    damage = rows.finding(code="capture-truncated", layer="capture", packet=None, connection=None)
    assert make("command == ACK", "frame").select([damage], {}) == [damage]
    assert make("command == ACK || finding == stream-gap", "frame", "finding").select([damage], {}) == []


def test_connections_that_nobody_asked_for_come_along() -> None:
    connection = rows.connection()
    assert make("command == ACK", "frame").select([SEND, connection], ENDPOINTS) == [connection]
    assert make("command == ACK", "frame", "connection").select([SEND, connection], ENDPOINTS) == []


def test_a_payload_that_only_the_filter_reads_is_not_put_out() -> None:
    made = make('payload contains "hello"', "message")
    assert made.payload == "base64"
    row = rows.message(payload="aGVsbG8=")
    assert made.select([row], ENDPOINTS) == [row]
    assert row.payload is None


@pytest.mark.parametrize(("form", "payload"), [("base64", "aGVsbG8="), ("hex", "68656c6c6f"), ("text", "hello")])
def test_a_payload_that_was_asked_for_keeps_its_form(form: str, payload: str) -> None:
    made = make("payload[0:2] == 68:65", "message", payload=form)
    row = rows.message(payload=payload)
    assert made.payload == form
    assert made.select([row], ENDPOINTS) == [row]
    assert row.payload == payload


def test_a_filter_that_does_not_read_payloads_does_not_ask_for_them() -> None:
    assert make('key == "k1" && !(topic contains "payload")', "message").payload is None
    assert make("!(size == 1) || !payload", "frame", "message").payload == "base64"


def test_times_without_a_date_count_from_the_first_packet_else_from_the_first_row() -> None:
    made = make("time > 1s", "frame")
    assert made.select([SEND], ENDPOINTS) == []
    late = rows.send(packet=5, time=rows.START + 2_000_000_000)
    assert made.select([late, SEND], ENDPOINTS) == [late]
    of_run, run = make("time > 1s", "frame"), rows.Run()
    run.start = SEND.time - 1_000_000_001
    of_run.begin(run)
    assert of_run.select([SEND], ENDPOINTS) == [SEND]


@pytest.mark.parametrize(
    "text", ["connection == #1", "connection == #0:1", 'connection == "#1"', 'connection == "0:1"', "connection in {#7, #1}"]
)
def test_a_connection_is_named_as_on_the_screen(text: str) -> None:
    assert make(text, "frame").select([SEND], ENDPOINTS) == [SEND]
    assert make(f"not ({text})", "frame").select([SEND], ENDPOINTS) == []


def test_the_name_of_a_connection_fits_no_other_field() -> None:
    with pytest.raises(FilterError, match="topic is compared with"):
        make("topic == #1", "frame")


def test_only_what_is_known_of_a_connection_is_compared() -> None:
    assert make("ip == 10.0.0.1", "frame").select([BAD, SEND], ENDPOINTS) == [SEND]
    assert make('client != "x"', "frame").select([BAD], ENDPOINTS) == []
    assert make("not client", "frame").select([BAD], ENDPOINTS) == [BAD]


def test_a_text_that_is_no_filter_is_refused() -> None:
    with pytest.raises(FilterError):
        make("command ==")


def named() -> FrameRow:
    return structs.replace(
        SEND, command="SEND", topic="persistent://public/default/orders", producer_name="p", subscription=None, connection="0:8"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('topic == "orders"', "no topic is orders: did you mean persistent://public/default/orders?"),
        ('topic == "persistent://public/default/order"', "no topic is persistent://public/default/order: did you mean"),
        ('producer_name == "nobody"', "no producer_name is nobody: there is only p"),
        ('subscription == "a" || subscription == "b"', "no subscription is a or b: there is none"),
        ('topic == "persistent://public/default/orders" && producer_name == "nobody"', "no producer_name is nobody"),
        ('connection == "#7"', "no connection is #7: there is only #8"),
        ("connection == #1:7", "no connection is #1:7: there is only #0:8"),
        (
            'topic == "x" && producer_name == "nobody"',
            "no topic is x: there is only persistent://public/default/orders; no producer_name is",
        ),
    ],
)
def test_a_name_that_nothing_has_is_reported_with_those_there_are(text: str, said: str) -> None:
    selected = make(text, "frame")
    assert selected.select([named()], ENDPOINTS) == []
    assert said in str(selected.absence())


@pytest.mark.parametrize(
    "text",
    [
        "command == PING",
        'topic == "persistent://public/default/orders" && command == PING',
        'topic != "x" && command == PING',
        'topic == "x" || command == SEND',
        'topic contains "x"',
    ],
)
def test_nothing_is_reported_when_the_names_are_there_or_something_passed(text: str) -> None:
    selected = make(text, "frame")
    selected.select([named()], ENDPOINTS)
    assert selected.absence() is None


NAME = f"{SEND.packet}.{SEND.sub}"


def selected(text: str) -> list[object]:
    chosen = Filter(text, ("frame", "message"), CATALOGUE)
    return list(chosen.select([SEND, ACK, MESSAGE], ENDPOINTS))


@pytest.mark.parametrize("form", [f'"{NAME}"', NAME, f'"{SEND.file}:{NAME}"', f"'{NAME}'"])
def test_a_frame_is_selected_by_its_name(form: str) -> None:
    assert SEND in selected(f"frame == {form}")
    assert ACK not in selected(f"frame == {form}")
    assert SEND in selected(f"frame in {{1000.1, {form}}}")
    assert SEND not in selected(f"frame != {form}")
    assert ACK in selected(f"not frame == {form}")


def test_a_packet_names_all_its_frames() -> None:
    assert SEND in selected(f"frame == {SEND.packet}")
    assert SEND not in selected(f'frame == "{SEND.packet}.{(SEND.sub or 0) + 1}"')
    assert SEND not in selected(f'frame == "7:{NAME}"')


@pytest.mark.parametrize("text", ['frame == "x"', "frame == 1e5", "frame in {1..5}", "frame == SEND", 'frame == "-1.2"'])
def test_what_names_no_frame_is_refused(text: str) -> None:
    with pytest.raises(FilterError, match="named by its packet"):
        selected(text)


@pytest.mark.parametrize("text", ["frame < 5", 'frame contains "5"'])
def test_names_have_no_order(text: str) -> None:
    with pytest.raises(FilterError, match="kind of records"):
        selected(text)


def test_the_kind_stands_alone_as_before() -> None:
    assert selected("frame") == [SEND, ACK]
    assert selected(f"frame.packet == {SEND.packet} and frame") == selected(f"frame == {SEND.packet} and frame")


@pytest.mark.parametrize(
    ("text", "passes"), [("client.ip == 10.0.0.1", True), ("client.ip == 10.0.0.3", False), ("server.port == 6650", True)]
)
def test_findings_after_the_end_of_their_connection_have_its_client_and_server(text: str, *, passes: bool) -> None:
    ended = rows.connection(connection="0:1", client="10.0.0.1:50886", server="10.0.0.2:6650")
    late = rows.finding(code="churn-undecided", connection="0:1")
    row_filter = Filter(text, ["finding"], CATALOGUE)
    row_filter.select([ended], ENDPOINTS)
    assert (late in row_filter.select([late], {})) == passes
