"""The text of the Wireshark dissector: the tables of the protocol as Lua tables, and the program that reads frames with them."""

from __future__ import annotations

from importlib.resources import files

from pulsarscope.protocols.pulsar.frame.schema import ENUMS, MESSAGES

HEAD = """-- Dissector of the Apache Pulsar binary protocol for Wireshark and tshark: made by pulsarscope.
-- All commands and their fields, as in filters of pulsarscope with "pulsar." before: pulsar.send.sequence_id == 3.

-- Fields of messages by number: name, type, type of its message or enumeration, repeated, required.
"""


def wireshark_text() -> str:
    """Return the dissector."""
    lines = [HEAD + "local messages = {"]
    for name, fields in MESSAGES.items():
        lines.append(f'  ["{name}"] = {{')
        for number, field, kind, label, inner in fields:
            flags = [_flag(label == "repeated"), _flag(label == "required")]
            lines.append(f'    [{number}] = {{"{field}", "{kind}", {_text(inner)}, {", ".join(flags)}}},')
        lines.append("  },")
    lines += ["}", "", "local enums = {"]
    for name, values in ENUMS.items():
        lines.append(f'  ["{name}"] = {{{", ".join(f"[{number}] = {_text(value)}" for number, value in values.items())}}},')
    metadata = {field: number for number, field, *_ in MESSAGES["MessageMetadata"]}
    needed = ("num_messages_in_batch", "encryption_keys", "compression")
    single = next(number for number, field, *_ in MESSAGES["SingleMessageMetadata"] if field == "payload_size")
    lines += [
        "}",
        "",
        f"local metadata_numbers = {{{', '.join(f'{name} = {metadata[name]}' for name in needed)}}}",
        f"local single_payload_size = {single}",
        f"local last_type = {max(ENUMS['BaseCommand.Type'])}",
        "",
        (files(__package__) / "wireshark.lua").read_text(encoding="utf-8"),
    ]
    return "\n".join(lines)


def _text(name: str) -> str:
    return f'"{name}"' if name else "false"


def _flag(value: bool) -> str:
    return str(value).lower()
