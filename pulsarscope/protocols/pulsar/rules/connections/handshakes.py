"""TLS handshakes that fail, and certificates that expire or are issued for another name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pulsarscope.dissect.contract.rules import UNREAD, Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.model.utc import utc_seconds
from pulsarscope.protocols.pulsar.rules.connections.unopened import BROKER_PORTS
from pulsarscope.protocols.pulsar.text.formatting import host, port

CODES = table(
    SESSION.error(
        "tls-handshake-failed",
        "A TLS handshake between a client and a broker failed: no command was exchanged.",
        "The alert says why. An unknown CA: set tlsTrustCertsFilePath; expired: renew the certificate; a name: connect by a name in the "
        "certificate; certificate_required: give the client one (tlsCertificateFilePath); version or cipher: let both sides share one.",
        ("tls-no-secrets", "connection-reset", "encrypted"),
        to_act="the application, or the owner of the certificate",
    ),
    SESSION.warning(
        "certificate-expires",
        "A TLS certificate has expired or expires soon.",
        "Renew it in time: once it has expired, every new connection fails.",
        to_act="the owner of the certificate",
    ),
    SESSION.warning(
        "tls-name-mismatch",
        "A client refused a broker's certificate because it does not cover the name that the client connected to.",
        "Connect by a name in the certificate, add the name to it, or look for the wrong advertised address.",
        to_act="the application, or the owner of the certificate",
    ),
)

THRESHOLDS = (
    counted(
        "certificate-expires-days",
        7,
        "days",
        "Days before a certificate expires; renewing one by hand takes time.",
        "certificate-expires",
        least=0,
    ),
    in_seconds(
        "tls-unanswered-seconds",
        3,
        "Time for which a client waits in vain for the first bytes of the server; a host that is up answers within milliseconds.",
        "request-unanswered",
    ),
)

NANOSECONDS_A_DAY = 86_400_000_000_000

_OTHER_PORTS = frozenset({443, 8443})
"""Ports of HTTP over TLS."""

_MEANINGS = {
    "certificate_expired": "the certificate has expired",
    "unknown_ca": "the issuer of the certificate is not trusted",
    "bad_certificate": "the certificate is not accepted: its name, its dates or its issuer",
    "certificate_unknown": "the certificate is not accepted: its name, its dates or its issuer",
    "certificate_required": "the client has to show a certificate",
    "protocol_version": "the two have no version of TLS in common",
    "handshake_failure": "the two have no cipher in common, or a certificate is missing",
    "unrecognized_name": "the server does not know the name",
    "access_denied": "the certificate is valid and refused",
}
"""Meaning of an alert, RFC 8446 section 6.2."""

_CLIENT_MEANINGS = _MEANINGS | {"internal_error": "C++ clients say so of a certificate without the broker's name"}
"""Meanings of a client's alerts. OpenSSL sends internal_error when the application's check rejects the certificate."""

_SILENT = (
    "the broker closed the connection behind the client's answer and said nothing: a client certificate may be missing or not accepted, or "
    "a proxy has no broker"
)
"""Reason of a failure that a single connection does not show for certain: the capture may lack the broker's last packet."""

_UNHEARD = (
    "the broker accepted the connection and answered nothing until the client gave up: its process hangs, or a proxy or load balancer has "
    "no broker behind it"
)

_HELLO_BYTES_MAX = 4_096
"""Most bytes of a client that sent its first message only; one whose server is not in the capture sends more."""

_NOT_OF_NAMES = "certificate_expired", "unknown_ca", "certificate_revoked", "protocol_version"
"""Alerts with a reason other than the name in a certificate."""


def words_of(tls: str) -> dict[str, str]:
    """Return the parts of `ConnectionRow.tls` by name."""
    return dict(word.partition("=")[::2] for word in tls.split(" ") if "=" in word)


