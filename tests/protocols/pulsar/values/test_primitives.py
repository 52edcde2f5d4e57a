"""Each primitive type: hand-made bytes, as Java's schemas write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.pulsar.values.json_values import UndecodableError
from pulsarscope.protocols.pulsar.values.primitives import PRIMITIVES

CASES = [
    ("BYTES", "00ff", "AP8="),
    ("BYTES", "", ""),
    ("STRING", "68c3a9", "hé"),
    ("STRING", "", ""),
    ("BOOLEAN", "01", True),
    ("BOOLEAN", "00", False),
    ("INT8", "fe", -2),
    ("INT16", "fffe", -2),
    ("INT32", "fffffffb", -5),
    ("INT64", "0000010000000000", 1 << 40),
    ("INT64", "7fffffffffffffff", (1 << 63) - 1),
    ("FLOAT", "3dcccccd", 0.1),
    ("FLOAT", "7f800000", "Infinity"),
    ("DOUBLE", "3fd5555555555555", 1 / 3),
    ("DOUBLE", "7ff8000000000000", "NaN"),
    ("DATE", "00000174876e8003", "2020-09-13T12:26:40.003Z"),
    ("TIME", "0000000000000001", "1970-01-01T00:00:00.001Z"),
    ("TIMESTAMP", "ffffffffffffffff", "1969-12-31T23:59:59.999Z"),
    ("INSTANT", "000000005f5e100000000005", "2020-09-13T12:26:40.000000005Z"),
    ("LOCAL_DATE", "0000000000000001", "1970-01-02"),
    ("LOCAL_TIME", "0000000000000001", "00:00:00.000000001"),
    ("LOCAL_DATE_TIME", "00000000000000010000000000000001", "1970-01-02T00:00:00.000000001"),
]


@pytest.mark.parametrize(("name", "data", "value"), CASES)
def test_each_type_reads_its_bytes(name: str, data: str, value: object) -> None:
    read = PRIMITIVES[name](bytes.fromhex(data))
    assert read == value
    assert type(read) is type(value)


def test_each_type_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == set(PRIMITIVES)


@pytest.mark.parametrize("name", sorted(set(PRIMITIVES) - {"BYTES", "STRING"}))
def test_other_sizes_do_not_fit(name: str) -> None:
    for size in (0, 3, 5, 17):
        with pytest.raises(UndecodableError, match=f"{size} bytes are there"):
            PRIMITIVES[name](bytes(size))


@given(st.sampled_from(sorted(PRIMITIVES)), st.binary(max_size=20))
def test_any_bytes_are_a_value_or_a_problem(name: str, data: bytes) -> None:
    try:
        value: Any = PRIMITIVES[name](data)
    except UndecodableError:
        return
    assert isinstance(value, (str, int, float, list))
