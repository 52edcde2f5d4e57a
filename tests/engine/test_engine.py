"""The engine block by block: a run may stop after any block, and continue in another process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest

from pulsarscope.capture import BlockReader, expand_inputs
from pulsarscope.dissect.contract.rules import RuleFact
from pulsarscope.engine import options, resting_connections
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.options import ALL_RECORDS
from pulsarscope.engine.row_batch import RowBatch
from pulsarscope.model.errors import UsageError
from tests.places import CAPTURES
from tests.scenarios.options import Options

NAMES = [
    *sorted(path.name for path in CAPTURES.glob("*.pcap") if path.stat().st_size < 100_000),
    "bookkeeper/raw.pcap.zst",
    "bookkeeper/v2.pcap.zst",
]
OPTIONS = Options(ALL_RECORDS, rules=True)


def lines(batches: Iterable[RowBatch]) -> list[bytes]:
    return [msgspec.json.encode(row) for batch in batches for row in batch.rows]


def decoded(name: str, interrupt: Callable[[Engine, Callable[[], Engine]], Engine]) -> tuple[list[bytes], list[Any]]:
    """Rows and facts of a capture in small blocks, with an action on the engine after each."""
    path = str(CAPTURES / name)
    inputs = expand_inputs([path])
    facts: list[RuleFact] = []

    def make() -> Engine:
        return Engine(inputs, OPTIONS, emit_fact=lambda rule, key, fact: facts.append((rule, key, fact)))

    def rows() -> Iterator[bytes]:
        engine = make()
        for block in BlockReader(path, 0, read_bytes=4_096):
            yield from lines(engine.feed(block))
            engine = interrupt(engine, make)
        yield from lines(engine.end())
        yield from lines(engine.finish())

    return list(rows()), facts


def go_on_elsewhere(engine: Engine, make: Callable[[], Engine]) -> Engine:
    other = make()
    other.restore(engine.snapshot())
    return other


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_behind_every_block_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting_connections, "RESTING_LEAST", 1)
    assert decoded(name, go_on_elsewhere) == decoded(name, lambda engine, _: engine)


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_engine_whose_state_was_taken_is_empty(*, is_taken: bool) -> None:
    path = str(CAPTURES / "errors.pcap")
    engine = Engine(expand_inputs([path]), OPTIONS)
    for block in BlockReader(path, 0):
        lines(engine.feed(block))
    if is_taken:
        engine.snapshot()
    assert bool(lines(engine.end())) is not is_taken


def test_a_run_without_dissectors_is_refused() -> None:
    with pytest.raises(UsageError, match="a run needs a dissector"):
        Engine(expand_inputs([str(CAPTURES / "errors.pcap")]), options.Options())
