from __future__ import annotations

import re

import pulsarscope as ps
from pulsarscope.model.records import ROWS, FindingRow
from pulsarscope.output.html.notebook import ROWS_SHOWN, capture_html, rows_html


def finding(text: str) -> FindingRow:
    return FindingRow(code="c", severity="note", layer="tcp", text=text, time=1, evidence={"name": text, "n": 2**64})


def tags(html: str) -> list[str]:
    return re.findall(r"<(\w+)", html)


def test_the_first_rows_are_a_table_of_the_columns_that_have_values() -> None:
    html = rows_html("finding", (finding(f"number {number}") for number in range(ROWS_SHOWN + 5)))
    assert tags(html).count("tr") == ROWS_SHOWN + 1
    assert f"the first {ROWS_SHOWN} findings" in html
    assert "<th>text</th>" in html
    assert "<th>hint</th>" not in html
    assert "1970-01-01 00:00:00.000000001 UTC" in html
    assert rows_html("finding", []) == "<p>no findings</p>"


def test_hostile_texts_are_text() -> None:
    html = rows_html("finding", [finding("<script>alert(1)</script>\x1b\u202e" * 50)])
    assert "script" not in tags(html)
    assert not {"\x1b", "\u202e"} & set(html)
    assert "script" not in tags(capture_html(["<script>.pcap"], ROWS))


def test_every_kind_of_row_of_a_capture_has_its_table(captures: object) -> None:
    for name in ("stuck-consumer.pcap", "kafka07.pcap", "token-auth-py.pcap"):
        capture = ps.open(f"{captures}/{name}")
        for rows in (capture.frames(), capture.messages(), capture.exchanges(), capture.connections(), capture.findings()):
            html = rows._repr_html_()
            assert tags(html)[0] in ("table", "p")
            first = next(rows, None)
            assert (first is None) == html.startswith("<p>no ")
        assert "eyJ" not in capture.frames()._repr_html_()
        assert name in capture._repr_html_()
