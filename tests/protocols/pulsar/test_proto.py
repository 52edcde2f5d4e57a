"""The committed modules are the output of `proto/generate.py` for `proto/pulsar.proto`."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pulsarscope.protocols.pulsar.frame import generated, schema
from tests.places import ROOT
from tests.scenarios import pulsar_pb2


def serialized_descriptor(module: Path) -> bytes:
    """The bytes that a generated module passes to the descriptor pool, read without importing it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "AddSerializedFile":
            value = ast.literal_eval(node.args[0])
            assert isinstance(value, bytes)
            return value
    message = f"{module} has no serialized descriptor"
    raise AssertionError(message)


def committed() -> FileDescriptorProto:
    return FileDescriptorProto.FromString(pulsar_pb2.DESCRIPTOR.serialized_pb)


def test_generating_anew_gives_the_committed_modules(tmp_path: Path) -> None:
    generate = runpy.run_path(str(ROOT / "proto" / "generate.py"))["main"]
    assert generate(tmp_path, tmp_path) == 0
    fresh = FileDescriptorProto.FromString(serialized_descriptor(tmp_path / "pulsar_pb2.py"))
    assert fresh == committed(), "run python proto/generate.py"
    for path in (Path(schema.__file__), Path(generated.__file__)):
        assert (tmp_path / path.name).read_text() == path.read_text(), "run python proto/generate.py"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["generated.py", "pulsar_pb2.py", "schema.py"]


def test_a_command_and_its_body_have_one_number_and_nearly_one_name() -> None:
    """The tests' encoder and the decoder rely on this."""
    bodies = {field.number: field.name for field in pulsar_pb2.BaseCommand.DESCRIPTOR.fields if field.name != "type"}
    commands = {value.number: value.name for value in pulsar_pb2.BaseCommand.Type.DESCRIPTOR.values}
    assert bodies.keys() == commands.keys()
    plain = {number: name.lower().replace("_", "") for number, name in bodies.items()}
    renamed = {number: name for number, name in commands.items() if plain[number] != name.lower().replace("_", "")}
    assert renamed == {
        21: "PARTITIONED_METADATA",  # partitionMetadata
        22: "PARTITIONED_METADATA_RESPONSE",
        23: "LOOKUP",  # lookupTopic
        24: "LOOKUP_RESPONSE",
    }
