from __future__ import annotations

import pytest

from pulsarscope.filter.filter_error import FilterError
from pulsarscope.filter.syntax import (
    ComparisonTest,
    Conjunction,
    Disjunction,
    Literal,
    MembershipTest,
    Name,
    NamePart,
    Negation,
    PresenceTest,
    Range,
    Slice,
    parse,
)


def name(text: str, at: int = 0) -> Name:
    return Name((NamePart(text, (at, at + len(text))),), None, (at, at + len(text)))


def alone(text: str, at: int = 0) -> PresenceTest:
    return PresenceTest(name(text, at))


def test_a_comparison_has_a_field_an_operator_and_a_value() -> None:
    assert parse("size >= 5") == ComparisonTest(name("size"), ">=", Literal("NUMBER", "5", (8, 9)))


def test_and_binds_closer_than_or_and_not_closer_than_and() -> None:
    assert parse("a or b and not c") == Disjunction((alone("a"), Conjunction((alone("b", 5), Negation(alone("c", 15))))))
    assert parse("a||b&&!c") == Disjunction((alone("a"), Conjunction((alone("b", 3), Negation(alone("c", 7))))))
    assert parse("(a or b) and c") == Conjunction((Disjunction((alone("a", 1), alone("b", 6))), alone("c", 13)))


def test_long_chains_are_flat() -> None:
    parsed = parse(" and ".join("a" * 1 for _ in range(500)))
    assert isinstance(parsed, Conjunction)
    assert len(parsed.parts) == 500


def test_a_set_has_values_and_ranges() -> None:
    item, five, nine = (Literal("NUMBER", text, (at, at + 1)) for text, at in (("1", 6), ("5", 9), ("9", 12)))
    assert parse("a in {1..5, 9}") == MembershipTest(name("a"), (Range(item, five), nine))
    assert parse("a not in {1..5, 9}") == Negation(parse("a in     {1..5, 9}"))
    assert parse("a in {1..5, 9,}") == parse("a in {1..5, 9 }")


@pytest.mark.parametrize("word", ["and", "or", "not", "in", "contains", "matches"])
def test_words_of_the_language_are_names_behind_a_point(word: str) -> None:
    parsed = parse(f"a.{word}")
    assert isinstance(parsed, PresenceTest)
    assert [part.name for part in parsed.field.parts] == ["a", word]


@pytest.mark.parametrize("text", ["order == 1", "android", "notice", "a.b == organic", "inner in {interior}"])
def test_words_may_begin_like_operators(text: str) -> None:
    assert isinstance(parse(text), (ComparisonTest, PresenceTest, MembershipTest))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("a[0:4]", 0, 4),
        ("a[2:4]", 2, 6),
        ("a[:4]", 0, 4),
        ("a[2:]", 2, None),
        ("a[:]", 0, None),
        ("a[3]", 3, 4),
        ("a[-1]", -1, None),
        ("a[-2]", -2, -1),
        ("a[-4:]", -4, None),
        ("a[-4:2]", -4, -2),
        ("a[-4:4]", -4, None),
        ("a[-4:9]", -4, None),
        ("a[1-3]", 1, 4),
        ("a[10:20]", 10, 30),
        ("a[0:-3]", 0, 0),
    ],
)
def test_a_slice_is_a_position_and_a_length_or_two_positions(text: str, start: int, end: int | None) -> None:
    parsed = parse(text)
    assert isinstance(parsed, PresenceTest)
    assert parsed.field.slice == Slice(start, end)
    assert parsed.field.place == (0, len(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('"a b"', "STRING"),
        ("'a'", "STRING"),
        ('"\\""', "STRING"),
        ("5", "NUMBER"),
        ("-5", "NUMBER"),
        ("0x1F", "NUMBER"),
        ("1.5e3", "NUMBER"),
        ("5ms", "DURATION"),
        ("1.5h", "DURATION"),
        ("-2s", "DURATION"),
        ("5µs", "DURATION"),
        ("4KiB", "SIZE"),
        ("4kB", "SIZE"),
        ("1.5GB", "SIZE"),
        ("12B", "SIZE"),
        ("0a:0b", "BYTES"),
        ("0a", "BYTES"),
        ("10:20:30", "BYTES"),
        ("2026-05-01", "TIME"),
        ("2026-05-01T10:00", "TIME"),
        ("2026-05-01T10:00:00.123456789+02:00", "TIME"),
        ("10.0.0.1", "NETWORK"),
        ("10.0.0.0/8", "NETWORK"),
        ("SEND", "WORD"),
        ("stream-gap", "WORD"),
        ("Unknown(9)", "WORD"),
        ("true", "WORD"),
        ("not", "WORD"),
    ],
)
def test_kinds_of_values_are_distinguished(text: str, kind: str) -> None:
    assert parse(f"a == {text}") == ComparisonTest(name("a"), "==", Literal(kind, text, (5, 5 + len(text))))


@pytest.mark.parametrize("text", ["5 ms", "5xyz", "0a:0", "2026-5-1", "1.2.3", "a.b", "5..6", "-x", "{1}"])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse(f"a == {text}")
