"""A verdict does not depend on the ends of blocks: rules know a gap from the packet that shows it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.engine.expected_findings import ExpectedFindings, Located
from pulsarscope.engine.options import Options
from pulsarscope.engine.parallel import driver, run
from pulsarscope.model.findings import SESSION, TCP_CODES
from pulsarscope.model.limits import STREAM_FINDINGS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, finding_row
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.scenarios.both_readers import blocks_of, reader, rows_of
from tests.scenarios.capture_bytes import Pcapng
from tests.scenarios.capturefile import Packet, write_pcap
from tests.scenarios.commands import PING, PONG, created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.dialogue import dissector_with
from tests.scenarios.inside import Inside


class Knowing(ConnectionRule):
    """A rule that reports what is known of lost bytes at each frame and at the end."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context

    def _tell(self, row: FrameRow) -> None:
        self._say(where_of(row))

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        self._say(last)

    def _say(self, where: Where) -> None:
        gaps = len(self._context.reported("stream-gap"))
        self._context.report("known", where, f"{where.name} {self._context.lost} {gaps}", {})

    frames: ClassVar[Handlers] = {"*": _tell}


def located(connection: str, order: int) -> Located:
    return Located(connection, finding_row(TCP_CODES["stream-gap"].at(str(order), {}), None), order)


def test_findings_are_known_from_their_order_on() -> None:
    expected = ExpectedFindings()
    for found in (located("a", 3), located("a", 5), located("b", 4), located("a", 5)):
        expected.add(found)
    assert [row.text for row, _ in expected.due("a", 2)] == []
    assert [row.text for row, _ in expected.due("a", 4)] == ["3"]
    assert "a" in expected
    assert [row.text for row, _ in expected.due("a", 5)] == ["5", "5"]
    assert "a" not in expected
    assert [row.text for row, _ in expected.rest()] == ["4"]
    assert expected.rest() == []


def test_an_ended_connection_expects_nothing() -> None:
    expected = ExpectedFindings()
    expected.add(located("a", 3))
    expected.drop("a")
    assert "a" not in expected
    assert expected.due("a", 9) == expected.rest() == []


