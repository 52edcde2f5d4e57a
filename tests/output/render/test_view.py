from __future__ import annotations

import pytest

from pulsarscope.model.text import plural
from pulsarscope.output.render.view import View
from tests.scenarios import rows
from tests.scenarios.rows import Memory, Run


def view(**values: object) -> View:
    return View(Memory(), rows.options(**values))


def test_names_leave_out_the_file_when_there_is_one() -> None:
    assert view(paths=("a.pcap",)).name(rows.frame(30, sub=2)) == "30.2"
    several = view(paths=("a.pcap", "b.pcap"))
    assert several.name(rows.frame(30, file=1)) == "1:30.1"
    assert several.reference("0:12.1") == "0:12.1"
    assert view().reference("0:12.1") == "12.1"
    assert view().name(rows.finding(packet=None)) == ""


def test_a_connection_is_introduced_once_with_its_ends() -> None:
    item = view(encoding="ascii")
    lines: list[str] = []
    assert item.introduce("0:1", lines) == item.introduce("0:1", lines) == "#1"
    assert lines == ["connection #1  10.0.0.1:50886 -> 10.0.0.2:6650"]
    assert item.introduce("0:99", lines) == "#99"
    assert lines[1:] == ["connection #99"]
    several = view(paths=("a.pcap", "b.pcap"))
    assert several.introduce("1:99", lines) == "#1:99"
    assert lines[2:] == ["connection #1:99  in b.pcap"]


def test_a_connection_from_far_back_is_introduced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.output.render.view.INTRODUCED_MAX", 2)
    item = view()
    lines: list[str] = []
    for name in ("0:1", "0:2", "0:3", "0:3", "0:1"):
        item.introduce(name, lines)
    assert len(lines) == 4
    assert len(item.introduced) == 2
    assert "4 connections" in item.closing([])[-1]


def test_a_connection_that_ended_within_the_block_still_has_ends_and_words() -> None:
    item = view(run=Run(endpoints={}))
    item.prepare([rows.connection()])
    assert "10.0.0.1:50886" in item.heading("0:1")
    assert item.dissector("0:1").summary


def test_a_connection_that_ended_some_blocks_ago_still_has_ends() -> None:
    item = view(encoding="ascii", run=Run(endpoints={}))
    item.prepare([rows.connection(connection="0:7")])
    item.prepare([rows.finding(connection="0:7")])
    assert item.heading("0:7") == "connection #7  10.0.0.1:50886 -> 10.0.0.2:6650"


def test_a_finding_is_a_line_with_its_hint_below() -> None:
    lines: list[str] = []
    view(quiet=True).finding(rows.finding(), lines, notes=True)
    assert lines == [
        "       error checksum-mismatch  at 4.1 on #1: CRC32-C is 11111111, computed e3069283.",
        "         Look at the sender's network card.",
    ]


def test_a_place_that_is_no_frame_is_called_a_packet() -> None:
    lines: list[str] = []
    view().finding(rows.finding(sub=None, connection=None, packet=18, text="The capture ends."), lines)
    assert "at packet 18: The capture ends." in lines[0]


def test_a_finding_wraps_at_the_width_of_the_terminal() -> None:
    lines: list[str] = []
    view(width=40, quiet=True).finding(rows.finding(text="word " * 30), lines, notes=True)
    assert max(map(len, lines)) <= 40
    assert len(lines) > 5


def test_notes_show_only_when_findings_are_asked_for() -> None:
    lines: list[str] = []
    item = view()
    item.finding(rows.finding(severity="note", connection=None), lines)
    assert not lines
    item.finding(rows.finding(severity="note", connection=None), lines, notes=True)
    assert lines


def test_quiet_leaves_findings_out_unless_they_are_asked_for() -> None:
    lines: list[str] = []
    view(quiet=True).finding(rows.finding(), lines)
    assert not lines


