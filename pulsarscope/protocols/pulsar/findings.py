"""The finding codes of Pulsar: frame, payload and session layers."""

from __future__ import annotations

from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES
from pulsarscope.model.findings import FRAME, PAYLOAD, SESSION, table

CODES = table(
    # frame
    FRAME.error(
        "frame-malformed",
        "A frame's sizes contradict each other, or its command does not decode.",
        "Look at its bytes with -x; suspect the sender or a broken capture.",
        to_act="the authors of the sender",
    ),
    FRAME.error(
        "frame-too-large",
        "A frame announces more bytes than the broker allows.",
        "The broker closes such a connection, and the client sends the message again on the next one: raise maxMessageSize on both sides, "
        "or use chunking. If these are bytes of another protocol, another service or a proxy answers at this address: look at the service "
        "URL and at DNS.",
        ("bytes-skipped", "connection-closed-by-broker", "connection-reset", "reconnect-loop"),
        to_act="the application, or the broker's operators",
    ),
    GENERIC_CODES["frame-truncated"],
    GENERIC_CODES["frame-unfinished"],
    FRAME.note(
        "bytes-skipped",
        "Bytes between frames that do not form a frame.",
        "They follow a gap, a start in mid-stream, or damage; decoding resumed after them.",
    ),
    FRAME.warning(
        "trailing-bytes",
        "Bytes follow a command that carries no payload.",
        "The sender's frame and command sizes disagree.",
        to_act="the authors of the sender",
    ),
    FRAME.warning("unknown-command", "A command type that this version does not know.", "A newer client or broker: update pulsarscope."),
    FRAME.warning("unknown-enum", "An enum value without a name.", "A newer client or broker: update pulsarscope."),
    FRAME.error(
        "required-field-missing",
        "A command or its metadata lacks a required field.",
        "The peer refuses such a command; look at the sender.",
        to_act="the authors of the sender",
    ),
    FRAME.error(
        "body-mismatch",
        "The body of a command does not match its type.",
        "The type is taken as right; look at the sender.",
        to_act="the authors of the sender",
    ),
    FRAME.warning("invalid-utf8", "Text that is not UTF-8.", "Its bytes are shown escaped."),
    FRAME.error(
        "checksum-mismatch",
        "A checksum does not match the bytes that it covers.",
        "The message was damaged in transit: compare a capture of the previous hop.",
        to_act="the network's operators",
    ),
    FRAME.note("checksum-absent", "A payload frame carries no CRC32-C.", "An old or custom client; damage goes unnoticed."),
    FRAME.note(
        "not-pulsar", "Traffic on a Pulsar port that is not Pulsar.", "Exclude it with a capture filter, or find out why it uses this port."
    ),
    FRAME.warning(
        "tls-on-plain-port",
        "TLS on the port for plain connections.",
        "The client's service URL says pulsar+ssl:// and the plain port: use the TLS port. The broker takes the first bytes for a size and "
        "logs an adjusted frame length of 369295620 or a little more.",
        to_act="the application",
    ),
    FRAME.warning(
        "http-on-plain-port",
        "HTTP on the port of the binary protocol.",
        "The service URL says http:// and the binary port: use pulsar://, or the web port. The broker reads GET as a size and logs an "
        "adjusted frame length of 1195725860.",
        to_act="the application",
    ),
    # payload
    PAYLOAD.error(
        "decompress-failed",
        "A payload does not decompress.",
        "The bytes do not match the codec: look at the producer's client library.",
        to_act="the producer's application",
    ),
    PAYLOAD.error(
        "decompress-bomb",
        "A payload claims, or decompresses to, more bytes than are allowed.",
        "Damage or an attack; it was not decompressed.",
        to_act="the producer's application",
    ),
    PAYLOAD.note(
        "snappy-framed",
        "SNAPPY in its framed form, which the Java client cannot read.",
        "The Rust client writes this form: use another codec.",
    ),
    PAYLOAD.note("zlib-unfinished", "A ZLIB stream without its end.", "The Java client writes this form; the content is complete."),
    PAYLOAD.error(
        "batch-corrupt",
        "A batch does not hold the messages that its metadata announces.",
        "The messages before the damage are shown; look at the producer's client library.",
        to_act="the producer's application",
    ),
    PAYLOAD.error(
        "size-mismatch",
        "A payload does not decompress to the size in its metadata.",
        "Java clients drop such a message; look at the producer's client library.",
        to_act="the producer's application",
    ),
    PAYLOAD.warning(
        "chunk-missing",
        "Chunks of a message are missing or out of order.",
        "They may be in a gap, or on an earlier connection of the client.",
        to_act="the producer's application",
    ),
    PAYLOAD.note(
        "chunk-incomplete",
        "The capture begins or ends within a chunked message.",
        "Capture for longer: the producer was still sending, or had sent its first chunks before.",
    ),
    PAYLOAD.note(
        "chunk-duplicate", "A chunk of a message comes again.", "It was delivered again, or sent again after a reconnect; it counts once."
    ),
    PAYLOAD.error(
        "chunk-invalid",
        "A chunk has an impossible number, or another count of chunks than those before it.",
        "Consumers drop such a message: look at the producer's client library.",
        to_act="the producer's application",
    ),
    PAYLOAD.warning(
        "chunk-cap",
        "Too many chunks wait on one connection.",
        "The oldest ones were dropped, and their message is not decoded; messages of more than 64 MiB never are.",
    ),
    PAYLOAD.note(
        "encrypted-payload",
        "A payload is encrypted end to end.",
        "Pass the private key for one of the named keys (--private-key) to read it.",
    ),
    PAYLOAD.error(
        "decrypt-failed",
        "An encrypted payload does not decrypt, although its data key does.",
        "Consumers cannot read it either: it was damaged, or the producer's client library encrypted it wrongly.",
        to_act="the producer's application",
    ),
    PAYLOAD.warning(
        "value-undecodable",
        "A payload does not match the schema of its topic.",
        "Consumers fail on it: look at who produced it. If the schema was given with --schema, it may be the wrong one.",
        to_act="the producer's application",
    ),
    PAYLOAD.note(
        "schema-unknown",
        "Messages name a schema version that is unknown on their connection.",
        "Give it with --schema TOPIC=FILE to see their values; pulsar-admin schemas get prints it.",
    ),
    PAYLOAD.warning(
        "payload-decoder-failed",
        "A payload decoder of another package failed on a payload.",
        "Look at the decoder, or at who produced the payload; the values are left out.",
        to_act="the authors of the decoder",
    ),
    # session
    SESSION.warning(
        "batch-mixes-keys",
        "A batch with messages of several keys was delivered in a Key_Shared subscription with several consumers.",
        "The broker chooses the consumer by the key of the first message, so messages of one key reach several consumers and lose their "
        "order: turn on key-based batching in the producers (BatcherBuilder.KEY_BASED, KeyBasedBatchBuilder), or turn batching off.",
        to_act="the producer's application",
    ),
    SESSION.warning("session-cap", "Too many requests wait on one connection.", "The oldest ones were reported as unanswered."),
)
