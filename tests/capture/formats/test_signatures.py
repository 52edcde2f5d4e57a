from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from pulsarscope.capture.formats.signatures import looks_like
from tests.scenarios.capture_bytes import blocks_of, pcap


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("../x.pcap", pcap())
    return stream.getvalue()


def tarred() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../x.pcap"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (zipped(), "a zip archive (unpack it first)"),
        (tarred(), "a tar archive (unpack it first)"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF document"),
        (b"\x7fELF\x02\x01", "an ELF program"),
        (b"\n <!DOCTYPE HTML><html>", "an HTML page"),
        (b"<html><body>", "an HTML page"),
        (b"<?xml version='1.0'?>", "XML"),
        (b'{"a": 1}', "JSON text"),
        ("Größe\t1\r\n".encode(), "text"),
        (("ä" * 300).encode(), "text"),
        (b"snoop\x00\x00\x00\x00\x00\x00\x02", "a snoop capture (convert it first: editcap -F pcapng)"),
        (b"\xac\x01\x00\x1c" + bytes(20), "an IXIA capture (convert it first: editcap -F pcapng)"),
        (b"\x02\x21\x4c\x18rest", "an LZ4 file of the legacy format (unpack it first: lz4 -d)"),
        (b"\x01\x02\x03\x04\x05", "unknown data (first bytes 01 02 03 04)"),
        (b"\x1b[2Jtext", "unknown data (first bytes 1b 5b 32 4a)"),
        (b"\xff\xff\xff\xffabc", "unknown data (first bytes ff ff ff ff)"),
    ],
)
def test_a_file_that_is_no_capture_is_named(data: bytes, what: str) -> None:
    assert looks_like(data) == what
    (block,) = blocks_of(data)
    (finding,) = block.findings
    assert finding.code == "not-a-capture"
    assert what in finding.text


@pytest.mark.parametrize("length", [1, 2, 3])
def test_less_than_a_magic_number_is_too_short(length: int) -> None:
    (finding,) = blocks_of(pcap()[:length])[0].findings
    assert "too short" in finding.text
