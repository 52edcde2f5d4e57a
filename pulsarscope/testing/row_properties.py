"""The properties of the rows that a dissector, its sessions and its rules make from any bytes, as assertions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pulsarscope.dissect import Dissector, Session, SessionContext
from pulsarscope.dissect.contract.generic_codes import DISSECTOR_FAILED, RULE_FAILED
from pulsarscope.dissect.plugins.registry import share_stored_readers
from pulsarscope.engine.local import ALL_RECORDS, Options, run
from pulsarscope.engine.snapshot import Shared
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import FindingRow, FrameRow, MessageRow
from pulsarscope.testing.scripted_connection import ScriptedConnection

DEFAULT_PORT = 7
"""Server port for a protocol that names none."""

INSTALLED = "the package under test"
"""Package name of the tested dissector: rows of foreign packages are checked, unlike rows of this package."""


def check_rows(dissector: Dissector, client: bytes, server: bytes) -> None:
    """Assert that sessions, rules, `ranges`, `redaction` and texts accept any frames: those in a connection with these bytes."""
    port = min(dissector.ports, default=DEFAULT_PORT)
    sessions: list[Session] = []
    tested = _installed(dissector, sessions)
    options = Options(ALL_RECORDS, raw=True, rules=True, decode_as={port: tested.name}, dissectors=lambda **_: (tested,))
    rows: list[Any] = []
    with TemporaryDirectory() as folder:
        path = Path(folder, "fuzz.pcap")
        path.write_bytes(ScriptedConnection(port).client(client).server(server).close().pcap())
        for batch in run([str(path)], options):
            rows += batch.rows
    for row in rows:
        assert not (isinstance(row, FindingRow) and row.code in (DISSECTOR_FAILED, RULE_FAILED)), row.text
        check_texts(dissector, row)
    _check_redaction(dissector, rows, {CLIENT: client, SERVER: server})
    for session in sessions:
        _check_pickled(tested, session)


def check_texts(dissector: Dissector, row: Any) -> None:
    """Assert that the dissector's summaries and explanations of a row are text, and that `sender` returns a valid value."""
    if isinstance(row, FrameRow):
        texts = [dissector.summary(row), *(dissector.explain(name, value) or "" for name, value in (row.fields or {}).items())]
        dissector.completes(row)
        sender = dissector.sender(row.command or "")
        assert sender in (None, CLIENT, SERVER), f"sender gives {sender!r}, which is none of client, server and None"
    else:
        texts = [dissector.message_summary(row)] if isinstance(row, MessageRow) else []
    assert all(isinstance(text, str) for text in texts), f"summary, explain or message_summary gives {texts}"


def _installed(dissector: Dissector, sessions: list[Session]) -> Dissector:
    """Return a copy of the dissector for a run of its own, as from a foreign package; it appends its sessions to `sessions`."""
    tested = copy(dissector)
    tested.package = INSTALLED
    share_stored_readers([tested])
    make: Callable[[SessionContext], Session] = tested.session

    def session(context: SessionContext) -> Session:
        sessions.append(made := make(context))
        return made

    tested.session = session  # type: ignore[method-assign]
    return tested


def _check_redaction(dissector: Dissector, rows: list[Any], sent: Mapping[str, bytes]) -> None:
    if (redact := dissector.redaction(MaskedNames(bytes(16)))) is None:
        return
    for row in rows:
        if isinstance(row, FrameRow) and row.command is not None:
            data = sent[row.direction or CLIENT][row.offset : row.offset + row.size]
            masked, _ = redact(row, data)
            assert len(masked) == len(data), f"redaction gives {len(masked)} bytes for the {len(data)} of a {row.command}"


def _check_pickled(dissector: Dissector, session: Session) -> None:
    shared = Shared({"": dissector, **vars(dissector)})
    try:
        shared.loads(shared.dumps(session))
    except Exception as error:
        message = f"a session cannot be pickled, to go on in another process: {type(error).__name__}: {error}"
        raise AssertionError(message) from error
