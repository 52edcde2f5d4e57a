"""Schemas that the broker refuses: their senders, and the differences from other schemas on the topic."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ExchangeRow, FrameRow
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, response_name
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import OTHER_REQUESTS
from pulsarscope.protocols.pulsar.text.formatting import error_message_text, host, listing
from pulsarscope.protocols.pulsar.topics import bounded_name

CODES = table(
    SESSION.error(
        "schema-incompatible",
        "The broker refused a schema that does not fit those of the topic.",
        "Change the schema as the namespace's compatibility strategy allows, add defaults to new fields, or change the strategy.",
        to_act="the application",
    ),
)

ERRORS = frozenset({"IncompatibleSchema"})
"""Errors that this rule reports."""

SCHEMAS = "schemas-of-topic"

KNOWN_NS = 24 * 3_600 * 1_000_000_000
"""Time without facts after which a topic is evaluated: its schema may have been registered long before another is refused."""

REQUESTS_MAX = 1_000
"""Requests kept until their answer."""

DEFINITION_BYTES_MAX = 64 << 10
"""Largest definition that is read; those of records with hundreds of fields take less."""

FIELDS_MAX = 500
"""Fields of a record that are compared."""

TYPE_CHARACTERS_MAX = 200
"""Characters of a field's type that are kept; the type may be a record."""

DIFFERENCES_MAX = 50
"""Differences that the evidence lists."""

_JSON_DEFINED = frozenset({"Json", "Avro", "Protobuf"})
"""Types whose definition is an Avro schema as JSON."""


def description_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type, the name, the size in bytes, and the fields of a record, as plain values."""
    kind = schema.get("type", "None")
    data = schema.get("schema_data") or b""
    raw = base64.b64decode(data) if isinstance(data, str) else bytes(data)
    description: dict[str, Any] = {"type": kind, "name": schema.get("name") or None, "fields": None, "bytes": len(raw)}
    if kind in _JSON_DEFINED and 0 < len(raw) <= DEFINITION_BYTES_MAX:
        try:
            definition = json.loads(raw)
        except (ValueError, RecursionError):
            return description
        if isinstance(definition, dict):
            if isinstance(definition.get("name"), str):
                description["name"] = _encodable(definition["name"])
            description["fields"] = _record_fields(definition.get("fields"))
    return description


def _record_fields(fields: Any) -> dict[str, str] | None:
    if not isinstance(fields, list):
        return None
    named = [field for field in fields[:FIELDS_MAX] if isinstance(field, dict) and "name" in field]
    return {_encodable(str(field["name"])): _type_text(field) for field in named}


def _encodable(text: str) -> str:
    """Return text that any output can encode: JSON may have escaped surrogates, which UTF-8 cannot represent."""
    return text.encode("utf-8", "backslashreplace").decode()


def _type_text(field: Mapping[str, Any]) -> str:
    kind = field.get("type")
    text = kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"))
    return _encodable(text[:TYPE_CHARACTERS_MAX]) + (" with default" if "default" in field else "")


def differences(new: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """Return the differences of a schema from a known one, each as a phrase."""
    phrases = [f"{name} {new[name]} instead of {known[name]}" for name in ("type", "name") if new[name] != known[name]]
    if new["fields"] is not None and known["fields"] is not None:
        ours, theirs = new["fields"], known["fields"]
        phrases += [f"field {name} is new ({kind})" for name, kind in ours.items() if name not in theirs]
        phrases += [f"field {name} is missing ({kind})" for name, kind in theirs.items() if name not in ours]
        phrases += [
            f"field {name} is {kind} instead of {theirs[name]}" for name, kind in ours.items() if name in theirs and kind != theirs[name]
        ]
    return phrases


def _title(schema: Mapping[str, Any]) -> str:
    """Return type and name of a schema; clients name primitive ones after their type."""
    kind, name = str(schema["type"]), schema["name"] or "without a name"
    return kind if name.casefold() == kind.casefold() else f"{kind} {name}"


def has_none(row: ExchangeRow) -> bool:
    """Return True for the answer that a topic has no schema, on the request of a consumer of any schema."""
    return row.request == "GET_SCHEMA" and row.error == "TopicNotFound"


class SchemaRule(ConnectionRule):
    """The source of the facts on the schemas of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._requests: dict[str, dict[str, Any]] = {}
        """Values of requests by frame name: those with a schema, and every PRODUCER."""
        self._emitted: set[tuple[str, str]] = set()
        """Topics and schemas with a fact: a thousand producers with one schema cause only one fact."""

    def _request(self, row: FrameRow) -> None:
        fields = row.fields or {}
        schema = fields.get("schema")
        description = description_of(schema) if isinstance(schema, dict) else None
        if description is not None or row.command == "PRODUCER":
            name = bounded_name(fields.get("producer_name") or fields.get("consumer_name"))
            remember(self._requests, name_of(row), self._values(row.command, description, name), REQUESTS_MAX)

    def _values(self, command: str | None, schema: dict[str, Any] | None = None, name: str | None = None) -> dict[str, Any]:
        return {"schema": schema, "command": command, "name": name, "client": self._context.client}

    def _schema_response(self, row: FrameRow) -> None:
        schema = (row.fields or {}).get("schema")
        if isinstance(schema, dict) and row.topic is not None:
            self._emit_known(row.topic, where_of(row), self._values("GET_SCHEMA_RESPONSE", description_of(schema)))

    def _schema_exchange(self, row: ExchangeRow) -> None:
        where = where_of(row)
        request = self._requests.pop(where.name, None)
        if row.status == "ok" and request is not None and request["schema"] is not None and row.topic is not None:
            self._emit_known(row.topic, where, request)
        elif row.error in ERRORS:
            self._emit_refused(row, request or self._values(row.request))

    def _exchange(self, row: ExchangeRow) -> None:
        if row.error in ERRORS:
            self._emit_refused(row, self._values(row.request))

    def _emit_known(self, topic: str, where: Where, values: dict[str, Any]) -> None:
        key = topic, json.dumps(values["schema"])
        if key not in self._emitted:
            if len(self._emitted) < REQUESTS_MAX:
                self._emitted.add(key)
            self._context.emit_fact(SCHEMAS, topic, where, "known", values)

    def _emit_refused(self, row: ExchangeRow, values: dict[str, Any]) -> None:
        error = {"response": response_name(row), "message": error_message_text(row.error_message)}
        self._context.emit_fact(SCHEMAS, row.topic or "", where_of(row), "refused", values | error)

    frames: ClassVar[Handlers] = {
        "PRODUCER": _request,
        "SUBSCRIBE": _request,
        "GET_OR_CREATE_SCHEMA": _request,
        "GET_SCHEMA_RESPONSE": _schema_response,
    }
    exchanges: ClassVar[Handlers] = {
        **dict.fromkeys(OTHER_REQUESTS, _exchange),
        **dict.fromkeys(("PRODUCER", "SUBSCRIBE", "GET_OR_CREATE_SCHEMA"), _schema_exchange),
    }


