"""Schemas that the broker does not take: who sent them, and how they differ from those of others on the topic."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, Code, table
from pulsarscope.model.records import ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import frames, host, said, some
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY

CODES = table(
    Code(
        "schema-incompatible",
        ERROR,
        "session",
        "The broker refused a schema that does not fit those of the topic.",
        "Change the schema as the namespace's compatibility strategy allows, add defaults to new fields, or change the strategy.",
    ),
)

ERRORS = frozenset({"IncompatibleSchema"})
"""Refusals that are told here."""

SCHEMAS = "schemas-of-topic"

KNOWN_NS = 24 * 3_600 * 1_000_000_000
"""Who is refused meets a schema that was registered long ago: what is known is kept for a day."""

ASKED_MAX = 1_000
"""Requests kept until their answer."""

DEFINITION_MAX_BYTES = 64 << 10
"""Largest definition that is read; those of records with hundreds of fields take less."""

FIELDS_MAX = 500
"""Fields of a record that are compared."""

TYPE_MAX_CHARACTERS = 200
"""A field's type, which may be a record itself, is told so far."""

_JSON_DEFINED = frozenset({"Json", "Avro", "Protobuf"})
"""Types whose definition is an Avro schema as JSON."""


def described(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Type, name, and of a record its fields, as plain values."""
    kind = schema.get("type", "None")
    data = schema.get("schema_data") or b""
    raw = base64.b64decode(data) if isinstance(data, str) else bytes(data)
    found: dict[str, Any] = {"type": kind, "name": schema.get("name") or None, "fields": None, "bytes": len(raw)}
    if kind in _JSON_DEFINED and 0 < len(raw) <= DEFINITION_MAX_BYTES:
        try:
            definition = json.loads(raw)
        except (ValueError, RecursionError):
            return found
        if isinstance(definition, dict):
            found["name"] = _text(definition["name"]) if isinstance(definition.get("name"), str) else found["name"]
            found["fields"] = _record_fields(definition.get("fields"))
    return found


def _record_fields(fields: Any) -> dict[str, str] | None:
    if not isinstance(fields, list):
        return None
    return {_text(str(one["name"])): _type_text(one) for one in fields[:FIELDS_MAX] if isinstance(one, dict) and "name" in one}


def _text(text: str) -> str:
    """Text that any output can encode: JSON may spell halves of characters that no text in UTF-8 has."""
    return text.encode("utf-8", "backslashreplace").decode()


def _type_text(field: Mapping[str, Any]) -> str:
    kind = field.get("type")
    text = kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"))
    return _text(text[:TYPE_MAX_CHARACTERS]) + (" with default" if "default" in field else "")


def difference(new: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """What sets a schema apart from a known one, one phrase each."""
    found = []
    if new["type"] != known["type"]:
        found.append(f"type {new['type']} instead of {known['type']}")
    if new["name"] != known["name"]:
        found.append(f"name {new['name']} instead of {known['name']}")
    if new["fields"] is not None and known["fields"] is not None:
        mine, theirs = new["fields"], known["fields"]
        found += [f"field {name} is new ({mine[name]})" for name in mine if name not in theirs]
        found += [f"field {name} is missing ({theirs[name]})" for name in theirs if name not in mine]
        found += [
            f"field {name} is {mine[name]} instead of {theirs[name]}" for name in mine if name in theirs and mine[name] != theirs[name]
        ]
    return found


class Schemas(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._asked: dict[str, dict[str, Any]] = {}
        """What a request says, by name of its frame; only those that bring a schema."""
        self._told: set[tuple[str, str]] = set()
        """Topics and schemas that are known to be: a thousand producers of one schema tell it once."""

    def _ask(self, row: FrameRow) -> None:
        fields = row.fields or {}
        schema = fields.get("schema")
        who = fields.get("producer_name") or fields.get("consumer_name")
        brought = described(schema) if isinstance(schema, dict) else None
        if brought is None and row.command != "PRODUCER":
            return
        self._asked[where_of(row).name] = {"schema": brought, "command": row.command, "who": who, "client": self._context.client}
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]

    def _given(self, row: FrameRow) -> None:
        schema = (row.fields or {}).get("schema")
        if isinstance(schema, dict) and row.topic is not None:
            told = {"schema": described(schema), "command": "GET_SCHEMA_RESPONSE", "who": None, "client": self._context.client}
            self._emit(row.topic, where_of(row), told)

    def _answered(self, row: ExchangeRow) -> None:
        asked = self._asked.pop(where_of(row).name, None)
        if row.status == "ok" and asked is not None and asked["schema"] is not None and row.topic is not None:
            self._emit(row.topic, where_of(row), asked)
        elif row.error in ERRORS:
            self._refuse(row, asked or {"schema": None, "command": row.request, "who": None, "client": self._context.client})

    def _emit(self, topic: str, where: Where, known: dict[str, Any]) -> None:
        same = topic, json.dumps(known["schema"])
        if same not in self._told:
            if len(self._told) < ASKED_MAX:
                self._told.add(same)
            self._context.emit_fact(SCHEMAS, topic, where, "known", known)

    def _refusal(self, row: ExchangeRow) -> None:
        if row.error in ERRORS:
            self._refuse(row, {"schema": None, "command": row.request, "who": None, "client": self._context.client})

    def _refuse(self, row: ExchangeRow, asked: dict[str, Any]) -> None:
        response = f"{row.response_file}:{row.response_packet}.{row.response_sub}"
        refused = asked | {"response": response, "message": said(row.error_message)}
        self._context.emit_fact(SCHEMAS, row.topic or "", where_of(row), "refused", refused)

    frames: ClassVar[Handlers] = {
        "PRODUCER": _ask,
        "SUBSCRIBE": _ask,
        "GET_OR_CREATE_SCHEMA": _ask,
        "GET_SCHEMA_RESPONSE": _given,
    }
    exchanges: ClassVar[Handlers] = dict.fromkeys(ANSWERED_BY, _refusal) | dict.fromkeys(
        ("PRODUCER", "SUBSCRIBE", "GET_OR_CREATE_SCHEMA"), _answered
    )


def _evaluate_schemas(topic: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Refused schemas against the latest that was taken before, else the first after."""
    known = [fact for fact in facts if fact.what == "known"]
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.what == "refused":
            values = fact.values
            same = json.dumps([host(values["client"]), values["command"], values["who"], values["schema"]])
            groups.setdefault(same, []).append(fact)
    for group in groups.values():
        at = group[0].where.time
        before = [fact for fact in known if fact.where.time <= at]
        _report_refused(topic, group, before[-1] if before else known[0] if known else None, report)


def _report_refused(topic: str, group: Sequence[Fact], known: Fact | None, report: ReportFinding) -> None:
    first = group[0]
    values = first.values
    new = values["schema"]
    who = f" of {values['who']}" if values["who"] else ""
    times = f" {len(group):,} times" if len(group) > 1 else ""
    text = f"{values['command']}{who} ({values['client']}) for {topic or 'an unknown topic'} was refused{times} with IncompatibleSchema: "
    differs: list[str] = []
    if new is None:
        text += "it brings no schema"
    else:
        text += f"its schema is {new['type']} {new['name'] or 'without a name'}"
    if known is not None:
        theirs = known.values["schema"]
        differs = [] if new is None else difference(new, theirs)
        origin = f"{known.values['command']} of {known.values['client']} ({known.where.name})"
        text += f", that of {origin} is {theirs['type']} {theirs['name'] or 'without a name'}"
        text += f": {some(differs)}" if differs else ""
    else:
        text += "; the topic's own schema is not in the capture"
    evidence = {
        "frames": frames([*(name for fact in group for name in (fact.where.name, fact.values["response"])), known and known.where.name]),
        "topic": topic,
        "count": len(group),
        "schema": new and {"type": new["type"], "name": new["name"], "bytes": new["bytes"]},
        "known": known and {name: known.values["schema"][name] for name in ("type", "name", "bytes")},
        "difference": differs[:50],
        "message": values["message"],
    }
    report("schema-incompatible", first.where, f"{text}.", evidence)


KEYS = (KeyRule(SCHEMAS, KNOWN_NS, _evaluate_schemas, early=True),)
