"""The fields that a filter can name, by kind of rows: from the column table, and from the vocabularies of the dissectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from pulsarscope.dissect.contract.capabilities import FieldType, Vocabulary
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.plugins.registry import finding_codes, vocabularies
from pulsarscope.model.findings import LAYERS, SEVERITIES, Code
from pulsarscope.model.on_use import MadeOnUse
from pulsarscope.model.records import ROWS, Column, columns

ANY = "any"
OBJECT = "object"
PAYLOAD = "payload"
OF_COMMANDS = ("frame.command", "exchange.request", "exchange.response")
"""Columns that hold names of commands."""

CAPTURE_TIMES = frozenset({"time", "start", "end", "send_time", "receipt_time", "storage_time", "delivery_time", "ack_time"})
"""Columns with times of the capture: only these can be compared with a time since its start."""
UNKNOWN = "unknown"
"""The object in which rows keep fields that are missing from the protocol's definition."""


class KnownField(msgspec.Struct):
    """A field of the catalogue."""

    name: str
    types: tuple[str, ...]
    """int64, double, bool, string, bytes, time, duration, nanoseconds, address, object; any: unknown until a row is seen."""
    text: str
    values: Collection[str] = ()
    repeated: bool = False
    fields: dict[str, KnownField] = {}
    column: str | None = None
    """Column that it is read from; None if it is a step from the field that holds it."""
    more_values: bool = False
    """True when rows may hold other values than these: a dissector does not list its own."""

    @property
    def is_open(self) -> bool:
        """True when it may hold fields that are not listed."""
        return ANY in self.types

    @property
    def is_pairs(self) -> bool:
        """True for a list of objects with a key and a value."""
        return self.repeated and self.fields.keys() - {UNKNOWN} == {"key", "value"}


