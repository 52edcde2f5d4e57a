"""Both legs of paths through a proxy, and connections that carry the same without being legs."""

from __future__ import annotations

from itertools import product
from pathlib import Path as FilePath
from typing import Any

import pytest

from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.engine import parallel
from pulsarscope.model.ordered_rows import others
from pulsarscope.model.records import FindingRow, MessageRow
from tests.places import CAPTURES
from tests.scenarios.commands import ack, created, delivery, flow, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.legs import HOSTS, Path
from tests.scenarios.options import Options

CODE = "proxy-legs"
KINDS = frozenset({"frame", "message", "finding", "connection"})


def both(*paths: Path) -> list[Conversation]:
    return [leg for path in paths for leg in (path.outer, path.inner)]


def counted(path: FilePath, workers: int = 1) -> tuple[list[Any], list[Any]]:
    """All rows of a capture, and the counted ones."""
    once = CountedOnce()
    rows: list[Any] = []
    kept: list[Any] = []
    for batch in parallel.run([str(path)], Options(KINDS, rules=True, anchors=True), workers):
        rows += batch.rows
        kept += once.kept(batch.rows)
    return rows, kept + once.rest()


def messages(rows: list[Any]) -> list[MessageRow]:
    return [row for row in rows if isinstance(row, MessageRow)]


@pytest.mark.parametrize(
    ("hosts", "proxy", "delay", "role"), [*product(HOSTS, ("pulsar", "balancer"), (20_000, 30 * MILLISECOND), ("produce", "consume"))]
)
def test_legs_are_joined_and_counted_once(tmp_path: FilePath, hosts: str, proxy: str, delay: int, role: str) -> None:
    path = Path(hosts, proxy, delay=delay)
    getattr(path, role)(12).close()
    diagnosis = diagnose(tmp_path, *both(path))
    row, evidence = diagnosis.only(CODE)
    assert (row.severity, row.layer) == ("note", "session")
    client, ahead, _, broker = ("{}:{}".format(*end) for end in HOSTS[hosts])
    assert (evidence["client"], evidence["proxy"], evidence["broker"]) == (client, ahead, broker)
    begun, passed, *_ = evidence["frames"]
    first = "PRODUCER" if role == "produce" else "SUBSCRIBE"
    assert diagnosis.commands(row)[:2] == [first, first]
    assert [diagnosis.frames[begun].connection, diagnosis.frames[passed].connection] == evidence["connections"]
    assert evidence["forward"]["p50_ns"] == pytest.approx(delay, abs=5_000)
    assert diagnosis.codes == [CODE]
    rows, kept = counted(tmp_path / "conversations.pcap")
    assert (len(messages(rows)), len(messages(kept))) == (24, 12)
    assert {row.connection for row in messages(kept)} == {evidence["connections"][0]}


@pytest.mark.parametrize(("hosts", "role"), [*product(HOSTS, ("produce", "consume"))])
def test_legs_that_began_before_the_capture_are_joined(tmp_path: FilePath, hosts: str, role: str) -> None:
    path = Path(hosts, midstream=True)
    getattr(path, role)(40, opens=False)
    assert diagnose(tmp_path, *both(path)).codes == [CODE]
    _, kept = counted(tmp_path / "conversations.pcap")
    assert sorted((row.ledger, row.entry) for row in messages(kept)) == [(7, number) for number in range(40)]


@pytest.mark.parametrize(("clients", "role", "hosts"), [*product((2, 7), ("produce", "consume"), HOSTS)])
def test_several_clients_of_one_proxy_have_a_path_each(tmp_path: FilePath, clients: int, role: str, hosts: str) -> None:
    paths = [Path(hosts, start=number * 100_000, port=number) for number in range(clients)]
    for number, path in enumerate(paths):
        getattr(path, role)(5, name=f"n{number}", **({"ledger": 7 + number} if role == "produce" else {"first": 5 * number}))
    diagnosis = diagnose(tmp_path, *both(*paths))
    assert diagnosis.codes == [CODE] * clients
    ends = sorted((row.evidence or {})["client"] for row in diagnosis.findings)
    assert len(set(ends)) == clients
    _, kept = counted(tmp_path / "conversations.pcap")
    assert len(messages(kept)) == 5 * clients


