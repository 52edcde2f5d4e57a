"""Clients whose windows were closed for long, and those that only read slowly."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pulsarscope.model.records import FindingRow
from tests.scenarios.commands import delivery, flow
from tests.scenarios.conversation import MILLISECOND, SECOND
from tests.scenarios.dialogue import RuleDialogue

NOT_READING = "client-not-reading"
CLIENT, SERVER = "10.0.0.1:40000", "10.0.0.99:6650"


class Window(NamedTuple):
    """A window that was closed `times` times, for `closed` ns in all."""

    name: str
    of: str
    times: int
    closed: int
    reported: bool


CASES = [
    Window("stopped once", CLIENT, 1, 3 * SECOND, reported=True),
    Window("stopped for a minute, with probes between", CLIENT, 12, 60 * SECOND, reported=True),
    Window("a moment", CLIENT, 1, 1_500 * MILLISECOND, reported=False),
    Window("slow, but it reads", CLIENT, 400, 20 * SECOND, reported=False),
    Window("the broker", SERVER, 1, 9 * SECOND, reported=False),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_a_client_that_stopped_is_reported(case: Window) -> None:
    talk = RuleDialogue().client(flow(100)).server(delivery(1)).wait(70 * SECOND)
    text = f"{case.of} closed its receive window {case.times} times, for a while in total."
    row = FindingRow(None, 0, 3, None, talk.time, "0:1", None, "zero-window", "note", "tcp", text)
    row.evidence = {"direction": 0, "host": case.of, "count": case.times, "closed_ns": case.closed}
    talk.close("0:1", row)
    found = [row for row in talk.end() if row.code == NOT_READING]
    assert bool(found) == case.reported
    if found:
        (finding,) = found
        assert (finding.severity, finding.packet) == ("warning", 3)
        assert finding.evidence is not None
        assert (finding.evidence["closed_ns"], finding.evidence["act"]) == (case.closed, "client")
        assert finding.text.startswith(f"{CLIENT} read nothing for ")
