from __future__ import annotations

import json
import re
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.records import Checksum, FrameRow
from pulsarscope.output.render.cell_text import cell_width
from tests.places import CAPTURES
from tests.scenarios import rows
from tests.scenarios.rows import Run, text_of

OWN_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def timeline(some: list[Any], **values: Any) -> list[str]:
    kinds = values.pop("kinds", ("frame",))
    lines = text_of("timeline", some, rows.options(*kinds, **values)).splitlines()
    return [line for line in lines if not line.lstrip().startswith("frame ")]  # the heading


def test_a_frame_is_a_line_with_name_time_connection_direction_command_and_words() -> None:
    lines = timeline([rows.send(), rows.receipt()])
    assert lines == [
        "connection #1  10.0.0.1:50886 → 10.0.0.2:6650",
        "   4.1  0.000000   #1 → SEND                              orders  seq 7  1,234 B  producer 0  ✓",
        "   6.1  0.002000   #1 ← SEND_RECEIPT                      orders  id 26:14  seq 7  producer 0  ↩ 4.1 1.32 ms",
        "",
        "2 frames · 1 message produced, 0 delivered · 1 connection · no findings",
    ]


def test_a_message_in_parts_is_counted_once() -> None:
    parts = [rows.send(packet=4 + chunk, metadata={"num_chunks_from_msg": 3, "chunk_id": chunk}) for chunk in range(3)]
    assert timeline(parts)[-1].startswith("3 frames · 1 message produced")


def test_ascii_streams_get_ascii_marks() -> None:
    text = text_of("timeline", [rows.send(), rows.receipt(latency_ns=12_300)], rows.options(encoding="ascii"))
    assert " #1 -> SEND " in text
    assert "re 4.1 12.3 us" in text
    assert "\\" not in text


def test_on_a_terminal_words_shrink_and_what_answers_or_warns_stays() -> None:
    long_topic = rows.receipt(topic="t" * 300, findings=["slow-exchange"])
    line = timeline([long_topic], width=80)[1]
    assert cell_width(line) == 80
    assert line.endswith("ttt…  ↩ 4.1 1.32 ms  slow-exchange")


def test_without_a_terminal_nothing_is_clipped() -> None:
    assert "t" * 200 in timeline([rows.receipt(topic="t" * 200)])[1]


@pytest.mark.parametrize("width", [1, 40, 80, 160])
def test_lines_fit_the_terminal(width: int) -> None:
    some = [
        rows.send(topic="日本語" * 30),
        rows.receipt(),
        rows.frame(9, "PING", direction="server"),
        rows.frame(10, None, status="skipped"),
    ]
    for line in timeline(some, width=width, color=True)[:-1]:
        plain = OWN_COLORS.sub("", line)
        assert cell_width(plain) <= max(width, 70)


def test_a_line_without_room_for_words_ends_with_its_command() -> None:
    lines = timeline([rows.send(), rows.frame(9, "PARTITIONED_METADATA")], width=40)
    assert [line for line in lines if line.endswith(" ")] == []
    assert [cell_width(line) for line in lines if "PARTITIO" in line] == [40]


def test_a_bad_checksum_status_and_findings_follow_the_words() -> None:
    bad = rows.send(checksum=Checksum("bad", "11111111", "e3069283"), findings=["checksum-mismatch"])
    alone = rows.send(checksum=Checksum("bad", "11111111", "e3069283"))
    broken = rows.frame(5, "PING", status="malformed")
    lines = timeline([bad, alone, broken])
    assert lines[1].endswith("producer 0  ✗  checksum-mismatch")
    assert lines[2].endswith("producer 0  ✗ checksum")
    assert lines[3].endswith("malformed")


def test_warnings_stand_where_they_occur_and_notes_are_only_counted() -> None:
    batch = [rows.send(), rows.finding(), rows.finding(severity="note", text="quiet"), rows.receipt()]
    lines = timeline(batch, run=Run({"error": 1, "note": 1}))
    assert "checksum-mismatch" in lines[2]
    assert "network card" in lines[3]
    assert not any("quiet" in line for line in lines)
    assert lines[-1].endswith("1 error, 1 note (see diagnose)")


def test_where_no_frame_is_shown_the_other_rows_are_counted() -> None:
    some = [rows.message(), rows.message(), rows.exchange()]
    assert timeline(some)[-1].startswith("2 messages · 1 exchange · ")
    assert timeline([*some, rows.receipt()])[-1].startswith("1 frame · ")
    assert timeline([])[-1].startswith("0 frames · ")


def test_a_run_without_colour_writes_no_escape() -> None:
    everything = [rows.send(), rows.finding(), rows.message(), rows.exchange(), rows.connection()]
    assert "\x1b" not in "\n".join(timeline(everything, kinds=("frame", "message", "exchange", "connection", "finding")))


