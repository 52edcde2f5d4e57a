from __future__ import annotations

import gc
import io
import subprocess
import sys
from collections import Counter

import pytest

from pulsarscope.capture import expand_inputs
from pulsarscope.engine.local import ALL_RECORDS, Batch, Ending, Options, Run
from pulsarscope.engine.parallel.channel import receive, send, unpack
from pulsarscope.engine.parallel.plan import survey
from pulsarscope.engine.parallel.worker import OUT_OF_MEMORY, Decode, LikeMe, LookThrough
from pulsarscope.model.records import Row
from tests.places import CAPTURES

PATHS = [str(CAPTURES / name) for name in ("errors.pcap", "quickstart.pcapng")]


def test_flows_are_looked_for_file_by_file() -> None:
    assert list(LookThrough(PATHS)()) == [survey(path) for path in PATHS]


def test_decoding_some_files_gives_their_batches_and_an_ending_after_each_of_all() -> None:
    inputs = expand_inputs(PATHS)
    portions = list(Decode(inputs, Options(ALL_RECORDS), [1], None)())
    kinds = [type(portion.part) for portion in portions]
    assert kinds[0] is kinds[-1] is Ending
    assert kinds.count(Ending) == 2
    assert {portion.part.file for portion in portions if isinstance(portion.part, Batch)} == {1}


def test_portions_add_up_to_the_counts_of_a_run() -> None:
    inputs = expand_inputs(PATHS)
    options = Options(frozenset({"frame"}))
    whole = Run(inputs, options)
    list(whole)
    portions = list(Decode(inputs, options, [0, 1], None)())
    assert sum(portion.packets for portion in portions) == whole.packets
    assert sum(portion.connections for portion in portions) == whole.connections
    assert sum((portion.severities for portion in portions), Counter[str]()) == whole.severities


def test_a_portion_has_the_words_for_the_connections_that_its_rows_name() -> None:
    run = Run(expand_inputs(PATHS), Options())
    want = {row.connection: run.endpoints[str(row.connection)] for batch in run for row in batch.rows if isinstance(row, Row)}
    portions = list(Decode(expand_inputs(PATHS), Options(), [0, 1], None)())
    have = {name: ends for portion in portions for name, ends in portion.endpoints.items()}
    assert have == want
    assert dict.fromkeys(want, "pulsar") == {name: word for portion in portions for name, word in portion.dissector_of.items()}


def test_rows_that_are_prepared_stay() -> None:
    portions = list(Decode(expand_inputs(PATHS), Options(), [0, 1], len)())
    batches = [portion.part for portion in portions if isinstance(portion.part, Batch)]
    assert [batch.rows for batch in batches] == [[]] * len(batches)
    assert sum(batch.prepared for batch in batches) > 100


def test_the_collector_is_set_as_in_the_process_that_asks() -> None:
    before = gc.get_threshold()
    try:
        assert list(LikeMe((123_456, 5, 6))()) == []
        assert gc.get_threshold()[:2] == (123_456, 5)
    finally:
        gc.set_threshold(*before)


def serve(*tasks: object) -> subprocess.CompletedProcess[bytes]:
    pipe = io.BytesIO()
    for task in tasks:
        send(pipe, task)
    command = [sys.executable, "-c", "from pulsarscope.engine.parallel.worker import serve; serve()"]
    return subprocess.run(command, input=pipe.getvalue(), capture_output=True, timeout=60, check=False)


def test_tasks_are_carried_out_until_none_follows() -> None:
    result = serve(LikeMe(gc.get_threshold()), LookThrough(PATHS[:1]), LookThrough(PATHS[1:]))
    assert (result.returncode, result.stderr) == (0, b"")
    answers = io.BytesIO(result.stdout)
    assert [unpack(data) for data in iter(lambda: receive(answers), None)] == [survey(path) for path in PATHS]


class Hungry:
    def __reduce__(self) -> tuple[object, ...]:
        return bytearray, (1 << 62,)


class Chatty:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("from some library",)


def test_want_of_memory_is_an_exit_code() -> None:
    result = serve(Hungry())
    assert (result.returncode, result.stdout, result.stderr) == (OUT_OF_MEMORY, b"", b"")


def test_what_a_library_prints_does_not_get_among_the_answers() -> None:
    result = serve(Chatty())
    assert result.stdout == b""
    assert b"from some library" in result.stderr


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_nobody_asking_is_the_end(data: bytes) -> None:
    command = [sys.executable, "-c", "from pulsarscope.engine.parallel.worker import serve; serve()"]
    result = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
