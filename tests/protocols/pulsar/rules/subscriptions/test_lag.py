"""What is kept of the deliveries to a consumer."""

from __future__ import annotations

import pytest

from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.protocols.pulsar.rules.subscriptions.lag import are_of_one_producer, order_marks

LONG = "p" * (2 * NAME_MAX_CHARACTERS)


@pytest.mark.parametrize(("name", "other"), [("p", "q"), ("p", None), (LONG, "p")])
def test_little_of_metadata_tells_whether_a_producer_sent_what_is_between(name: str, other: str | None) -> None:
    metadata = {"producer_name": name, "sequence_id": 4, "num_messages_in_batch": 3, "properties": [{"key": LONG, "value": LONG}]}
    marks = order_marks(metadata)
    assert sum(len(repr(value)) for value in marks.values()) < NAME_MAX_CHARACTERS + 100
    assert are_of_one_producer(marks, order_marks(metadata | {"sequence_id": 11}), 5)
    assert not are_of_one_producer(marks, order_marks(metadata | {"sequence_id": 12}), 5)
    assert not are_of_one_producer(marks, order_marks({"producer_name": other, "sequence_id": 11}), 5)
    assert not are_of_one_producer(marks, order_marks(metadata | {"sequence_id": 11, "txnid_least_bits": 0}), 5)
    assert order_marks(None) == {}
