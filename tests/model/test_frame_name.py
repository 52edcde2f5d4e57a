"""Names of frames are printed and parsed in one place."""

from __future__ import annotations

import pytest

from pulsarscope.model.frame_name import FrameName, frame_name


def test_a_name_is_printed_and_parsed() -> None:
    name = FrameName(0, 30, 2)
    assert str(name) == frame_name(0, 30, 2) == "0:30.2"
    assert FrameName.parse("0:30.2") == name
    assert FrameName.parse("0:30") == (0, 30, 0)


def test_names_sort_as_frames_stand() -> None:
    names = [FrameName(1, 1, 1), FrameName(0, 30, 2), FrameName(0, 9, 1), FrameName(0, 30, 1)]
    assert [str(name) for name in sorted(names)] == ["0:9.1", "0:30.1", "0:30.2", "1:1.1"]


@pytest.mark.parametrize("text", ["", "30.2", "0:30.", "0:30.2 ", "a:30.2", "0:30.2.1", "0:٣.1", "0:30.12345678"])
def test_other_texts_are_no_names(text: str) -> None:
    assert FrameName.parse(text) is None
