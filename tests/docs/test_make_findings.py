from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.make_findings import PAGE, BadInput, all_codes, bad_inputs, page
from pulsarscope.cli.arguments.application import app
from pulsarscope.dissect.plugins.finding_catalogue import FindingEntry
from pulsarscope.model.findings import LIVE_CODES
from tests.docs import (
    test_bad_inputs_container,
    test_bad_inputs_frame,
    test_bad_inputs_network,
    test_bad_inputs_payload,
    test_bad_inputs_rendering,
    test_bad_inputs_tls,
)
from tests.scenarios.bad_inputs.cases import TESTED

MODULES = (
    test_bad_inputs_container,
    test_bad_inputs_frame,
    test_bad_inputs_network,
    test_bad_inputs_payload,
    test_bad_inputs_rendering,
    test_bad_inputs_tls,
)
"""Importing these modules fills TESTED."""

CODES = all_codes()
ROWS = bad_inputs()
TEXT = page()
LATER = ("Not decrypted yet", "Not made yet", "Cannot be")


def test_the_page_is_what_the_generator_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == TEXT, "run python docs/make_findings.py"


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_on_the_page_with_its_meaning(code: str) -> None:
    known = CODES[code]
    section = TEXT.partition(f"\n### {code}\n")[2].partition("\n#")[0].replace("&lt;", "<").replace("\\|", "|")
    assert f"**{known.severity}**" in section
    for wording in known.wordings:
        actor = f" *Who must act:* {wording.to_act}." if wording.to_act else ""
        assert f": {wording.meaning} *Try:* {wording.hint}{actor}\n" in section
    assert [line.split("`")[1] for line in section.splitlines() if line.startswith("- `")] == [limit.name for limit in known.thresholds]
    assert f"```\n{known.example}\n```" in section


@pytest.mark.slow
@pytest.mark.parametrize("entry", [entry for entry in CODES.values() if entry.code not in LIVE_CODES], ids=lambda entry: entry.code)
def test_every_example_runs(captures: Path, entry: FindingEntry) -> None:
    program, *arguments = shlex.split(entry.example.replace("FILE", str(captures / "errors.pcap")))
    result = CliRunner().invoke(app, [*arguments, "-f", "ndjson", "--fail-on", "never"])
    assert (program, result.exit_code) == ("pulsarscope", 0)
    assert all(f'"{entry.code}"' in line for line in result.output.splitlines())


def test_the_catalogue_is_whole_and_in_order() -> None:
    assert [row.number for row in ROWS] == list(range(1, 130))
    sections = [row.section for row in ROWS]
    assert len(set(sections)) == len([section for section, before in zip(sections, ["", *sections], strict=False) if section != before])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_every_row_names_codes_that_exist_and_says_what_happens(row: BadInput) -> None:
    assert set(row.codes) <= CODES.keys()
    assert set(row.exits) <= {0, 2, 3, 4, 5}
    assert row.input
    assert row.handling.endswith(".")
    assert row.exits or row.handling.startswith(LATER)
    damage = {"capture-truncated", "capture-malformed", "not-a-capture", "file-unreadable"}
    assert bool(damage & set(row.codes)) == bool({3, 4} & set(row.exits)) or row.number in {125, 129}


@pytest.mark.parametrize("row", [row for row in ROWS if row.exits], ids=lambda row: str(row.number))
def test_every_row_that_the_product_has_is_tested(row: BadInput) -> None:
    assert row.number in TESTED, MODULES