def test_a_finding_below_its_frame_says_no_place_and_its_hint_once() -> None:
    lines = timeline([rows.send(), rows.finding(), rows.send(5), rows.finding(packet=5)], quiet=True, kinds=("frame", "finding"))
    assert [line.split()[0] for line in lines] == ["4.1", "error", "Look", "5.1", "error"]
    assert not any(" at " in line for line in lines if "error" in line)


def test_a_status_that_a_finding_repeats_is_left_out() -> None:
    cut = rows.frame(5, "PING", status="truncated", findings=["frame-truncated"])
    assert timeline([cut])[1].endswith("PING                                frame-truncated")


def test_a_long_running_capture_widens_its_columns() -> None:
    lines = timeline([rows.send(), rows.send(4_000_000, time=rows.START + 10**15)], quiet=True)
    assert lines[1].startswith("4000000.1 999999.99")


def test_all_kinds_have_lines() -> None:
    everything = [rows.send(), rows.message(), rows.exchange(), rows.connection(), rows.finding(severity="note")]
    text = "\n".join(timeline(everything, kinds=("frame", "message", "exchange", "connection", "finding")))
    for words in ("SEND ", "deliver", "LOOKUP ", "ended", "checksum-mismatch"):
        assert words in text


def test_several_files_show_their_number() -> None:
    lines = timeline([rows.send(), rows.receipt(file=1, connection="0:1")], paths=("a.pcap", "b.pcap"))
    assert " 0:4.1 " in lines[1]
    assert " 1:6.1 " in lines[2]
    assert "↩ 0:4.1" in lines[2]


def test_times_of_day_come_with_their_date() -> None:
    lines = timeline([rows.send()], time="utc")
    assert lines[0] == "── 2026-05-01 UTC ──"
    assert " 10:00:00.127456 " in lines[2]


def test_quiet_leaves_only_the_frames() -> None:
    assert len(timeline([rows.send(), rows.receipt()], quiet=True)) == 2


def test_words_come_from_the_run_whose_connection_has_ended() -> None:
    lines = timeline([rows.send(), rows.connection()], run=Run(endpoints={}))
    assert "10.0.0.1:50886" in lines[0]
    assert "seq 7" in lines[1]


hostile = st.recursive(
    st.none() | st.integers() | st.text(st.characters(codec=None)) | st.binary() | st.booleans() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(
    st.sampled_from(["SEND", "MESSAGE", "CONNECT", "ERROR", "ACK", "UNKNOWN_200", None]),
    st.dictionaries(st.sampled_from(["client_version", "message", "error", "message_id", "sequence_id", "topic"]), hostile),
    st.text(st.characters(codec=None)),
    st.sampled_from([None, 20, 80]),
)
def test_hostile_text_never_reaches_the_terminal_raw(command: str | None, fields: dict[str, Any], text: str, width: int | None) -> None:
    row: FrameRow = rows.frame(4, command, fields=fields, topic=text, subscription=text, findings=[text], status=text)
    shown = text_of(
        "timeline",
        [row, rows.finding(text=text, hint=text, code=text), rows.message(topic=text, key=text, payload=text, status=text)],
        rows.options("frame", "message", color=True, width=width),
    )
    for line in shown.split("\n"):
        assert OWN_COLORS.sub("", line).isprintable()


def test_a_heading_names_the_columns_once() -> None:
    lines = text_of("timeline", [rows.send(), rows.receipt()], rows.options()).splitlines()
    headings = [line.split() for line in lines if line.lstrip().startswith("frame ")]
    assert headings == [["frame", "time", "conn", "command", "summary"]]
    assert not any("summary" in line for line in text_of("timeline", [rows.send()], rows.options(quiet=True)).splitlines())


@pytest.mark.parametrize("width", [80, 100, 132, None])
def test_the_column_of_commands_holds_the_longest(width: int | None) -> None:
    longest = max(chain.from_iterable(json.loads((CAPTURES / "commands.json").read_text()).values()), key=len)
    some = [rows.frame(5, longest), rows.send(), rows.frame(7, "PARTITIONED_METADATA_RESPONSE")]
    lines = [line for line in timeline(some, width=width) if " → " in line or " ← " in line][1:]
    start = lines[1].index("orders")
    assert {line[start - 1 : start] for line in lines} <= {" ", ""}
    assert width == 80 or any("PARTITIONED" in line for line in lines)
    assert width in {80, 100} or longest in lines[0]


def test_commands_have_the_colour_of_what_they_are_for_and_slow_answers_stand_out() -> None:
    text = text_of("timeline", [rows.send(), rows.receipt(latency_ns=250_000_000)], rows.options(color=True))
    assert "\x1b[32mSEND\x1b[0m" in text
    assert "\x1b[33m  ↩ 4.1 250 ms" in text


def test_connections_have_their_colour_whatever_is_shown() -> None:
    both = [rows.frame(9, "PING", connection="0:3"), rows.frame(10, "PING", connection="0:8")]
    colors = [re.search("\x1b\\[[0-9;]+m +#8 ", text_of("timeline", some, rows.options(color=True)))[0] for some in (both, both[1:])]  # type: ignore[index]
    assert colors[0] == colors[1]
