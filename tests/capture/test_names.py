from __future__ import annotations

import pytest

from pulsarscope.capture.names import printable


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b/größe.pcap", "a b/größe.pcap"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J\x9b31m\x7f", "\\x1b[2J\\x9b31m\\x7f"),
        ("\u202efdp.pacp", "\\u202efdp.pacp"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_could_act_on_a_terminal_is_escaped(name: str, shown: str) -> None:
    assert printable(name) == shown