def test_a_finding_about_a_file_names_it() -> None:
    lines: list[str] = []
    about = rows.finding(packet=None, sub=None, connection=None, text="It ends within a record.")
    view(paths=("/data/night.pcap",)).finding(about, lines)
    assert "night.pcap: It ends within a record." in lines[0]


def test_the_closing_words_count_findings_by_severity() -> None:
    item = view(run=Run({"error": 1, "note": 3}))
    assert item.closing(["2,000 frames"]) == [
        "",
        "2,000 frames · 0 packets read · 0 TCP connections · 1 error, 3 notes (see diagnose)",
    ]
    assert view().closing(["1 frame"]) == ["", "1 frame · 0 packets read · 0 TCP connections · no findings"]
    assert view(quiet=True).closing(["1 frame"]) == []


def test_the_closing_words_place_findings_in_the_frames_unless_some_are_about_files() -> None:
    run = Run({"error": 1})
    run.evaluates_rules = False
    item = view(run=run)
    item.introduce("0:1", [])
    assert item.closing(["1 frame"])[-1] == "1 frame · 1 connection · 1 error in single frames; run diagnose for the rest"
    run.damaged = True
    assert item.closing(["1 frame"])[-1] == "1 frame · 1 connection · 1 error (see diagnose)"


def test_nothing_refers_to_diagnose_where_no_packets_were_kept() -> None:
    item = View(Memory(), rows.options(run=Run({"error": 1, "note": 3}), readable=False))
    assert item.closing(["2,000 frames"])[-1] == "2,000 frames · 0 packets read · 0 TCP connections · 1 error, 3 notes"


def test_where_nothing_was_shown_a_note_about_a_connection_says_why() -> None:
    item = view(run=Run({"note": 2}), paths=("a.pcap",))
    for packet in (1, 7):
        text = f"Connection 0:{packet}: TLS."
        item.finding(rows.finding(packet=packet, connection=f"0:{packet}", code="x", severity="note", sub=None, text=text, hint="Try."), [])
    assert item.closing(["0 frames"])[:3] == ["       note x  Connection #1: TLS.", "         Try.", ""]
    item.introduce("0:1", [])
    assert item.closing(["1 frame"])[0] == ""


def test_counts_have_their_noun() -> None:
    assert [plural(1, "frame"), plural(2000, "frame")] == ["1 frame", "2,000 frames"]


def test_what_the_stream_cannot_carry_is_escaped() -> None:
    sink = Memory()
    View(sink, rows.options(encoding="ascii")).emit(["Zoë"])
    assert sink.data == b"Zo\\xeb\n"


def test_a_finding_that_names_its_place_does_not_show_it_twice() -> None:
    lines: list[str] = []
    view(quiet=True).finding(rows.finding(text="SEND 0:4.1: 12 of 40 bytes are there.", hint=None), lines, notes=True)
    view(quiet=True).finding(rows.finding(sub=None, text="Connection 0:1: the client speaks HTTP.", hint=None), lines, notes=True)
    assert [line.partition("checksum-mismatch  ")[2] for line in lines] == [
        "SEND 4.1: 12 of 40 bytes are there.",
        "Connection #1: the client speaks HTTP.",
    ]


def test_the_last_line_becomes_as_many_as_a_narrow_terminal_needs() -> None:
    narrow, wide = view(width=40), view()
    counts = ["12 frames of the client", "3 messages produced"]
    for item in (narrow, wide):
        item.introduce("0:1", [])
    lines = narrow.closing(counts)
    assert [line for line in lines if line] == ["12 frames of the client", "3 messages produced · 1 connection", "no findings"]
    assert " · ".join(line for line in lines if line) == wide.closing(counts)[-1]


def test_the_first_line_is_never_empty() -> None:
    memory = Memory()
    item = View(memory, rows.options())
    item.emit([])
    item.emit(item.closing(["0 frames"]))
    item.emit(["", "more"])
    first, *rest = memory.data.decode().splitlines()
    assert first.startswith("0 frames · ")
    assert rest == ["", "more"]
