"""A dissector as in a third-party package, and that package."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from tests.scenarios.capturefile import write_pcap
from tests.scenarios.conversation import Conversation

SOURCE = Path(__file__).with_name("pulsarscope_postcard.py")


def put(number: int, stamp: int, box: bytes, text: bytes) -> bytes:
    """A card for a box."""
    return card(1, number, bytes([stamp, len(box)]) + box + text)


def taken(number: int, trouble: int = 0) -> bytes:
    """The answer to a card."""
    return card(2, number, bytes([trouble]))


def card(kind: int, number: int, body: bytes) -> bytes:
    """Any card, or bytes that look like one."""
    return struct.pack(">I2sBI", 7 + len(body), b"PC", kind, number) + body


def write_capture(path: Path, port: int = 7700, *, last: bytes = b"") -> Path:
    """Write three cards, of which the last is refused; the second comes in two packets. `last` is sent by the client after them."""
    second = put(2, 45, b"aunts", b"hello again")
    talk = Conversation(server=("10.0.0.2", port)).handshake()
    talk.client(put(1, 95, b"aunts", b"hello")).server(taken(1)).client(second[:9]).client(second[9:]).server(taken(2))
    talk.client(put(3, 95, b"uncles", b"bye")).server(taken(3, trouble=4)).client(last).close()
    return write_pcap(path, talk.packets)


def write_wheel(folder: Path, name: str = "pulsarscope_postcard", entry_points: str = "") -> Path:
    """Write the package in the form that pip installs; one module needs no build tool."""
    info = f"{name}-1.0.dist-info"
    declared = entry_points or f"postcard = {name}:PostcardDissector"
    files = {
        f"{name}.py": SOURCE.read_text(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[pulsarscope.dissectors]\n{declared}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return path
