"""Choices of the user are kept, and never get in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.browse.choices import Choices, load, save


def test_choices_are_there_the_next_time(tmp_path: Path) -> None:
    place = tmp_path / "folder" / "choices.json"
    assert save(place, ["topic", "send.sequence_id"])
    assert load(place).columns == ["topic", "send.sequence_id"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"columns": 1}', b'{"columns": ["\xff"]}', None])
def test_a_file_that_cannot_be_read_chooses_nothing(tmp_path: Path, content: bytes | None) -> None:
    place = tmp_path / "choices.json"
    if content is not None:
        place.write_bytes(content)
    assert load(place) == Choices()


def test_without_a_place_nothing_is_kept(tmp_path: Path) -> None:
    assert not save(None, ["topic"])
    (tmp_path / "file").touch()
    assert not save(tmp_path / "file" / "choices.json", ["topic"])
    assert load(None) == Choices()
