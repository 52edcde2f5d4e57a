"""Producers whose receipts come late over a slow network, and from a slow broker."""

from __future__ import annotations

from pathlib import Path

import pytest

import pulsarscope as ps
from tests.scenarios.capturefile import Packet, write_pcap
from tests.scenarios.commands import CONNECT, CONNECTED, PING, PONG, created, lookup, producer, receipt, send
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.legs import Path as LegPath

DELAY, SLOW = "path-delay", "slow-publish"


def publishing(*, step: int, stored_after: int, sends: int = 12, in_flight: int = 1, acknowledge: bool = True) -> Conversation:
    """A producer, with `step` ms between packets, acknowledgments among them, and a broker that takes `stored_after` ms."""
    talk = Conversation(step_ns=step * MILLISECOND, acknowledge=acknowledge)
    talk.handshake().client(CONNECT).server(CONNECTED).client(producer(1, "p", 2)).server(created("p", 2))
    for first in range(0, sends, in_flight):
        numbers = range(first, min(first + in_flight, sends))
        talk.client(*(send(1, number) for number in numbers)).wait(stored_after * MILLISECOND)
        talk.server(*(receipt(1, number, entry=number) for number in numbers))
    return talk


def verdict(folder: Path, talk: Conversation) -> tuple[str | None, list[str]]:
    """The code of the finding that a diagnosis names first, None if it has none, and those that this one explains."""
    found = ps.open(write_pcap(folder / "slow.pcap", talk.packets)).diagnose()["findings"]
    codes = [record["code"] for record in found if record["severity"] != "note" and record["explained_by"] is None]
    first = codes[0] if codes else None
    return first, [record["code"] for record in found if record["explained_by"] == first is not None]


@pytest.mark.parametrize("step", [800, 1_300, 3_000])
@pytest.mark.parametrize("in_flight", [1, 2, 4])
@pytest.mark.parametrize("close", [False, True])
def test_a_slow_path_is_the_cause(tmp_path: Path, step: int, in_flight: int, close: bool) -> None:
    talk = publishing(step=step, stored_after=5, in_flight=in_flight)
    cause, explained = verdict(tmp_path, talk.close() if close else talk)
    assert cause == DELAY
    assert SLOW in explained


@pytest.mark.parametrize(("step", "stored_after"), [(1, 1_500), (40, 3_000), (300, 4_000)])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_slow_broker_is_the_cause(tmp_path: Path, step: int, stored_after: int, in_flight: int) -> None:
    cause, explained = verdict(tmp_path, publishing(step=step, stored_after=stored_after, in_flight=in_flight))
    assert (cause, explained) == (SLOW, [])


@pytest.mark.parametrize(("step", "stored_after"), [(800, 5_000), (800, 60_000), (1_300, 9_000)])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_slow_path_does_not_excuse_a_broker_that_is_much_slower(tmp_path: Path, step: int, stored_after: int, in_flight: int) -> None:
    talk = publishing(step=step, stored_after=stored_after, in_flight=in_flight)
    found = ps.open(write_pcap(tmp_path / "slow.pcap", talk.packets)).diagnose()["findings"]
    reasons = {record["code"]: record["explained_by"] for record in found}
    assert (reasons[DELAY], reasons[SLOW], reasons["slow-exchange"]) == (None, None, DELAY)


@pytest.mark.parametrize("asks", [send(1, 99), lookup(9)], ids=["SEND", "LOOKUP"])
def test_a_slow_path_does_not_excuse_a_missing_answer(tmp_path: Path, asks: bytes) -> None:
    talk = publishing(step=900, stored_after=5).client(asks).wait(90 * SECOND).client(PING).server(PONG).close()
    found = ps.open(write_pcap(tmp_path / "slow.pcap", talk.packets)).diagnose()["findings"]
    reasons = {record["code"]: record["explained_by"] for record in found}
    code = "request-unanswered" if asks == lookup(9) else "send-unanswered"
    assert (reasons[DELAY], reasons[code], reasons[SLOW]) == (None, None, DELAY)


@pytest.mark.parametrize("step", [300, 900, 1_500])
@pytest.mark.parametrize("stored_after", [5, 4_000])
@pytest.mark.parametrize("bare", [False, True])
def test_without_bare_acknowledgments_nobody_alone_is_blamed(step: int, stored_after: int, bare: bool, tmp_path: Path) -> None:
    """Where packets with data alone are captured, an acknowledgment comes with the answer."""
    talk = publishing(step=step, stored_after=stored_after, acknowledge=bare)
    found = ps.open(write_pcap(tmp_path / "slow.pcap", talk.packets)).diagnose()["findings"]
    slow = [each for each in found if each["code"] == SLOW]
    assert len(slow) == ((1 + bare) * step + stored_after > 1_000)
    for each in slow:
        assert ("no acknowledgments without data" in each["samples"][0]["text"]) == (not bare)
        assert each["to_act"] == ("the broker's operators" if bare else "the broker's or the network's operators")


