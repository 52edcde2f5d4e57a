"""Rules keep no rows, because outputs change them: NDJSON puts text in the place of a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pulsarscope.engine.local import run
from pulsarscope.model.records import FindingRow
from tests.places import CAPTURES
from tests.scenarios import write_pcap
from tests.scenarios.both_readers import KINDS_IN_COLUMNS, blocks_of, installed_reader
from tests.scenarios.commands import created, lookup, lookup_response, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.options import Options

SMALL = sorted(path.name for path in CAPTURES.glob("*.pcap*") if path.stat().st_size < 300_000)


def findings_in_blocks(path: Path, *, changes: bool) -> list[tuple[str | None, str | None]]:
    """The findings of a capture that is read in small blocks; with `changes`, the rows of each block are changed once it is complete."""
    found: list[tuple[str | None, str | None]] = []
    with blocks_of(4_000), installed_reader("off"):
        for batch in run([str(path)], Options(frozenset(KINDS_IN_COLUMNS), rules=True)):
            found += [(row.code, row.text) for row in batch.rows if isinstance(row, FindingRow)]
            for row in batch.rows if changes else ():
                row.time = "text"
    return found


def slow_publish() -> Conversation:
    talk = connected().client(producer()).server(created())
    for number in range(12):
        talk.client(send(sequence_id=number)).wait(1_500 * MILLISECOND).server(receipt(sequence_id=number, entry=number))
    return talk


def slow_subscribe() -> Conversation:
    return connected().client(subscribe(1, request=5)).wait(20 * SECOND).server(success(5))


@pytest.mark.parametrize(("begin", "code"), [(slow_publish, "slow-publish"), (slow_subscribe, "slow-exchange")])
def test_what_is_decided_later_needs_no_row(tmp_path: Path, begin: Callable[[], Conversation], code: str) -> None:
    talk = begin()
    for number in range(200, 300):  # in later blocks
        talk.wait(100 * MILLISECOND).client(lookup(number)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", number))
    path = write_pcap(tmp_path / "capture.pcap", talk.close().packets)
    found = findings_in_blocks(path, changes=True)
    assert code in {code for code, _ in found}
    assert found == findings_in_blocks(path, changes=False)


@pytest.mark.parametrize("name", SMALL)
def test_no_finding_of_a_capture_changes_with_the_rows(name: str) -> None:
    assert findings_in_blocks(CAPTURES / name, changes=True) == findings_in_blocks(CAPTURES / name, changes=False)
