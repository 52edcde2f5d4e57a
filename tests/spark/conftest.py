"""One Spark session for all tests that need Spark: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.spark.session import session

collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]
"""All else can be tested without it."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """On two cores of this machine."""
    folder: Path = tmp_path_factory.mktemp("spark")
    settings = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.driver.memory": "1g"}
    with session("local[2]", settings) as started:
        yield started
