from __future__ import annotations

from pulsarscope.model.records import ExchangeRow
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, add_sample, capitalized, frame_names, gap_note, response_name


def test_samples_are_the_first_ones() -> None:
    samples: list[int] = []
    for number in range(50):
        add_sample(samples, number)
    assert samples == list(range(SAMPLES_MAX))


def test_known_frames_are_named_once() -> None:
    assert frame_names(["0:1.1", None, "", "0:1.1", "0:2.1"]) == ["0:1.1", "0:2.1"]
    assert len(frame_names(str(number) for number in range(50))) == SAMPLES_MAX


def test_the_response_is_named_as_its_frame() -> None:
    assert response_name(ExchangeRow(response_file=0, response_packet=12, response_sub=1)) == "0:12.1"


def test_missing_bytes_qualify_a_finding() -> None:
    assert (gap_note(lost=True), gap_note(lost=False)) == ("; the capture lacks bytes", "")


def test_only_the_first_letter_of_a_sentence_changes() -> None:
    assert capitalized("entry 7:3 of persistent://public/default/A") == "Entry 7:3 of persistent://public/default/A"
