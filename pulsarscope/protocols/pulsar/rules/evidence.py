"""Frames, samples and qualifications that the findings of several rules share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.records import ExchangeRow

SAMPLES_MAX = 10
"""Frames, ids and the like that the evidence of one finding lists; counts are always exact."""

Sample = TypeVar("Sample")


def add_sample(samples: list[Sample], sample: Sample) -> None:
    """Append a sample, unless there are enough."""
    if len(samples) < SAMPLES_MAX:
        samples.append(sample)


def frame_names(names: Iterable[str | None]) -> list[str]:
    """Return the first names of frames, each once."""
    return list(dict.fromkeys(name for name in names if name))[:SAMPLES_MAX]


def response_name(row: ExchangeRow) -> str:
    """Return the name of the frame that answered a request."""
    return frame_name(row.response_file, row.response_packet, row.response_sub)


def gap_note(*, lost: bool) -> str:
    """Return the qualification of a finding on a connection of which bytes are missing."""
    return "; the capture lacks bytes" if lost else ""


def capitalized(text: str) -> str:
    """Return a sentence with its first letter in upper case, all others as they are."""
    return text[0].upper() + text[1:]
