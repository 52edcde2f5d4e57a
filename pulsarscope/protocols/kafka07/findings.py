"""Finding codes of Kafka 0.7: frame, payload and session layers. Most are shared with other protocols, but have their own texts."""

from __future__ import annotations

from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES
from pulsarscope.model.findings import FRAME, PAYLOAD, SESSION, table

CODES = table(
    # frame
    FRAME.error(
        "frame-malformed",
        "A frame is neither a request nor a response of Kafka 0.7.",
        "Look at its bytes with -x; suspect the sender, a later version of the protocol, or a broken capture.",
    ),
    FRAME.error(
        "frame-too-large",
        "A frame announces more bytes than are read.",
        "Brokers close a connection with a request above max.socket.request.bytes, 100 MiB by default.",
    ),
    GENERIC_CODES["frame-truncated"],
    GENERIC_CODES["frame-unfinished"],
    FRAME.note(
        "bytes-skipped",
        "Bytes between frames that do not form a frame.",
        "They follow a gap, a start in mid-stream, or damage; decoding resumed after them.",
    ),
    FRAME.warning("trailing-bytes", "Bytes follow the contents of a frame.", "The sender's length and contents disagree."),
    FRAME.error(
        "response-mismatch",
        "A response does not match its request.",
        "Responses are identified only by their order: the capture may lack a frame, or the broker answered wrongly.",
    ),
    FRAME.warning(
        "unknown-enum", "A magic, codec or error without a name in Kafka 0.7.", "A custom client, or a later version of the protocol."
    ),
    FRAME.warning("invalid-utf8", "A topic that is not UTF-8.", "Its bytes are shown escaped."),
    FRAME.error(
        "checksum-mismatch",
        "The CRC32 of a message does not match its payload.",
        "Produced: the broker refuses the set and closes the connection; suspect the producer or the network. Fetched: the segment on the "
        "broker's disk is damaged, and consumers stop there.",
    ),
    FRAME.note(
        "not-kafka07",
        "Traffic on a Kafka port that is not Kafka 0.7.",
        "Leave it out with a capture filter, or use another tool: Kafka 0.8 and later are another protocol.",
    ),
    # payload
    PAYLOAD.error(
        "decompress-failed",
        "A compressed message set does not decompress.",
        "The bytes do not match the codec: look at the producer's client library. Kafka 0.7.0 does not know Snappy.",
    ),
    PAYLOAD.error(
        "decompress-bomb", "A compressed message set gives more bytes than are allowed.", "Damage or an attack; it was not decompressed."
    ),
    PAYLOAD.error(
        "nested-too-deep",
        "Compressed message sets are nested deeper than any producer writes.",
        "Damage or an attack; the inner ones were not decompressed.",
    ),
    PAYLOAD.error(
        "message-set-corrupt",
        "A message set holds bytes that are not a message.",
        "The messages before the damage are shown. A fetch from an offset within a message looks the same: compare its offset with "
        "OFFSETS.",
    ),
    # session
    SESSION.warning("session-cap", "Too many requests wait on one connection.", "The oldest ones were reported as unanswered."),
)
