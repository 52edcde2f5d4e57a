"""Regenerate `pulsarscope/protocols/pulsar/pulsar_pb2.py` from `pulsar.proto` (needs the `test` extra: grpcio-tools)."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "pulsarscope" / "protocols" / "pulsar"


def main(target: Path = TARGET) -> int:
    well_known = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{HERE}", f"-I{well_known}", f"--python_out={target}", str(HERE / "pulsar.proto")]
    status: int = protoc.main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
