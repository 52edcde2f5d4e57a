"""Regenerate the modules in `protocols/pulsar/frame` and `tests/scenarios` that are made from `pulsar.proto`.

`schema.py` contains what a decoder needs as plain tables: importing protobuf would take a quarter of the time that a small capture takes.
`pulsar_pb2.py` is the output of protoc, the encoder and oracle of the tests. Needs grpcio-tools, from the extra `test`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc

sys.path.insert(0, str(Path(__file__).resolve().parent))
from readers import readers_text

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "pulsarscope" / "protocols" / "pulsar" / "frame"
TESTS = HERE.parent / "tests" / "scenarios"

HEAD = '''"""Contents of pulsar.proto as tables: made by proto/generate.py."""

from __future__ import annotations

FieldRow = tuple[int, str, str, str, str]
"""(number, name, type as in the .proto file, label, name of the message or enumeration that the type is, else "")."""

'''


def schema_text(file: FileDescriptorProto) -> str:
    """Return the tables as the text of a module."""
    package = f".{file.package}."
    messages = dict(_messages("", file.message_type))
    enums = dict(_enums("", file.enum_type, file.message_type))
    lines = [HEAD, "MESSAGES: dict[str, tuple[FieldRow, ...]] = {"]
    for name, message in messages.items():
        lines.append(f'    "{name}": (')
        for field in message.field:
            kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
            label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
            lines.append(f'        ({field.number}, "{field.name}", "{kind}", "{label}", "{field.type_name.removeprefix(package)}"),')
        lines.append("    ),")
    lines += [
        "}",
        '"""Messages by name, nested ones as Outer.Inner: their fields, in the order of the file."""',
        "",
        "ENUMS: dict[str, dict[int, str]] = {",
    ]
    for name, enum in enums.items():
        lines.append(f'    "{name}": {{')
        lines += [f'        {value.number}: "{value.name}",' for value in enum.value]
        lines.append("    },")
    lines += ["}", '"""Enumerations by name, likewise: the names of their numbers."""', ""]
    return "\n".join(lines)


def _messages(prefix: str, messages: object) -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:  # type: ignore[attr-defined]
        yield prefix + message.name, message
        yield from _messages(f"{prefix}{message.name}.", message.nested_type)


def _enums(prefix: str, enums: object, messages: object) -> Iterator[tuple[str, EnumDescriptorProto]]:
    for enum in enums:  # type: ignore[attr-defined]
        yield prefix + enum.name, enum
    for message in messages:  # type: ignore[attr-defined]
        yield from _enums(f"{prefix}{message.name}.", message.enum_type, message.nested_type)


def tables(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return messages and enumerations of the schema's text."""
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - the module that this program has just written
    return names["MESSAGES"], names["ENUMS"]


def main(target: Path = TARGET, tests: Path = TESTS) -> int:
    """Write the modules; return the exit code of protoc."""
    well_known = str(files("grpc_tools") / "_proto")
    described = target / "pulsar.descriptor"
    arguments = ["protoc", f"-I{HERE}", f"-I{well_known}", f"--python_out={tests}", f"--descriptor_set_out={described}"]
    status: int = protoc.main([*arguments, str(HERE / "pulsar.proto")])
    if not status:
        (file,) = FileDescriptorSet.FromString(described.read_bytes()).file
        described.unlink()
        schema = schema_text(file)
        (target / "schema.py").write_text(schema)
        (target / "generated.py").write_text(readers_text(*tables(schema)))
    return status


if __name__ == "__main__":
    sys.exit(main())
