"""Findings, their severities, and the finding codes of the layers below the protocols.

Each dissector has its own table of codes; `join_codes` merges them. Protocols may share a code, each with its own texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

ERROR = "error"
WARNING = "warning"
NOTE = "note"
SEVERITIES = (ERROR, WARNING, NOTE)
"""Severities in descending order: data lost or wrong, or a request refused; likely to hurt soon; worth knowing."""

LAYERS = ("capture", "tcp", "tls", "frame", "payload", "session")


class Code(msgspec.Struct, frozen=True):
    """Properties shared by all findings of one code."""

    code: str
    severity: str
    layer: str
    meaning: str
    hint: str

    def at(
        self, text: str, evidence: dict[str, Any], *, file: int | None = None, packet: int | None = None, time: int | None = None
    ) -> Finding:
        """Return a finding of this code, placed at a packet, a file, or nowhere.

        Args:
            text: one sentence with the numbers.
            evidence: frames, ids and counts by name.
            file: position in the run's list of files.
            packet: number of the packet in its file.
            time: ns since the epoch.
        """
        return Finding(self.code, self.severity, self.layer, text, evidence, self.hint, file=file, packet=packet, time=time)


class Finding(msgspec.Struct, gc=False):
    """Observation worth an engineer's attention, with its evidence; the place is null for a whole file or run."""

    code: str
    severity: str
    layer: str
    text: str
    evidence: dict[str, Any] = {}
    hint: str | None = None
    file: int | None = None
    packet: int | None = None
    sub: int | None = None
    time: int | None = None
    connection: str | None = None


def session_error(code: str, meaning: str, hint: str) -> Code:
    """Return a code of severity error that a rule reports."""
    return Code(code, ERROR, "session", meaning, hint)


def session_warning(code: str, meaning: str, hint: str) -> Code:
    """Return a code of severity warning that a rule reports."""
    return Code(code, WARNING, "session", meaning, hint)


def session_note(code: str, meaning: str, hint: str) -> Code:
    """Return a code of severity note that a rule reports."""
    return Code(code, NOTE, "session", meaning, hint)


def table(*codes: Code) -> dict[str, Code]:
    """Return a table of codes by name.

    Raises:
        ValueError: two codes have the same name.
    """
    rows: dict[str, Code] = {}
    for code in codes:
        if code.code in rows:
            message = f"the finding code {code.code} is defined twice"
            raise ValueError(message)
        rows[code.code] = code
    return rows


def join_codes(tables: Iterable[Mapping[str, Code]]) -> dict[str, Code]:
    """Merge tables of codes; of a code in several tables the first entry is used.

    Raises:
        ValueError: a code has different severities or layers in two tables.
    """
    joined: dict[str, Code] = {}
    for rows in tables:
        for name, code in rows.items():
            known = joined.setdefault(name, code)
            if (known.severity, known.layer) != (code.severity, code.layer):
                message = f"the finding code {name} is defined as {known.severity} of {known.layer} and as {code.severity} of {code.layer}"
                raise ValueError(message)
    return joined


