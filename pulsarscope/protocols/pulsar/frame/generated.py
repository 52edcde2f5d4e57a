"""The fast reader: made by proto/readers.py; what it cannot read raises one of FALLBACK_ERRORS."""

from __future__ import annotations

from typing import Any

from pulsarscope.protocols.pulsar.frame.fast_path import (
    BOOLS,
    FALLBACK_ERRORS,
    KEYS,
    NAMES,
    RESTS,
    SIZE,
    SIZE_ERROR,
    TIMES,
    UncommonFormError,
    Reader,
    long_int32,
    long_int64,
    long_size,
    long_uint32,
    optional_fields,
    read_name,
    read_optional,
    read_time,
    remember_rest,
)
from pulsarscope.protocols.pulsar.frame.schema import ENUMS

_COMMAND_ACK_ACK_TYPE = ENUMS["CommandAck.AckType"]


_MESSAGE_ID_DATA = optional_fields("MessageIdData")


def message_id_data(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    ledgerId_ = data[at + 1]
    at += 2
    if ledgerId_ > 127:
        ledgerId_, at = long_int64(data, at, ledgerId_)
    if data[at] != 16:
        raise UncommonFormError
    entryId_ = data[at + 1]
    at += 2
    if entryId_ > 127:
        entryId_, at = long_int64(data, at, entryId_)
    out: dict[str, Any] = {"ledgerId": ledgerId_, "entryId": entryId_}
    return out if at == end else read_optional(data, at, end, out, _MESSAGE_ID_DATA)


_COMMAND_SEND = optional_fields("CommandSend", MessageIdData=message_id_data)


def command_send(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    producer_id_ = data[at + 1]
    at += 2
    if producer_id_ > 127:
        producer_id_, at = long_int64(data, at, producer_id_)
    if data[at] != 16:
        raise UncommonFormError
    sequence_id_ = data[at + 1]
    at += 2
    if sequence_id_ > 127:
        sequence_id_, at = long_int64(data, at, sequence_id_)
    out: dict[str, Any] = {"producer_id": producer_id_, "sequence_id": sequence_id_}
    return out if at == end else read_optional(data, at, end, out, _COMMAND_SEND)


_COMMAND_SEND_RECEIPT = optional_fields("CommandSendReceipt", MessageIdData=message_id_data)


def command_send_receipt(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    producer_id_ = data[at + 1]
    at += 2
    if producer_id_ > 127:
        producer_id_, at = long_int64(data, at, producer_id_)
    if data[at] != 16:
        raise UncommonFormError
    sequence_id_ = data[at + 1]
    at += 2
    if sequence_id_ > 127:
        sequence_id_, at = long_int64(data, at, sequence_id_)
    out: dict[str, Any] = {"producer_id": producer_id_, "sequence_id": sequence_id_}
    return out if at == end else read_optional(data, at, end, out, _COMMAND_SEND_RECEIPT)


_COMMAND_MESSAGE = optional_fields("CommandMessage")


def command_message(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 2
    if consumer_id_ > 127:
        consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 2
    if size > 127:
        size, at = long_size(data, at, size, end)
    stop = at + size
    message_id_ = message_id_data(data, at, stop)
    at = stop
    out: dict[str, Any] = {"consumer_id": consumer_id_, "message_id": message_id_}
    return out if at == end else read_optional(data, at, end, out, _COMMAND_MESSAGE)


def key_long_value(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 2
    if size > 127:
        size, at = long_size(data, at, size, end)
    stop = at + size
    key_ = KEYS[data[at:stop]]
    at = stop
    if data[at] != 16:
        raise UncommonFormError
    value_ = data[at + 1]
    at += 2
    if value_ > 127:
        value_, at = long_int64(data, at, value_)
    out: dict[str, Any] = {"key": key_, "value": value_}
    if at != end:
        raise UncommonFormError
    return out


_COMMAND_ACK = optional_fields("CommandAck", KeyLongValue=key_long_value, MessageIdData=message_id_data)


def command_ack(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 2
    if consumer_id_ > 127:
        consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    ack_type_ = _COMMAND_ACK_ACK_TYPE[data[at + 1]]
    at += 2
    out: dict[str, Any] = {"consumer_id": consumer_id_, "ack_type": ack_type_}
    return out if at == end else read_optional(data, at, end, out, _COMMAND_ACK)


def command_flow(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 2
    if consumer_id_ > 127:
        consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    messagePermits_ = data[at + 1]
    at += 2
    if messagePermits_ > 127:
        messagePermits_, at = long_uint32(data, at, messagePermits_)
    out: dict[str, Any] = {"consumer_id": consumer_id_, "messagePermits": messagePermits_}
    if at != end:
        raise UncommonFormError
    return out


def key_value(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 2
    if size > 127:
        size, at = long_size(data, at, size, end)
    stop = at + size
    key_ = KEYS[data[at:stop]]
    at = stop
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 2
    if size > 127:
        size, at = long_size(data, at, size, end)
    stop = at + size
    value_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"key": key_, "value": value_}
    if at != end:
        raise UncommonFormError
    return out


_ENCRYPTION_KEYS = optional_fields("EncryptionKeys", KeyValue=key_value)


def encryption_keys(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 2
    if size > 127:
        size, at = long_size(data, at, size, end)
    stop = at + size
    key_ = KEYS[data[at:stop]]
    at = stop
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 2
    if size > 127:
        size, at = long_size(data, at, size, end)
    stop = at + size
    value_ = data[at:stop]
    at = stop
    out: dict[str, Any] = {"key": key_, "value": value_}
    return out if at == end else read_optional(data, at, end, out, _ENCRYPTION_KEYS)


_MESSAGE_METADATA = optional_fields("MessageMetadata", EncryptionKeys=encryption_keys, KeyValue=key_value)


def message_metadata(data: bytes, at: int, end: int) -> dict[str, Any]:
    stop = at + 2 + data[at + 1]
    producer_name_ = NAMES.get(data[at:stop], "")
    if producer_name_:
        at = stop
    else:
        producer_name_, at = read_name(data, at, end, 10)
    if data[at] != 16:
        raise UncommonFormError
    sequence_id_ = data[at + 1]
    at += 2
    if sequence_id_ > 127:
        sequence_id_, at = long_int64(data, at, sequence_id_)
    if data[at] != 24:
        raise UncommonFormError
    publish_time_ = TIMES.get(data[at + 1 : at + 7], 0)
    if publish_time_:
        at += 7
    else:
        publish_time_, at = read_time(data, at + 1)
    out: dict[str, Any] = {"producer_name": producer_name_, "sequence_id": sequence_id_, "publish_time": publish_time_}
    return out if at == end else message_metadata_rest(data, at, end, out)


def message_metadata_rest(data: bytes, at: int, end: int, out: dict[str, Any]) -> dict[str, Any]:
    raw = data[at:end]
    rest = RESTS.get(raw)
    if rest is None:
        rest = read_optional(data, at, end, {}, _MESSAGE_METADATA)
        remember_rest(raw, rest)
    out.update(rest)
    return out


_BROKER_ENTRY_METADATA = optional_fields("BrokerEntryMetadata")


def broker_entry_metadata(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    return out if at == end else read_optional(data, at, end, out, _BROKER_ENTRY_METADATA)


def single_messages(
    data: bytes,
    position: int,
    limit: int,
    default_id: int | None,
    sizes: list[int],
    keys: list[str | None],
    sequence_ids: list[int | None],
    properties: list[dict[str, str] | None] | None,
    payloads: list[bytes] | None,
) -> int:
    # Read messages of a batch into columns, up to the first with other fields, or an odd one; the position behind them.
    batch_end = len(data)
    unpack = SIZE.unpack_from
    try:
        for _ in range(limit):
            metadata_at = at = position + 4
            end = at + unpack(data, position)[0]
            tag = data[at]
            pairs: dict[str, str] | None = None
            if tag == 10:
                pairs = {}
                while tag == 10:
                    size = data[at + 1]
                    at += 2
                    if size > 127:
                        size, at = long_size(data, at, size, end)
                    stop = at + size
                    pair_end = stop
                    if data[at] != 10:
                        return position
                    size = data[at + 1]
                    at += 2
                    if size > 127:
                        size, at = long_size(data, at, size, end)
                    stop = at + size
                    key_at, key_end = at, stop
                    at = stop
                    if data[at] != 18:
                        return position
                    size = data[at + 1]
                    at += 2
                    if size > 127:
                        size, at = long_size(data, at, size, end)
                    stop = at + size
                    if stop != pair_end:
                        return position
                    if properties is not None:
                        pairs[KEYS[data[key_at:key_end]]] = data[at:stop].decode()
                    at = stop
                    tag = data[at]
                if properties is None and not data[metadata_at:at].isascii():
                    return position
            partition_key = None
            if tag == 18:
                size = data[at + 1]
                at += 2
                if size > 127:
                    size, at = long_size(data, at, size, end)
                stop = at + size
                partition_key = data[at:stop].decode()
                at = stop
                tag = data[at]
            if tag != 24:
                return position
            payload_size = data[at + 1]
            at += 2
            if payload_size > 127:
                payload_size, at = long_int32(data, at, payload_size)
            sequence_id = default_id
            if at != end:
                if data[at] != 64:
                    return position
                sequence_id = data[at + 1]
                at += 2
                if sequence_id > 127:
                    sequence_id, at = long_int64(data, at, sequence_id)
            after = at + payload_size
            if at != end or payload_size < 0 or after > batch_end:
                return position
            sizes.append(payload_size)
            keys.append(partition_key)
            sequence_ids.append(sequence_id)
            if properties is not None:
                properties.append(pairs)
            if payloads is not None:
                payloads.append(data[at:after])
            position = after
    except (*FALLBACK_ERRORS, SIZE_ERROR):
        pass
    return position


READERS: dict[str, Reader] = {
    "MessageIdData": message_id_data,
    "CommandSend": command_send,
    "CommandSendReceipt": command_send_receipt,
    "CommandMessage": command_message,
    "KeyLongValue": key_long_value,
    "CommandAck": command_ack,
    "CommandFlow": command_flow,
    "KeyValue": key_value,
    "EncryptionKeys": encryption_keys,
    "MessageMetadata": message_metadata,
    "BrokerEntryMetadata": broker_entry_metadata,
}
"""Readers by message."""
