"""Typed tree → predicate: closures over rows, made once. A test of a plain column only reads that attribute."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from operator import attrgetter, eq, ge, gt, le, lt
from typing import Any

from pulsarscope.filter import expression as tree
from pulsarscope.filter.literals import compile_pattern
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import Code
from pulsarscope.model.limits import FOLLOW_NAMES_MAX
from pulsarscope.model.records import ConnectionRow

Predicate = Callable[[Any], bool]
Test = Callable[[Any], bool]
"""A test of one value, never None."""
Reader = Callable[[Any], Any]
"""A reader of a row: returns a value or None, or a list of values if the field has many."""

ENDPOINTS_KEPT = 4_096
"""Endpoints whose address and port are cached."""

NUMBERS = frozenset({int, float})
FAMILIES: Mapping[type, frozenset[type]] = {
    int: NUMBERS,
    float: NUMBERS,
    str: frozenset({str}),
    bytes: frozenset({bytes}),
    bool: frozenset({bool}),
}
"""Types of values that a value in the filter can be compared with, by its type."""

ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


class EvaluationContext:
    """The data of the run that predicates need in addition to the row; it changes from block to block."""

    def __init__(self, codes: Mapping[str, Code], payload: str | None = None) -> None:
        """Evaluate with all finding codes by name, and payloads of message rows in this form (base64, hex, text; None: none)."""
        self.start: int | None = None
        """Time of the first row, nanoseconds since the epoch."""
        self.endpoints: Mapping[str, tuple[str, str]] = {}
        """Client and server of the connections known so far, by name."""
        self.ended: dict[str | None, tuple[str, str]] = {}
        """Client and server of connections whose rows came: findings about them may follow."""
        self.codes = codes
        self.payload = payload

    def learn(self, rows: Iterable[Any]) -> None:
        """Remember client and server of the connections whose rows are among these: the run forgets them."""
        for row in rows:
            if type(row) is ConnectionRow:
                remember(self.ended, row.connection, (row.client, row.server), FOLLOW_NAMES_MAX)

    def ends(self, row: Any) -> tuple[str, str] | None:
        """Return client and server of a row's connection, if known."""
        if row.kind == "connection":
            return None if row.client is None or row.server is None else (row.client, row.server)
        return self.endpoints.get(row.connection) or self.ended.get(row.connection)


def compile_tree(expression: tree.Expression, context: EvaluationContext) -> Predicate:
    """Return the predicate of a tree."""
    if isinstance(expression, tree.Always):
        value = expression.value
        return lambda _row: value
    if isinstance(expression, tree.Not):
        part = compile_tree(expression.part, context)
        return lambda row: not part(row)
    if isinstance(expression, (tree.And, tree.Or)):
        parts = tuple(compile_tree(part, context) for part in expression.parts)
        return _all_of(parts) if isinstance(expression, tree.And) else _any_of(parts)
    return _leaf(expression, context)


def _all_of(parts: tuple[Predicate, ...]) -> Predicate:
    if len(parts) == 2:
        first, second = parts
        return lambda row: first(row) and second(row)

    def every(row: Any) -> bool:
        for part in parts:  # noqa: SIM110 - a generator for each row costs three times as much
            if not part(row):
                return False
        return True

    return every


def _any_of(parts: tuple[Predicate, ...]) -> Predicate:
    def some(row: Any) -> bool:
        for part in parts:  # noqa: SIM110 - as above
            if part(row):
                return True
        return False

    return some


def _leaf(leaf: tree.Leaf, context: EvaluationContext) -> Predicate:
    field = leaf.field
    if field.command is not None and not field.steps and field.function is None:
        command = field.command
        return lambda row: bool(row.command == command)
    read, many = _reader(field, context)
    if isinstance(leaf, tree.Compare) and leaf.operator == "!=" and field.quantifier is None:
        equal = _equal(leaf.value, context)
        if many:
            return lambda row: bool(values := read(row)) and not any(map(equal, values))
        return lambda row: (value := read(row)) is not None and not equal(value)
    if isinstance(leaf, tree.Compare) and leaf.operator == "==" and not many and isinstance(leaf.value, (str, bytes)):
        expected = leaf.value
        return lambda row: bool(read(row) == expected)
    test = _test(leaf, context)
    if many and field.quantifier == "all":
        return lambda row: bool(values := read(row)) and all(map(test, values))
    if many:
        return lambda row: any(map(test, read(row)))
    return lambda row: (value := read(row)) is not None and test(value)


