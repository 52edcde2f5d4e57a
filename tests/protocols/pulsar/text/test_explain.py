from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.pulsar.text.explain import explain
from tests.scenarios.odd_values import ALL_FIELDS, odd_values


@given(st.sampled_from(ALL_FIELDS), odd_values)
def test_any_value_is_explained_or_not(name: str, value: object) -> None:
    explanation = explain(name, value)
    assert explanation is None or isinstance(explanation, str)


@pytest.mark.parametrize(
    ("name", "value", "explanation"),
    [
        ("event_time", 0, None),
        ("publish_time", 1_777_629_600_123, "1777629600123  2026-05-01 10:00:00.123 UTC"),
        ("publish_time", 2**62, None),
        ("partition", -1, "-1  not partitioned"),
        ("partition", 3, None),
        ("marker_type", 22, "22  transaction abort"),
        ("schema_version", bytes(7) + b"\x05", "0000000000000005  version 5"),
        ("message_id", {"ledgerId": 1, "entryId": 2, "batch_index": 3, "batch_size": 10}, "1:2  batch index 3  batch size 10"),
        ("message_id", {"ledgerId": 1, "entryId": 2, "ack_set": [1]}, None),
        ("id", {"ledgerId": -1, "entryId": -1}, "-1:-1  earliest"),
        ("ack_set", [3], "0000000000000003  2 not acknowledged yet"),
    ],
)
def test_numbers_that_say_too_little_are_explained(name: str, value: object, explanation: str | None) -> None:
    assert explain(name, value) == explanation
