"""The check of the requirements of the pipeline."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping

from pulsarscope.model.errors import PulsarscopeError, UsageError
from pulsarscope.model.platform import install_command
from pulsarscope.spark.sessions.cluster import is_address
from pulsarscope.spark.sessions.java import choose
from pulsarscope.spark.sessions.spark_session import installed_version, session, wheels

CHECKED_ROWS = 10


def checks(master: str | None, settings: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    """Yield True or False for each requirement, with a text. The last one is a small job, which is only run if the others are met."""
    yield True, f"Python {platform.python_version()} ({sys.executable})"
    ready = True
    remote = is_address(master)
    for name, since in wheels(master).items():
        version = installed_version(name)
        ready = ready and version is not None
        missing = f"{name} {since} or newer: {install_command('connect' if remote else 'spark')}"
        yield version is not None, f"{name} {version}" if version else missing
    if not ready:
        return
    if not remote:
        try:
            java = choose(os.environ, installed_version("pyspark") or "")
        except UsageError as error:
            yield False, str(error)
            return
        yield True, f"Java {java.version}, {java.origin} ({java.home})"
    began = time.monotonic()
    try:
        with session(master, settings) as spark:
            rows = spark.range(CHECKED_ROWS).mapInArrow(_same, "id long").count()
    except PulsarscopeError as error:
        yield False, str(error)
    else:
        yield rows == CHECKED_ROWS, f"a job on {master or 'this machine'}, in {time.monotonic() - began:.1f} s"


def _same(batches: Iterator[object]) -> Iterator[object]:
    return batches