def _test(leaf: tree.Leaf, context: EvaluationContext) -> Test:
    if isinstance(leaf, tree.Present):
        return (lambda value: value is True) if leaf.field.types == ("bool",) else lambda _value: True
    if isinstance(leaf, tree.Matches):
        return _matches(leaf.pattern, leaf.field.types)
    if isinstance(leaf, tree.Within):
        return _within(leaf.items, context)
    if leaf.operator == "contains":
        return _contains(leaf.value)
    if leaf.operator in {"==", "!="}:
        equal = _equal(leaf.value, context)
        return equal if leaf.operator == "==" else lambda value: not equal(value)
    return _ordered(ORDERS[leaf.operator], leaf.value, context)


def _equal(expected: tree.Value, context: EvaluationContext) -> Test:
    if isinstance(expected, tree.Since):
        return _since(expected, context, eq)
    if isinstance(expected, (IPv4Network, IPv6Network)):
        return _inside(expected)
    family = FAMILIES[type(expected)]
    return lambda value: value == expected and type(value) in family


def _inside(network: IPv4Network | IPv6Network) -> Test:
    @lru_cache(maxsize=ENDPOINTS_KEPT)
    def inside(text: str) -> bool:
        try:
            return ip_address(text) in network
        except ValueError:
            return False

    return inside


def _ordered(compare: Callable[[Any, Any], bool], bound: tree.Value, context: EvaluationContext) -> Test:
    if isinstance(bound, tree.Since):
        return _since(bound, context, compare)
    family = FAMILIES[type(bound)]
    return lambda value: type(value) in family and compare(value, bound)


def _since(bound: tree.Since, context: EvaluationContext, compare: Callable[[Any, Any], bool]) -> Test:
    after = bound.nanoseconds
    return lambda value: compare(value, (context.start or 0) + after)


def _within(items: tuple[tree.Value | tree.Interval, ...], context: EvaluationContext) -> Test:
    plain = {(type(item) is bool, item) for item in items if isinstance(item, (int, float, str, bytes))}
    tests: list[Test] = []
    for item in items:
        if isinstance(item, tree.Interval):
            tests.append(_between(_ordered(ge, item.low, context), _ordered(le, item.high, context)))
        elif not isinstance(item, (int, float, str, bytes)):
            tests.append(_equal(item, context))
    if not tests:
        return lambda value: _is_plain(value) and (type(value) is bool, value) in plain

    def within(value: Any) -> bool:
        if _is_plain(value) and (type(value) is bool, value) in plain:
            return True
        return any(test(value) for test in tests)

    return within


def _between(above: Test, below: Test) -> Test:
    return lambda value: above(value) and below(value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float, str, bytes))


def _contains(part: tree.Value) -> Test:
    text = part if isinstance(part, str) else None
    data = part if isinstance(part, bytes) else str(part).encode(errors="surrogatepass")
    if text is None:
        return lambda value: type(value) is bytes and data in value
    return lambda value: text in value if type(value) is str else type(value) is bytes and data in value


def _matches(pattern: str, types: tuple[str, ...]) -> Test:
    of_text = None if types == ("bytes",) else compile_pattern(pattern)
    of_bytes = compile_pattern(pattern.encode()) if "bytes" in types else None

    def matches(value: Any) -> bool:
        searched = of_text if type(value) is str else of_bytes if type(value) is bytes else None
        if searched is None:
            return False
        try:
            return searched.search(value) is not None
        except UnicodeEncodeError:  # half a surrogate pair, from JSON
            return searched.search(value.encode(errors="replace").decode()) is not None

    return matches


def read_field(field: tree.FieldPath, context: EvaluationContext) -> Reader:
    """Return the reader of a field, which returns a value or None, or a list of values."""
    return _reader(field, context)[0]


def _reader(field: tree.FieldPath, context: EvaluationContext) -> tuple[Reader, bool]:
    """Return the reader of a field, and True if it returns a list."""
    read = DERIVED[field.column](context) if field.column in DERIVED else attrgetter(field.column)
    many = field.many
    if field.command is not None:
        read = _only_of(field.command, read)
    if field.steps and not many and all(isinstance(step, str) for step in field.steps):
        read = _nested(read, [step for step in field.steps if isinstance(step, str)])
    elif many:
        read = _listed(read, field.steps)
    elif field.steps:
        read, many = _listed(read, field.steps), True
    if field.slice is not None:
        read = _sliced(read, slice(field.slice.start, field.slice.end), many=many)
    if field.function == "len":
        return _lengths(read, many=many), many
    if field.function == "count":
        return _counted(read, field.command, many=many), False
    return read, many


def _only_of(command: str, read: Reader) -> Reader:
    return lambda row: read(row) if row.command == command else None


def _nested(read: Reader, steps: Sequence[str]) -> Reader:
    """Return a reader of one value, by its path through objects."""
    if len(steps) == 1:
        (name,) = steps
        return lambda row: value.get(name) if type(value := read(row)) is dict else None

    def value_of(row: Any) -> Any:
        value = read(row)
        for step in steps:
            if type(value) is not dict:
                return None
            value = value.get(step)
        return value

    return value_of