@pytest.mark.parametrize("lost", range(6, 40, 3))
def test_a_lost_packet_of_one_leg_parts_no_legs(tmp_path: FilePath, lost: int) -> None:
    path = Path().produce(15).close()
    del path.inner.packets[lost % len(path.inner.packets)]
    assert CODE in diagnose(tmp_path, *both(path)).codes


@pytest.mark.parametrize("times", [2, 4])
def test_each_connection_of_a_producer_that_connects_again_is_a_path(tmp_path: FilePath, times: int) -> None:
    paths = [Path(start=number * SECOND, port=number).produce(3, ledger=7 + number).close() for number in range(times)]
    assert len(diagnose(tmp_path, *both(*paths)).of(CODE)) == times


def test_a_balancer_before_a_proxy_makes_three_legs_of_which_one_counts(tmp_path: FilePath) -> None:
    ends = (("10.0.0.1", 40000), ("10.0.0.2", 6650)), (("10.0.0.2", 40000), ("10.0.0.3", 6650)), (("10.0.0.3", 40000), ("10.0.0.4", 6650))
    legs = [Conversation(*each, acknowledge=False) for each in ends]
    for number in range(5):
        begin = number * 100 * MILLISECOND
        for place, leg in enumerate(legs):
            wait_until(leg, begin + place * MILLISECOND).client(send(1, number))
        for place, leg in enumerate(reversed(legs)):
            wait_until(leg, begin + (10 + place) * MILLISECOND).server(receipt(1, number, entry=number))
    diagnosis = diagnose(tmp_path, *legs)
    assert sorted((row.evidence or {})["broker"] for row in diagnosis.of(CODE)) == ["10.0.0.3:6650", "10.0.0.4:6650"]
    _, kept = counted(tmp_path / "conversations.pcap")
    assert len(messages(kept)) == 5


@pytest.mark.parametrize(
    ("leg", "proxy", "role", "midstream"), [*product(("outer", "inner"), ("pulsar", "balancer"), ("produce", "consume"), (False, True))]
)
def test_one_leg_alone_is_counted(tmp_path: FilePath, leg: str, proxy: str, role: str, midstream: bool) -> None:
    path = Path(proxy=proxy, midstream=midstream)
    getattr(path, role)(9, opens=not midstream)
    assert CODE not in diagnose(tmp_path, getattr(path, leg)).codes
    _, kept = counted(tmp_path / "conversations.pcap")
    assert len(messages(kept)) == 9


def consumer(port: int, start: int, answer: int, broker: tuple[str, int], subscription: str = "s", host: str = "10.0.0.1") -> Conversation:
    """A consumer whose SUBSCRIBE is answered after `answer` ns."""
    talk = connected(port, host=host, server=broker, start=start).client(subscribe(1, "c", 2, "Shared", subscription=subscription))
    return talk.wait(answer).server(success(2)).client(flow(1000))


@pytest.mark.parametrize(("gap", "slow", "same"), [*product((MILLISECOND, 20 * MILLISECOND), (0, 30 * MILLISECOND), (False, True))])
def test_two_clients_that_say_the_same_to_one_broker_are_no_legs(tmp_path: FilePath, gap: int, slow: int, same: bool) -> None:
    broker = "10.0.0.2", 6650
    first = consumer(40000, 0, 50 * MILLISECOND + slow, broker)
    second = consumer(40001, gap, MILLISECOND, broker, host="10.0.0.1" if same else "10.0.0.2")
    for number in range(5):
        first.server(delivery(2 * number)).client(ack(2 * number))
        second.server(delivery(2 * number + 1)).client(ack(2 * number + 1))
    assert CODE not in diagnose(tmp_path, first, second).codes
    assert len(messages(counted(tmp_path / "conversations.pcap")[1])) == 10


