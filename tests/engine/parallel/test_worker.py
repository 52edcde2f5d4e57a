"""The tasks of a worker process, and its loop."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from pulsarscope.capture import expand_inputs
from pulsarscope.engine.local import Run
from pulsarscope.engine.options import ALL_RECORDS
from pulsarscope.engine.parallel.channel import receive, send, unpack, unpack_keys
from pulsarscope.engine.parallel.worker import OUT_OF_MEMORY, Decode, Finished, Result
from pulsarscope.model.records import Row
from tests.places import CAPTURES
from tests.scenarios.hungry import Hungry
from tests.scenarios.options import Options

PATHS = [str(CAPTURES / name) for name in ("errors.pcap", "quickstart.pcapng")]
INPUTS = expand_inputs(PATHS)


class Counting:
    """An output that turns rows into their numbers of columns."""

    takes_columns = False

    def prepare(self, rows: list[Any]) -> list[int]:
        return [len(row.__struct_fields__) for row in rows]

    def join(self, prepared: list[int]) -> int:
        return len(prepared)


def results(count: int, options: Options, prepare: Counting | None = None) -> list[list[Result]]:
    """All results of each of `count` processes."""
    found = []
    for number in range(count):
        *some, end = Decode(INPUTS, options, number, count, prepare)()
        assert isinstance(end, Finished)
        found.append([result for result in some if isinstance(result, Result)])
    return found


def test_processes_have_the_same_parts_and_share_the_rows() -> None:
    options = Options(ALL_RECORDS)
    want = [row for batch in Run(INPUTS, options) for row in batch.rows]
    found = results(3, options)
    assert len({sum(result.ends for result in some) for some in found}) == 1
    assert sum(len(result.batch.rows) for some in found for result in some) == len(want)
    assert all(len(unpack_keys(result.keys)) == len(result.batch.rows) for some in found for result in some)


def test_portions_add_up_to_the_counts_of_a_run() -> None:
    options = Options(frozenset({"frame"}))
    whole = Run(INPUTS, options)
    list(whole)
    found = [result for some in results(2, options) for result in some]
    assert sum(result.packets for result in found) == whole.packets
    assert sum(result.connections for result in found) == whole.connections
    assert sum((result.severities for result in found), Counter[str]()) == whole.severities


def test_a_portion_has_the_words_for_the_connections_that_its_rows_name() -> None:
    run = Run(INPUTS, Options())
    want = {row.connection: run.endpoints[str(row.connection)] for batch in run for row in batch.rows if isinstance(row, Row)}
    found = [result for some in results(2, Options()) for result in some]
    assert {name: ends for result in found for name, ends in result.endpoints.items()} == want
    assert dict.fromkeys(want, "pulsar") == {name: word for result in found for name, word in result.dissector_of.items()}


def test_rows_that_are_prepared_stay() -> None:
    found = [result for some in results(2, Options(), Counting()) for result in some]
    assert all(result.batch.rows == [] for result in found)
    assert all(len(result.batch.prepared) == len(unpack_keys(result.keys)) for result in found)
    assert sum(len(result.batch.prepared) for result in found) > 100


def serve(*tasks: object) -> subprocess.CompletedProcess[bytes]:
    pipe = io.BytesIO()
    for task in tasks:
        send(pipe, task)
    command = [sys.executable, "-c", "from pulsarscope.engine.parallel.worker import serve; serve()"]
    return subprocess.run(command, input=pipe.getvalue(), capture_output=True, timeout=60, check=False)


@pytest.mark.slow
def test_tasks_are_carried_out_until_none_follows() -> None:
    tasks = [Decode(INPUTS, Options(), number, 2, Counting()) for number in (0, 1)]
    result = serve(*tasks)
    assert (result.returncode, result.stderr) == (0, b"")
    answers = io.BytesIO(result.stdout)
    assert [unpack(data) for data in iter(lambda: receive(answers), None)] == [answer for task in tasks for answer in task()]


class Chatty:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("from some library",)


def test_want_of_memory_is_an_exit_code() -> None:
    result = serve(Hungry())
    assert (result.returncode, result.stdout, result.stderr) == (OUT_OF_MEMORY, b"", b"")


def test_what_a_library_prints_does_not_get_among_the_answers() -> None:
    result = serve(Chatty())
    assert b"from some library" not in result.stdout
    assert b"from some library" in result.stderr


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_nobody_asking_is_the_end(data: bytes) -> None:
    command = [sys.executable, "-c", "from pulsarscope.engine.parallel.worker import serve; serve()"]
    result = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
