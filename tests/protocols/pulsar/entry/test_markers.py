from __future__ import annotations

import pytest

from pulsarscope.protocols.pulsar.entry.markers import MARKERS, marker_name, marker_text


@pytest.mark.parametrize("number", MARKERS)
def test_a_known_marker_has_a_name_and_words(number: int) -> None:
    assert (marker_name(number), marker_text(number)) == MARKERS[number]


def test_names_are_distinct() -> None:
    assert len({marker.name for marker in MARKERS.values()}) == len(MARKERS)


def test_an_unknown_number_is_a_name_without_words() -> None:
    assert (marker_name(99), marker_text(99)) == ("marker-99", None)


@pytest.mark.parametrize("value", [None, "21", True, [21]])
def test_what_is_no_number_has_no_words(value: object) -> None:
    assert marker_text(value) is None