class Catalogue:
    """The fields: `tables` has those of each kind by name, `commands` has the objects of commands by command name."""

    def __init__(self, vocabularies: Iterable[Vocabulary], codes: Mapping[str, Code]) -> None:
        """Join the vocabularies with all finding codes, by name."""
        self.codes = codes
        self.commands: dict[str, KnownField] = {}
        self.tables = {kind: {column.name: _of_column(column) for column in columns(kind)} for kind in ROWS}
        vocabularies = tuple(vocabularies)
        for vocabulary in vocabularies:
            self._join(vocabulary)
        self._join_values([{**dict.fromkeys(OF_COMMANDS, tuple(own.commands)), **own.values} for own in vocabularies])
        self._derive()

    @classmethod
    def of(cls, dissectors: Sequence[Dissector]) -> Catalogue:
        """Return the fields of all records that dissectors can produce."""
        return cls(vocabularies(dissectors), MadeOnUse(lambda: finding_codes(dissectors)))  # few filters need the modules of rules

    def _join(self, vocabulary: Vocabulary) -> None:
        """Add the vocabulary of one dissector."""
        frame = self.tables["frame"]
        for name, types in vocabulary.commands.items():
            own = KnownField(name, (OBJECT,), f"The command {name}.", (), False, _known_all(types), "fields")
            self.commands[name] = _merged(self.commands[name], own) if name in self.commands else own
        everywhere = frame["fields"]
        for name, types in vocabulary.commands.items():
            frame["fields"] = everywhere = _merged(everywhere, KnownField("fields", (OBJECT,), name, (), False, _known_all(types)))
        for place, types in vocabulary.objects.items():
            kind, _, name = place.partition(".")
            table = self.tables[kind]
            table[name] = _merged(table[name], KnownField(name, (OBJECT,), "", (), False, _known_all(types)))

    def _join_values(self, several: Sequence[Mapping[str, tuple[str, ...]]]) -> None:
        """Add the enumerations of all dissectors, by place."""
        for place in dict.fromkeys(chain(*several)):
            kind, _, name = place.partition(".")
            known = self.tables[kind][name]
            known.more_values = not all(own.get(place) for own in several)
            known.values = tuple(dict.fromkeys(chain(known.values, *(own.get(place, ()) for own in several))))

    def _derive(self) -> None:
        """Add the fields that are derived from columns."""
        tables = self.tables
        for kind, table in tables.items():
            for name in [name for name in table if name.endswith("_ns")]:
                table[name].types = ("nanoseconds",)
                short = name.removesuffix("_ns")
                table[short] = KnownField(short, ("duration",), f"{name} with a unit.", column=name)
            for side in ("client", "server"):
                of = table.get(side) or KnownField(side, ("string",), f"Endpoint of the {side} of its connection.", column=side)
                of.fields = {
                    "ip": KnownField("ip", ("address",), f"Address of the {side}.", column=f"{side}.ip"),
                    "port": KnownField("port", ("int64",), f"Port of the {side}.", column=f"{side}.port"),
                }
                table[side] = of
            table["ip"] = KnownField("ip", ("address",), "Addresses of client and server.", repeated=True, column="ip")
            table["port"] = KnownField("port", ("int64",), "Ports of client and server.", repeated=True, column="port")
            if kind in {"frame", "message", "exchange"}:
                table[kind] = KnownField(kind, ("kind",), f"Any {kind} record.", column=kind)
        names = self.codes.keys()
        tables["finding"]["code"].values = names
        tables["finding"]["finding"] = KnownField("finding", ("string",), "As code.", names, column="code")
        frame = tables["frame"]
        frame["findings"].values = names
        frame["topic"] = KnownField("topic", ("string",), "Topic, from the session; any of several.", (), True, column="frame.topic")
        frame["finding"] = KnownField(
            "finding",
            ("string",),
            "Codes of the findings about the form of the frame.",
            names,
            True,
            {
                "code": KnownField("code", ("string",), "As finding.", names, True, column="findings"),
                "severity": KnownField("severity", ("string",), "Their severities.", SEVERITIES, True, column="finding.severity"),
                "layer": KnownField("layer", ("string",), "Their layers.", LAYERS, True, column="finding.layer"),
            },
            "findings",
        )
        verdict = frame["checksum"]
        verdict.types = (OBJECT,)
        for name, text in (("status", "Verdict."), ("stored", "As in the frame, hex."), ("computed", "As it should be, hex.")):
            values = ("good", "bad", "absent", "unverified") if name == "status" else ()
            verdict.fields[name] = KnownField(name, ("string",), text, values, column=f"checksum.{name}")
            flat = f"checksum_{name}"
            frame[flat] = KnownField(flat, ("string",), f"As checksum.{name}.", values, column=f"checksum.{name}")
        payload = tables["message"][PAYLOAD]
        payload.types, payload.text = ("bytes",), "Application bytes; --payload is not needed."

    def names(self, kind: str) -> Iterator[tuple[str, KnownField]]:
        """Yield every name of a kind with its field, those in objects after the object. Commands come last."""
        yield from _walk("", self.tables[kind])
        if kind == "frame":
            for name, known in self.commands.items():
                yield name, known
                yield from _walk(f"{name}.", known.fields)


def _of_column(column: Column) -> KnownField:
    kept = {"json": ANY, "checksum": OBJECT, "strings": "string"}.get(column.type, column.type)
    return KnownField(column.name, (kept,), column.text, column.values, column.type == "strings", {}, column.name)


def _known(field: FieldType) -> KnownField:
    types = (ANY,) if field.type == OBJECT and not field.fields else (field.type,)
    return KnownField(field.name, types, field.text, field.values, field.repeated, _known_all(field.fields) if field.fields else {})


def _known_all(fields: tuple[FieldType, ...]) -> dict[str, KnownField]:
    unknown = KnownField(UNKNOWN, (ANY,), "Fields that the definition lacks, by number.")
    return {field.name: _known(field) for field in fields} | {UNKNOWN: unknown}


def _merged(field: KnownField, other: KnownField) -> KnownField:
    """Join two definitions of a field: the result allows the values of both."""
    types = tuple(dict.fromkeys(type_ for type_ in field.types + other.types if type_ != ANY or field.column is None))
    fields = dict(field.fields)
    for name, known in other.fields.items():
        fields[name] = _merged(fields[name], known) if name in fields else known
    text = field.text if field.column is not None or field.text == other.text else "Of several commands."
    values = tuple(dict.fromkeys([*field.values, *other.values]))
    return KnownField(field.name, types, text, values, field.repeated or other.repeated, fields, field.column)


def _walk(prefix: str, table: Mapping[str, KnownField]) -> Iterator[tuple[str, KnownField]]:
    for name, known in table.items():
        if prefix and name == UNKNOWN:
            continue  # every object may have it
        yield prefix + name, known
        yield from _walk(f"{prefix}{name}.", known.fields)
