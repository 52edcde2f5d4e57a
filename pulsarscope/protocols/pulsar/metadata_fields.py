"""Fields of the metadata of messages, grouped by the work that they need, and the size of all of them."""

from __future__ import annotations

METADATA_COMMON_BYTES = 256
"""Maximum size of the metadata of a message, unless it has many or long properties."""

WRAPPED = frozenset({"compression", "num_messages_in_batch", "encryption_keys", "num_chunks_from_msg", "schema_version"})
"""Fields without which a payload is just bytes from the application, with nothing to open."""

RARE = frozenset(
    {
        "partition_key",
        "num_chunks_from_msg",
        "encryption_keys",
        "marker_type",
        "null_value",
        "txnid_most_bits",
        "txnid_least_bits",
        "deliver_at_time",
    }
)
"""Fields with a phrase in summaries that most frames lack; some are fields of SEND itself."""

QUIET = frozenset(
    {
        "producer_id",
        "sequence_id",
        "highest_sequence_id",
        "num_messages",
        "message_id",
        "producer_name",
        "publish_time",
        "properties",
        "num_messages_in_batch",
        "compression",
        "uncompressed_size",
        "schema_version",
        "partition_key",
        "partition_key_b64_encoded",
        "ordering_key",
        "event_time",
    }
)
"""Fields of SEND, its receipt and metadata that rules see in columns (`ConnectionRule.columns`), or that no rule reads."""

QUIET_DELIVERED = QUIET - {"num_messages"} | {"consumer_id", "consumer_epoch"}
"""The same for MESSAGE and metadata."""

QUIET_ACKNOWLEDGED = frozenset({"consumer_id", "ack_type", "message_id"})
"""The same for ACK."""