@pytest.mark.parametrize(("lag", "hold", "count"), [*product((100_000, MILLISECOND), (0, 3 * MILLISECOND), (2, 20))])
def test_subscriptions_that_get_the_same_entries_over_two_addresses_are_no_legs(
    tmp_path: FilePath, lag: int, hold: int, count: int
) -> None:
    """Both began before the capture; the one that gets each entry first acknowledges it last every other time."""
    talks = [
        Conversation(("10.0.0.1", 40000 + number), (f"10.0.0.{2 + number}", 6650), acknowledge=False, step_ns=1000) for number in range(2)
    ]
    for entry in range(count):
        begin = (entry + 1) * 50 * MILLISECOND
        for number, talk in enumerate(talks):
            wait_until(talk, begin + number * lag).server(delivery(entry))
            wait_until(talk, begin + 10 * MILLISECOND + (hold if (entry + number) % 2 else 0) + number * 10_000).client(ack(entry))
    assert CODE not in diagnose(tmp_path, *talks).codes
    assert len(messages(counted(tmp_path / "conversations.pcap")[1])) == 2 * count


@pytest.mark.parametrize(("wait", "ledger"), [*product((0, 2 * MILLISECOND, SECOND), (7, 8))])
def test_a_replicator_is_no_leg(tmp_path: FilePath, wait: int, ledger: int) -> None:
    """Messages that a client sends to one cluster are sent to the other after they are stored, possibly under the same ids."""
    client = connected().client(producer(name="p")).server(created(name="p"))
    name = "pulsar.repl.west-->east"
    other = connected(50000, host="10.0.0.2", server=("10.1.0.2", 6650)).client(producer(name=name)).server(created(name=name))
    for number in range(6):
        client.client(send(1, number, b"x", {"producer_name": "p"})).server(receipt(1, number, entry=number))
        wait_until(other, max(client.time_ns - 1_700_000_000_000_000_000 + wait, other.time_ns - 1_700_000_000_000_000_000))
        other.client(send(1, number, b"x", {"producer_name": "p", "replicated_from": "west"})).server(
            receipt(1, number, ledger=ledger, entry=number)
        )
        client.time_ns = other.time_ns
    assert CODE not in diagnose(tmp_path, client, other).codes
    assert len(messages(counted(tmp_path / "conversations.pcap")[1])) == 12


@pytest.mark.parametrize(("broker", "pause"), [*product((("10.0.0.2", 6650), ("10.0.0.3", 6650)), (0, MILLISECOND, SECOND))])
def test_a_client_that_connects_twice_is_no_path(tmp_path: FilePath, broker: tuple[str, int], pause: int) -> None:
    """It connects to the same broker, or after an unload to another one, with the same ids as before."""
    first = connected().client(producer()).server(created()).client(send(1, 0)).server(receipt(1, 0)).close()
    second = connected(40001, server=broker, start=first.time_ns - 1_700_000_000_000_000_000 + pause)
    second.client(producer()).server(created()).client(send(1, 0)).server(receipt(1, 0)).close()
    assert CODE not in diagnose(tmp_path, first, second).codes


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("proxy-keyshared.pcap", 120), ("balancer.pcap", 100)])
@pytest.mark.parametrize("workers", [1, 2])
def test_real_paths_are_counted_once(name: str, count: int, workers: int) -> None:
    rows, kept = counted(CAPTURES / name, workers)
    assert (len(messages(rows)), len(messages(kept))) == (2 * count, count)
    findings = [row for row in kept if isinstance(row, FindingRow)]
    assert {row.code for row in findings} == {CODE}
    assert len(findings) == 4
    inner = {(row.evidence or {})["connections"][1] for row in findings}
    assert inner.isdisjoint(row.connection for row in messages(kept))


@pytest.mark.parametrize("kinds", [{"frame"}, {"message"}, {"frame", "exchange", "message", "connection"}])
@pytest.mark.parametrize("columns", [False, True])
def test_legs_are_reported_in_the_order_of_their_anchors_whichever_rows_are_requested(kinds: set[str], columns: bool) -> None:
    """Rows in the columns of the compiled reader come to the rules by connection."""
    run = parallel.run([str(CAPTURES / "balancer.pcap")], Options(frozenset({*kinds, "finding"}), rules=True, columns=columns), 1)
    rows = [row for batch in run for row in others(batch.rows)]
    found = [row.packet or 0 for row in rows if isinstance(row, FindingRow) and row.code == CODE]
    assert found == sorted(found)
    assert len(found) == 4


def test_no_key_of_a_key_shared_subscription_is_seen_on_both_legs_of_its_consumer() -> None:
    assert Diagnosis(CAPTURES / "proxy-keyshared.pcap").of("key-on-two-consumers") == []
