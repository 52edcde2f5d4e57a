from __future__ import annotations

import re
from typing import Any

import pytest

from pulsarscope.model.records import Checksum
from pulsarscope.output.render.cell_text import cell_width
from tests.scenarios import rows
from tests.scenarios.rows import START, Run, text_of

OWN_COLORS = re.compile(r"\x1b\[[0-9;]*m")
ENDPOINTS = {"0:1": ("10.0.0.1:50886", "10.0.0.2:6650"), "0:9": ("10.0.0.3:40000", "10.0.0.2:6650")}


def lanes(some: list[Any], **values: Any) -> list[str]:
    run = Run(endpoints=values.pop("endpoints", ENDPOINTS))
    return text_of("lanes", some, rows.options(run=run, **values)).splitlines()


def delivered(packet: int = 8, **values: Any) -> Any:
    """The message of `rows.send()` on its way to another client."""
    fields = {"consumer_id": 2, "message_id": {"ledgerId": 26, "entryId": 14}}
    given = {
        "fields": fields,
        "direction": "server",
        "topic": rows.TOPIC,
        "subscription": "mail",
        "payload_size": 1234,
        "connection": "0:9",
    }
    return rows.frame(packet, "MESSAGE", **given | values)


def test_an_arrow_goes_from_its_sender_to_its_receiver_with_the_latency_at_its_head() -> None:
    assert lanes([rows.send(), rows.receipt()], width=80)[:-1] == [
        "connection #1  10.0.0.1:50886 → 10.0.0.2:6650",
        "topic orders",
        "                  client                                                  broker",
        "   4.1  0.000000  ├─ SEND  seq 7  1,234 B  producer 0 ✓ ──────────────────────▶│",
        "   6.1  0.002000  │◀─ 1.32 ms ───── SEND_RECEIPT  id 26:14  seq 7  producer 0 ─┤",
        "",
    ]


def test_a_message_that_crosses_connections_has_the_broker_in_the_middle() -> None:
    ack = {"consumer_id": 2, "ack_type": "Individual", "message_id": [{"ledgerId": 26, "entryId": 14}]}
    some = [rows.send(), rows.receipt(), delivered(), rows.frame(9, "ACK", fields=ack, connection="0:9", topic=rows.TOPIC)]
    assert lanes(some, width=116)[2:-2] == [
        "topic orders",
        "                       client                                      broker                                     client",
        "   4.1  0.000000   #1  ├─ SEND  seq 7  1,234 B  producer 0 ✓ ───────▶│                                             │",
        "   6.1  0.002000   #1  │◀─ 1.32 ms ─────── SEND_RECEIPT  id 26:14 … ─┤                                             │",
        "   8.1  0.004000   #9  │                                             ├─ MESSAGE  id 26:14  1,234 B … ─────────────▶│",
        "   9.1  0.005000   #9  │                                             │◀─────────────────── ACK  26:14  consumer 2 ─┤",
    ]


def test_a_terminal_too_narrow_for_two_lanes_has_one_with_numbers() -> None:
    lines = lanes([rows.send(), delivered()], width=90)
    assert lines[4].startswith("   4.1  0.000000   #1  ├─ SEND ")
    assert lines[5].startswith("   8.1  0.004000   #9  │◀──")


def test_topics_that_differ_stay_in_the_words() -> None:
    lines = lanes([rows.send(), rows.send(6, topic="persistent://public/default/others")])
    assert "topic" not in "".join(lines)
    assert "SEND  orders  seq 7" in lines[2]
    assert "SEND  others  seq 7" in lines[3]


def test_seconds_without_a_frame_are_reported() -> None:
    lines = lanes([rows.send(), rows.receipt(time=START + 3_004_000_000)], width=80)
    assert lines[4].split("┊")[1].strip() == "3.00 s later"
    assert cell_width(lines[4]) == 80


def test_findings_stand_below_their_frame_and_its_codes_in_the_arrow() -> None:
    bad = rows.send(checksum=Checksum("bad", "11111111", "e3069283"), findings=["checksum-mismatch"])
    lines = lanes([bad, rows.finding(), rows.receipt()])
    assert "✗  checksum-mismatch ──" in lines[3]
    assert lines[4].strip().startswith("error checksum-mismatch  CRC32-C")
    assert "SEND_RECEIPT" in lines[6]


def test_refusals_stand_out() -> None:
    refusal = rows.frame(6, "SEND_ERROR", direction="server", fields={"error": "ChecksumError"})
    assert "\x1b[1;31mSEND_ERROR" in "\n".join(lanes([rows.send(), refusal], color=True))


def test_frames_beyond_the_first_ones_are_written_as_they_come() -> None:
    some = [rows.send(packet) for packet in range(10, 210)]
    lines = lanes([*some, delivered(300_000)], width=120)
    assert sum("├─ SEND" in line for line in lines) == 200
    assert "connection #9" in lines[-5]
    assert "5 min 0 s later" in lines[-4]
    assert lines[-3].startswith("300000.1 299.990000   #9  │◀──")


def test_nothing_found_is_said() -> None:
    assert lanes([]) == ["0 packets read · 0 TCP connections · no findings"]


def test_notes_are_counted_and_said_where_to_see() -> None:
    given = rows.options(run=Run({"note": 2}))
    assert text_of("lanes", [rows.send()], given).splitlines()[-1].endswith("2 notes (see diagnose)")


