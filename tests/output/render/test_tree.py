from __future__ import annotations

from typing import Any

from pulsarscope.model.records import Checksum, RawFrame
from tests.scenarios import rows
from tests.scenarios.rows import text_of


def tree(some: list[Any], **values: Any) -> list[str]:
    kinds = values.pop("kinds", ("frame",))
    return text_of("tree", some, rows.options(*kinds, **values)).splitlines()


def value_of(lines: list[str], name: str) -> str:
    return next(line.strip().removeprefix(name).strip() for line in lines if line.strip().startswith(f"{name} "))


def test_a_frame_shows_where_it_is_and_what_it_answers() -> None:
    lines = tree([rows.receipt()])
    assert lines[1] == "frame 6.1  SEND_RECEIPT  server → client  connection #1"
    assert value_of(lines, "time") == "2026-05-01 10:00:00.129456789 UTC"
    assert value_of(lines, "answers") == "4.1  after 1.32 ms"
    assert value_of(lines, "topic") == rows.TOPIC


def test_values_are_readable() -> None:
    fields = {
        "message_id": {"ledgerId": 26, "entryId": 14, "partition": 2, "batch_index": -1},
        "start": {"ledgerId": -1, "entryId": -1},
        "publish_time": 1_777_629_600_123,
        "request_id": -1,
        "ack_set": [-1, 7],
        "data": b"\x00\xff" * 100,
        "flag": True,
        "none": b"",
        "properties": [{"key": "a", "value": "1"}, {"key": "b", "value": "\x1b"}],
        "numbers": [1, 2, 3],
        "nested": {"deeper": {"deepest": "x"}},
        "ids": [{"ledgerId": 1, "entryId": 2}, {"ledgerId": 1, "entryId": 3, "ack_set": [1]}],
        "empty": {},
    }
    lines = tree([rows.frame(fields=fields)])
    assert value_of(lines, "message_id") == "26:14  partition 2"
    assert value_of(lines, "start") == "-1:-1  earliest"
    assert value_of(lines, "publish_time") == "1777629600123  2026-05-01 10:00:00.123 UTC"
    assert value_of(lines, "request_id") == "-1  none"
    assert value_of(lines, "ack_set") == "ffffffffffffffff, 0000000000000007  67 not acknowledged yet"
    assert value_of(lines, "data").endswith("00 ff…  (200 bytes)")
    assert value_of(lines, "flag") == "true"
    assert value_of(lines, "none") == "(0 bytes)"
    assert value_of(lines, "properties") == "2"
    assert value_of(lines, "b") == "\\x1b"
    assert value_of(lines, "numbers") == "3  1, 2, 3"
    assert value_of(lines, "deepest") == "x"
    assert "      1:2" in lines


def test_a_repeated_value_is_cut_with_the_exact_count() -> None:
    lines = tree([rows.frame(fields={"topics": [f"topic-{number}" for number in range(2_500)]})])
    assert value_of(lines, "topics") == "2,500"
    assert "      and 1,500 more" in lines
    assert sum("topic-" in line for line in lines) == 1_000


def test_the_checksum_says_both_sides_when_it_is_bad() -> None:
    assert value_of(tree([rows.send()]), "checksum") == "✓ good  e3069283"
    bad = rows.send(checksum=Checksum("bad", "11111111", "e3069283"), findings=["checksum-mismatch"], status="malformed")
    lines = tree([bad], color=True)
    assert any("stored 11111111, computed e3069283" in line for line in lines)
    assert any("malformed" in line for line in lines)
    assert value_of(tree([rows.send(checksum=Checksum("absent"))]), "checksum") == "absent"


def test_payload_metadata_and_broker_metadata_have_their_sections() -> None:
    lines = tree([rows.send(broker_entry_metadata={"index": 5})])
    assert "  broker entry metadata" in lines
    assert "  metadata" in lines
    assert value_of(lines, "payload") == "1,234 bytes  1 message"


def test_deep_nesting_and_odd_values_do_no_harm() -> None:
    fields: dict[str, Any] = {"x": 1.5, "y": None, "z": [[1], {"a": [b"\x00"]}]}
    for _ in range(100):
        fields = {"inner": fields}
    assert any("1.5" in line for line in tree([rows.frame(fields=fields)]))


def test_a_long_text_is_cut_and_says_how_long_it_is() -> None:
    assert any("(9,000 characters)" in line for line in tree([rows.frame(fields={"message": "m" * 9_000})]))


def test_lines_fit_the_terminal() -> None:
    lines = tree([rows.frame(fields={"message": "日" * 300})], width=60)
    assert max(map(len, lines)) <= 60


def test_findings_other_kinds_and_bytes_stand_below_the_frame() -> None:
    lines = tree([rows.send(), RawFrame(b"\x00", []), rows.finding(), rows.exchange(), rows.connection()], kinds=("frame", "exchange"))
    text = "\n".join(lines)
    for words in ("0000  00", "checksum-mismatch", "exchange", "LOOKUP_RESPONSE"):
        assert words in text
    assert lines[-1].startswith("1 frame")


def test_other_rows_have_names_and_times_and_are_counted() -> None:
    lines = tree([rows.frame(4), rows.message(event_time=rows.START), rows.exchange(packet=5)], kinds=("frame", "message", "exchange"))
    at = lines.index("message 9.1")
    assert lines[at - 1] == ""
    assert value_of(lines[at:], "time") == value_of(lines[at:], "event_time") == "2026-05-01 10:00:00.123456789 UTC"
    assert lines[lines.index("exchange 5.1") - 1] == ""
    assert lines[-1].startswith("1 frame · 1 message · 1 exchange · ")
    assert tree([])[-1].startswith("0 frames · ")
