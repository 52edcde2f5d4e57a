"""The text of the Wireshark dissector: the tables of the protocol as tables of Lua, and the program that reads frames by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("wireshark_dissector.lua")

HEAD = """-- Dissector of the Apache Pulsar binary protocol for Wireshark and tshark: made by proto/generate.py of pulsarscope.
-- All commands and their fields, as in filters of pulsarscope with "pulsar." before: pulsar.send.sequence_id == 3.

-- Fields of messages by number: name, type, type of its message or enumeration, repeated, required.
"""


def wireshark_text(messages: dict[str, tuple[Any, ...]], enums: dict[str, dict[int, str]]) -> str:
    """Return the dissector for these messages and enumerations, as in the tables of `schema.py`."""
    lines = [HEAD + "local messages = {"]
    for name, fields in messages.items():
        lines.append(f'  ["{name}"] = {{')
        for number, field, kind, label, inner in fields:
            flags = [_flag(label == "repeated"), _flag(label == "required")]
            lines.append(f'    [{number}] = {{"{field}", "{kind}", {_text(inner)}, {", ".join(flags)}}},')
        lines.append("  },")
    lines += ["}", "", "local enums = {"]
    for name, values in enums.items():
        lines.append(f'  ["{name}"] = {{{", ".join(f"[{number}] = {_text(value)}" for number, value in values.items())}}},')
    metadata = {field: number for number, field, *_ in messages["MessageMetadata"]}
    needed = ("num_messages_in_batch", "encryption_keys", "compression")
    single = next(number for number, field, *_ in messages["SingleMessageMetadata"] if field == "payload_size")
    lines += [
        "}",
        "",
        f"local metadata_numbers = {{{', '.join(f'{name} = {metadata[name]}' for name in needed)}}}",
        f"local single_payload_size = {single}",
        f"local last_type = {max(enums['BaseCommand.Type'])}",
        "",
        PROGRAM.read_text(),
    ]
    return "\n".join(lines)


def _text(name: str) -> str:
    return f'"{name}"' if name else "false"


def _flag(value: bool) -> str:
    return str(value).lower()