def _listed(read: Reader, steps: Sequence[str | tree.KeyStep]) -> Reader:
    """Return a reader of all values: a step through a list goes through each of its items."""

    def values_of(row: Any) -> list[Any]:
        values = _flat(read(row))
        for step in steps:
            if isinstance(step, tree.KeyStep):
                inner = [item.get("value") for item in values if type(item) is dict and item.get("key") == step.key]
            else:
                inner = [item.get(step) for item in values if type(item) is dict]
            values = [item for value in inner for item in _flat(value)]
        return values

    return values_of


def _flat(value: Any) -> list[Any]:
    """Return the values of a list, of one value, or of none."""
    if value is None:
        return []
    return [item for item in value if item is not None] if isinstance(value, (list, tuple)) else [value]


def _sliced(read: Reader, part: slice, *, many: bool) -> Reader:
    """Return a reader of a part of text or bytes; it returns None for an empty part."""
    if many:
        return lambda row: [value[part] for value in read(row) if type(value) in {str, bytes} and value[part]]
    return lambda row: (value[part] or None) if (value := read(row)) is not None and type(value) in {str, bytes} else None


def _lengths(read: Reader, *, many: bool) -> Reader:
    """Return a reader of the lengths of text and bytes."""
    if many:
        return lambda row: [len(value) for value in read(row) if type(value) in {str, bytes}]
    return lambda row: len(value) if type(value := read(row)) in {str, bytes} else None


def _counted(read: Reader, command: str | None, *, many: bool) -> Reader:
    """Return a reader of the number of values; it returns None for frames of another command."""

    def count(row: Any) -> int | None:
        if command is not None and row.command != command:
            return None
        values = read(row)
        return len(values) if many else int(values is not None)

    return count


def _payload(context: EvaluationContext) -> Reader:
    form = context.payload
    decode: Callable[[str], bytes] = b64decode if form == "base64" else bytes.fromhex if form == "hex" else str.encode
    return lambda row: None if row.payload is None else decode(row.payload)


def _end(index: int, part: int | None) -> Callable[[EvaluationContext], Reader]:
    """Return a reader of the client (0) or server (1) of a row's connection: the endpoint, or only its address (0) or port (1)."""

    def reader(context: EvaluationContext) -> Reader:
        def read(row: Any) -> Any:
            if (ends := context.ends(row)) is None:
                return None
            return ends[index] if part is None else _parts(ends[index])[part]

        return read

    return reader


def _ends(part: int) -> Callable[[EvaluationContext], Reader]:
    """Return a reader of the addresses (0) or ports (1) of both endpoints."""

    @lru_cache(maxsize=ENDPOINTS_KEPT)
    def of_both(ends: tuple[str, str] | None) -> list[Any]:
        return [] if ends is None else [_parts(end)[part] for end in ends]

    return lambda context: lambda row: of_both(context.ends(row))


def _of_codes(name: str) -> Callable[[EvaluationContext], Reader]:
    """Return a reader of an attribute of the codes of a frame's findings: their severities, their layers."""

    def reader(context: EvaluationContext) -> Reader:
        known = {code: getattr(entry, name) for code, entry in context.codes.items()}
        return lambda row: [known[code] for code in row.findings or () if code in known]

    return reader


def _of_checksum(name: str) -> Callable[[EvaluationContext], Reader]:
    return lambda _context: lambda row: None if row.checksum is None else getattr(row.checksum, name)


@lru_cache(maxsize=ENDPOINTS_KEPT)
def _parts(endpoint: str) -> tuple[str, int | None]:
    """Return address and port of "ip:port" or "[v6]:port"."""
    address, _, port = endpoint.rpartition(":")
    return address.strip("[]"), int(port) if port.isascii() and port.isdigit() else None


DERIVED: Mapping[str, Callable[[EvaluationContext], Reader]] = {
    "payload": _payload,
    "client": _end(0, None),
    "server": _end(1, None),
    "client.ip": _end(0, 0),
    "client.port": _end(0, 1),
    "server.ip": _end(1, 0),
    "server.port": _end(1, 1),
    "ip": _ends(0),
    "port": _ends(1),
    "frame.topic": lambda _context: lambda row: list(row.topics or ()) if row.topic is None else [row.topic],
    "finding.severity": _of_codes("severity"),
    "finding.layer": _of_codes("layer"),
    "checksum.status": _of_checksum("status"),
    "checksum.stored": _of_checksum("stored"),
    "checksum.computed": _of_checksum("computed"),
}
"""Factory of the reader of each derived column, by name."""