def test_connections_are_not_rows_here() -> None:
    assert lanes([rows.connection()]) == lanes([])


def test_quiet_leaves_only_the_arrows() -> None:
    assert len(lanes([rows.send(), rows.receipt()], quiet=True)) == 2


def test_ascii_streams_get_ascii_marks() -> None:
    text = text_of("lanes", [rows.send(), rows.receipt(latency_ns=12_300)], rows.options(encoding="ascii"))
    assert "|- SEND  seq 7" in text
    assert "|<- 12.3 us --" in text
    assert "\\" not in text


@pytest.mark.parametrize("width", [30, 41, 60, 80, 108, 110, 111, 160])
@pytest.mark.parametrize("time", ["relative", "utc", "epoch"])
def test_lines_fit_the_terminal(width: int, time: str) -> None:
    some = [
        rows.send(topic="日本語" * 30),
        rows.receipt(),
        rows.frame(9, "PING", direction="server", findings=["a-code", "another-code"]),
        rows.frame(10, None, status="skipped"),
        delivered(1_000_000, time=START + 9 * 10**9),
    ]
    drawn = [OWN_COLORS.sub("", line) for line in lanes(some, width=width, color=True, time=time)]
    arrows = [line for line in drawn if "▶" in line or "◀" in line]
    assert len(arrows) == 5
    starts = {min(line.index(mark) for mark in "├│" if mark in line) for line in arrows}
    assert all(cell_width(line) <= max(width, max(starts) + 20) for line in arrows)


def test_control_characters_of_the_wire_do_not_reach_the_terminal() -> None:
    text = "\n".join(lanes([rows.send(topic="a\x1b]0;x\x07b"), rows.frame(6, "X\x1b[2J")]))
    assert "\x1b" not in text


PROXIED = {"0:1": ("10.0.0.1:50886", "10.0.0.2:6650"), "0:5": ("10.9.0.2:41000", "10.9.0.3:6650")}


def handed_on(ends: dict[str, tuple[str, str]]) -> list[str]:
    """The drawing of a message on two connections, with these ends."""
    some = [
        rows.send(),
        rows.send(5, connection="0:5"),
        rows.receipt(7, connection="0:5", latency_ns=1_000),
        rows.receipt(8),
    ]
    return lanes(some, width=120, endpoints=ends)


def test_a_proxy_stands_between_the_client_and_the_broker() -> None:
    title, *lines = [line for line in handed_on(PROXIED) if "client" in line or re.match(r" +\d\.1 ", line)]
    assert title.split() == ["client", "proxy", "broker"]
    assert [re.sub(r"[^├┤│◀▶]", "", line) for line in lines] == ["├▶││", "│├▶│", "││◀┤", "│◀┤│"]
    assert [len(line) for line in lines] == [120] * 4


def test_two_clients_of_one_broker_are_no_proxy() -> None:
    ends = PROXIED | {"0:5": ("10.9.0.2:41000", "10.0.0.2:6650")}
    title = next(line for line in handed_on(ends) if "client" in line)
    assert title.split() == ["client", "broker", "client"]


def test_a_request_that_comes_with_its_answer_is_drawn_before_what_came_meanwhile() -> None:
    lines = lanes([delivered(5), rows.send(), rows.receipt()], width=114)
    assert [line.split()[0] for line in lines if line[:7].strip().endswith(".1")] == ["4.1", "5.1", "6.1"]


@pytest.mark.parametrize(
    ("checksums", "words"),
    [
        ([("good", "aa"), ("good", "aa")], "✓ the same bytes at each of 2 hops: SEND, MESSAGE (CRC32-C aa)"),
        ([("good", "aa"), ("bad", "aa"), ("bad", "aa")], "✗ damaged in MESSAGE 8.1, MESSAGE 9.1; whole in SEND 4.1"),
        ([("good", "aa"), ("good", "bb")], "✗ the bytes differ: SEND 4.1 has aa, MESSAGE 8.1 has bb"),
        ([("good", "aa")], None),
        ([("absent", None), ("absent", None)], None),
    ],
)
def test_it_is_said_whether_all_hops_have_the_same_bytes(checksums: list[tuple[str, str | None]], words: str | None) -> None:
    some = [
        rows.send(checksum=Checksum(*each)) if number == 0 else delivered(7 + number, checksum=Checksum(*each))
        for number, each in enumerate(checksums)
    ]
    lines = lanes(some, subject="message")
    assert [line for line in lines if line.startswith(("✓", "✗"))] == ([] if words is None else [words])
    assert not [line for line in lanes(some, subject="topic") if line.startswith(("✓", "✗"))]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("status", ["good", "bad"])
def test_what_is_said_of_the_bytes_fits_the_terminal(width: int, status: str) -> None:
    some = [rows.send(checksum=Checksum(status, "1f2e3d4c"))]
    some += [delivered(7 + number, checksum=Checksum("good", "1f2e3d4c")) for number in range(5)]
    said = lanes(some, subject="message", width=width)
    start = next(number for number, line in enumerate(said) if line.startswith(("✓", "✗")))
    end = said.index("", start)
    assert max(map(len, said[start:end])) <= width
    assert end - start > 1 or width >= 80
    assert end - start == 1 or width < 200
    assert all(line.startswith("  ") for line in said[start + 1 : end])
