"""Text of single values."""

from __future__ import annotations

import pytest

from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.text.formatting import (
    NAME_CHARACTERS_MAX,
    clipped,
    date,
    error_message_text,
    error_text,
    host,
    listing,
    message_id_text,
    names_text,
    nouns_text,
    topic_text,
    value_text,
)

TOPIC = "persistent://public/default/orders"


def test_topics_are_shortened_as_clients_do() -> None:
    assert topic_text(TOPIC) == "orders"
    assert topic_text(b"\xff") == "0xff"
    assert topic_text(["x"]) == "['x']"


def test_message_ids_have_their_batch_index_and_the_special_ones_a_name() -> None:
    assert message_id_text({"ledgerId": 26, "entryId": 14, "batch_index": -1}) == "26:14"
    assert message_id_text({"ledgerId": 26, "entryId": 14, "batch_index": 3}) == "26:14:3"
    assert message_id_text({"ledgerId": 7, "entryId": 7}) == "7:7"
    assert message_id_text({"ledgerId": -1, "entryId": -1}) == "earliest"
    assert message_id_text({"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}) == "latest"
    assert message_id_text({}) == "?:?"
    assert message_id_text(None) == "None"


def test_dates_are_those_of_the_calendar_only() -> None:
    assert date(1_777_629_600_123) == "2026-05-01 10:00:00.123 UTC"
    assert [date(value) for value in (0, -1, 2**63, "1", None)] == [None] * 5


def test_lists_have_their_exact_count_and_the_first_few() -> None:
    assert names_text([f"t{number}" for number in range(1_500)], "topic", "topics") == "1,500 topics: t0, t1, t2, …"
    assert names_text(["t"], "topic", "topics") == "1 topic: t"
    assert names_text(None, "topic", "topics") == "no topics"


def test_a_long_value_is_cut_with_its_length() -> None:
    assert value_text("x" * 300) == "x" * 256 + "… (300 characters)"
    assert value_text(b"\x01\x02") == "0x0102"


@pytest.mark.parametrize("name", ["", "key-1", "x" * NAME_CHARACTERS_MAX])
def test_a_name_is_shown_whole(name: str) -> None:
    assert clipped(name) == name


def test_a_hostile_name_is_cut_with_its_length() -> None:
    assert clipped("x" * 5_000_000) == "x" * NAME_CHARACTERS_MAX + "… (5000000 characters)"


def test_quantities() -> None:
    assert [plural(number, "hop") for number in (0, 1, 2, 1_000)] == ["0 hops", "1 hop", "2 hops", "1,000 hops"]


def test_a_listing_ends_after_ten_names() -> None:
    assert [listing([*"abc"[:count]]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert listing([str(number) for number in range(12)]).endswith("8, 9 and 2 more")
    assert listing(["a", "b", "c"], " → ", " → ") == "a → b → c"


def test_a_noun_stands_once_before_its_names() -> None:
    assert nouns_text(["producer p"]) == "producer p"
    assert nouns_text(["producer p", "consumer c of s", "producer q"]) == "producers p and q and consumer c of s"


@pytest.mark.parametrize(("endpoint", "name"), [("10.0.0.1:6650", "10.0.0.1"), ("[fe80::1]:6650", "[fe80::1]")])
def test_hosts(endpoint: str, name: str) -> None:
    assert host(endpoint) == name


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (None, ""),
        ("", ""),
        ("...", ""),
        ("Buffer..", "Buffer"),
        ("taken. Try again.\n", "taken. Try again"),
        ("org.apache.pulsar.broker.service.BrokerServiceException$NamingException: taken", "taken"),
        ("it is: taken", "it is: taken"),
        ("x" * 501, "x" * 500 + "…"),
    ],
)
def test_error_messages(message: str | None, text: str) -> None:
    assert error_message_text(message) == text
    assert error_text("TopicNotFound", message) == (f"TopicNotFound: {text}" if text else "TopicNotFound")
