"""CRC32-C without the package around it."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import crc32c
import pytest

from pulsarscope.model.platform import load_crc32c
from pulsarscope.protocols.pulsar.frame import payload_head


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE306_9283),  # the check value of the catalogue of parametrised CRC algorithms
        (bytes(32), 0x8A91_36AA),  # RFC 3720 section B.4, like the next one
        (bytes(range(32)), 0x46DD_794E),
    ],
)
def test_known_sums(data: bytes, expected: int) -> None:
    assert payload_head.crc32c(data) == expected == payload_head.crc32c(memoryview(data))


def test_a_package_laid_out_otherwise_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)
    assert load_crc32c() is crc32c.crc32c


def test_what_is_no_package_is_imported_and_nothing_else_that_has_the_extensions_name(tmp_path: Path) -> None:
    (tmp_path / "crc32c.py").write_text("def crc32c(data):\n    return 7\n")
    (tmp_path / "_crc32c.py").write_text("def crc32c(data):\n    return 13\n")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from pulsarscope.model.platform import load_crc32c
from pulsarscope.protocols.pulsar.frame import payload_head
print(payload_head.crc32c(b""))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"


def test_reading_frames_does_not_import_what_only_names_versions() -> None:
    code = "import sys, pulsarscope.protocols.pulsar.frame.decoder; print({'crc32c', 'importlib.metadata'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