def _evaluate_schemas(topic: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report refused schemas, with their differences from the latest schema accepted before or else the first one accepted after."""
    known = [fact for fact in facts if fact.what == "known"]
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.what == "refused":
            values = fact.values
            key = json.dumps([host(values["client"]), values["command"], values["name"], values["schema"]])
            groups.setdefault(key, []).append(fact)
    for group in groups.values():
        before = [fact for fact in known if fact.where.time <= group[0].where.time]
        _report_refused(topic, group, before[-1] if before else known[0] if known else None, report)


def _report_refused(topic: str, group: Sequence[Fact], known: Fact | None, report: ReportFinding) -> None:
    first = group[0]
    values = first.values
    new = values["schema"]
    name = f" of {values['name']}" if values["name"] else ""
    times = f" {len(group):,} times" if len(group) > 1 else ""
    text = f"{values['command']}{name} ({values['client']}) for {topic or 'an unknown topic'} was refused{times} with IncompatibleSchema: "
    text += "it has no schema" if new is None else f"its schema is {_title(new)}"
    phrases: list[str] = []
    if known is not None:
        theirs = known.values["schema"]
        phrases = [] if new is None else differences(new, theirs)
        origin = f"{known.values['command']} of {known.values['client']} ({known.where.name})"
        text += f", that of {origin} is {_title(theirs)}"
        text += f": {listing(phrases)}" if phrases else ""
    else:
        text += "; the topic's own schema is not in the capture"
    refusals = [name for fact in group for name in (fact.where.name, fact.values["response"])]
    evidence = {
        "frames": frame_names([*refusals, known and known.where.name]),
        "topic": topic,
        "count": len(group),
        "schema": new and {"type": new["type"], "name": new["name"], "bytes": new["bytes"]},
        "known": known and {name: known.values["schema"][name] for name in ("type", "name", "bytes")},
        "difference": phrases[:DIFFERENCES_MAX],
        "message": values["message"],
    }
    report("schema-incompatible", first.where, f"{text}.", evidence)


KEYS = (KeyRule(SCHEMAS, KNOWN_NS, _evaluate_schemas, early=True),)
