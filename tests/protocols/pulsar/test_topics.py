from __future__ import annotations

import pytest

from pulsarscope.protocols.pulsar.topics import base_topic, short_topic, topic_matches


def test_topics_lose_what_clients_add_themselves() -> None:
    assert short_topic("persistent://public/default/orders") == "orders"
    assert short_topic("persistent://shop/eu/orders") == "shop/eu/orders"
    assert short_topic("non-persistent://public/default/x") == "non-persistent://public/default/x"


def test_a_partition_is_of_its_topic() -> None:
    assert base_topic("persistent://a/b/c-partition-12") == "persistent://a/b/c"
    assert base_topic("persistent://a/b/c-partition-x") == "persistent://a/b/c-partition-x"


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("orders", True),
        ("orders-partition-3", True),
        ("persistent://public/default/orders", True),
        ("persistent://public/default/orders-partition-3", True),
        ("*", True),
        ("ord*", True),
        ("*/orders", True),
        ("persistent://public/*", True),
        ("order", False),
        ("rders", False),
        ("orders-partition-4", False),
        ("o.ders", False),
        ("orders[", False),
        ("", False),
    ],
)
def test_a_pattern_names_topics_in_full_in_short_and_by_what_they_are_a_partition_of(pattern: str, matches: bool) -> None:
    assert topic_matches(pattern, "persistent://public/default/orders-partition-3") is matches


def test_a_topic_that_nothing_names_has_an_empty_name() -> None:
    assert topic_matches("*", "")
    assert not topic_matches("orders", "")


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("a*b*c", "abc", True),
        ("a*b*c", "a-c-b-c", True),
        ("a*b*c", "acb", False),
        ("aa*aa", "aaa", False),
        ("a*ab*b", "aab", False),
        ("a**c", "ac", True),
        ("*b*", "a\nb\nc", True),
        ("*b*", "ac", False),
    ],
)
def test_pieces_stand_one_after_the_other(pattern: str, topic: str, matches: bool) -> None:
    assert topic_matches(pattern, topic) is matches


def test_a_name_as_long_as_a_frame_is_no_work() -> None:
    assert not topic_matches("*a*a*a*b", "a" * 5_000_000)  # would take years with a regular expression