def evaluate_handshakes(
    client: str, facts: Sequence[Fact], is_broker: Callable[[str], bool] | None, report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report the failed handshakes of one client with brokers; None: brokers are known only by their port."""
    failed: dict[tuple[str, str], list[Fact]] = {}
    evaluated: set[str] = set()
    for fact in facts:
        if not fact.values.get("tls"):
            continue
        server, known = fact.values["server"], words_of(fact.values["tls"])
        number = port(server)
        if number not in BROKER_PORTS and (number in _OTHER_PORTS or _is_http(known) if is_broker is None else not is_broker(server)):
            continue
        if fact.what == UNREAD and (reason := _failure(fact, known, thresholds)):
            failed.setdefault((server, reason), []).append(fact)
        if server not in evaluated:
            evaluated.add(server)
            _evaluate_certificates(fact, known, report, thresholds)
    for (server, reason), times in failed.items():
        if reason != _SILENT or len(times) > 1:
            _report_failed(client, server, reason, times, report)


def _is_http(known: dict[str, str]) -> bool:
    return "http/1.1" in known.get("alpn-offered", known.get("alpn", ""))


def _failure(fact: Fact, known: dict[str, str], thresholds: Thresholds) -> str | None:
    """Return why a handshake failed; None when it did not fail, or is not over."""
    values = fact.values
    for side in ("client", "server"):
        if (alert := known.get(f"{side}-alert")) is not None and "content" not in known:
            side_name, meanings = ("client", _CLIENT_MEANINGS) if side == "client" else ("broker", _MEANINGS)
            return f"the {side_name} ended it with {alert}{f' ({meanings[alert]})' if alert in meanings else ''}"
    outcome = known.get("handshake")
    if outcome == "refused-by-client":
        return "the client ended it with an encrypted alert behind the broker's certificate, which it did not accept"
    if outcome == "refused-by-server":
        return "the broker ended it with an encrypted alert behind the client's answer: a client certificate is missing or not accepted"
    if outcome == "unanswered":
        by_server = values["closed"] != "open" and values["closed_by"] == "server"
        return _SILENT if by_server else None
    if outcome is None or values["closed"] == "open" or values["closed_by"] is None:
        return None
    if not values["server_bytes"] and values["closed_by"] == "client":
        waited = values["end"] - fact.where.time >= thresholds.ns("tls-unanswered-seconds")
        return _UNHEARD if waited and 0 < values["client_bytes"] <= _HELLO_BYTES_MAX else None
    if not values["server_bytes"]:
        return "the broker closed the connection at once: it may not speak TLS at this port"
    return f"the {'client' if values['closed_by'] == 'client' else 'broker'} closed the connection in the middle of it"


def _evaluate_certificates(fact: Fact, known: dict[str, str], report: ReportFinding, thresholds: Thresholds) -> None:
    server = fact.values["server"]
    evidence = {"connections": [fact.where.connection], "server": server, "tls": fact.values["tls"]}
    for side in ("client", "server"):
        if (ends := known.get(f"{side}-expires")) is None:
            continue
        owner = f"The certificate of {'client' if side == 'client' else 'broker'} {known.get(f'{side}-certificate', '?')}"
        left = utc_seconds(ends) * 1_000_000_000 - fact.where.time
        if left < thresholds["certificate-expires-days"] * NANOSECONDS_A_DAY:
            state, when = ("expired", "before") if left < 0 else ("expires", "after")
            text = f"{owner} at {server} {state} at {ends}, {duration(abs(left))} {when} this handshake."
            report("certificate-expires", fact.where, text, evidence | {"expires": ends})
    names = known.get("server-names", "").split(",")
    wanted = known.get("sni") or host(server).strip("[]")
    alert = known.get("client-alert")
    refused = known.get("handshake") == "refused-by-client" or (alert is not None and alert not in _NOT_OF_NAMES)
    if names != [""] and refused and not any(_matches(name, wanted) for name in names):
        text = f"A client connected to {server} as {wanted}, and refused its certificate for {', '.join(names)}."
        report("tls-name-mismatch", fact.where, text, evidence | {"name": wanted, "names": names})


def _matches(name: str, wanted: str) -> bool:
    """Return True when a name in a certificate matches the wanted one (RFC 6125 section 6.4.3)."""
    name, wanted = name.lower(), wanted.lower()
    return name == wanted or (name.startswith("*.") and name[2:] == wanted.partition(".")[2])


def _report_failed(client: str, server: str, reason: str, times: Sequence[Fact], report: ReportFinding) -> None:
    first = times[0]
    number = "The TLS handshake" if len(times) == 1 else f"{len(times):,} TLS handshakes"
    evidence = {
        "connections": [fact.where.connection for fact in times[:DIAGNOSIS_NAMES_MAX]],
        "server": server,
        "count": len(times),
        "reason": reason,
        "tls": first.values["tls"],
    }
    code, failed = ("request-unanswered", "got no answer") if reason == _UNHEARD else ("tls-handshake-failed", "failed")
    report(code, first.where, f"{number} of client {client} with {server} {failed}: {reason}.", evidence)
