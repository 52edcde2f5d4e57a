"""Queries over the records of captures."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sys
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli.arguments.application import app
from pulsarscope.model.errors import PulsarscopeError, UsageError
from pulsarscope.model.records import ROWS
from pulsarscope.output.export.database import RecordDatabase
from tests.places import CAPTURES, ROOT
from tests.scenarios.bad_inputs.cases import capture
from tests.scenarios.bad_inputs.text import hostile_packets

pytest.importorskip("duckdb")

QUICKSTART = str(CAPTURES / "quickstart.pcapng")


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, ["sql", *arguments], env={"COLUMNS": "100"})
    if isinstance(result.exception, PulsarscopeError):
        raise result.exception
    assert result.exit_code == exit_code, result.output
    return result.stdout


def rows(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "-f", "json"))
    return found


@pytest.mark.parametrize("kind", [*ROWS])
def test_tables_hold_the_rows_of_the_table_of_the_library(kind: str) -> None:
    path = str(CAPTURES / "stuck-consumer.pcap")
    found = rows(path, f"FROM {kind}", "--payload", "hex")
    table = ps.open(path, payload="hex").table(kind)
    assert len(found) == table.num_rows > 0
    assert [*found[0]] == table.column_names
    plain = table.select([name for name in table.column_names if name != "schema_version" and table.schema.field(name).type != "binary"])
    key = json.dumps
    assert sorted(({name: row[name] for name in plain.column_names} for row in found), key=key) == sorted(plain.to_pylist(), key=key)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((QUICKSTART,), "is a file: the query comes last, after the captures"), (("SELECT 1",), "no capture given")],
)
def test_a_capture_and_a_query_are_needed(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(*arguments)


@pytest.mark.parametrize("missing", [("duckdb",), ("duckdb", "pyarrow")])
def test_one_extra_brings_all_that_it_needs(missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"SQL needs duckdb: .*\[sql\]"):
        run(QUICKSTART, "FROM frame")


def test_kinds_are_joined_and_only_those_that_are_named_are_decoded() -> None:
    query = "SELECT e.request, f.command FROM exchange e JOIN frame f ON e.packet = f.packet AND e.sub = f.sub WHERE e.request = 'PRODUCER'"
    assert rows(QUICKSTART, query) == [{"request": "PRODUCER", "command": "PRODUCER"}] * 2
    assert rows(QUICKSTART, "SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.slow
def test_the_formats_hold_the_same_rows() -> None:
    query = "SELECT topic, key, payload_size, properties, encrypted FROM message ORDER BY packet, batch_index"
    as_json = rows(QUICKSTART, query)
    as_lines = [json.loads(line) for line in run(QUICKSTART, query, "-f", "ndjson").splitlines()]
    as_csv = [*csv.DictReader(io.StringIO(run(QUICKSTART, query, "-f", "csv"), newline=""))]
    assert as_json == as_lines
    assert [row["payload_size"] for row in as_csv] == [str(row["payload_size"]) for row in as_json]
    assert len(as_json) == 80


@pytest.mark.slow
def test_text_shows_the_first_rows_and_how_many_more_there_are() -> None:
    text = run(QUICKSTART, "SELECT command, packet FROM frame", "--limit", "3").splitlines()
    assert text[0].split() == ["command", "packet"]
    assert text[-1].strip() == "and 91 more rows (--limit shows more)"
    assert len(text) == 5
    assert run(QUICKSTART, "SELECT * FROM finding").strip().endswith("no rows")
    assert run(QUICKSTART, "SELECT * FROM finding", "-f", "json") == "[]\n"


@pytest.mark.slow
def test_several_captures_and_processes_make_one_table() -> None:
    query = "SELECT count(*) AS n, count(DISTINCT file) AS files FROM frame"
    both = rows(QUICKSTART, str(CAPTURES / "ipv6.pcap"), query)
    assert both == rows(QUICKSTART, str(CAPTURES / "ipv6.pcap"), query, "-j", "2") == [{"n": 208, "files": 2}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT comand FROM frame", 'Referenced column "comand" not found'),
        ("SELECT * FROM frames", "unknown table frames; did you mean frame?"),
        ("SELECT * FROM nope", "unknown table nope; known: frame, message, exchange, connection, finding, journey"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "one query, not 2"),
        ("", "one query, not 0"),
        ("SELECT topic::INT FROM frame", "Conversion Error"),
    ],
)
def test_a_query_that_cannot_be_answered_is_said_in_one_line(query: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)) as refused:
        run(QUICKSTART, query)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("query", ["COPY (SELECT 1) TO '{}'", "copy frame\n to '{}' (FORMAT csv)"])
def test_a_capture_is_not_replaced_by_a_copy(query: str, tmp_path: Path) -> None:
    path = tmp_path / "it's mine.pcapng"
    before = path.write_bytes(Path(QUICKSTART).read_bytes())
    with pytest.raises(UsageError, match=re.escape(f"{path} is one of the inputs: name another file in COPY")):
        run(str(path), query.format(str(path).replace("'", "''")))
    assert path.stat().st_size == before
    run(str(path), query.format(tmp_path / "other.csv"))
    assert (tmp_path / "other.csv").read_text()


def test_the_query_comes_last() -> None:
    with pytest.raises(UsageError, match="the query comes last"):
        run("SELECT 1", QUICKSTART)


def test_a_signal_ends_a_query_that_would_not_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer = RecordDatabase.query

    def interrupt(self: RecordDatabase, query: str) -> Any:
        Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return answer(self, query)

    endless = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT count(*) FROM numbers"
    monkeypatch.setattr(RecordDatabase, "query", interrupt)
    with pytest.raises(SystemExit) as ended:
        app(["sql", QUICKSTART, endless], standalone_mode=True)
    assert ended.value.code == 5
    assert "interrupted; there is no output" in capsys.readouterr().err


def test_a_signal_ends_the_insertion_of_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    insert = RecordDatabase._insert
    slow = "INSERT INTO frame (packet) WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT n FROM numbers"

    def interrupt(self: RecordDatabase, statement: str, batch: Any) -> None:
        if statement.startswith("INSERT"):
            Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            statement = slow
        insert(self, statement, batch)

    monkeypatch.setattr(RecordDatabase, "_insert", interrupt)
    with pytest.raises(SystemExit) as ended:
        app(["sql", QUICKSTART, "SELECT count(*) FROM frame"], standalone_mode=True)
    assert ended.value.code == 5
    assert "interrupted; there is no output" in capsys.readouterr().err


@pytest.mark.slow
def test_credentials_and_control_characters_do_not_come_out(tmp_path: Path) -> None:
    path = str(CAPTURES / "token-auth-py.pcap")
    assert "redacted" in run(path, "SELECT fields FROM frame WHERE command = 'CONNECT'", "-f", "csv")
    hostile = capture(tmp_path, hostile_packets())
    for output_format in ([], ["-f", "json"], ["-f", "csv"]):
        text = run(str(hostile), "SELECT * FROM message", *output_format)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", text)


def test_damage_is_the_exit_code(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(Path(QUICKSTART).read_bytes()[:-3])
    for query in ("SELECT count(*) FROM frame", "SELECT 1"):
        result = CliRunner().invoke(app, ["sql", str(cut), query, "-f", "csv"])
        assert (result.exit_code, result.stderr.count(f"pulsarscope: {cut}: The capture ends")) == (4, 1)


@pytest.mark.parametrize("query", re.findall(r"^```sql\n(.*?)^```$", (ROOT / "docs/sql.md").read_text(), re.MULTILINE | re.DOTALL))
def test_the_questions_of_the_page_are_answered(query: str) -> None:
    names = ("stuck-consumer.pcap", "errors.pcap", "quickstart.pcapng", "raw-checksum.pcap")
    assert any(rows(str(CAPTURES / name), query) for name in names)
