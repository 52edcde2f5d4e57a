"""Signatures of other file types, for messages about files that are not captures."""

from __future__ import annotations

_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive (unpack it first)"),
    (b"\x02\x21\x4c\x18", "an LZ4 file of the legacy format (unpack it first: lz4 -d)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive (unpack it first)"),
    (b"Rar!", "a rar archive (unpack it first)"),
    (b"\x1f\x8b", "a gzip file in a compressed file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file in a compressed file"),
    (b"\x04\x22\x4d\x18", "an LZ4 file in a compressed file"),
    (b"\xfd7zXZ\x00", "an xz file in a compressed file"),
    (b"BZh", "a bzip2 file in a compressed file"),
    (b"snoop\x00\x00\x00", "a snoop capture (convert it first: editcap -F pcapng)"),
    (b"btsnoop\x00", "a Bluetooth btsnoop capture"),
    (b"TRSNIFF data", "a Sniffer capture (convert it first: editcap -F pcapng)"),
    (b"XCP\x00", "a Sniffer capture (convert it first: editcap -F pcapng)"),
    (b"GMBU", "a Network Monitor capture (convert it first: editcap -F pcapng)"),
    (b"\x1c\x00\x01\xac", "an IXIA capture (convert it first: editcap -F pcapng)"),
    (b"\x1c\x00\x01\xab", "an IXIA capture (convert it first: editcap -F pcapng)"),
    (b"\xac\x01\x00\x1c", "an IXIA capture (convert it first: editcap -F pcapng)"),
    (b"\xab\x01\x00\x1c", "an IXIA capture (convert it first: editcap -F pcapng)"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ", "a Windows program"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
)
_TAR_MAGIC_OFFSET = 257


def looks_like(head: bytes) -> str:
    """Return the type of a file by its first bytes, with an article: "text", "a PDF document", "unknown data …"."""
    if not head:
        return "empty"
    for magic, name in _MAGICS:
        if head.startswith(magic):
            return name
    if head[_TAR_MAGIC_OFFSET : _TAR_MAGIC_OFFSET + 5] == b"ustar":
        return "a tar archive (unpack it first)"
    start = head[:512].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    if start.startswith(b"<?xml"):
        return "XML"
    if start.startswith((b"{", b"[")) and _is_text(head):
        return "JSON text"
    if _is_text(head):
        return "text"
    return f"unknown data (first bytes {head[:4].hex(' ')})"


def _is_text(head: bytes) -> bool:
    sample = head[:512]
    text = sample.decode("utf-8", "ignore")
    cut_character = 3  # bytes of a character that the end of the sample may cut
    if len(text.encode()) < len(sample) - cut_character:
        return False
    return all(character.isprintable() or character in "\t\r\n\f" for character in text)