def with_drops(packets: list[Packet], drops: int) -> bytes:
    """A capture that states at its end that it lacks packets."""
    made = Pcapng("<")
    each = (made.packet(packet.data, ticks=packet.time_ns // 1000) for packet in packets)
    return made.section() + made.interface() + b"".join(each) + made.statistics(made.count(5, drops))


CODES = {"known": SESSION.note("known", "A frame.", "Nothing.")}


def make_knowing(*, show_secrets: bool = False) -> tuple[PulsarDissector]:  # noqa: ARG001 - as others are called
    return (dissector_with(Rules(CODES, (Knowing,)), "pulsar"),)


def known(paths: list[Path], jobs: int = 1, *, columns: bool = False) -> list[str]:
    """The reports of the rule, in the order of frames."""
    kinds = frozenset({"finding", "connection"})
    options = Options(kinds, rules=True, columns=columns, dissectors=make_knowing)
    rows = [row for batch in run([*map(str, paths)], options, jobs) for row in rows_of(batch.rows)]
    return sorted(row.text or "" for row in rows if isinstance(row, FindingRow) and row.code == "known")


def cut(packets: list[Packet], size: int, chosen: Callable[[int], bool]) -> list[Packet]:
    """The packets, some of them without the bytes that follow the first `size`."""
    made = enumerate(packets)
    return [packet._replace(data=packet.data[:size], wire_bytes=len(packet.data)) if chosen(at) else packet for at, packet in made]


def talk(seed: int) -> list[Packet]:
    """Two connections that publish, with packets missing in the capture; one may end before its capture does."""
    random = Random(seed)  # noqa: S311 - repeatable
    packets: list[Packet] = []
    for port in (41000, 42000):
        made = connected(port).client(producer(1, "p", 2)).server(created("p", 2))
        for number in range(random.randint(10, 60)):
            if random.random() < 0.06:
                made.lose(random.choice(("client", "server")), 50)
            made.client(send(1, number)).server(receipt(1, number, entry=number))
        if random.random() < 0.5:
            made.close()
        packets += made.packets[5 * (random.random() < 0.3) :]
    if random.random() < 0.5:
        packets = cut(packets, random.randint(60, 120), lambda _: random.random() < 0.1)
    return sorted(packets, key=lambda packet: packet.time_ns)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_what_is_known_does_not_depend_on_where_blocks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    if seed:  # starting real processes takes most of the time
        monkeypatch.setattr(driver, "Process", Inside)
    path = write_pcap(tmp_path / "a.pcap", talk(seed))
    with reader("off"):
        expected = known([path])
    assert any(" True " in text for text in expected)
    for choice in ("off", "require") if find_spec("pulsarscope_native") else ("off",):
        for size in (256, 1024, 4096, None):
            with reader(choice), blocks_of(size):
                assert known([path], columns=choice == "require") == expected, (choice, size)
    with blocks_of(1024):
        assert known([path], jobs=2) == expected


def test_a_gap_is_not_known_before_it(tmp_path: Path) -> None:
    made = connected(41000).client(PING).server(PONG).lose("server", 50)
    for _ in range(300):
        made.client(PING).server(PONG)
    before, *_, after = known([write_pcap(tmp_path / "a.pcap", made.packets)])
    found = known([write_pcap(tmp_path / "a.pcap", made.packets)])
    assert " False 0" in before
    assert " True 1" in after
    assert {text.partition(" ")[2] for text in found} == {"False 0", "True 1"}


@pytest.mark.parametrize("choice", ["off", "require"] if find_spec("pulsarscope_native") else ["off"])
@pytest.mark.parametrize(("cuts", "size"), [(1, 54), (1, 60), (3, 57), (25, 60), (40, 60)])
def test_what_the_snap_length_cuts_is_known_from_its_packet_on(tmp_path: Path, choice: str, cuts: int, size: int) -> None:
    made = connected(41000)
    for _ in range(100):
        made.client(PING).server(PONG)
    asked = [at for at, packet in enumerate(made.packets) if PING in packet.data][20 : 20 + cuts]
    path = write_pcap(tmp_path / "a.pcap", cut(made.packets, size, lambda at: at in asked))
    with reader(choice):
        found = dict(text.split(" ", 1) for text in known([path], columns=choice == "require"))
        rows = [
            row for batch in run([str(path)], Options(frozenset({"finding"}), dissectors=make_knowing), 1) for row in rows_of(batch.rows)
        ]
    told = [found.get(f"0:{at + 2}.1") for at in asked]  # by the answer
    assert told == [f"True {min(number, STREAM_FINDINGS_MAX)}" for number in range(1, cuts + 1)]
    assert found[f"0:{asked[0]}.1"] == "False 0"
    gaps = [row for row in rows if row.code == "stream-gap"]
    assert [(row.evidence or {}).get("count") for row in gaps] == [cuts]


@pytest.mark.parametrize("size", [None, 256])
def test_packets_that_a_whole_file_lacks_are_known_from_its_end_on(tmp_path: Path, size: int | None) -> None:
    made = connected(41000)
    for _ in range(20):
        made.client(PING).server(PONG)
    half = len(made.packets) // 2
    first, second = tmp_path / "1.pcapng", tmp_path / "2.pcapng"
    first.write_bytes(with_drops(made.packets[:half], 3))
    second.write_bytes(with_drops(made.packets[half:], 0))
    with blocks_of(size):
        found = known([first, second])
    assert {text.split(" ")[1] for text in found if text.startswith("0:")} == {"False"}
    assert {text.split(" ")[1] for text in found if text.startswith("1:")} == {"True"}
