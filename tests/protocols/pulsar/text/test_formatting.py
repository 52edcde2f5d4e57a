from __future__ import annotations

from pulsarscope.protocols.pulsar.text.formatting import date, message_id, names_of, show, topic_of

TOPIC = "persistent://public/default/orders"


def test_topics_are_shortened_as_clients_do() -> None:
    assert topic_of(TOPIC) == "orders"
    assert topic_of(b"\xff") == "0xff"
    assert topic_of(["x"]) == "['x']"


def test_message_ids_have_their_batch_index_and_the_special_ones_a_name() -> None:
    assert message_id({"ledgerId": 26, "entryId": 14, "batch_index": -1}) == "26:14"
    assert message_id({"ledgerId": 26, "entryId": 14, "batch_index": 3}) == "26:14:3"
    assert message_id({"ledgerId": 7, "entryId": 7}) == "7:7"
    assert message_id({"ledgerId": -1, "entryId": -1}) == "earliest"
    assert message_id({"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}) == "latest"
    assert message_id({}) == "?:?"
    assert message_id(None) == "None"


def test_dates_are_those_of_the_calendar_only() -> None:
    assert date(1_777_629_600_123) == "2026-05-01 10:00:00.123 UTC"
    assert [date(value) for value in (0, -1, 2**63, "1", None)] == [None] * 5


def test_lists_have_their_exact_count_and_the_first_few() -> None:
    assert names_of([f"t{number}" for number in range(1_500)], "topic", "topics") == "1,500 topics: t0, t1, t2, …"
    assert names_of(["t"], "topic", "topics") == "1 topic: t"
    assert names_of(None, "topic", "topics") == "no topics"


def test_a_long_value_is_cut_with_its_length() -> None:
    assert show("x" * 300) == "x" * 256 + "… (300 characters)"
    assert show(b"\x01\x02") == "0x0102"
