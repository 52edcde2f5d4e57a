"""The Spark session of all tests that need Spark: its start takes longer than most of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.spark.sessions.java import choose
from pulsarscope.spark.sessions.spark_session import installed_version, missing_distributions, session

HEAP = "512m"
"""Heap of each Java process: several run beside other tests, and if memory is scarce, the kernel kills the largest process."""

SHORT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Java process that ends before its second compiler pays off, and lacks memory and cores for the server's collector."""

MASTER = "local[2]"
SETTINGS = {"spark.sql.shuffle.partitions": "2"}
"""Options of the session that tests share, and of each call that returns it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start Spark, and those that share its session; tests of its machines come last."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "can_run" in fixtures and item.get_closest_marker("kills") is None:
            item.add_marker(pytest.mark.cluster)
        if "spark" in fixtures:
            item.add_marker(pytest.mark.shared_session)
    items.sort(key=lambda item: "machines" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def can_run() -> None:
    """Skip tests of Spark if Spark or a Java for it is missing."""
    if missing := missing_distributions():
        pytest.skip(f"no {', '.join(missing)}: pip install -e '.[spark]'")
    try:
        choose(os.environ, installed_version("pyspark") or "")
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:  # noqa: ARG001 - it skips
    """Start a session on two cores of this machine."""
    folder: Path = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": SHORT_JAVA,
        **SETTINGS,
    }
    with session(MASTER, settings) as started:
        yield started
