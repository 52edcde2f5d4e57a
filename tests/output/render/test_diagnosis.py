from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.model.findings import ERROR, WARNING, Code, table
from pulsarscope.output.render.cell_text import cell_width
from pulsarscope.output.render.diagnosis import diagnosis_text, verdict
from pulsarscope.output.render.text_report import ReportOptions
from pulsarscope.protocols.pulsar.topics import short_topic
from tests.scenarios import rows

CODES = table(
    Code("checksum-mismatch", ERROR, "frame", "The bytes are not those that were sent.", "Look at the card.", (), "the network's operators")
)
MISMATCH = "CRC32-C is 11111111, computed e3069283. Who must act: the network's operators."
WHOLE = rows.connection(server_missing=0, end=rows.START + 60_000_000_000)
SHORT = rows.connection(server_missing=0)

REFUSED: dict[str, Any] = {
    "dissector": None,
    "client_bytes": 0,
    "server_bytes": 0,
    "server_missing": 0,
    "closed": "rst",
    "closed_by": "server",
    "start": rows.START + 9,
}


def diagnosed(*some: Any) -> Diagnosis:
    diagnosis = Diagnosis(CODES)
    diagnosis.feed(some)
    return diagnosis


def shown(*some: Any, **values: Any) -> str:
    return diagnosis_text(diagnosed(*some), ReportOptions(short_topic=short_topic, **values), 20).decode()


@pytest.mark.parametrize(
    ("some", "said"),
    [
        ([WHOLE], "Healthy: no errors, no warnings."),
        ([WHOLE, rows.finding(severity="note")], "Healthy: no errors, no warnings; 1 note."),
        ([WHOLE, rows.finding(severity="note", code="partition-skew", layer="session")], "No errors, no warnings; 1 note."),
        ([WHOLE, rows.finding(severity="note", code="ack-each", layer="tuning")], "No errors, no warnings; 1 note."),
        ([WHOLE, rows.finding()] * 2, f"2 errors in 1 connection: checksum-mismatch (2). {MISMATCH}"),
        (
            [
                WHOLE,
                rows.finding(),
                rows.finding(code="slow-exchange", severity="warning", connection="0:7"),
                rows.finding(severity="note", code="x"),
            ],
            "1 error, 1 warning in 2 connections: checksum-mismatch (1), slow-exchange (1); 1 note. " + MISMATCH,
        ),
        (
            [SHORT],
            (
                "No errors, no warnings in what could be judged. "
                "Not judged: problems that show only after 5.00 s of traffic (a verdict needs 10 s)."
            ),
        ),
        (
            [WHOLE, rows.connection(opened="midstream"), rows.finding(severity="note")],
            (
                "No errors, no warnings in what could be judged; 1 note. "
                "Not judged: what 1 connection that began before the capture had open or used up by then; "
                "12 bytes of 1 connection that the capture lacks."
            ),
        ),
        (
            [rows.connection(server_missing=0, end=rows.START + 60_000_000_000, closed="open", closed_by=None)],
            "Healthy: no errors, no warnings. Not judged: later events on 1 connection still open at the end of the capture.",
        ),
        (
            [WHOLE, rows.finding(code="packets-dropped", severity="warning", connection=None)],
            (
                "1 warning: packets-dropped (1). CRC32-C is 11111111, computed e3069283. "
                "Not judged: what the capture lacks or was given up (packets-dropped)."
            ),
        ),
        (
            [WHOLE, *[rows.connection(**REFUSED, client=f"10.0.0.{number}:5") for number in (1, 2, 2)]],
            "3 connections to 10.0.0.2:6650 failed at the start. Not judged: 3 connections to 10.0.0.2:6650 never opened (3 refused).",
        ),
        (
            [WHOLE, rows.finding(), rows.connection(**REFUSED)],
            (
                f"1 error in 1 connection: checksum-mismatch (1); 1 connection to 10.0.0.2:6650 failed at the start. {MISMATCH} "
                "Not judged: 1 connection to 10.0.0.2:6650 never opened (1 refused)."
            ),
        ),
        ([], "Nothing to diagnose: 20 packets, no TCP connections."),
        (
            [rows.connection(dissector=None)],
            "Nothing to diagnose: 20 packets, 1 TCP connection of no known protocol. Not judged: 1 connection of no known protocol.",
        ),
        (
            [rows.connection(server_missing=0, server_bytes=0, server_frames=0)],
            (
                "Nothing to diagnose: 20 packets, 1 connection without frames in both directions. "
                "Not judged: 1 connection on which one side sent no data."
            ),
        ),
    ],
)
def test_the_verdict_says_how_far_it_can_be_trusted(some: list[Any], said: str) -> None:
    assert verdict(diagnosed(*some), 20) == said


def test_a_group_says_what_happened_where_why_it_matters_and_what_to_try() -> None:
    some = [
        rows.finding(
            text=f"Number {number}.", time=rows.START + number * 10**9, evidence={"frames": [f"0:{number}.1"], "topic": rows.TOPIC}
        )
        for number in range(1, 21)
    ]
    assert shown(WHOLE, *some).splitlines() == [
        "20 errors in 1 connection: checksum-mismatch (20).",
        "Number 1. Who must act: the network's operators.",
        "",
        "error checksum-mismatch  20 times  from 1.000000 to 20.000000 s",
        "  The bytes are not those that were sent.",
        "    1 topic: orders",
        "    · at 1.1: Number 1.",
        "    · at 2.1: Number 2.",
        "    · at 3.1: Number 3.",
        "    · and 17 more",
        "  Try: Look at the sender's network card.",
    ]


