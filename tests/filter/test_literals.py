from __future__ import annotations

from ipaddress import ip_network

import pytest

from pulsarscope.filter.expression import Since, Value
from pulsarscope.filter.fields import KnownField
from pulsarscope.filter.filter_error import Mismatch
from pulsarscope.filter.literals import unquoted, value_of
from pulsarscope.filter.syntax import ComparisonTest, Literal, parse


def literal(text: str) -> Literal:
    written = parse(f"a == {text}")
    assert isinstance(written, ComparisonTest)
    return written.value


def known(*types: str, name: str = "a", values: tuple[str, ...] = ()) -> KnownField:
    return KnownField(name, types, "", values)


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("5", "int64", 5),
        ("-0x10", "int64", -16),
        ("4KiB", "int64", 4096),
        ("1.5KB", "int64", 1500),
        ("2MiB", "int64", 2 << 20),
        ("1GB", "int64", 10**9),
        ("1TiB", "int64", 1 << 40),
        ("18446744073709551615", "int64", -1),
        ("9223372036854775807", "int64", 2**63 - 1),
        ("2.5", "int64", 2.5),
        ("2.5", "double", 2.5),
        ("true", "bool", True),
        ('"a\\tb\\x41\\u00e4\\"\\\\"', "string", 'a\tbAä"\\'),
        ("'it\\'s'", "string", "it's"),
        ('"ab"', "bytes", b"ab"),
        ("0x0a0b", "bytes", b"\x0a\x0b"),
        ("0a", "bytes", b"\x0a"),
        ("10", "bytes", b"\x10"),
        ("0a:FF", "bytes", b"\x0a\xff"),
        ("50ms", "duration", 50_000_000),
        ("1.5us", "duration", 1_500),
        ("2m", "duration", 120_000_000_000),
        ("1h", "duration", 3_600_000_000_000),
        ("7", "nanoseconds", 7),
        ("7ns", "nanoseconds", 7),
        ("1970-01-01", "time", 0),
        ("1970-01-01T00:00:01.5Z", "time", 1_500_000_000),
        ("1970-01-01T01:00:00+01:00", "time", 0),
        ('"1970-01-01T00:01"', "time", 60_000_000_000),
        ("1.000000001", "time", 1_000_000_001),
        ("1777629600.123456789", "time", 1_777_629_600_123_456_789),
        ("10.1.2.3", "address", ip_network("10.1.2.3")),
        ("10.1.2.3/8", "address", ip_network("10.0.0.0/8")),
        ('"::1"', "address", ip_network("::1")),
        ("5", "any", 5),
        ("0a:0b", "any", b"\x0a\x0b"),
        ("1KiB", "any", 1024),
        ("false", "any", False),
    ],
)
def test_a_literal_has_the_type_of_its_field(text: str, type_: str, value: Value) -> None:
    actual = value_of(literal(text), known(type_))
    assert (actual, type(actual)) == (value, type(value))


def test_a_duration_beside_a_time_of_the_capture_counts_from_its_start() -> None:
    assert value_of(literal("2.5s"), known("time", name="time")) == Since(2_500_000_000)
    with pytest.raises(Mismatch, match="compare it with a date"):
        value_of(literal("2.5s"), known("time", name="publish_time"))


def test_names_of_an_enumeration_are_as_it_writes_them() -> None:
    field = known("string", values=("NONE", "lz4"))
    assert value_of(literal("LZ4"), field) == "lz4"
    assert value_of(literal('"none"'), field) == "NONE"
    assert value_of(literal("Unknown(7)"), field) == "Unknown(7)"


def test_a_field_of_several_types_takes_values_of_each() -> None:
    field = known("int64", "string")
    assert value_of(literal("5"), field) == 5
    assert value_of(literal('"a"'), field) == "a"
    with pytest.raises(Mismatch):
        value_of(literal("true"), field)


@pytest.mark.parametrize("text", ['"\\z"', '"\\x4"', '"\\xg0"', '"\\U00110000"', '"\\u 123"'])
def test_what_is_no_escape_is_refused(text: str) -> None:
    with pytest.raises(Mismatch, match="is an unknown escape"):
        unquoted(Literal("STRING", text, (0, len(text))))


@pytest.mark.parametrize(
    "text", ['"2026-W01-1"', '"20260501"', '"2026-05-01T10"', '"2026-05-01T10:00:00.1234567891"', '"2026-05-01 "', "2026-02-30"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Mismatch, match="invalid time"):
        value_of(literal(text), known("time"))
