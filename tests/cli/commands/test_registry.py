from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pulsarscope.cli.arguments.application import app
from pulsarscope.model.errors import CaptureError, UsageError
from tests.places import ROOT

SNAPSHOT = ROOT / "tests" / "inputs" / "dumps" / "zookeeper-3.9.5.snapshot"

ODD = (
    "/brokers/ids/0\tc:kafka-a:9092\n"
    "/brokers/ids/1\tnonsense\x1b[2J\n"
    "/brokers/topics/t/0\t2\n"
    "/consumers/g/offsets/t/0-0\t17\n"
    "/controller\t=1+1\n"
    "what is this\n"
)


@pytest.fixture
def odd(tmp_path: Path) -> str:
    path = tmp_path / "odd.tsv"
    path.write_text(ODD)
    return str(path)


def invoke(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["registry", *map(str, arguments)], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_a_dump_is_shown_as_tables_with_brokers_by_name() -> None:
    lines = invoke(SNAPSHOT).stdout.splitlines()
    assert lines[0] == "Brokers"
    assert [line.split() for line in lines if "9931" in line] == [
        ["billing", "orders", "0", "1", "kafka-a.example:9092", "9931", "billing_app1-1346868000123-0a1b2c3d", "1"]
    ]
    assert ["orders", "1", "kafka-b.example:9093", "1"] in [line.split() for line in lines]
    assert any(line.startswith("Partitions") and "byte position" in line for line in lines)
    assert any("/zookeeper/quota" in line for line in lines)  # unknown nodes are kept


def test_what_is_odd_is_noted_with_its_line_and_the_rest_is_shown(odd: str) -> None:
    out = invoke(odd).stdout
    assert "17" in out
    assert "\x1b" not in out
    notes = [line.split("  ")[1] for line in out[out.index("Notes") :].splitlines()[2:]]
    assert notes == ["line 6", "line 2"]
    assert "nonsense\\x1b[2J" in out
    assert "/controller" in out


def test_programs_get_the_sections_and_the_notes(odd: str) -> None:
    whole = json.loads(invoke(odd, "--format", "json").stdout)
    assert list(whole) == ["brokers", "topics", "consumers", "partitions", "other", "notes"]
    assert whole["partitions"] == [
        {
            "group": "g",
            "topic": "t",
            "broker": 0,
            "partition": 0,
            "endpoint": "kafka-a:9092",
            "offset": 17,
            "consumer": None,
            "thread": None,
        }
    ]
    assert whole["other"] == [{"path": "/controller", "value": "=1+1"}]
    assert [note["place"] for note in whole["notes"]] == ["line 6", "line 2"]
    lines = [json.loads(line) for line in invoke(odd, "--format", "ndjson").stdout.splitlines()]
    assert [line["section"] for line in lines] == ["brokers", "topics", "partitions", "other", "notes", "notes"]


def test_a_section_is_chosen_by_name_and_is_a_table_for_spreadsheets(odd: str) -> None:
    result = invoke(odd, "--format", "csv", "--by", "other")
    assert list(csv.DictReader(io.StringIO(result.stdout))) == [{"path": "/controller", "value": "'=1+1"}]
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["line 6", "line 2"]  # notes are not lost
    assert invoke(odd, "--format", "csv", "--by", "other", "-q").stderr == ""
    assert invoke(odd, "--by", "topics,brokers", "-q").stdout.splitlines()[0] == "Brokers"


def test_lists_are_cut_on_request(tmp_path: Path) -> None:
    path = tmp_path / "many"
    path.write_text("".join(f"/brokers/ids/{number}\tc:host-{number}:9092\n" for number in range(30)))
    assert "and 20 more brokers" in invoke(path).stdout
    assert "and 28 more brokers" in invoke(path, "--limit", "2").stdout
    assert len(json.loads(invoke(path, "--format", "json").stdout)["brokers"]) == 30


def test_a_broker_of_number_0_and_its_partitions_are_columns_like_others(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_text("/brokers/ids/0\tc:h:9092\n/consumers/g/offsets/t/0-0\t0\n")
    assert ["g", "t", "0", "0", "h:9092", "0", "-", "-"] in [line.split() for line in invoke(path).stdout.splitlines()]


def test_of_many_notes_beside_a_table_the_first_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_text("/brokers/ids/0\tc:h:9092\n" + "what\n" * 100)
    printed = invoke(path, "--format", "csv", "--by", "brokers").stderr.splitlines()
    assert len(printed) == 11
    assert printed[-1] == "pulsarscope: 90 more notes (--by notes shows them)"


def test_a_damaged_dump_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(SNAPSHOT.read_bytes()[:2000])
    out = invoke(path, code=4).stdout
    assert "733" in out
    assert "cut or damaged" in out


def test_it_goes_to_a_file_which_is_not_the_dump(odd: str, tmp_path: Path) -> None:
    assert invoke(odd, "-o", tmp_path / "out.txt").stdout == ""
    assert "kafka-a:9092" in (tmp_path / "out.txt").read_text()
    assert isinstance(invoke(odd, "-o", odd, code=1).exception, UsageError)
    assert Path(odd).read_text() == ODD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["odd.tsv", "out.txt"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("nowhere",), CaptureError, "cannot be read"),
        ((SNAPSHOT, "--by", "broker"), UsageError, "did you mean brokers"),
        ((SNAPSHOT, "--by", ","), UsageError, "--by is empty"),
        ((SNAPSHOT, "--format", "csv"), UsageError, "choose one with --by"),
    ],
)
def test_wrong_usage_is_reported(arguments: tuple[str | Path, ...], error: type[Exception], words: str) -> None:
    exception = invoke(*arguments, code=1).exception
    assert isinstance(exception, error)
    assert words in str(exception)


def test_standard_input_is_a_dump_too() -> None:
    result = CliRunner().invoke(app, ["registry", "-", "--by", "brokers"], input="/brokers/ids/7\tc:h:1\n")
    assert "h:1" in result.stdout


def test_the_readme_shows_what_comes_out() -> None:
    (shown,) = re.findall(
        r"\$ pulsarscope registry tests/inputs/dumps/\S+ (--by \S+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    result = CliRunner().invoke(app, ["registry", str(SNAPSHOT), *shown[0].split()], env={"COLUMNS": None})
    assert result.stdout == shown[1]
