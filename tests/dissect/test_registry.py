"""Where dissectors come from."""

from __future__ import annotations

from pulsarscope.dissect.registry import DEFAULT, default_dissector
from pulsarscope.protocols import DISSECTORS


def test_the_default_is_the_first_of_the_package() -> None:
    assert type(default_dissector()) is DISSECTORS[0]
    assert default_dissector().name == "pulsar"


def test_it_is_looked_up_by_name_so_that_the_room_imports_no_protocol() -> None:
    module, _, attribute = DEFAULT.partition(":")
    assert (module, attribute) == (DISSECTORS[0].__module__.rsplit(".", 2)[0], "DISSECTORS")
