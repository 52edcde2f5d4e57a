"""Real TLS peers: connections of OpenSSL in memory, with their key logs."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

CLIENT, SERVER = 0, 1
_READ_BYTES = 1 << 20

_FFDHE2048 = """\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""
"""The group of RFC 7919 with this name."""

Flight = tuple[int, bytes]
"""Sender, and what it sends."""


class Recording(NamedTuple):
    """Recorded connection."""

    flights: list[Flight]
    key_log: bytes
    session: ssl.SSLSession | None
    reused: bool

    def stream(self, side: int) -> bytes:
        """Return all bytes that a side sent."""
        return b"".join(data for sender, data in self.flights if sender == side)


@cache
def certificate_files(kind: str = "ec") -> tuple[str, str]:
    """Return the paths of a self-signed certificate and its key, which exist until the end of the process."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    folder = Path(tempfile.mkdtemp(prefix="pulsarscope-tls-"))
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(certificate_of(key).public_bytes(serialization.Encoding.PEM))
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return str(certificate), str(private)


def certificate_of(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, name: str = "broker", names: bool = True) -> x509.Certificate:
    """Return a self-signed certificate."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(start).not_valid_after(start + timedelta(days=3650))
    if names:
        alternatives = [x509.DNSName("broker.example"), x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key, hashes.SHA256())


@cache
def server_context(version: ssl.TLSVersion, ciphers: str, certificate: str, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
    """Return a server context shared by several connections, as session resumption needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate_files(certificate))
    _restrict(context, version, ciphers)
    if ciphers.startswith("DHE"):
        context.load_dh_params(_dh_parameters())
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


@cache
def _dh_parameters() -> str:
    """Return the path of a Diffie-Hellman group."""
    path = Path(certificate_files()[0]).with_name("dh.pem")
    path.write_text(_FFDHE2048)
    return str(path)


def _restrict(context: ssl.SSLContext, version: ssl.TLSVersion, ciphers: str) -> None:
    context.minimum_version = context.maximum_version = version
    if version == ssl.TLSVersion.TLSv1_2:
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")


def record(
    said: Sequence[Flight],
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ciphers: str = "DEFAULT",
    certificate: str = "ec",
    *,
    server_name: str | None = "broker.example",
    alpn: tuple[str, ...] = (),
    client_certificate: bool = False,
    session: ssl.SSLSession | None = None,
    context: ssl.SSLContext | None = None,
    options: int = 0,
) -> Recording:
    """Record a handshake, the data of both sides and the close; `context` resumes the session of an earlier connection."""
    client_side = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_side.check_hostname = False
    client_side.verify_mode = ssl.CERT_NONE
    _restrict(client_side, version, ciphers)
    client_side.options |= options
    if alpn:
        client_side.set_alpn_protocols(list(alpn))
    server_side = server_context(version, ciphers, certificate, alpn)
    server_side.verify_mode = ssl.CERT_NONE
    if client_certificate:
        client_side.load_cert_chain(*certificate_files())
        server_side.load_verify_locations(certificate_files()[0])
        server_side.verify_mode = ssl.CERT_OPTIONAL
    with tempfile.NamedTemporaryFile(prefix="pulsarscope-key-log-") as log:
        client_side.keylog_filename = log.name
        buffers = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]  # incoming, outgoing
        client = client_side.wrap_bio(*buffers[CLIENT], server_hostname=server_name, session=session)
        server = server_side.wrap_bio(*buffers[SERVER], server_side=True)
        sides = (client, server)
        flights: list[Flight] = []

        def carry() -> bool:
            moved = False
            for side in (CLIENT, SERVER):
                data = buffers[side][1].read()
                if data:
                    flights.append((side, data))
                    buffers[1 - side][0].write(data)
                    moved = True
            return moved

        done = [False, False]
        while not all(done):
            for side in (CLIENT, SERVER):
                if not done[side]:
                    try:
                        sides[side].do_handshake()
                        done[side] = True
                    except ssl.SSLWantReadError:
                        pass
                carry()
        carry()
        for side, data in said:
            sides[side].write(data)
            carry()
            remaining = len(data)
            while remaining:
                remaining -= len(sides[1 - side].read(_READ_BYTES))
        if not any(side == SERVER for side, _ in said):  # session tickets come with the first bytes read
            server.write(b"")
            carry()
            with suppress(ssl.SSLWantReadError):
                client.read(1)
        taken = client.session
        for side in (CLIENT, SERVER):
            with suppress(ssl.SSLError):
                sides[side].unwrap()
            carry()
        key_log = Path(log.name).read_bytes()
    return Recording(flights, key_log, taken, bool(client.session_reused))
