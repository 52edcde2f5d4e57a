"""Names of connections on screens and in user input."""

from __future__ import annotations

import pytest

from pulsarscope.model.connection_name import connection_label, connection_name, first_packet, with_labels


@pytest.mark.parametrize(("text", "name"), [("#17", "0:17"), ("17", "0:17"), ("#2:17", "2:17"), ("2:17", "2:17"), ("017", "0:17")])
def test_what_a_user_writes_is_a_name(text: str, name: str) -> None:
    assert connection_name(text) == name


@pytest.mark.parametrize("text", ["", "#", "x", "#1:", ":1", "1:2:3", "-1", "1.2", "#١٧", "9" * 12])
def test_other_text_is_none(text: str) -> None:
    assert connection_name(text) is None


def test_labels_are_names_again() -> None:
    assert connection_label("1:17", several_files=True) == "#1:17"
    assert connection_label("0:17", several_files=False) == "#17"
    assert connection_label(None, several_files=False) == ""
    assert connection_name(connection_label("1:17", several_files=True)) == "1:17"


@pytest.mark.parametrize(("name", "packet"), [("0:17", 17), ("", 0), ("?", 0)])
def test_the_first_packet_is_in_the_name(name: str, packet: int) -> None:
    assert first_packet(name) == packet


def test_texts_of_findings_get_labels_and_message_ids_stay() -> None:
    text = "Connection 0:17 sent 14:3 at 0:30.2 beside connection 0:20."
    assert with_labels(text, several_files=False) == "Connection #17 sent 14:3 at 30.2 beside connection #20."
    assert with_labels("(0:7.1), 0:8.12: 1:9.1, 10:0:7.1, ::0:1.2.3.4, 0:7.1.2", several_files=False) == (
        "(7.1), 8.12: 1:9.1, 10:0:7.1, ::0:1.2.3.4, 0:7.1.2"
    )
    assert with_labels(text, several_files=True) == "Connection #0:17 sent 14:3 at 0:30.2 beside connection #0:20."
