"""Similar messages: the length of a run, and what ends it. Equality with the reference is tested with the batch."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.protocols.pulsar.entry.columnar_batch import FIXED_MAX_BYTES, STEPPED_MAX_BYTES, MessageRun, MessageShape
from pulsarscope.protocols.pulsar.frame.protobuf import Plans
from tests.scenarios import Single, batch

PLAN = Plans(show_secrets=True).named("SingleMessageMetadata")


def single(value: str = "v", key: str = "k", sequence_id: int | None = None, payload: bytes = b"pay") -> Single:
    fields: dict[str, Any] = {"properties": [{"key": "name", "value": value}], "partition_key": key}
    return Single(payload, fields if sequence_id is None else {**fields, "sequence_id": sequence_id})


def read(messages: list[Single], cut: int = 0, count: int = 100) -> tuple[list[Single], MessageRun | None]:
    """The messages after the run with the shape of the first, and the run."""
    data = batch(messages)[: -cut or None]
    shape = MessageShape(data, 0, len(messages[0].payload), PLAN)
    end, run = shape.read(data, 0, count, properties=True, payloads=True)
    assert end == len(batch(messages[: run.messages if run else 0]))
    return messages[run.messages if run else 0 :], run


@pytest.mark.parametrize("length", [0, 1, STEPPED_MAX_BYTES, STEPPED_MAX_BYTES + 1, 100])
@pytest.mark.parametrize("sign", ["", "\n"], ids=["plain", "line-end"])
def test_values_keys_ids_and_payloads_are_those_of_each(length: int, sign: str) -> None:
    texts = [(sign + letter * length)[:length] for letter in "abcde"]
    messages = [single(text, text[::-1], 1000 + number, bytes((number, 200))) for number, text in enumerate(texts)]
    rest, run = read(messages)
    assert run is not None
    assert (rest, run.messages) == ([], 5)
    assert list(run.properties or ()) == [{"name": text} for text in texts]
    assert run.keys == [text[::-1] for text in texts]
    assert run.sequence_ids == [1000, 1001, 1002, 1003, 1004]
    assert run.payloads == [message.payload for message in messages]


def test_of_a_repeated_property_the_last_counts() -> None:
    messages = [Single(b"", {"properties": [{"key": "a", "value": one}, {"key": "a", "value": two}]}) for one, two in ("12", "34")]
    rest, run = read(messages)
    assert run is not None
    assert (rest, list(run.properties or ()), run.keys, run.sequence_ids) == ([], [{"a": "2"}, {"a": "4"}], None, None)


@pytest.mark.parametrize(
    "other",
    [
        single("vv"),
        single(key="kk"),
        single(sequence_id=5),
        single(payload=b"load"),
        Single(b"pay", {"properties": [{"key": "else", "value": "v"}], "partition_key": "k"}),
        Single(b"pay", {"properties": [{"key": "name", "value": "v"}], "ordering_key": b"k"}),
    ],
    ids=["value", "key", "sequence-id", "payload", "name", "field"],
)
def test_a_run_ends_before_another_shape(other: Single) -> None:
    rest, run = read([single(), single("w"), other, single()])
    assert run is not None
    assert (run.messages, rest) == (2, [other, single()])


def test_a_run_ends_with_the_data_and_with_the_count() -> None:
    assert [run.messages for run in (read([single()] * 3, cut=1)[1], read([single()] * 3, count=1)[1]) if run] == [2, 1]


@pytest.mark.parametrize(
    "messages",
    [
        [single("\x7f"), Single(b"\xff" * 3, {"properties": [{"key": "name", "value": "é"}], "partition_key": "k"})],
        [single("é"), single("é")],
        [single(key="é"), single(key="é")],
    ],
    ids=["another", "value", "key"],
)
def test_texts_that_are_not_ascii_are_left_to_a_closer_look(messages: list[Single]) -> None:
    rest, _ = read(messages)
    assert rest[-1] == messages[-1]


@pytest.mark.parametrize("numbers", [(127, 128), (300, 300, 3), (300, 1 << 21)])
def test_no_number_is_read_that_has_another_length(numbers: tuple[int, ...]) -> None:
    messages = [single(sequence_id=number) for number in numbers]
    assert [one.fields["sequence_id"] for one in read(messages)[0]] == [number for number in numbers if number != numbers[0]]


def test_a_number_with_a_lost_end_is_left_to_a_closer_look() -> None:
    data = batch([single(sequence_id=300), single(sequence_id=300)])
    shape = MessageShape(data, 0, 3, PLAN)
    assert shape.read(data[:-4] + b"\x82" + data[-3:], 0, 2, properties=False, payloads=False) == (0, None)


def test_very_long_metadata_are_left_to_be_read_one_by_one() -> None:
    names = [{"key": letter * 100, "value": "v"} for letter in "abc"]
    messages = [Single(b"", {"properties": names})] * 2
    assert sum(len(name["key"]) for name in names) > FIXED_MAX_BYTES
    assert read(messages) == (messages, None)
