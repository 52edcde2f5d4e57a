"""Literals → values of the type of the field beside them."""

from __future__ import annotations

from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from ipaddress import ip_network
from typing import Any

import re2

from pulsarscope.filter.expression import Since, Value
from pulsarscope.filter.fields import ANY, CAPTURE_TIMES, OBJECT, KnownField
from pulsarscope.filter.filter_error import Mismatch
from pulsarscope.filter.syntax import BYTES, CONNECTION, DURATION, NETWORK, NUMBER, SIZE, STRING, TIME, WORD, Literal
from pulsarscope.model.connection_name import connection_name
from pulsarscope.model.limits import FILTER_PATTERN_MAX_CHARACTERS
from pulsarscope.model.text import either
from pulsarscope.model.units import DURATIONS, SECOND, SIZES
from pulsarscope.model.utc import utc_nanoseconds

WIRESHARK_NAMES = {
    "frame.number": "packet",
    "frame.time": "time",
    "frame.time_epoch": "time",
    "frame.time_relative": "time",
    "frame.len": "size",
    "ip.addr": "ip",
    "ip.src": "client.ip or server.ip",
    "ip.dst": "client.ip or server.ip",
    "ipv6.addr": "ip",
    "tcp.port": "port",
    "tcp.srcport": "client.port or server.port",
    "tcp.dstport": "client.port or server.port",
    "tcp.stream": "connection",
    "tcp.analysis.retransmission": "retransmitted, of connection records",
    "kind": "the kind alone, as in message && latency > 1ms",
    "producer": "producer_name",
    "record": "the kind alone, as in message && latency > 1ms",
    "pulsar.cmd_type": "command",
    "pulsar.topic": "topic",
    "pulsar.producer_name": "producer_name",
    "pulsar.subscription": "subscription",
}


PATTERN_SHOWN_CHARACTERS = 60
"""Most characters of a regular expression in its refusal."""

INT64_MAX = (1 << 63) - 1

ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\", '"': '"', "'": "'"}
HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}

EXPECTED = {
    "int64": "a number",
    "double": "a number",
    "bool": "true or false",
    "string": 'text in quotes, as in "orders"',
    "bytes": 'bytes, as in 0a:0b:0c, 0x0a0b or "text"',
    "time": "a time, as in 2026-05-01T10:00:00Z or in seconds since the epoch",
    "duration": "a duration with its unit, as in 50ms",
    "nanoseconds": "a duration, as in 50ms, or a number of nanoseconds",
    "address": 'an address or a network, as in 10.0.0.7, 10.0.0.0/8 or "2001:db8::/32"',
    ANY: "a value",
}
"""Description of the values that a field can be compared with, by type of the field."""


def value_of(literal: Literal, known: KnownField, *, ordered: bool = False) -> Value:
    """Return the value of a literal that is compared with a field. Raises Mismatch when the field cannot have such a value."""
    misfit: Mismatch | None = None
    for type_ in known.types:
        try:
            return _value(literal, type_, known, ordered)
        except Mismatch as error:
            misfit = error
    raise misfit or Mismatch(f"{known.name} cannot be compared", literal.place)


def _value(literal: Literal, type_: str, known: KnownField, ordered: bool) -> Value:
    kind, text = literal.kind, literal.text
    if type_ == OBJECT:
        some = ", ".join(list(known.fields)[:4]) + (" …" if len(known.fields) > 4 else "")
        ours = f"; or write {WIRESHARK_NAMES[known.name.lower()]}" if known.name.lower() in WIRESHARK_NAMES else ""
        raise Mismatch(f"{known.name} is an object: name one of its fields, {some}{ours}", literal.place)
    value: Value | None = None
    if type_ == ANY:
        value = _any_value(literal)
    elif type_ == "int64" and kind in {NUMBER, SIZE}:
        value = _integer(literal, ordered)
    elif type_ == "double" and kind == NUMBER:
        value = _number(literal)
    elif type_ == "bool" and kind == WORD and text in {"true", "false"}:
        value = text == "true"
    elif type_ == "string" and known.values and kind in {STRING, WORD}:
        return _enumeration_value(known, text if kind == WORD else unquoted(literal), literal)
    elif type_ == "string" and kind in {STRING, CONNECTION}:
        value = _text(literal, known)
    elif type_ == "bytes" and kind in {STRING, BYTES, NUMBER}:
        value = _bytes(literal)
    elif type_ == "time":
        value = _time(literal, known)
    elif type_ == "duration" and kind == DURATION:
        value = _scaled(literal, DURATIONS)
    elif type_ == "nanoseconds" and kind in {DURATION, NUMBER}:
        value = _scaled(literal, DURATIONS) if kind == DURATION else _integer(literal, ordered)
    elif type_ == "address" and kind in {STRING, NETWORK}:
        value = _network(text if kind == NETWORK else unquoted(literal), literal)
    if value is not None:
        return value
    if known.values:
        names = ", ".join([*known.values][:4]) + (" …" if len(known.values) > 4 else "")
        raise Mismatch(f"{known.name} is one of {names}", literal.place)
    if kind == NETWORK and known.name in {"client", "server"}:
        raise Mismatch(f"{known.name} is an address with its port: write {known.name}.ip", literal.place)
    expected = f'text in quotes: "{text}"' if type_ == "string" and kind == WORD else EXPECTED[type_]
    raise Mismatch(f"{known.name} is compared with {expected}", literal.place)


