"""The dissector for Wireshark agrees with this package, and claims nothing else. Needs tshark."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import pulsarscope
from pulsarscope.protocols.pulsar.frame.schema import ENUMS, MESSAGES
from pulsarscope.protocols.pulsar.frame.wireshark import wireshark_text

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark: apt-get install tshark")

TYPES = ENUMS["BaseCommand.Type"]
NUMBERS = {name: number for number, name in TYPES.items()}
BODIES = {number: (field, message) for number, field, _, _, message in MESSAGES["BaseCommand"]}
Frame = tuple[int, str, str | None, tuple[str, ...]]
"""Packet, command, checksum verdict, fields with their values."""


def tshark(capture: Path, *options: str) -> bytes:
    with NamedTemporaryFile("w", suffix=".lua") as dissector:
        dissector.write(wireshark_text())
        dissector.flush()
        command = ["tshark", "-X", f"lua_script:{dissector.name}", "-r", str(capture), "-2", *options]
        result = subprocess.run(command, capture_output=True, check=True, timeout=120)
    assert b"Lua" not in result.stderr, result.stderr
    return result.stdout


def fields_of(element: Any, message: str, path: str) -> Iterator[str]:
    """Return the fields in a tree of tshark, each as path and value."""
    known = {name: (kind, inner) for _, name, kind, _, inner in MESSAGES[message]}
    for child in element:
        name = (child.get("name") or "").removeprefix(f"{path}.")
        if name not in known:
            continue
        kind, inner = known[name]
        if kind == "message":
            yield f"{path}.{name}"
            yield from fields_of(child, inner, f"{path}.{name}")
        else:
            yield f"{path}.{name}={_shown(kind, inner, child)}"


def _shown(kind: str, inner: str, field: Any) -> Any:
    shown, value = field.get("show"), bytes.fromhex(field.get("value") or "") if kind in {"bytes", "string"} else b""
    match kind:
        case "uint64":
            return (int(shown) + (1 << 63)) % (1 << 64) - (1 << 63)
        case "int64" | "uint32" | "int32":
            return int(shown)
        case "enum":
            return ENUMS[inner].get(int(shown), shown)
        case "bool":
            return shown in {"1", "True", "true"}
        case "double":
            return float(shown)
        case "bytes":
            return base64.b64encode(value).decode()
        case _:
            return value.decode("utf-8", "replace")


def ours(values: dict[str, Any], message: str, path: str) -> Iterator[str]:
    """Return the same for our rows."""
    known = {name: (kind, inner) for _, name, kind, _, inner in MESSAGES[message]}
    for name, value in values.items():
        kind, inner = known[name]
        for each in value if isinstance(value, list) else [value]:
            if kind == "message":
                yield f"{path}.{name}"
                yield from ours(each, inner, f"{path}.{name}")
            else:
                yield f"{path}.{name}={base64.b64encode(each).decode() if isinstance(each, bytes) else each}"


HEADS = (("broker_entry_metadata", "BrokerEntryMetadata"), ("metadata", "MessageMetadata"))


def frames_of_tshark(capture: Path) -> Iterator[Frame]:
    packet = 0
    for _, element in ET.iterparse(io.BytesIO(tshark(capture, "-T", "pdml", "-J", "pulsar"))):  # noqa: S314 - of a tool of ours
        if element.tag != "packet":
            continue
        assert "Lua Error" not in ET.tostring(element, encoding="unicode")
        for proto in element.iter("proto"):
            named = {field.get("name"): field for field in proto.iter("field")}
            if proto.get("name") == "geninfo":
                packet = int(named["num"].get("show") or 0)
            elif proto.get("name") == "pulsar" and "pulsar.command" in named:
                number = int(named["pulsar.command"].get("show") or 0)
                parts = [BODIES[number], *HEADS]
                fields = [
                    each for name, message in parts for field in proto.findall(f"field[@name='pulsar.{name}']")
                    for each in fields_of(field, message, f"pulsar.{name}")
                ]  # fmt: skip
                verdict = named.get("pulsar.checksum.status")
                yield packet, TYPES[number], None if verdict is None else verdict.get("show"), tuple(sorted(fields))
        element.clear()


def frames_of_ours(capture: Path) -> Iterator[Frame]:
    for row in pulsarscope.open(capture, show_secrets=True).frames():
        body, message = BODIES[NUMBERS[row.command or ""]]
        fields = [*ours(row.fields or {}, message, f"pulsar.{body}")]
        for name, head in HEADS:
            fields += ours(getattr(row, name) or {}, head, f"pulsar.{name}")
        yield row.packet or 0, row.command or "", row.checksum.status if row.checksum else None, tuple(sorted(fields))


@pytest.mark.parametrize(
    "name",
    [
        "quickstart.pcapng",
        "errors.pcap",
        "lo-java-txn.pcap",
        "raw-checksum.pcap",
        "shared-nack-dlq.pcap",
        "go-tls13-dsb.pcapng",
        "ipv6.pcap",
    ],
)
def test_commands_fields_and_verdicts_are_ours(captures: Path, name: str) -> None:
    expected = Counter(frames_of_ours(captures / name))
    assert sum(expected.values()) > 5
    assert Counter(frames_of_tshark(captures / name)) == expected


def test_batches_have_their_messages(captures: Path) -> None:
    capture = captures / "acks-batchindex.pcap"
    shown = tshark(capture, "-T", "fields", "-e", "pulsar.message.batch_index", "-Y", "pulsar.message.batch_index")
    expected = [row for row in pulsarscope.open(capture).messages() if row.batch_size]
    assert len(shown.replace(b",", b" ").split()) == len(expected) > 10


@pytest.mark.parametrize("name", ["kafka07.pcap", "kafka07-brod.pcap", "raw-not-pulsar.pcap"])
def test_other_protocols_are_not_claimed(captures: Path, name: str) -> None:
    assert tshark(captures / name, "-Y", "pulsar") == b""


def test_it_is_small_and_names_every_command() -> None:
    text = wireshark_text()
    assert all(f'"{name}"' in text for name in TYPES.values())
