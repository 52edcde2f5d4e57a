"""Findings, their severities, and the finding codes of the layers below the protocols.

Each dissector has its own table of codes; `join_codes` merges them. Protocols may share a code, each with its own texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

ERROR = "error"
WARNING = "warning"
NOTE = "note"
SEVERITIES = (ERROR, WARNING, NOTE)
"""Severities in descending order: data lost or wrong, or a request refused; likely to cause trouble soon; worth knowing."""

LAYERS = ("capture", "tcp", "tls", "frame", "payload", "session", "tuning")
"""Layers from the wire upwards; the last one is advice on things that work, but could work better."""


class Code(msgspec.Struct, frozen=True):
    """Properties shared by all findings of one code."""

    code: str
    severity: str
    layer: str
    meaning: str
    hint: str
    explains: tuple[str, ...] = ()
    """Codes with the same cause: of findings on the same connections, and of what could not be judged about them (`Coverage`)."""
    to_act: str | None = None
    """Who has to act, such as "the application"; None if the code alone does not tell."""
    to_act_when: tuple[tuple[str, str], ...] = ()
    """Pairs of a leg of the way, or an error of the protocol, that the evidence may name, and who has to act then."""

    def by_cause(self, *to_act_when: tuple[str, str]) -> Code:
        """Return the same code with others who have to act when the evidence names these causes; see `to_act_when`."""
        return msgspec.structs.replace(self, to_act_when=to_act_when)

    def who_acts(self, evidence: Mapping[str, Any] | None) -> str | None:
        """Return who has to act on a finding with this evidence."""
        named = [evidence.get(name) for name in ("leg", "error")] if evidence else []
        return next((who for cause, who in self.to_act_when if cause in named), self.to_act)

    def at(
        self,
        text: str,
        evidence: dict[str, Any],
        *,
        file: int | None = None,
        packet: int | None = None,
        sub: int | None = None,
        time: int | None = None,
        connection: str | None = None,
    ) -> Finding:
        """Return a finding at a frame, packet, file or nowhere: a sentence with the numbers, and evidence by name; time in ns."""
        return Finding(self.code, self.severity, self.layer, text, evidence, self.hint, file, packet, sub, time, connection)


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
    order: int = 0
    """Place of the packet that showed it (see `FILE_SHIFT`); 0 if it was known before the first packet."""
    sender: str | None = None
    """Endpoint whose stream it is about, if it is about one; not part of its row."""
    counted: bool = False
    """True when only rules learn of it: another finding reports it together with others, or it is none on its own."""

    @property
    def advice(self) -> str:
        """The text, followed by the hint if there is one."""
        return with_hint(self.text, self.hint)


def with_hint(text: str, hint: str | None) -> str:
    """Return the text of a finding, followed by the hint if there is one."""
    return f"{text} {hint}" if hint else text


class Layer(NamedTuple):
    """Layer of a finding; makes the codes of this layer."""

    name: str

    def error(self, code: str, meaning: str, hint: str, explains: tuple[str, ...] = (), to_act: str | None = None) -> Code:
        """Return a code of this layer with severity error."""
        return Code(code, ERROR, self.name, meaning, hint, explains, to_act)

    def warning(self, code: str, meaning: str, hint: str, explains: tuple[str, ...] = (), to_act: str | None = None) -> Code:
        """Return a code of this layer with severity warning."""
        return Code(code, WARNING, self.name, meaning, hint, explains, to_act)

    def note(self, code: str, meaning: str, hint: str, explains: tuple[str, ...] = ()) -> Code:
        """Return a code of this layer with severity note."""
        return Code(code, NOTE, self.name, meaning, hint, explains)


CAPTURE, TCP, TLS, FRAME, PAYLOAD, SESSION, TUNING = map(Layer, LAYERS)


def table(*codes: Code) -> dict[str, Code]:
    """Return a table of codes by name. Raises ValueError when two codes have the same name."""
    rows: dict[str, Code] = {}
    for code in codes:
        if code.code in rows:
            raise ValueError(f"the finding code {code.code} is defined twice")
        rows[code.code] = code
    return rows


LIVE_CODES = frozenset({"packets-skipped", "decode-lag", "interface-gone"})
"""Findings of live captures only."""

ONE_SIDED = "one-sided-capture"
"""Code of the finding that the capture lacks all packets of one direction of a connection."""

COPIED = "captured-twice"
"""Code of the finding that the packets of a connection were captured at two points."""

RESET_BETWEEN = "reset-between"
"""Code of the finding that neither end of a connection reset it."""

BY_CAPTURING = "whoever captures"
"""Who must act when nothing but the capture is at fault."""

GAP_CODES = ("stream-gap", "bytes-awaited")
"""Codes of findings on bytes of a stream that the capture lacks."""

LOSS_CODES = frozenset({*GAP_CODES, "midstream-start", "memory-cap", "packets-dropped", "packets-skipped"})
"""Codes of findings that something is missing: the verdict may be incomplete."""

UNREAD_CODES = frozenset({"encrypted-payload"})
"""Codes of findings that contents were not read: the verdict does not cover them."""

UNDECIDED_CODES = frozenset({"broker-undecided", "churn-undecided", "consumer-undecided"})
"""Codes of findings that the capture is too short for a verdict on something."""


def join_codes(tables: Iterable[Mapping[str, Code]]) -> dict[str, Code]:
    """Merge tables of codes; the first entry of a code counts. Raises ValueError when its severity or layer differs between tables."""
    joined: dict[str, Code] = {}
    for rows in tables:
        for name, code in rows.items():
            known = joined.setdefault(name, code)
            if (known.severity, known.layer) != (code.severity, code.layer):
                message = f"the finding code {name} is defined as {known.severity} of {known.layer} and as {code.severity} of {code.layer}"
                raise ValueError(message)
    return joined


CAPTURE_CODES = table(
    CAPTURE.error("file-unreadable", "A file could not be opened or read.", "Check the path and its permissions."),
    CAPTURE.error(
        "not-a-capture",
        "A file is neither pcap nor pcapng.",
        "Give a pcap or pcapng file, plain, .gz, .zst, .xz, .bz2 or .lz4.",
    ),
    CAPTURE.error(
        "capture-malformed", "A record or block of the capture is damaged.", "What came before it was decoded; copy the file again."
    ),
    CAPTURE.error(
        "capture-truncated",
        "The capture ends within a record.",
        "All whole packets were decoded; let the capture finish before copying it.",
        to_act=BY_CAPTURING,
    ),
    CAPTURE.warning("snaplen-truncated", "Packets were cut when captured.", "Capture whole packets: tcpdump -s 0.", to_act=BY_CAPTURING),
    CAPTURE.warning(
        "unknown-link-type", "Packets of a link type that is not decoded.", "Capture on Ethernet, Linux cooked, loopback, PPP or raw IP."
    ),
    CAPTURE.warning(
        "packet-malformed", "Packets with an inconsistent link, IP or TCP header.", "Usually damage or an odd tunnel; they are not decoded."
    ),
    CAPTURE.note(
        "time-backwards", "A packet is older than the one before it.", "Order is that of the file; latencies across the step are left out."
    ),
    CAPTURE.warning(
        "packets-dropped",
        "The capturing host reports dropped packets.",
        "Capture with a larger buffer (tcpdump -B) or a narrower filter.",
        to_act=BY_CAPTURING,
    ),
    CAPTURE.warning(
        "packets-skipped",
        "Live decoding was too slow and skipped packets.",
        "Narrow the filter (-f), ask for fewer records, or keep the packets (-w) and decode the file.",
    ),
    CAPTURE.note("decode-lag", "Live decoding is behind the traffic.", "It catches up when the traffic eases, or skips packets."),
    CAPTURE.error(
        "interface-gone", "The interface of a live capture went down.", "What came before was decoded and kept; start again when it is up."
    ),
    CAPTURE.note("packet-duplicate", "The same packets were captured twice.", "Capture on one interface only, and name each capture once."),
    CAPTURE.note(
        COPIED,
        "The same packets were captured at two points, or in two captures.",
        "Counts and latencies are those of the copies that come first; --source-by keeps the points apart.",
    ),
    CAPTURE.note(
        "capture-order",
        "A response stands before its request in the capture.",
        "The two directions were captured out of order; no latency is given.",
    ),
    CAPTURE.warning(
        "fragment-incomplete",
        "IP fragments without the others of their packet in the same file.",
        'A capture filter on ports lets only first fragments through: add "or ip[6:2] & 0x1fff != 0".',
        to_act=BY_CAPTURING,
    ),
    CAPTURE.warning("fragment-overlap", "Overlapping IP fragments have different bytes.", "The first bytes are kept; look for an attack."),
    CAPTURE.warning(
        "nesting-too-deep", "A packet has more nested tags, headers or tunnels than are decoded.", "Usually a loop or an attack."
    ),
    CAPTURE.note("time-invalid", "A packet has no valid time stamp.", "Latencies around it are not reliable."),
    CAPTURE.note(
        "packet-length-odd",
        "The lengths of a packet are inconsistent with each other or with the file header.",
        "The packet was decoded as far as its bytes go.",
    ),
    CAPTURE.warning(
        "memory-cap",
        "A bound of the whole process was reached: the longest-waiting data was given up, or evaluated early.",
        "Filter by port when packets are captured (tcpdump, or live -f); a file can be split instead.",
    ),
)

_WAITS = (
    "broker-silent",
    "bytes-awaited",
    "delivery-behind",
    "keepalive-late",
    "producer-behind",
    "request-unanswered",
    "send-unanswered",
    "slow-exchange",
    "slow-publish",
)
"""Codes of what waits for the network."""

TCP_CODES = table(
    TCP.note(
        "midstream-start",
        "The capture begins after the connection did.",
        "Names learned before the capture (topics, producers) are unknown.",
    ),
    TCP.error(
        "stream-gap",
        "Bytes of a stream are not in the capture.",
        "The capture lost packets, not necessarily the network: look at packets-dropped. Those that the snap length cut: tcpdump -s 0.",
        ("bytes-skipped", "chunk-missing", "frame-truncated"),
        to_act=BY_CAPTURING,
    ),
    TCP.note(
        "bytes-awaited",
        "A stream ended while some of its bytes were still to come.",
        "The receiver had not acknowledged them either: they were on their way, or the network had lost them. Not the capture.",
        ("bytes-skipped", "chunk-missing", "frame-truncated"),
    ),
    TCP.error(
        "overlap-conflict",
        "A retransmission differs from the first transmission.",
        "The first bytes are kept; look for a middlebox or an attack.",
        to_act="the network's operators",
    ),
    TCP.warning(
        RESET_BETWEEN,
        "A RST ended a connection, and the host in whose name it came did not send it, or did not know the connection any more.",
        "A device between the two ends did: a firewall, NAT or load balancer that has forgotten the connection or forbids it. Or that host "
        "restarted, or had given the connection up long before. A capture at the other end shows which: there, that host sends the RST, or "
        "does not.",
        (
            "connection-reset",
            "connection-closed-by-broker",
            "connection-closed-by-client",
            "broker-down",
            "data-after-close",
            "frame-truncated",
            "message-stored-twice",
            "reconnect-loop",
            "request-unanswered",
            "send-unanswered",
        ),
        to_act="the network's operators",
    ),
    TCP.note("connection-reset", "The connection was reset.", "See who sent the RST and what came before it."),
    TCP.warning(
        "data-after-close",
        "Data came after the FIN or RST of their connection.",
        "What the peer acknowledged is decoded as a connection of its own, that begins midstream; the rest is counted as dropped.",
    ),
    TCP.note(
        ONE_SIDED,
        "The capture has one direction of a connection only.",
        "Answers, and what the other side lacks, cannot be judged: capture where both directions pass.",
        ("silent-side",),
    ),
    TCP.note("zero-window", "A receiver closed its window.", "The receiving application does not read fast enough.", ("frame-truncated",)),
    TCP.warning(
        "network-stall",
        "What one side sent did not get through for seconds.",
        "The network lost it, or the other host was down. A process that hangs is not the cause: its host acknowledges for it. If smaller "
        "segments get through, a hop has a smaller MTU; if nothing does after a silence, a firewall or NAT has forgotten the connection.",
        (*_WAITS, "keepalive-lost", "path-delay", "stream-gap"),
        to_act="the network's operators",
    ),
    TCP.warning(
        "network-loss",
        "The network loses so many segments that a stream slows down, or stands still again and again.",
        "Look at errors and drops of the interfaces, switches and links between the two hosts, at full queues and at duplex or cable "
        "faults: ip -s link, ethtool -S, and a capture at the other end, which lacks what got lost.",
        (*_WAITS, "connect-delayed", "data-after-close", "dispatch-limited", "network-stall", "path-delay"),
        to_act="the network's operators",
    ),
    TCP.warning(
        "connect-delayed",
        "A TCP connection opened only after its first packets had been sent again: a second or more was lost.",
        "The network or a firewall dropped a SYN or its answer, or the server's queues of new connections are full: look there for "
        "overflowed listen queues and dropped SYNs (nstat -az TcpExtListenOverflows TcpExtListenDrops), and at a firewall's table of "
        "connections. If the server repeats its answer although the client has confirmed it, its accept queue is full.",
        to_act="the network's or the broker's operators",
    ),
    TCP.warning(
        "path-delay",
        "One side's data are acknowledged so late that everything between client and broker waits for the network.",
        "A host acknowledges at once, even if its broker or client is slow: the path is long, a slow link has a full queue, or the other "
        "machine as a whole stood still. Compare with the times of ping, and look at shapers, tunnels and full links on the way.",
        (*_WAITS, "connect-delayed"),
        to_act="the network's operators",
    ),
    TCP.warning(
        "sequence-jump", "A segment lies outside any receive window.", "It is not part of the stream; look for a middlebox or port reuse."
    ),
)

TLS_CODES = table(
    TLS.note(
        "tls-no-secrets",
        "A TLS connection cannot be read without its secrets.",
        "Give --tls-keylog FILE, a key log that either side wrote during this capture (one of another run lacks the client random of the "
        "evidence): SSLKEYLOGFILE where a program knows it, an agent such as jSSLKEYLog or extract-tls-secrets for Java. Or have it in the "
        "capture: editcap --inject-secrets tls,FILE.",
    ),
    TLS.warning(
        "tls-decrypt-failed",
        "TLS records could not be decrypted with the given secrets, or use an unsupported cipher suite.",
        "Check that the key log belongs to this capture, and that the capture lost no packets.",
        to_act=BY_CAPTURING,
    ),
    TLS.warning(
        "tls-key-log-malformed",
        "Lines of a TLS key log are not valid.",
        "A line has a label, the client random and a secret in hex: check that the file is a key log.",
        to_act=BY_CAPTURING,
    ),
    TLS.note(
        "tls-key-log-empty",
        "A TLS key log holds no secrets.",
        "The program writes them as it connects: start it with SSLKEYLOGFILE or its agent, and let it connect anew during the capture.",
    ),
    TLS.warning(
        "tls-secrets-cap",
        "There are more TLS secrets than can be kept.",
        "Give only the secrets of this capture: their lines have the client random that tls-no-secrets reports.",
    ),
)
