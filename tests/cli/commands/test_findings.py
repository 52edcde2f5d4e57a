from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.commands.findings import LayerName, SeverityName
from pulsarscope.dissect.plugins.finding_catalogue import finding_entries
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import LAYERS, SEVERITIES
from pulsarscope.model.thresholds import VERDICT_THRESHOLDS
from pulsarscope.protocols import make_dissectors

KNOWN = finding_entries(make_dissectors())


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["findings", *arguments], catch_exceptions=False, env={"COLUMNS": "100"})
    assert result.exit_code == 0
    return result.output


def test_all_codes_are_listed_with_severity_and_meaning_by_layer() -> None:
    text, _, limits = output().partition("\nlimits of the verdict")
    assert [*re.findall(r"^  (\S+)=", limits, re.MULTILINE)] == [threshold.name for threshold in VERDICT_THRESHOLDS]
    lines = text.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "] == [*KNOWN]
    assert {line for line in lines if line and not line.startswith(" ")} == {entry.layer for entry in KNOWN.values()}
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("arguments", "keeps"),
    [
        (["--layer", "tls"], lambda entry: entry.layer == "tls"),
        (["--severity", "error"], lambda entry: entry.severity == "error"),
        (["--layer", "tcp", "--severity", "note"], lambda entry: (entry.layer, entry.severity) == ("tcp", "note")),
    ],
)
def test_the_list_can_be_narrowed(arguments: list[str], keeps: Callable[[object], bool]) -> None:
    records = json.loads(output(*arguments, "-f", "json"))
    assert [record["code"] for record in records] == [entry.code for entry in KNOWN.values() if keeps(entry)]


def test_every_layer_and_severity_can_be_named() -> None:
    assert (LayerName.__args__, SeverityName.__args__) == (LAYERS, SEVERITIES)  # type: ignore[attr-defined]


def test_one_is_explained_with_advice_limits_and_example() -> None:
    text = " ".join(output("consumer-starved").split())
    for part in ("warning consumer-starved layer session", "Try: Look at the application", "consumer-starved-closed-seconds=5 (s): "):
        assert part in text
    assert text.endswith("example pulsarscope diagnose FILE -Y 'code == \"consumer-starved\"' --threshold consumer-starved-seconds=15")


def test_protocols_with_words_of_their_own_have_them_each() -> None:
    text = output("produce-lost") + output("slow-exchange")
    assert "pulsar: A request was answered late." in text
    assert "kafka07: A request was answered late." in text
    (record,) = json.loads(output("slow-exchange", "-f", "json"))
    assert [wording["protocols"] for wording in record["wordings"]] == [["pulsar"], ["kafka07"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["consumer-starve"], 'unknown finding "consumer-starve"; did you mean consumer-starved?'),
        (["CONSUMER_STARVED"], 'unknown finding "CONSUMER_STARVED"; did you mean consumer-starved?'),
        (["stuck"], 'unknown finding "stuck"; did you mean chunk-stuck or partition-stuck?'),
        (["consumer"], 'unknown finding "consumer"; did you mean consumer-busy?'),
        (["x\x1b[31m"], 'unknown finding "x\\x1b[31m"; pulsarscope findings lists them'),
        (["consumer-starved", "--layer", "tcp"], "no finding is of this code, layer and severity"),
    ],
)
def test_an_unknown_one_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(app, ["findings", *arguments], catch_exceptions=False)
    assert str(refused.value) == message
    assert refused.value.exit_code == 2
