"""Table formats of other projects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.errors import UsageError

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from pulsarscope.spark.jobs import job as run
from pulsarscope.spark.jobs import lakes
from tests.places import DOCS
from tests.spark.inside import EVERYTHING


@pytest.mark.parametrize("table_format", sorted(lakes.NEEDS))
def test_a_format_that_is_not_there_is_refused_before_any_capture_is_looked_at(spark: Any, tmp_path: Path, table_format: str) -> None:
    out = tmp_path / "out"
    steps: list[str] = []
    with pytest.raises(UsageError, match=f"not set up for {table_format}: .*--conf spark.jars.packages=") as refused:
        run.run(spark, [str(tmp_path / "no capture")], str(out), EVERYTHING, table_format, show_step=steps.append)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    assert (steps, out.exists()) == ([], False)


@pytest.mark.parametrize("table_format", sorted(lakes.NEEDS))
def test_what_to_add_is_what_the_docs_say(table_format: str) -> None:
    docs = (DOCS / "spark.md").read_text()
    assert all(f"--conf {setting}" in docs for setting in lakes.NEEDS[table_format])