def text_of(literal: Literal, known: KnownField) -> str | bytes:
    """Return the text or bytes that `contains` searches for. Raises Mismatch when the field or the literal has another type."""
    if not {"string", "address", ANY}.isdisjoint(known.types):
        if literal.kind == STRING:
            return unquoted(literal)
        if literal.kind == WORD and known.values:
            return literal.text
        if "bytes" not in known.types and not (known.is_open and literal.kind == BYTES):
            raise Mismatch('contains takes text in quotes, as in contains "orders"', literal.place)
    if not {"bytes", ANY}.isdisjoint(known.types):
        if literal.kind in {STRING, BYTES, NUMBER}:
            return _bytes(literal)
        raise Mismatch(f"{known.name} contains {EXPECTED['bytes']}", literal.place)
    raise Mismatch(f"{known.name} is neither text nor bytes, which contains and matches search", literal.place)


def pattern_of(literal: Literal, known: KnownField) -> str:
    """Compile and return a regular expression. Raises Mismatch when it is invalid, too long, or the field is neither text nor bytes."""
    if {"string", "address", "bytes", ANY}.isdisjoint(known.types):
        raise Mismatch(f"{known.name} is neither text nor bytes, which contains and matches search", literal.place)
    pattern = literal.text
    if len(pattern) > FILTER_PATTERN_MAX_CHARACTERS:
        raise Mismatch(f"the regular expression is longer than {FILTER_PATTERN_MAX_CHARACTERS:,} characters", literal.place)
    try:
        if known.types != ("bytes",):
            compile_pattern(pattern)
        if "bytes" in known.types:
            compile_pattern(pattern.encode())
    except re2.error as error:
        raise Mismatch(f"invalid regular expression {_refusal(pattern, error)}", literal.place) from None
    except UnicodeEncodeError:
        raise Mismatch("invalid regular expression: half a surrogate pair is not a character", literal.place) from None
    return pattern


def _refusal(pattern: str, error: re2.error) -> str:
    """Return a quoted regular expression, and the reason why RE2 refuses it."""
    reason, _, culprit = error.args[0].decode(errors="replace").partition(": ")
    shown = pattern if len(pattern) <= PATTERN_SHOWN_CHARACTERS else pattern[: PATTERN_SHOWN_CHARACTERS - 1] + "…"
    where = f' at "{culprit}"' if culprit and culprit != pattern and len(culprit) <= PATTERN_SHOWN_CHARACTERS else ""
    return f'"{shown}": {reason}{where}'


@cache
def compile_pattern(pattern: str | bytes) -> Any:
    """Compile a regular expression of RE2, which takes linear time on any text: texts come off the wire."""
    options = re2.Options()
    options.log_errors = False
    if isinstance(pattern, bytes):
        options.encoding = re2.Options.Encoding.LATIN1  # each byte is a character
    return re2.compile(pattern, options)


def unquoted(literal: Literal) -> str:
    """Return the text between quotes, with its escapes resolved. Raises Mismatch for an unknown escape."""
    text = literal.text[1:-1]
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while (slash := text.find("\\", at)) >= 0:
        parts.append(text[at:slash])
        letter = text[slash + 1]
        at = slash + 2
        if letter in ESCAPES:
            parts.append(ESCAPES[letter])
            continue
        digits = text[at : at + HEX_ESCAPES.get(letter, 0)]
        try:
            if len(digits) != HEX_ESCAPES[letter] or not digits.isalnum():
                raise ValueError  # noqa: TRY301 - int() accepts more than digits
            parts.append(chr(int(digits, 16)))
        except (KeyError, ValueError, OverflowError):
            place = literal.place[0] + 1 + slash
            raise Mismatch(
                f"\\{letter} is an unknown escape; use \\n \\r \\t \\0 \\\\ \\\" \\' \\xHH \\uHHHH", (place, place + 2)
            ) from None
        at += len(digits)
    parts.append(text[at:])
    return "".join(parts)


