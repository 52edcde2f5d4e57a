"""A diagnosis as SARIF 2.1.0 (OASIS standard), which code hosts and dashboards show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.model.findings import ERROR, NOTE, WARNING
from pulsarscope.model.text import escape_json

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Mapping[str, str] = {ERROR: "error", WARNING: "warning", NOTE: "note"}
"""Levels of SARIF (3.27.10)."""


def sarif_bytes(groups: Sequence[ReportRecord], files: Sequence[str], version: str, not_judged: Sequence[ReportRecord]) -> bytes:
    """Return the log of one run: a rule for each code, a result for each text of its findings.

    Args:
        groups: `Diagnosis.records`.
        files: paths of the captures, in their order.
        version: version of pulsarscope.
        not_judged: what the diagnosis could not judge, with code and text.
    """
    codes = list(dict.fromkeys(str(group["code"]) for group in groups))
    by_code = {str(group["code"]): group for group in reversed(groups)}
    artifacts = [{"location": {"uri": _uri(path)}, "roles": ["analysisTarget"]} for path in files]
    run = {
        "tool": {"driver": {"name": "pulsarscope", "version": version, "rules": [_rule(by_code[code]) for code in codes]}},
        "artifacts": artifacts,
        "results": [_result(group, sample, codes, files) for group in groups for sample in group["samples"]],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "note", "descriptor": {"id": part["code"]}, "message": {"text": f"Not judged: {part['text']}"}}
                    for part in not_judged
                ],
            }
        ],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(escape_json(msgspec.json.encode(log)), indent=2) + b"\n"


def _uri(path: str) -> str:
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else quote(pure.as_posix().encode("utf-8", "surrogateescape"))


def _rule(group: ReportRecord) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": group["code"],
        "shortDescription": {"text": group["meaning"] or group["code"]},
        "defaultConfiguration": {"level": _LEVELS[group["severity"]]},
        "properties": {"layer": group["layer"]},
    }
    if group["hint"]:
        rule["help"] = {"text": group["hint"]}
    return rule


def _result(group: ReportRecord, sample: Mapping[str, Any], codes: Sequence[str], files: Sequence[str]) -> dict[str, Any]:
    places = [str(place) for place in sample["places"]]
    found = {
        "ruleId": group["code"],
        "ruleIndex": codes.index(group["code"]),
        "level": _LEVELS[group["severity"]],
        "message": {"text": sample["text"] or group["code"]},
        "occurrenceCount": sample["count"],
        "partialFingerprints": {"text/v1": sha256(f"{group['code']}\0{sample['text']}".encode("utf-8", "replace")).hexdigest()},
        "properties": {"connection": sample["connection"], "evidence": sample["evidence"]},
    }
    if places:
        found["locations"] = [_location(place, files) for place in places]
    return found


def _location(place: str, files: Sequence[str]) -> dict[str, Any]:
    """Return the place of a frame or packet, named as in records: file:packet.sub."""
    number = place.partition(":")[0]
    file = int(number) if number.isascii() and number.isdigit() and int(number) < len(files) else None
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": place, "kind": "frame" if "." in place else "packet"}]}
    if file is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": _uri(files[file]), "index": file}}
    return location
