"""Fields of commands with values of any type, and characters that affect a terminal."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.scenarios.pulsar_pb2 import BaseCommand

ALL_FIELDS = sorted(
    {field.name for kind in BaseCommand.DESCRIPTOR.fields if kind.message_type for field in kind.message_type.fields}
    | {
        "partition_key",
        "compression",
        "num_chunks_from_msg",
        "chunk_id",
        "marker_type",
        "null_value",
        "deliver_at_time",
        "ledgerId",
        "entryId",
    }
)


odd_values = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.booleans() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ALL_FIELDS), inner, max_size=3),
    max_leaves=8,
)

DISPLAYED = ["\x7f", "\x80", "\x9b", "\x9f", "\u202a", "\u202e", "\u2066", "\u2069"]
"""Characters that JSON need not escape, but that affect a terminal."""