def _any_value(literal: Literal) -> Value:
    kind, text = literal.kind, literal.text
    if kind == STRING:
        return unquoted(literal)
    if kind == NUMBER:
        return _number(literal)
    if kind == SIZE:
        return _scaled(literal, SIZES)
    if kind == BYTES:
        return _bytes(literal)
    if kind == WORD and text in {"true", "false"}:
        return text == "true"
    raise Mismatch("this field is compared with a number, text in quotes, bytes, true or false", literal.place)


def _enumeration_value(known: KnownField, text: str, literal: Literal) -> str:
    """Return the name in an enumeration. Names for unnamed numbers (UNKNOWN_7) are also valid and, if it is open, other quoted names."""
    names = {name.upper(): name for name in known.values}
    if (name := names.get(text.upper())) is not None:
        return name
    if text.startswith(("UNKNOWN_", "Unknown(")) or (known.more_values and literal.kind == STRING):
        return text
    near = get_close_matches(text.upper(), names, 3, 0.6)
    hint = f"; did you mean {either([names[name] for name in near])}?" if near else f"; known: {', '.join([*known.values][:12])}"
    more = " …" if not near and len(known.values) > 12 else ""
    never = f'write "{text}" in quotes, unless it is misspelt' if known.more_values else f'{known.name} is never "{text}"'
    raise Mismatch(f"{never}{hint}{more}", literal.place)


def _number(literal: Literal) -> int | float:
    text = literal.text.lower()
    if "x" in text:
        return int(text, 16)
    if text.lstrip("-").isdigit():
        if len(text) <= 40:
            return int(text)
    else:
        value = float(text)
        if value - value == 0:
            return value
    raise Mismatch("the number is too large", literal.place)


def _text(literal: Literal, known: KnownField) -> str | None:
    """Return a text; for a connection its name, in any notation; None for the name of a connection beside another field."""
    text = literal.text if literal.kind == CONNECTION else unquoted(literal)
    if known.column == "connection":
        return connection_name(text) or text
    return text if literal.kind == STRING else None


def _integer(literal: Literal, ordered: bool) -> int | float:
    value = _number(literal) if literal.kind == NUMBER else _scaled(literal, SIZES)
    if isinstance(value, float):
        return value
    if INT64_MAX < value < 1 << 64 and not ordered:
        return value - (1 << 64)  # unsigned ids are signed in records
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise Mismatch("the number does not fit into 64 bits with a sign, as records have it", literal.place)
    return value


def _scaled(literal: Literal, units: dict[str, int]) -> int:
    """Return the exact value of a number with its unit."""
    digits = literal.text.rstrip("nusmhµBKkMGTi")
    value = Decimal(digits) * units[literal.text[len(digits) :]]
    if abs(value) > INT64_MAX:
        raise Mismatch("the number is too large", literal.place)
    return int(value)


def _bytes(literal: Literal) -> bytes:
    if literal.kind == STRING:
        return unquoted(literal).encode(errors="surrogatepass")
    text = literal.text.replace(":", "")
    if literal.kind == NUMBER and not (len(text) == 2 and text.isdigit()):
        if not text.startswith(("0x", "0X")) or len(text) % 2:
            raise Mismatch(f"invalid bytes: give {EXPECTED['bytes']}", literal.place)
        text = text[2:]
    return bytes.fromhex(text)


def _time(literal: Literal, known: KnownField) -> int | Since | None:
    """Return nanoseconds since the epoch, or since the start of the capture; None for a literal of another kind."""
    if literal.kind == DURATION:
        if known.name not in CAPTURE_TIMES:
            raise Mismatch(f"{known.name} is not a time of the capture: compare it with a date", literal.place)
        return Since(_scaled(literal, DURATIONS))
    if literal.kind == NUMBER and "x" not in literal.text.lower():
        seconds = Decimal(literal.text) * SECOND
        if abs(seconds) > INT64_MAX:
            raise Mismatch("the time is too large: give seconds since the epoch", literal.place)
        return int(seconds)
    if literal.kind not in {TIME, STRING}:
        return None
    text = literal.text if literal.kind == TIME else unquoted(literal)
    try:
        return utc_nanoseconds(text)
    except ValueError:
        raise Mismatch("invalid time: write 2026-05-01T10:00:00.123Z", literal.place) from None


def _network(text: str, literal: Literal) -> Value:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise Mismatch(f"invalid address or network: give {EXPECTED['address']}", literal.place) from None
