"""TLS handshakes of OpenSSL, good and failing ones."""

from __future__ import annotations

import ssl
from contextlib import suppress

from tests.scenarios.tls.peers import CLIENT, SERVER, Flight, certificate_files

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def flights(fault: str, version: str, *, certificate: str = "ec", name: str | None = "broker.example", tickets: int = 2) -> list[Flight]:
    """The bytes of both sides in a handshake with a fault, such as unknown-ca, or "" for a good one that closes at once."""
    client_side, server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*certificate_files(certificate))
    server_side.num_tickets = tickets
    client_side.check_hostname = fault == "name"
    client_side.verify_mode = ssl.CERT_REQUIRED if fault in ("unknown-ca", "name") else ssl.CERT_NONE
    if fault == "name":
        client_side.load_verify_locations(certificate_files(certificate)[0])
        name = "elsewhere.example"
    if fault == "no-certificate":
        server_side.verify_mode = ssl.CERT_REQUIRED
    for context, limit in ((client_side, version), (server_side, {"1.2": "1.3", "1.3": "1.2"}[version] if fault == "version" else version)):
        context.minimum_version = context.maximum_version = VERSIONS[limit]
    buffers = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    sides = (
        client_side.wrap_bio(*buffers[CLIENT], server_hostname=name),
        server_side.wrap_bio(*buffers[SERVER], server_side=True),
    )
    said: list[Flight] = []
    for turn in range(12):
        for side in (CLIENT, SERVER):
            with suppress(ssl.SSLError):
                sides[side].do_handshake() if turn < 6 else sides[side].unwrap()
            if data := buffers[side][1].read():
                said.append((side, data))
                buffers[1 - side][0].write(data)
    return said