@pytest.mark.parametrize("leg", ["proxy", "network", "broker"])
def test_a_thin_link_behind_a_proxy_is_not_the_broker(leg: str, tmp_path: Path) -> None:
    """A link with a full queue: seen before it, acknowledgments come late; seen behind it, the proxy seems to hold the SENDs."""
    way = LegPath("apart")
    way.client(producer(1, "p", 2)).server(created("p", 2))
    for number in range(12):
        way.outer.client(send(1, number)).confirm("server")
        way.inner.time_ns = way.outer.time_ns + (2 * SECOND if leg == "proxy" else MILLISECOND)
        way.inner.client(send(1, number)).wait((2_000 if leg == "network" else 1) * MILLISECOND).confirm("server")
        way.inner.wait((2_000 if leg == "broker" else 1) * MILLISECOND).server(receipt(1, number, entry=number)).confirm("client")
        way.outer.time_ns = way.inner.time_ns
        way.outer.server(receipt(1, number, entry=number)).confirm("client").wait(SECOND // 5)
    way.close()
    packets = sorted([*way.outer.packets, *way.inner.packets], key=lambda packet: packet.time_ns)
    (slow,) = (each for each in ps.open(write_pcap(tmp_path / "thin.pcap", packets)).diagnose()["findings"] if each["code"] == SLOW)
    whom = {"proxy": "the operators of the proxy, or of the network between it and the broker", "network": "the network's operators"}
    assert slow["to_act"] == whom.get(leg, "the broker's operators")


def test_late_acknowledgments_of_another_time_do_not_make_a_slow_broker_the_network(tmp_path: Path) -> None:
    way = LegPath("apart")
    way.client(producer(1, "p", 2)).server(created("p", 2))
    for number in range(40):
        network, broker = (1_500, 1) if number < 12 else (1, 1 if number < 28 else 2_500)
        way.outer.client(send(1, number)).confirm("server")
        way.inner.time_ns = way.outer.time_ns + MILLISECOND
        way.inner.client(send(1, number)).wait(network * MILLISECOND).confirm("server")
        way.inner.wait(broker * MILLISECOND).server(receipt(1, number, entry=number)).confirm("client")
        way.outer.time_ns = way.inner.time_ns
        way.outer.server(receipt(1, number, entry=number)).confirm("client").wait(SECOND // 5)
    way.close()
    packets = sorted([*way.outer.packets, *way.inner.packets], key=lambda packet: packet.time_ns)
    (slow,) = (each for each in ps.open(write_pcap(tmp_path / "mixed.pcap", packets)).diagnose()["findings"] if each["code"] == SLOW)
    assert slow["to_act"] == "the broker's operators"
    assert "late acknowledgments" not in slow["samples"][0]["text"]


def test_a_long_path_without_consequences_is_none(tmp_path: Path) -> None:
    assert verdict(tmp_path, publishing(step=300, stored_after=5)) == (None, [])


def repairing(held_up: list[int], stored_after: list[int]) -> Conversation:
    """A producer whose network loses SENDs, captured at its end: each is sent again after so many ms, if any, and stored so much later."""
    talk = Conversation(acknowledge=False).handshake().client(CONNECT).server(CONNECTED).client(producer(1, "p", 2)).server(created("p", 2))
    for number, (held, stored) in enumerate(zip(held_up, stored_after, strict=True)):
        sent = talk.client(send(1, number)).packets[-1]
        if held:
            another = sent.data[:18] + len(talk.packets).to_bytes(2, "big") + sent.data[20:]  # its number says that it is no copy
            talk.wait(held * MILLISECOND).packets.append(Packet(talk.time_ns, another))
        talk.wait(stored * MILLISECOND).server(receipt(1, number, entry=number)).wait(SECOND // 5)
    return talk


FEW = [900 * (number in (4, 11, 17)) for number in range(24)]


@pytest.mark.parametrize("held", [850, 1_200, 3_000])
@pytest.mark.parametrize("stored", [5, 160])
@pytest.mark.parametrize("end", ["open", "fin"])
def test_what_the_network_held_up_is_not_the_time_of_the_broker(tmp_path: Path, held: int, stored: int, end: str) -> None:
    talk = repairing([held * (each > 0) for each in FEW], [stored] * len(FEW))
    assert SLOW not in codes_of(tmp_path, talk.close() if end == "fin" else talk)


@pytest.mark.parametrize(
    ("held_up", "stored_after"),
    [
        ([each // 3 for each in FEW], [5 + 2 * each for each in FEW]),  # most of the time is the broker's
        (FEW, [5 + 2_000 * (number in (19, 20)) for number in range(24)]),  # other SENDs are slow
        (FEW, [1_100] * 24),
        (FEW, [500 * (number % 2) + 5 for number in range(24)]),  # as a limit of the broker holds them back
        ([0] * 24, [5 + 2 * each for each in FEW]),
        ([12_000 * (each > 0) for each in FEW], [5] * 24),  # far too long to excuse anything
    ],
)
def test_a_broker_that_takes_longer_than_the_network_is_named(tmp_path: Path, held_up: list[int], stored_after: list[int]) -> None:
    assert SLOW in codes_of(tmp_path, repairing(held_up, stored_after).close())


def standing_still(
    pauses: dict[int, int], *, again: int = 0, stored: int = 5, bare: bool = True, sends: int = 24, together: bool = False
) -> Conversation:
    """A producer whose path stands still after some SENDs, for so many ms; `stored` ms after its end the receipt comes.

    `again`: how often the client sends a SEND again in the meantime. `bare`: the capture has packets without data. `together`: the client
    repeats another SEND with it, in one segment.
    """
    talk = Conversation(acknowledge=False).handshake().client(CONNECT).server(CONNECTED).client(producer(1, "p", 2)).server(created("p", 2))
    for number in range(sends):
        talk.client(send(1, number))
        begun, pause = talk.packets[-1], pauses.get(number, 0)
        if pause and together:
            talk.client(send(1, 1_000 + number))
            later = talk.packets[-1].data[54:]
        for _ in range(again if pause else 0):
            talk.wait(pause * MILLISECOND // (again + 1))
            data = begun.data[54:] + (later if together else b"")
            length = (40 + len(data)).to_bytes(2, "big")
            another = begun.data[:16] + length + len(talk.packets).to_bytes(2, "big") + begun.data[20:54] + data
            talk.packets.append(Packet(talk.time_ns, another))
        talk.wait(pause * MILLISECOND // (again + 1 if pause else 1))
        if bare:
            talk.confirm()
            for _ in range(again if pause else 0):
                start = int.from_bytes(begun.data[38:42], "big")
                talk.confirm(options=b"\1\1\5\x0a" + start.to_bytes(4, "big") + (start + len(begun.data) - 54).to_bytes(4, "big"))
        talk.wait(stored * MILLISECOND).server(receipt(1, number, entry=number))
        if pause and together:
            talk.server(receipt(1, 1_000 + number, entry=1_000 + number))
        talk.wait(SECOND // 5)
    return talk


@pytest.mark.parametrize("pauses", [{6: 2_600}, {6: 4_800, 15: 3_100}, {3: 1_900, 9: 2_700, 21: 2_800}])
@pytest.mark.parametrize("again", [1, 2, 4])
@pytest.mark.parametrize("together", [False, True])
def test_a_path_that_stands_still_loses_nothing_and_is_not_the_broker(
    tmp_path: Path, pauses: dict[int, int], again: int, together: bool
) -> None:
    """What was sent again arrived twice, in the end."""
    assert SLOW not in codes_of(tmp_path, standing_still(pauses, again=again, together=together).close())


@pytest.mark.parametrize("pauses", [{6: 2_600}, {6: 2_600, 15: 3_900}])
@pytest.mark.parametrize("stored", [5, 300])
def test_one_or_two_late_acknowledgments_are_a_pause_of_the_path(tmp_path: Path, pauses: dict[int, int], stored: int) -> None:
    assert not {SLOW, DELAY} & {*codes_of(tmp_path, standing_still(pauses, stored=stored).close())}


@pytest.mark.parametrize("again", [0, 2])
def test_a_late_receipt_is_no_late_acknowledgment(tmp_path: Path, again: int) -> None:
    """A capture of packets with data only does not show when the broker's host acknowledged."""
    assert SLOW in codes_of(tmp_path, standing_still({6: 4_600, 15: 4_100}, again=again, bare=False).close())


@pytest.mark.parametrize(("pauses", "stored"), [({6: 1_100}, 2_700), ({6: 2_600}, 1_400), ({}, 1_200)])
def test_a_pause_of_the_path_does_not_excuse_the_broker(tmp_path: Path, pauses: dict[int, int], stored: int) -> None:
    assert SLOW in codes_of(tmp_path, standing_still(pauses, stored=stored).close())


def codes_of(folder: Path, talk: Conversation) -> list[str]:
    """The codes of all findings of a diagnosis."""
    return [record["code"] for record in ps.open(write_pcap(folder / "slow.pcap", talk.packets)).diagnose()["findings"]]
