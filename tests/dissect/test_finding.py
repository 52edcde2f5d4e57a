"""Findings about frames."""

from __future__ import annotations

import pytest

from pulsarscope.dissect.finding import frame_finding
from pulsarscope.dissect.frames import Frame, Origin
from pulsarscope.model.findings import WARNING, Code

KNOWN = Code("frame-odd", WARNING, "frame", "A frame is odd.", "Look at it.")


@pytest.mark.parametrize(("command", "said"), [("PING", "PING 1:30.2: it is odd."), (None, "Bytes 1:30.2: it is odd.")])
def test_it_names_the_frame_where_it_stands(command: str | None, said: str) -> None:
    frame = Frame(None, 1, 30, 2, 5, "1:7", "x", "client", 0, 4, command)
    row = frame_finding(KNOWN, frame, "it is odd", {"bytes": 4}, Origin("host", "1:7", "x"))
    assert (row.source, row.file, row.packet, row.sub, row.time, row.connection, row.dissector) == ("host", 1, 30, 2, 5, "1:7", "x")
    assert (row.code, row.severity, row.layer, row.hint) == ("frame-odd", WARNING, "frame", "Look at it.")
    assert (row.text, row.evidence) == (said, {"frame": "1:30.2", "bytes": 4})
