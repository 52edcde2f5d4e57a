"""Pulsar frames: [totalSize][commandSize][BaseCommand], and for payload commands
[0x0e02, size, BrokerEntryMetadata]? [0x0e01, CRC32-C]? [metadataSize][MessageMetadata][payload].
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec

import cramjam
import lz4.block
import zstandard
from crc32c import crc32c

from tests.scenarios import pulsar_pb2 as pb

CHECKSUM_MAGIC = b"\x0e\x01"
BROKER_ENTRY_MAGIC = b"\x0e\x02"
PUBLISH_TIME_MS = 1_700_000_000_000
"""Default publish_time: a fixed moment, so that equal calls give equal bytes."""

KEPT_FRAMES, KEPT_FRAME_BYTES = 20_000, 500
"""Bounds of the frames that an encoder keeps: their number, and the size of each."""

_P = ParamSpec("_P")
_BODY_FIELDS = {field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields}


class Single(NamedTuple):
    """One message of a batch; `fields` are those of SingleMessageMetadata (payload_size is filled in)."""

    payload: bytes
    fields: dict[str, Any] = {}  # noqa: RUF012 - never written to


def sized(data: bytes) -> bytes:
    """Data after its length in four bytes."""
    return struct.pack(">I", len(data)) + data


def kept(encode: Callable[_P, bytes]) -> Callable[_P, bytes]:
    """An encoder that keeps small frames, because the cases of a test have most of them in common; lists and dicts are encoded anew."""
    known: dict[Any, bytes] = {}

    @wraps(encode)
    def encode_once(*args: _P.args, **kwargs: _P.kwargs) -> bytes:
        key = (args, *kwargs.items(), *map(type, kwargs.values()))  # a checksum may be True or 1
        try:
            return known[key]
        except KeyError:
            frame = encode(*args, **kwargs)
        except TypeError:
            return encode(*args, **kwargs)
        if len(frame) <= KEPT_FRAME_BYTES:
            if len(known) == KEPT_FRAMES:
                known.clear()
            known[key] = frame
        return frame

    return encode_once


def base_command(name: str, **fields: Any) -> bytes:
    """A serialized BaseCommand.

    Args:
        name: the command, named as in the protocol ("SEND_RECEIPT").
        fields: those of its sub-message; nested messages as dicts, enums by name.
    """
    serialized: bytes = _command(name, fields).SerializeToString()
    return serialized


def _command(name: str, fields: dict[str, Any]) -> Any:
    number = pb.BaseCommand.Type.Value(name)
    # in this protocol, the field number of a sub-message is the number of its command
    return pb.BaseCommand(type=number, **{_BODY_FIELDS[number]: fields})


def command_frame(name: str, **fields: Any) -> bytes:
    """A frame without payload. See `base_command` for the arguments."""
    return sized(sized(base_command(name, **fields)))


def partial_frame(name: str, **fields: Any) -> bytes:
    """A frame of a command that may lack required fields."""
    return sized(sized(_command(name, fields).SerializePartialToString()))


def message_metadata(**fields: Any) -> bytes:
    """A serialized MessageMetadata; the three required fields have defaults."""
    required: dict[str, Any] = {"producer_name": "producer-1", "sequence_id": 0, "publish_time": PUBLISH_TIME_MS}
    serialized: bytes = pb.MessageMetadata(**(required | fields)).SerializeToString()
    return serialized


def payload_frame(
    name: str,
    metadata: bytes,
    payload: bytes,
    *,
    checksum: bool | int = True,
    broker_entry: dict[str, Any] | None = None,
    **fields: Any,
) -> bytes:
    """A SEND or MESSAGE frame.

    Args:
        name: "SEND" or "MESSAGE".
        metadata: serialized MessageMetadata.
        payload: as on the wire: batched, compressed, or plain.
        checksum: True for the correct CRC32-C, False for none; a number is written as it is.
        broker_entry: fields of BrokerEntryMetadata, written before the checksum.
        fields: those of the command.
    """
    rest = sized(metadata) + payload
    if checksum is not False:
        value = crc32c(rest) if checksum is True else checksum
        rest = CHECKSUM_MAGIC + struct.pack(">I", value) + rest
    if broker_entry is not None:
        rest = BROKER_ENTRY_MAGIC + sized(pb.BrokerEntryMetadata(**broker_entry).SerializeToString()) + rest
    return sized(sized(base_command(name, **fields)) + rest)


def batch(messages: Sequence[Single]) -> bytes:
    """The uncompressed payload of a batch: [metadataSize][SingleMessageMetadata][payload] for each message."""
    parts = []
    for message in messages:
        single = pb.SingleMessageMetadata(payload_size=len(message.payload), **message.fields)
        parts.append(sized(single.SerializeToString()) + message.payload)
    return b"".join(parts)


def compress(codec: str, payload: bytes) -> bytes:
    """A payload as Pulsar clients compress it; codec as in CompressionType ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")."""
    if codec == "NONE":
        return payload
    if codec == "LZ4":
        packed: bytes = lz4.block.compress(payload, store_size=False)
        return packed
    if codec == "ZLIB":
        return zlib.compress(payload)
    if codec == "ZSTD":
        return zstandard.ZstdCompressor().compress(payload)
    if codec == "SNAPPY":
        return bytes(cramjam.snappy.compress_raw(payload))
    message = f"no such codec: {codec}"
    raise ValueError(message)