CAPTURE_CODES = table(
    Code("file-unreadable", ERROR, "capture", "A file could not be opened or read.", "Check the path and its permissions."),
    Code("not-a-capture", ERROR, "capture", "A file is neither pcap nor pcapng.", "Give a pcap or pcapng file, plain, .gz or .zst."),
    Code(
        "capture-malformed",
        ERROR,
        "capture",
        "A record or block of the capture is damaged.",
        "What came before it was decoded; copy the file again.",
    ),
    Code(
        "capture-truncated",
        ERROR,
        "capture",
        "The capture ends within a record.",
        "All whole packets were decoded; let the capture finish before copying it.",
    ),
    Code("snaplen-truncated", WARNING, "capture", "Packets were cut when captured.", "Capture whole packets: tcpdump -s 0."),
    Code(
        "unknown-link-type",
        WARNING,
        "capture",
        "Packets of a link type that is not decoded.",
        "Capture on Ethernet, Linux cooked, loopback or raw IP.",
    ),
    Code(
        "packet-malformed",
        WARNING,
        "capture",
        "Packets with an inconsistent link, IP or TCP header.",
        "Usually damage or an odd tunnel; they are not decoded.",
    ),
    Code(
        "time-backwards",
        NOTE,
        "capture",
        "A packet is older than the one before it.",
        "Order is that of the file; latencies across the step are left out.",
    ),
    Code(
        "packets-dropped",
        WARNING,
        "capture",
        "The capturing host reports dropped packets.",
        "Capture with a larger buffer (tcpdump -B) or a narrower filter.",
    ),
    Code(
        "packets-skipped",
        WARNING,
        "capture",
        "Live decoding was too slow and skipped packets.",
        "Narrow the filter (-f), ask for fewer records, or keep the packets (-w) and decode the file.",
    ),
    Code("decode-lag", NOTE, "capture", "Live decoding is behind the traffic.", "It catches up when the traffic eases, or skips packets."),
    Code(
        "interface-gone",
        ERROR,
        "capture",
        "The interface of a live capture went down.",
        "What came before was decoded and kept; start again when it is up.",
    ),
    Code("packet-duplicate", NOTE, "capture", "The same packets were captured twice.", "Capture on one interface only."),
    Code(
        "capture-order",
        NOTE,
        "capture",
        "A response stands before its request in the capture.",
        "The two directions were captured out of order; no latency is given.",
    ),
    Code(
        "fragment-incomplete",
        WARNING,
        "capture",
        "IP fragments without the others of their packet in the same file.",
        'A capture filter on ports lets only first fragments through: add "or ip[6:2] & 0x1fff != 0".',
    ),
    Code(
        "fragment-overlap",
        WARNING,
        "capture",
        "Overlapping IP fragments have different bytes.",
        "The first bytes are kept; look for an attack.",
    ),
    Code(
        "nesting-too-deep",
        WARNING,
        "capture",
        "A packet has more nested tags, headers or tunnels than are decoded.",
        "Usually a loop or an attack.",
    ),
    Code("time-invalid", NOTE, "capture", "A packet has no valid time stamp.", "Latencies around it are not reliable."),
    Code(
        "packet-length-odd",
        NOTE,
        "capture",
        "The lengths of a packet are inconsistent with each other or with the file header.",
        "The packet was decoded as far as its bytes go.",
    ),
    Code(
        "memory-cap",
        WARNING,
        "capture",
        "A bound of the whole process was reached: the longest-waiting data was given up, or evaluated early.",
        "Split the capture or filter it by port.",
    ),
)

TCP_CODES = table(
    Code(
        "midstream-start",
        NOTE,
        "tcp",
        "The capture begins after the connection did.",
        "Names learned before the capture (topics, producers) are unknown.",
    ),
    Code(
        "stream-gap",
        ERROR,
        "tcp",
        "Bytes of a stream are not in the capture.",
        "The capture lost packets, not necessarily the network: look at packets-dropped.",
    ),
    Code(
        "overlap-conflict",
        ERROR,
        "tcp",
        "A retransmission differs from the first transmission.",
        "The first bytes are kept; look for a middlebox or an attack.",
    ),
    Code("connection-reset", NOTE, "tcp", "The connection was reset.", "See who sent the RST and what came before it."),
    Code("zero-window", NOTE, "tcp", "A receiver closed its window.", "The receiving application does not read fast enough."),
    Code(
        "sequence-jump",
        WARNING,
        "tcp",
        "A segment lies outside any receive window.",
        "It is not part of the stream; look for a middlebox or port reuse.",
    ),
)

TLS_CODES = table(
    Code(
        "tls-no-secrets",
        NOTE,
        "tls",
        "A TLS connection cannot be read without its secrets.",
        "Give --tls-keylog FILE, a key log that either side wrote during this capture: SSLKEYLOGFILE where a program knows it, an agent "
        "such as jSSLKEYLog or extract-tls-secrets for Java. Or have it in the capture: editcap --inject-secrets tls,FILE.",
    ),
    Code(
        "tls-decrypt-failed",
        WARNING,
        "tls",
        "TLS records could not be decrypted with the given secrets, or use an unsupported cipher suite.",
        "Check that the key log belongs to this capture, and that the capture lost no packets.",
    ),
    Code(
        "tls-key-log-malformed",
        WARNING,
        "tls",
        "Lines of a TLS key log are not valid.",
        "A line has a label, the client random and a secret in hex: check that the file is a key log.",
    ),
    Code(
        "tls-secrets-cap",
        WARNING,
        "tls",
        "There are more TLS secrets than can be kept.",
        "Give only the secrets of this capture: their lines have the client random that tls-no-secrets reports.",
    ),
)