def test_findings_that_say_the_same_are_one_line() -> None:
    some = [rows.finding(packet=packet) for packet in range(1, 7)]
    line = "· at 1.1, 2.1, 3.1, 4.1 and 2 more: CRC32-C is 11111111, computed e3069283."
    assert f"{line}\n" in shown(*some, width=120)  # the head of the group gives the count
    assert f"{line} (6 times)\n" in shown(*some, rows.finding(text="Another."), width=120)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SEND 0:{}.1: CRC32-C is bad.", "· at 1.1, 2.1: SEND: CRC32-C is bad.\n"),
        ("Bytes 0:{}.1: 8 bytes are not framed.", "· at 1.1, 2.1: 8 bytes are not framed.\n"),
        ("The SEND 0:{}.1: it is late.", "· at 1.1: The SEND 1.1: it is late.\n"),
    ],
)
def test_a_place_that_stands_before_a_text_is_not_in_it(text: str, line: str) -> None:
    found = shown(*(rows.finding(packet=packet, text=text.format(packet)) for packet in (1, 2)), width=120)
    assert line in found
    assert text.format("1").replace("0:1", "1") in found.partition("\n\n")[0], "the verdict has no other place"


def test_connections_are_listed_in_the_order_in_which_they_began() -> None:
    found = rows.finding(connection="0:113", evidence={"connections": ["0:2", "0:24"]})
    assert "3 connections: #2, #24, #113\n" in shown(found)


def test_what_a_finding_explains_stands_below_it_in_one_paragraph() -> None:
    cut = Code("cut", WARNING, "session", "It was cut.", "Keep alive.", ("closed", "reset"))
    diagnosis = Diagnosis(table(cut))
    diagnosis.feed([rows.finding(code="closed", severity="warning", text="It was closed."), rows.finding(code="cut", severity="warning")])
    diagnosis.feed([rows.finding(code="reset", severity="note", text="It was reset.", packet=8)])
    text = diagnosis_text(diagnosis, ReportOptions(), 20).decode()
    assert text.startswith("2 warnings in 1 connection: cut (1) explaining closed (1); 1 note.\n")
    assert text.splitlines()[1] == "CRC32-C is 11111111, computed e3069283."
    assert [line.partition("  ")[0] for line in text.splitlines() if not line.startswith(" ") and line][2:] == ["warning cut"]
    assert "Explains closed (1): at " in text
    assert "It was reset." in text


@pytest.mark.parametrize("width", range(40, 70))
def test_a_number_and_its_unit_stay_on_one_line(width: int) -> None:
    text = shown(WHOLE, rows.finding(text="It took 10.6 s and 2 ms for 7 B in 3 turns of 15 kB and 9 MB of it."), width=width)
    for line in text.splitlines():
        assert not line.endswith(("10.6", " 2", "7", "15", " 9"))


def test_a_limit_leaves_out_the_mildest_kinds_and_says_so() -> None:
    text = shown(WHOLE, rows.finding(), rows.finding(code="x", severity="note"), limit=1)
    assert "checksum-mismatch" in text
    assert "note x" not in text
    assert "and 1 more kind" in text


def test_what_was_not_judged_is_listed_below_the_verdict() -> None:
    lines = shown(rows.connection(opened="midstream"), width=80).splitlines()
    assert lines == [
        "No errors, no warnings in what could be judged.",
        "Not judged:",
        "  · problems that show only after 5.00 s of traffic (a verdict needs 10 s)",
        "  · what 1 connection that began before the capture had open or used up by then",
        "  · 12 bytes of 1 connection that the capture lacks",
    ]


def test_a_filtered_run_is_never_called_healthy() -> None:
    assert verdict(diagnosed(WHOLE), 20, filtered=True) == "no errors, no warnings."


def test_quiet_is_the_verdict_alone() -> None:
    assert shown(WHOLE, rows.finding(), quiet=True, width=160) == f"1 error in 1 connection: checksum-mismatch (1). {MISMATCH}\n"


def test_what_a_peer_said_is_escaped_and_fits() -> None:
    hostile = "\x1b[2J\u202e\n" * 200
    text = shown(rows.finding(text=hostile, code="x", hint=hostile, evidence={"topic": hostile, "frames": [hostile]}), width=80)
    assert {character for character in text if not character.isprintable()} == {"\n"}
    assert max(map(cell_width, text.splitlines())) <= 80


def test_colours_are_those_of_the_worst() -> None:
    assert shown(WHOLE, rows.finding(), color=True).startswith("\x1b[1;31m")
    assert shown(WHOLE, rows.finding(severity="warning"), color=True).startswith("\x1b[33m")
    assert shown(WHOLE, color=True).startswith("\x1b[2;32m")
    assert shown(SHORT, color=True).startswith("\x1b[33m")
