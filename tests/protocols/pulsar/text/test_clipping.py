"""Names in the text of a finding."""

from __future__ import annotations

from pulsarscope.protocols.pulsar.text.clipping import SHOWN_CHARACTERS_MAX, shown


def test_a_name_is_given_whole_and_a_hostile_one_is_cut() -> None:
    for name in ("", "key-1", "x" * SHOWN_CHARACTERS_MAX):
        assert shown(name) == name
    assert shown("x" * 5_000_000) == "x" * SHOWN_CHARACTERS_MAX + "… (5000000 characters)"
