"""The end of a handshake without its secrets: who refused it, by the sizes of the records that nobody can read."""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.tls.handshake import TLS_1_3
from pulsarscope.tls.record_layer import APPLICATION_DATA, CHANGE_CIPHER_SPEC, WaitingRecord

_ALERT_BYTES = 19
"""Size of an encrypted alert: two bytes, its type, and the authentication tag of 16. A Finished has 53 or more."""


def unfinished(version: int | None, client: Sequence[WaitingRecord], server: Sequence[WaitingRecord]) -> str | None:
    """Return how a handshake failed: refused by the client or the server, or unfinished; None when it may have succeeded.

    The records are those of each side behind the last cleartext one, encrypted unless they change the cipher.
    """
    if version != TLS_1_3:
        both = all(any(record.kind == CHANGE_CIPHER_SPEC for record in records) for records in (client, server))
        return None if both else "unfinished"
    sealed = [record for record in client if record.kind == APPLICATION_DATA]
    if not sealed:
        return "unfinished"
    if sealed[0].size == _ALERT_BYTES:
        return "refused-by-client"
    # Behind the client's Finished a server sends tickets or data; a lone alert that no alert of the client asked for is a refusal.
    after = [record for record in server if record.mark > sealed[0].mark]
    if len(after) == 1 and after[0].size == _ALERT_BYTES:
        asked = any(record.size == _ALERT_BYTES and record.mark < after[0].mark for record in sealed)
        return None if asked else "refused-by-server"
    return None
