from __future__ import annotations

import pytest

from pulsarscope.filter import Filter, FilterError
from tests.filter.samples import ACK, CATALOGUE, ENDPOINTS, MESSAGE, SEND

NAME = f"{SEND.packet}.{SEND.sub}"


def selected(text: str) -> list[object]:
    chosen = Filter(text, ("frame", "message"), CATALOGUE)
    return list(chosen.select([SEND, ACK, MESSAGE], ENDPOINTS))


@pytest.mark.parametrize("form", [f'"{NAME}"', NAME, f'"{SEND.file}:{NAME}"', f"'{NAME}'"])
def test_a_frame_is_selected_by_its_name(form: str) -> None:
    assert SEND in selected(f"frame == {form}")
    assert ACK not in selected(f"frame == {form}")
    assert SEND in selected(f"frame in {{1000.1, {form}}}")
    assert SEND not in selected(f"frame != {form}")
    assert ACK in selected(f"not frame == {form}")


def test_a_packet_names_all_its_frames() -> None:
    assert SEND in selected(f"frame == {SEND.packet}")
    assert SEND not in selected(f'frame == "{SEND.packet}.{(SEND.sub or 0) + 1}"')
    assert SEND not in selected(f'frame == "7:{NAME}"')


@pytest.mark.parametrize("text", ['frame == "x"', "frame == 1e5", "frame in {1..5}", "frame == SEND", 'frame == "-1.2"'])
def test_what_names_no_frame_is_refused(text: str) -> None:
    with pytest.raises(FilterError, match="named by its packet"):
        selected(text)


@pytest.mark.parametrize("text", ["frame < 5", 'frame contains "5"'])
def test_names_have_no_order(text: str) -> None:
    with pytest.raises(FilterError, match="kind of records"):
        selected(text)


def test_the_kind_stands_alone_as_before() -> None:
    assert selected("frame") == [SEND, ACK]
    assert selected(f"frame.packet == {SEND.packet} and frame") == selected(f"frame == {SEND.packet} and frame")
