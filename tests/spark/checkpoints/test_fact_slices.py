"""Facts of a stream that wait in files: which ones an evaluation reads, and which it leaves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.dissect.contract.legs import ANCHOR
from pulsarscope.dissect.contract.rules import Fact, RuleFact, Where
from pulsarscope.engine import packed_facts
from pulsarscope.engine.flows import fact_rules, settled_before
from pulsarscope.spark.checkpoints import fact_slices
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.checkpoints.fact_slices import evaluated, facts_of, read_slice, written
from pulsarscope.spark.checkpoints.waiting_facts import ANCHORS, SLICES, of_task
from tests.spark.inside import BY_DEFAULT, EVERYTHING

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
DAY = 24 * 3_600 * SECOND
JOURNEYS, CLIENTS, LEGS = "pulsar:journey", "pulsar:clients-of-topic", f"pulsar:{ANCHOR}"
Rows = dict[tuple[str, str], int]


def fact(time: int, packet: int = 1, **values: Any) -> Fact:
    return Fact(Where(None, 0, packet, 0, time, "c"), "delivered", values)


def kept(tmp_path: Path) -> Checkpoint:
    made = Checkpoint(str(tmp_path / "kept"))
    made.create({})
    return made


def append(checkpoint: Checkpoint, share: int, facts: list[RuleFact]) -> None:
    with written(checkpoint, of_task(1, share), fact_rules(BY_DEFAULT)) as writer:
        for each in facts:
            writer.add(*each)


def slices(checkpoint: Checkpoint, names: list[str]) -> list[tuple[int, Any]]:
    return [(number, read_slice(checkpoint, names, number)) for number in range(SLICES)]


@pytest.mark.parametrize("tail", [16, fact_slices.TAIL_BYTES])
@pytest.mark.parametrize("part", [1, 5_000, fact_slices.PART_BYTES])
def test_facts_come_back_by_key_in_the_order_of_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, tail: int) -> None:
    monkeypatch.setattr(fact_slices, "PART_BYTES", part)
    monkeypatch.setattr(fact_slices, "TAIL_BYTES", tail)
    checkpoint = kept(tmp_path)
    made = [(CLIENTS, f"topic {number % 40}", fact(START, number)) for number in range(200)]
    append(checkpoint, 0, [*made[100:], (LEGS, "a", fact(START, 7))])
    append(checkpoint, 1, [*made[:100], (LEGS, "a", fact(START, 8))])
    names = [of_task(1, 0), of_task(1, 1)]
    found: dict[str, list[int]] = {}
    for _, rows in slices(checkpoint, names):
        for _, key, each in facts_of(rows.sort_by("subject")):
            found.setdefault(key, []).append(each.where.packet)
    assert found == {f"topic {number}": [*range(number, 200, 40)] for number in range(40)}
    assert [each.where.packet for _, _, each in facts_of(read_slice(checkpoint, names, ANCHORS))] == [7, 8]


def test_files_are_opened_once_for_their_places_and_then_for_slices_of_which_they_have_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = kept(tmp_path)
    append(checkpoint, 0, [(CLIENTS, "topic", fact(START))])
    append(checkpoint, 1, [(CLIENTS, f"topic {number}", fact(START)) for number in range(30)])
    names = [of_task(1, 0), of_task(1, 1)]
    want = slices(checkpoint, names)
    filled = [sum(rows.num_rows > 0 for _, rows in slices(checkpoint, [name])) for name in names]
    opened: list[str] = []
    by_name = Checkpoint.opened

    def counted(self: Checkpoint, name: str) -> Any:
        opened.append(name)
        return by_name(self, name)

    monkeypatch.setattr(Checkpoint, "opened", counted)
    places: dict[str, bytes] = {}
    found = [(number, read_slice(checkpoint, names, number, places)) for number in range(SLICES)]
    assert [(number, rows.to_pylist()) for number, rows in found] == [(number, rows.to_pylist()) for number, rows in want]
    assert [opened.count(f"facts/{name}") for name in names] == [1 + slices_of_file for slices_of_file in filled]


def after(checkpoint: Checkpoint, newest: int | None, options: Any = BY_DEFAULT) -> tuple[Rows, int]:
    """Return the number of facts of each key that an evaluation leaves, and the number that it unpacked."""
    rules, looked = fact_rules(options), 0

    def counted(packs: bytes | bytearray, count: int = 1) -> list[Fact]:
        nonlocal looked
        looked += count
        return packed_facts.unpack(packs, count)

    with pytest.MonkeyPatch.context() as patch, written(checkpoint, "000000002-left-000", rules) as writer:
        patch.setattr(fact_slices, "unpack", counted)
        assert {row.kind for row in evaluated(slices(checkpoint, [of_task(1, 0)]), writer, options, newest, [])} <= {"finding"}
    left: Rows = {}
    for _, rows in slices(checkpoint, ["000000002-left-000"]):
        for row in rows.to_pylist():
            rule, key = row["subject"].split("\n")
            left[rule, key] = left.get((rule, key), 0) + row["count"]
    return left, looked


def test_facts_that_wait_are_not_looked_at(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path)
    append(checkpoint, 0, [(rule, f"{number}", fact(START)) for rule in (JOURNEYS, CLIENTS) for number in range(300)])
    assert after(checkpoint, START + 60 * SECOND) == ({(rule, f"{n}"): 1 for rule in (JOURNEYS, CLIENTS) for n in range(300)}, 0)


def test_keys_that_bring_no_finding_go_without_a_look(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path)
    append(checkpoint, 0, [(JOURNEYS, f"{number}", fact(START)) for number in range(300)])
    assert after(checkpoint, START + DAY) == after(checkpoint, None) == ({}, 0)
    assert after(checkpoint, None, EVERYTHING)[1] == 300  # their journeys are requested


def test_a_key_with_one_fact_that_decides_is_evaluated(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path)
    others = [(JOURNEYS, f"{number}", fact(START)) for number in range(300)]
    append(checkpoint, 0, [*others, (JOURNEYS, "7", fact(START, checksum="bad"))])
    assert after(checkpoint, START + 60 * SECOND)[1] == 0
    assert after(checkpoint, None)[1] == 2


@pytest.mark.parametrize(("late", "left"), [(-1, {}), (0, {(CLIENTS, "t"): 1}), (3_600 * SECOND, {(CLIENTS, "t"): 1})])
def test_a_fact_waits_as_long_as_another_may_come(tmp_path: Path, late: int, left: Rows) -> None:
    checkpoint = kept(tmp_path)
    newest = START + 30 * DAY
    time = settled_before(fact_rules(BY_DEFAULT).idle_ns(CLIENTS), newest) + late
    append(checkpoint, 0, [(CLIENTS, "t", fact(time))])
    assert after(checkpoint, newest)[0] == left


def test_of_a_key_with_both_only_what_may_go_on_is_left(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path)
    newest = START + 30 * DAY
    append(checkpoint, 0, [(CLIENTS, "t", fact(START, 1)), (CLIENTS, "t", fact(newest, 2)), (CLIENTS, "t", fact(newest, 3))])
    assert after(checkpoint, newest) == ({(CLIENTS, "t"): 2}, 3)


def test_of_very_many_facts_of_a_key_the_first_and_the_last_ones_are_left(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path)
    append(checkpoint, 0, [(CLIENTS, "t", fact(START + number, number)) for number in range(50_000)])
    left, looked = after(checkpoint, START + 60 * SECOND)
    assert left[CLIENTS, "t"] < 4_000
    assert looked < 8_000


def test_what_an_attempt_wrote_that_failed_is_nowhere(tmp_path: Path) -> None:
    checkpoint = kept(tmp_path)
    with suppress(RuntimeError), written(checkpoint, of_task(1, 0), fact_rules(BY_DEFAULT)) as writer:
        writer.add(CLIENTS, "t", fact(START))
        raise RuntimeError
    assert [path.name[0] for path in (tmp_path / "kept" / "facts").iterdir()] == ["_"]
    checkpoint.last_commit()
    assert [*(tmp_path / "kept" / "facts").iterdir()] == []
