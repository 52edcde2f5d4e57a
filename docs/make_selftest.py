"""Writes pulsarscope/cli/selftest.json: the rows that `pulsarscope selftest` expects of the captures that come with the wheel.

    python docs/make_selftest.py

Tests compare their commands and messages with the truth files of the clients; the digests only carry the result to other machines.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pulsarscope.cli.commands.selftest import EXPECTED, decoded

CAPTURES = Path(__file__).resolve().parent.parent / "captures"

NAMES = (
    "quickstart.pcapng",
    "acks-batchindex.pcap",
    "any-sll2.pcap",
    "compress-zlib.pcap",
    "errors.pcap",
    "go-tls13-dsb.pcapng",
    "ipv6.pcap",
    "java-schemas.pcap",
    "kafka07.pcap",
    "lo-java-txn.pcap",
    "raw-checksum.pcap",
    "raw-strange.pcap",
    "rw-raw-ip.pcap",
    "schemas-py-zst.pcap.zst",
    "shared-nack-dlq.pcap",
    "stuck-consumer.pcap",
    "bookkeeper/e3.pcap.zst",
)
"""Small captures that together need every codec, container and protocol."""


def content() -> bytes:
    """Return the content of the file."""
    return msgspec.json.format(msgspec.json.encode({name: decoded(CAPTURES / name) for name in NAMES}), indent=1) + b"\n"


if __name__ == "__main__":
    EXPECTED.write_bytes(content())
