from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pulsarscope.model.latency import Latencies
from pulsarscope.output.render.latency_plot import HEIGHT, REQUESTS, WIDTH, latency_plot

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*requests: tuple[str, Latencies]) -> ET.Element:
    return ET.fromstring(latency_plot("a.pcap", requests))  # noqa: S314 - our own


def texts(root: ET.Element) -> str:
    return " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))


def test_each_request_has_a_curve_that_never_falls() -> None:
    root = drawn(("SEND", Latencies(range(1_000_000, 2_000_000, 1_000))), ("LOOKUP", Latencies([5_000, 9_000])))
    curves = [[tuple(map(float, point.split(","))) for point in line.get("points", "").split()] for line in root.iter(f"{SVG}polyline")]
    assert len(curves) == 2
    for curve in curves:
        assert curve == sorted(curve, key=lambda point: (point[0], -point[1]))
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in curve)
    assert "SEND (1,000)" in texts(root)
    assert "99.9 %" in texts(root)


@pytest.mark.parametrize("values", [[0], [1], [7, 7], [10**6] * 3, [1, 2**63], [999]])
def test_any_latencies_can_be_drawn(values: list[int]) -> None:
    assert list(drawn(("SEND", Latencies(values))).iter(f"{SVG}polyline"))


def test_only_the_most_frequent_requests_are_drawn_and_none_is_said() -> None:
    many = [(f"R{number}", Latencies([5] * (number + 1))) for number in range(20)]
    root = drawn(*many)
    assert len(list(root.iter(f"{SVG}polyline"))) == REQUESTS
    assert "R19 (20)" in texts(root)
    assert "no request with an answer" in texts(drawn(("SEND", Latencies())))


def test_hostile_names_are_text() -> None:
    root = drawn(("</svg><script>\x1b\u202e", Latencies([5])))
    assert not list(root.iter(f"{SVG}script"))
    assert "\\x1b" in texts(root)
