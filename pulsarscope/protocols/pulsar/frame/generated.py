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
    long_uint32,
    read_name,
    read_time,
    remember_rest,
)
from pulsarscope.protocols.pulsar.frame.schema import ENUMS

_AUTH_METHOD = ENUMS["AuthMethod"]
_COMMAND_ACK_ACK_TYPE = ENUMS["CommandAck.AckType"]
_COMMAND_ACK_VALIDATION_ERROR = ENUMS["CommandAck.ValidationError"]
_COMMAND_GET_TOPICS_OF_NAMESPACE_MODE = ENUMS["CommandGetTopicsOfNamespace.Mode"]
_COMMAND_LOOKUP_TOPIC_RESPONSE_LOOKUP_TYPE = ENUMS["CommandLookupTopicResponse.LookupType"]
_COMMAND_PARTITIONED_TOPIC_METADATA_RESPONSE_LOOKUP_TYPE = ENUMS["CommandPartitionedTopicMetadataResponse.LookupType"]
_COMMAND_SUBSCRIBE_INITIAL_POSITION = ENUMS["CommandSubscribe.InitialPosition"]
_COMMAND_SUBSCRIBE_SUB_TYPE = ENUMS["CommandSubscribe.SubType"]
_COMMAND_TOPIC_MIGRATED_RESOURCE_TYPE = ENUMS["CommandTopicMigrated.ResourceType"]
_COMPRESSION_TYPE = ENUMS["CompressionType"]
_KEY_SHARED_MODE = ENUMS["KeySharedMode"]
_PRODUCER_ACCESS_MODE = ENUMS["ProducerAccessMode"]
_SCALABLE_CONSUMER_TYPE = ENUMS["ScalableConsumerType"]
_SCHEMA_TYPE = ENUMS["Schema.Type"]
_SEGMENT_STATE = ENUMS["SegmentState"]
_SERVER_ERROR = ENUMS["ServerError"]
_TXN_ACTION = ENUMS["TxnAction"]


def feature_flags(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 8:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_auth_refresh"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 16:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_broker_entry_metadata"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_partial_producer"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_topic_watchers"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_get_partitioned_metadata_without_auto_creation"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_repl_dedup_by_lid_and_eid"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 56:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_topic_watcher_reconcile"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 64:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_scalable_topics"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 72:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["supports_tc_metadata_discovery"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_connect(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    client_version_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"client_version": client_version_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = _AUTH_METHOD[data[at + 1]]
        at += 1 + 1
        out["auth_method"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["protocol_version"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["auth_method_name"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 58:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["original_principal"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 74:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["original_auth_method"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 82:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = feature_flags(data, at, stop)
        at = stop
        out["feature_flags"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 90:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["proxy_version"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_connected(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    server_version_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"server_version": server_version_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["protocol_version"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["max_message_size"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = feature_flags(data, at, stop)
        at = stop
        out["feature_flags"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def message_id_data(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    ledgerId_ = data[at + 1]
    at += 1 + 1
    if ledgerId_ > 127:
        byte = data[at]
        at += 1
        ledgerId_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            ledgerId_ += (byte << 14) - 16384
            if byte > 127:
                ledgerId_, at = long_int64(data, at, ledgerId_)
    if data[at] != 16:
        raise UncommonFormError
    entryId_ = data[at + 1]
    at += 1 + 1
    if entryId_ > 127:
        byte = data[at]
        at += 1
        entryId_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            entryId_ += (byte << 14) - 16384
            if byte > 127:
                entryId_, at = long_int64(data, at, entryId_)
    out: dict[str, Any] = {"ledgerId": ledgerId_, "entryId": entryId_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["partition"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["batch_index"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        items = out["ack_set"] = []
        while tag == 40:
            value = data[at + 1]
            at += 1 + 1
            if value > 127:
                byte = data[at]
                at += 1
                value += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    value += (byte << 14) - 16384
                    if byte > 127:
                        value, at = long_int64(data, at, value)
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 48:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["batch_size"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def key_value(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    key_ = KEYS[data[at:stop]]
    at = stop
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    value_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"key": key_, "value": value_}
    if at == end:
        return out
    raise UncommonFormError


def schema(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    name_ = data[at:stop].decode()
    at = stop
    if data[at] != 26:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    schema_data_ = data[at:stop]
    at = stop
    if data[at] != 32:
        raise UncommonFormError
    type_ = _SCHEMA_TYPE[data[at + 1]]
    at += 1 + 1
    out: dict[str, Any] = {"name": name_, "schema_data": schema_data_, "type": type_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 42:
        items = out["properties"] = []
        while tag == 42:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def int_range(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    start_ = data[at + 1]
    at += 1 + 1
    if start_ > 127:
        byte = data[at]
        at += 1
        start_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            start_ += (byte << 14) - 16384
            if byte > 127:
                start_, at = long_int32(data, at, start_)
    if data[at] != 16:
        raise UncommonFormError
    end_ = data[at + 1]
    at += 1 + 1
    if end_ > 127:
        byte = data[at]
        at += 1
        end_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            end_ += (byte << 14) - 16384
            if byte > 127:
                end_, at = long_int32(data, at, end_)
    out: dict[str, Any] = {"start": start_, "end": end_}
    if at == end:
        return out
    raise UncommonFormError


def key_shared_meta(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    keySharedMode_ = _KEY_SHARED_MODE[data[at + 1]]
    at += 1 + 1
    out: dict[str, Any] = {"keySharedMode": keySharedMode_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 26:
        items = out["hashRanges"] = []
        while tag == 26:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = int_range(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 32:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["allowOutOfOrderDelivery"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_subscribe(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    subscription_ = data[at:stop].decode()
    at = stop
    if data[at] != 24:
        raise UncommonFormError
    subType_ = _COMMAND_SUBSCRIBE_SUB_TYPE[data[at + 1]]
    at += 1 + 1
    if data[at] != 32:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 40:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"topic": topic_, "subscription": subscription_, "subType": subType_, "consumer_id": consumer_id_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 50:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["consumer_name"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 56:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["priority_level"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 64:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["durable"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 74:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = message_id_data(data, at, stop)
        at = stop
        out["start_message_id"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 82:
        items = out["metadata"] = []
        while tag == 82:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 88:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["read_compacted"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 98:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = schema(data, at, stop)
        at = stop
        out["schema"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 104:
        value = _COMMAND_SUBSCRIBE_INITIAL_POSITION[data[at + 1]]
        at += 1 + 1
        out["initialPosition"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 112:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["replicate_subscription_state"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 120:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["force_topic_creation"] = value
        if at == end:
            return out
        tag = data[at]
    if tag > 127:
        tag += data[at + 1] << 8
    if tag == 384:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["start_message_rollback_duration_sec"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 394:
        size = data[at + 2]
        at += 2 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = key_shared_meta(data, at, stop)
        at = stop
        out["keySharedMeta"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 402:
        items = out["subscription_properties"] = []
        while tag == 402:
            size = data[at + 2]
            at += 2 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at] + (data[at + 1] << 8)
    if tag == 408:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["consumer_epoch"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    raise UncommonFormError


def command_producer(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    if data[at] != 16:
        raise UncommonFormError
    producer_id_ = data[at + 1]
    at += 1 + 1
    if producer_id_ > 127:
        byte = data[at]
        at += 1
        producer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            producer_id_ += (byte << 14) - 16384
            if byte > 127:
                producer_id_, at = long_int64(data, at, producer_id_)
    if data[at] != 24:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"topic": topic_, "producer_id": producer_id_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["producer_name"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["encrypted"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 50:
        items = out["metadata"] = []
        while tag == 50:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 58:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = schema(data, at, stop)
        at = stop
        out["schema"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 64:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["epoch"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 72:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["user_provided_producer_name"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 80:
        value = _PRODUCER_ACCESS_MODE[data[at + 1]]
        at += 1 + 1
        out["producer_access_mode"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 88:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["topic_epoch"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 96:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["txn_enabled"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 106:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["initial_subscription_name"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_send(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    producer_id_ = data[at + 1]
    at += 1 + 1
    if producer_id_ > 127:
        byte = data[at]
        at += 1
        producer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            producer_id_ += (byte << 14) - 16384
            if byte > 127:
                producer_id_, at = long_int64(data, at, producer_id_)
    if data[at] != 16:
        raise UncommonFormError
    sequence_id_ = data[at + 1]
    at += 1 + 1
    if sequence_id_ > 127:
        byte = data[at]
        at += 1
        sequence_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            sequence_id_ += (byte << 14) - 16384
            if byte > 127:
                sequence_id_, at = long_int64(data, at, sequence_id_)
    out: dict[str, Any] = {"producer_id": producer_id_, "sequence_id": sequence_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["num_messages"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["highest_sequence_id"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 56:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["is_chunk"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 64:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["marker"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 74:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = message_id_data(data, at, stop)
        at = stop
        out["message_id"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_send_receipt(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    producer_id_ = data[at + 1]
    at += 1 + 1
    if producer_id_ > 127:
        byte = data[at]
        at += 1
        producer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            producer_id_ += (byte << 14) - 16384
            if byte > 127:
                producer_id_, at = long_int64(data, at, producer_id_)
    if data[at] != 16:
        raise UncommonFormError
    sequence_id_ = data[at + 1]
    at += 1 + 1
    if sequence_id_ > 127:
        byte = data[at]
        at += 1
        sequence_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            sequence_id_ += (byte << 14) - 16384
            if byte > 127:
                sequence_id_, at = long_int64(data, at, sequence_id_)
    out: dict[str, Any] = {"producer_id": producer_id_, "sequence_id": sequence_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = message_id_data(data, at, stop)
        at = stop
        out["message_id"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["highest_sequence_id"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_send_error(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    producer_id_ = data[at + 1]
    at += 1 + 1
    if producer_id_ > 127:
        byte = data[at]
        at += 1
        producer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            producer_id_ += (byte << 14) - 16384
            if byte > 127:
                producer_id_, at = long_int64(data, at, producer_id_)
    if data[at] != 16:
        raise UncommonFormError
    sequence_id_ = data[at + 1]
    at += 1 + 1
    if sequence_id_ > 127:
        byte = data[at]
        at += 1
        sequence_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            sequence_id_ += (byte << 14) - 16384
            if byte > 127:
                sequence_id_, at = long_int64(data, at, sequence_id_)
    if data[at] != 24:
        raise UncommonFormError
    error_ = _SERVER_ERROR[data[at + 1]]
    at += 1 + 1
    if data[at] != 34:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    message_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"producer_id": producer_id_, "sequence_id": sequence_id_, "error": error_, "message": message_}
    if at == end:
        return out
    raise UncommonFormError


def command_message(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    message_id_ = message_id_data(data, at, stop)
    at = stop
    out: dict[str, Any] = {"consumer_id": consumer_id_, "message_id": message_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_uint32(data, at, value)
        out["redelivery_count"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        items = out["ack_set"] = []
        while tag == 32:
            value = data[at + 1]
            at += 1 + 1
            if value > 127:
                byte = data[at]
                at += 1
                value += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    value += (byte << 14) - 16384
                    if byte > 127:
                        value, at = long_int64(data, at, value)
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 40:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["consumer_epoch"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def key_long_value(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    key_ = KEYS[data[at:stop]]
    at = stop
    if data[at] != 16:
        raise UncommonFormError
    value_ = data[at + 1]
    at += 1 + 1
    if value_ > 127:
        byte = data[at]
        at += 1
        value_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            value_ += (byte << 14) - 16384
            if byte > 127:
                value_, at = long_int64(data, at, value_)
    out: dict[str, Any] = {"key": key_, "value": value_}
    if at == end:
        return out
    raise UncommonFormError


def command_ack(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    ack_type_ = _COMMAND_ACK_ACK_TYPE[data[at + 1]]
    at += 1 + 1
    out: dict[str, Any] = {"consumer_id": consumer_id_, "ack_type": ack_type_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 26:
        items = out["message_id"] = []
        while tag == 26:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = message_id_data(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 32:
        value = _COMMAND_ACK_VALIDATION_ERROR[data[at + 1]]
        at += 1 + 1
        out["validation_error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        items = out["properties"] = []
        while tag == 42:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_long_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 48:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 56:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 64:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["request_id"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_flow(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    messagePermits_ = data[at + 1]
    at += 1 + 1
    if messagePermits_ > 127:
        byte = data[at]
        at += 1
        messagePermits_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            messagePermits_ += (byte << 14) - 16384
            if byte > 127:
                messagePermits_, at = long_uint32(data, at, messagePermits_)
    out: dict[str, Any] = {"consumer_id": consumer_id_, "messagePermits": messagePermits_}
    if at == end:
        return out
    raise UncommonFormError


def command_unsubscribe(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 24:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["force"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_success(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = schema(data, at, stop)
        at = stop
        out["schema"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_error(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 16:
        raise UncommonFormError
    error_ = _SERVER_ERROR[data[at + 1]]
    at += 1 + 1
    if data[at] != 26:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    message_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"request_id": request_id_, "error": error_, "message": message_}
    if at == end:
        return out
    raise UncommonFormError


def command_close_producer(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    producer_id_ = data[at + 1]
    at += 1 + 1
    if producer_id_ > 127:
        byte = data[at]
        at += 1
        producer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            producer_id_ += (byte << 14) - 16384
            if byte > 127:
                producer_id_, at = long_int64(data, at, producer_id_)
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"producer_id": producer_id_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["assignedBrokerServiceUrl"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["assignedBrokerServiceUrlTls"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_close_consumer(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["assignedBrokerServiceUrl"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["assignedBrokerServiceUrlTls"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_producer_success(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    producer_name_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"request_id": request_id_, "producer_name": producer_name_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["last_sequence_id"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["schema_version"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["topic_epoch"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["producer_ready"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_ping(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    raise UncommonFormError


def command_pong(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    raise UncommonFormError


def command_redeliver_unacknowledged_messages(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 18:
        items = out["message_ids"] = []
        while tag == 18:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = message_id_data(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["consumer_epoch"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_partitioned_topic_metadata(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"topic": topic_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["original_principal"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["original_auth_method"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["metadata_auto_creation_enabled"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_partitioned_topic_metadata_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    value: Any
    tag = data[at]
    if tag == 8:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_uint32(data, at, value)
        out["partitions"] = value
        tag = data[at]
    if tag != 16:
        raise UncommonFormError
    value = data[at + 1]
    at += 1 + 1
    if value > 127:
        byte = data[at]
        at += 1
        value += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            value += (byte << 14) - 16384
            if byte > 127:
                value, at = long_int64(data, at, value)
    out["request_id"] = value
    if at == end:
        return out
    tag = data[at]
    if tag == 24:
        value = _COMMAND_PARTITIONED_TOPIC_METADATA_RESPONSE_LOOKUP_TYPE[data[at + 1]]
        at += 1 + 1
        out["response"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_lookup_topic(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"topic": topic_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 24:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["authoritative"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["original_principal"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 50:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["original_auth_method"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 58:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["advertised_listener_name"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 66:
        items = out["properties"] = []
        while tag == 66:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def command_lookup_topic_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    value: Any
    tag = data[at]
    if tag == 10:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["brokerServiceUrl"] = value
        tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["brokerServiceUrlTls"] = value
        tag = data[at]
    if tag == 24:
        value = _COMMAND_LOOKUP_TOPIC_RESPONSE_LOOKUP_TYPE[data[at + 1]]
        at += 1 + 1
        out["response"] = value
        tag = data[at]
    if tag != 32:
        raise UncommonFormError
    value = data[at + 1]
    at += 1 + 1
    if value > 127:
        byte = data[at]
        at += 1
        value += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            value += (byte << 14) - 16384
            if byte > 127:
                value, at = long_int64(data, at, value)
    out["request_id"] = value
    if at == end:
        return out
    tag = data[at]
    if tag == 40:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["authoritative"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 58:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 64:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["proxy_through_service_url"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_consumer_stats(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 32:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    out: dict[str, Any] = {"request_id": request_id_, "consumer_id": consumer_id_}
    if at == end:
        return out
    raise UncommonFormError


def command_consumer_stats_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error_code"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["error_message"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 58:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["consumerName"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 64:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["availablePermits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 72:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["unackedMessages"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 80:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["blockedConsumerOnUnackedMsgs"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 90:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["address"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 98:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["connectedSince"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 106:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["type"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 120:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["msgBacklog"] = value
        if at == end:
            return out
        tag = data[at]
    if tag > 127:
        tag += data[at + 1] << 8
    raise UncommonFormError


def command_reached_end_of_topic(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_}
    if at == end:
        return out
    raise UncommonFormError


def command_seek(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = message_id_data(data, at, stop)
        at = stop
        out["message_id"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["message_publish_time"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_get_last_message_id(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_, "request_id": request_id_}
    if at == end:
        return out
    raise UncommonFormError


def command_get_last_message_id_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    last_message_id_ = message_id_data(data, at, stop)
    at = stop
    if data[at] != 16:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"last_message_id": last_message_id_, "request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = message_id_data(data, at, stop)
        at = stop
        out["consumer_mark_delete_position"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_active_consumer_change(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["is_active"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_get_topics_of_namespace(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    namespace_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"request_id": request_id_, "namespace": namespace_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 24:
        value = _COMMAND_GET_TOPICS_OF_NAMESPACE_MODE[data[at + 1]]
        at += 1 + 1
        out["mode"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["topics_pattern"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["topics_hash"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 50:
        items = out["properties"] = []
        while tag == 50:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def command_get_topics_of_namespace_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 18:
        items = out["topics"] = []
        while tag == 18:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 24:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["filtered"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["topics_hash"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["changed"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_get_schema(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"request_id": request_id_, "topic": topic_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["schema_version"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_get_schema_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error_code"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["error_message"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = schema(data, at, stop)
        at = stop
        out["schema"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["schema_version"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def auth_data(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 10:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["auth_method_name"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_auth_challenge(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 10:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["server_version"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = auth_data(data, at, stop)
        at = stop
        out["challenge"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["protocol_version"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_auth_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 10:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["client_version"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = auth_data(data, at, stop)
        at = stop
        out["response"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["protocol_version"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_ack_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    out: dict[str, Any] = {"consumer_id": consumer_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["request_id"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_get_or_create_schema(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    if data[at] != 26:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    schema_ = schema(data, at, stop)
    at = stop
    out: dict[str, Any] = {"request_id": request_id_, "topic": topic_, "schema": schema_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["producerName"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_get_or_create_schema_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error_code"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["error_message"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["schema_version"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_new_txn(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txn_ttl_millis"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["tc_id"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["scalable"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_new_txn_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_add_partition_to_txn(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        items = out["partitions"] = []
        while tag == 34:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 40:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["scalable"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_add_partition_to_txn_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def subscription(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    subscription_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"topic": topic_, "subscription": subscription_}
    if at == end:
        return out
    raise UncommonFormError


def command_add_subscription_to_txn(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        items = out["subscription"] = []
        while tag == 34:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = subscription(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 40:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["scalable"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_add_subscription_to_txn_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_end_txn(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _TXN_ACTION[data[at + 1]]
        at += 1 + 1
        out["txn_action"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["scalable"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_end_txn_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_end_txn_on_partition(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["topic"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = _TXN_ACTION[data[at + 1]]
        at += 1 + 1
        out["txn_action"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits_of_low_watermark"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_end_txn_on_partition_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_end_txn_on_subscription(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = subscription(data, at, stop)
        at = stop
        out["subscription"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 40:
        value = _TXN_ACTION[data[at + 1]]
        at += 1 + 1
        out["txn_action"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 48:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits_of_low_watermark"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_end_txn_on_subscription_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_tc_client_connect_request(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 16:
        raise UncommonFormError
    tc_id_ = data[at + 1]
    at += 1 + 1
    if tc_id_ > 127:
        byte = data[at]
        at += 1
        tc_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            tc_id_ += (byte << 14) - 16384
            if byte > 127:
                tc_id_, at = long_int64(data, at, tc_id_)
    out: dict[str, Any] = {"request_id": request_id_, "tc_id": tc_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 24:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["scalable"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_tc_client_connect_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_watch_topic_list(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 16:
        raise UncommonFormError
    watcher_id_ = data[at + 1]
    at += 1 + 1
    if watcher_id_ > 127:
        byte = data[at]
        at += 1
        watcher_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watcher_id_ += (byte << 14) - 16384
            if byte > 127:
                watcher_id_, at = long_int64(data, at, watcher_id_)
    if data[at] != 26:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    namespace_ = data[at:stop].decode()
    at = stop
    if data[at] != 34:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topics_pattern_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"request_id": request_id_, "watcher_id": watcher_id_, "namespace": namespace_, "topics_pattern": topics_pattern_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["topics_hash"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_watch_topic_list_success(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 16:
        raise UncommonFormError
    watcher_id_ = data[at + 1]
    at += 1 + 1
    if watcher_id_ > 127:
        byte = data[at]
        at += 1
        watcher_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watcher_id_ += (byte << 14) - 16384
            if byte > 127:
                watcher_id_, at = long_int64(data, at, watcher_id_)
    out: dict[str, Any] = {"request_id": request_id_, "watcher_id": watcher_id_}
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 26:
        items = out["topic"] = []
        while tag == 26:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag != 34:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    value = data[at:stop].decode()
    at = stop
    out["topics_hash"] = value
    if at == end:
        return out
    tag = data[at]
    raise UncommonFormError


def command_watch_topic_update(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    watcher_id_ = data[at + 1]
    at += 1 + 1
    if watcher_id_ > 127:
        byte = data[at]
        at += 1
        watcher_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watcher_id_ += (byte << 14) - 16384
            if byte > 127:
                watcher_id_, at = long_int64(data, at, watcher_id_)
    out: dict[str, Any] = {"watcher_id": watcher_id_}
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 18:
        items = out["new_topics"] = []
        while tag == 18:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 26:
        items = out["deleted_topics"] = []
        while tag == 26:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag != 34:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    value = data[at:stop].decode()
    at = stop
    out["topics_hash"] = value
    if at == end:
        return out
    tag = data[at]
    raise UncommonFormError


def command_watch_topic_list_close(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 16:
        raise UncommonFormError
    watcher_id_ = data[at + 1]
    at += 1 + 1
    if watcher_id_ > 127:
        byte = data[at]
        at += 1
        watcher_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watcher_id_ += (byte << 14) - 16384
            if byte > 127:
                watcher_id_, at = long_int64(data, at, watcher_id_)
    out: dict[str, Any] = {"request_id": request_id_, "watcher_id": watcher_id_}
    if at == end:
        return out
    raise UncommonFormError


def command_topic_migrated(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    resource_id_ = data[at + 1]
    at += 1 + 1
    if resource_id_ > 127:
        byte = data[at]
        at += 1
        resource_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            resource_id_ += (byte << 14) - 16384
            if byte > 127:
                resource_id_, at = long_int64(data, at, resource_id_)
    if data[at] != 16:
        raise UncommonFormError
    resource_type_ = _COMMAND_TOPIC_MIGRATED_RESOURCE_TYPE[data[at + 1]]
    at += 1 + 1
    out: dict[str, Any] = {"resource_id": resource_id_, "resource_type": resource_type_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["brokerServiceUrl"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["brokerServiceUrlTls"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_scalable_topic_lookup(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    session_id_ = data[at + 1]
    at += 1 + 1
    if session_id_ > 127:
        byte = data[at]
        at += 1
        session_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            session_id_ += (byte << 14) - 16384
            if byte > 127:
                session_id_, at = long_int64(data, at, session_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"session_id": session_id_, "topic": topic_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 24:
        value = BOOLS[data[at + 1]]
        at += 1 + 1
        out["create_if_missing"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def segment_info_proto(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    segment_id_ = data[at + 1]
    at += 1 + 1
    if segment_id_ > 127:
        byte = data[at]
        at += 1
        segment_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            segment_id_ += (byte << 14) - 16384
            if byte > 127:
                segment_id_, at = long_int64(data, at, segment_id_)
    if data[at] != 16:
        raise UncommonFormError
    hash_start_ = data[at + 1]
    at += 1 + 1
    if hash_start_ > 127:
        byte = data[at]
        at += 1
        hash_start_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            hash_start_ += (byte << 14) - 16384
            if byte > 127:
                hash_start_, at = long_uint32(data, at, hash_start_)
    if data[at] != 24:
        raise UncommonFormError
    hash_end_ = data[at + 1]
    at += 1 + 1
    if hash_end_ > 127:
        byte = data[at]
        at += 1
        hash_end_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            hash_end_ += (byte << 14) - 16384
            if byte > 127:
                hash_end_, at = long_uint32(data, at, hash_end_)
    if data[at] != 32:
        raise UncommonFormError
    state_ = _SEGMENT_STATE[data[at + 1]]
    at += 1 + 1
    out: dict[str, Any] = {"segment_id": segment_id_, "hash_start": hash_start_, "hash_end": hash_end_, "state": state_}
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 40:
        items = out["parent_ids"] = []
        while tag == 40:
            value = data[at + 1]
            at += 1 + 1
            if value > 127:
                byte = data[at]
                at += 1
                value += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    value += (byte << 14) - 16384
                    if byte > 127:
                        value, at = long_int64(data, at, value)
            items.append(value)
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 48:
        items = out["child_ids"] = []
        while tag == 48:
            value = data[at + 1]
            at += 1 + 1
            if value > 127:
                byte = data[at]
                at += 1
                value += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    value += (byte << 14) - 16384
                    if byte > 127:
                        value, at = long_int64(data, at, value)
            items.append(value)
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag != 56:
        raise UncommonFormError
    value = data[at + 1]
    at += 1 + 1
    if value > 127:
        byte = data[at]
        at += 1
        value += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            value += (byte << 14) - 16384
            if byte > 127:
                value, at = long_int64(data, at, value)
    out["created_at_epoch"] = value
    tag = data[at]
    if tag == 64:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["sealed_at_epoch"] = value
        tag = data[at]
    if tag != 72:
        raise UncommonFormError
    value = data[at + 1]
    at += 1 + 1
    if value > 127:
        byte = data[at]
        at += 1
        value += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            value += (byte << 14) - 16384
            if byte > 127:
                value, at = long_int64(data, at, value)
    out["created_at_ms"] = value
    if at == end:
        return out
    tag = data[at]
    if tag == 80:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["sealed_at_ms"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 90:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["legacy_topic_name"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 96:
        items = out["entry_bucket_splits"] = []
        while tag == 96:
            value = data[at + 1]
            at += 1 + 1
            if value > 127:
                byte = data[at]
                at += 1
                value += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    value += (byte << 14) - 16384
                    if byte > 127:
                        value, at = long_uint32(data, at, value)
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def segment_broker_address(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    segment_id_ = data[at + 1]
    at += 1 + 1
    if segment_id_ > 127:
        byte = data[at]
        at += 1
        segment_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            segment_id_ += (byte << 14) - 16384
            if byte > 127:
                segment_id_, at = long_int64(data, at, segment_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    broker_url_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"segment_id": segment_id_, "broker_url": broker_url_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["broker_url_tls"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def scalable_topic_dag(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    epoch_ = data[at + 1]
    at += 1 + 1
    if epoch_ > 127:
        byte = data[at]
        at += 1
        epoch_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            epoch_ += (byte << 14) - 16384
            if byte > 127:
                epoch_, at = long_int64(data, at, epoch_)
    out: dict[str, Any] = {"epoch": epoch_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 18:
        items = out["segments"] = []
        while tag == 18:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = segment_info_proto(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 26:
        items = out["segment_brokers"] = []
        while tag == 26:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = segment_broker_address(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["controller_broker_url"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["controller_broker_url_tls"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_scalable_topic_update(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    session_id_ = data[at + 1]
    at += 1 + 1
    if session_id_ > 127:
        byte = data[at]
        at += 1
        session_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            session_id_ += (byte << 14) - 16384
            if byte > 127:
                session_id_, at = long_int64(data, at, session_id_)
    out: dict[str, Any] = {"session_id": session_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = scalable_topic_dag(data, at, stop)
        at = stop
        out["dag"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["resolved_topic_name"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_scalable_topic_close(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    session_id_ = data[at + 1]
    at += 1 + 1
    if session_id_ > 127:
        byte = data[at]
        at += 1
        session_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            session_id_ += (byte << 14) - 16384
            if byte > 127:
                session_id_, at = long_int64(data, at, session_id_)
    out: dict[str, Any] = {"session_id": session_id_}
    if at == end:
        return out
    raise UncommonFormError


def command_scalable_topic_subscribe(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    topic_ = data[at:stop].decode()
    at = stop
    if data[at] != 26:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    subscription_ = data[at:stop].decode()
    at = stop
    if data[at] != 34:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    consumer_name_ = data[at:stop].decode()
    at = stop
    if data[at] != 40:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 48:
        raise UncommonFormError
    consumer_type_ = _SCALABLE_CONSUMER_TYPE[data[at + 1]]
    at += 1 + 1
    out: dict[str, Any] = {"request_id": request_id_, "topic": topic_, "subscription": subscription_, "consumer_name": consumer_name_, "consumer_id": consumer_id_, "consumer_type": consumer_type_}
    if at == end:
        return out
    raise UncommonFormError


def scalable_assigned_segment(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    segment_id_ = data[at + 1]
    at += 1 + 1
    if segment_id_ > 127:
        byte = data[at]
        at += 1
        segment_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            segment_id_ += (byte << 14) - 16384
            if byte > 127:
                segment_id_, at = long_int64(data, at, segment_id_)
    if data[at] != 16:
        raise UncommonFormError
    hash_start_ = data[at + 1]
    at += 1 + 1
    if hash_start_ > 127:
        byte = data[at]
        at += 1
        hash_start_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            hash_start_ += (byte << 14) - 16384
            if byte > 127:
                hash_start_, at = long_uint32(data, at, hash_start_)
    if data[at] != 24:
        raise UncommonFormError
    hash_end_ = data[at + 1]
    at += 1 + 1
    if hash_end_ > 127:
        byte = data[at]
        at += 1
        hash_end_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            hash_end_ += (byte << 14) - 16384
            if byte > 127:
                hash_end_, at = long_uint32(data, at, hash_end_)
    if data[at] != 34:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    segment_topic_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"segment_id": segment_id_, "hash_start": hash_start_, "hash_end": hash_end_, "segment_topic": segment_topic_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 42:
        items = out["bucket_ranges"] = []
        while tag == 42:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = int_range(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def scalable_consumer_assignment(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    layout_epoch_ = data[at + 1]
    at += 1 + 1
    if layout_epoch_ > 127:
        byte = data[at]
        at += 1
        layout_epoch_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            layout_epoch_ += (byte << 14) - 16384
            if byte > 127:
                layout_epoch_, at = long_int64(data, at, layout_epoch_)
    out: dict[str, Any] = {"layout_epoch": layout_epoch_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 18:
        items = out["segments"] = []
        while tag == 18:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = scalable_assigned_segment(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def command_scalable_topic_subscribe_response(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    request_id_ = data[at + 1]
    at += 1 + 1
    if request_id_ > 127:
        byte = data[at]
        at += 1
        request_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            request_id_ += (byte << 14) - 16384
            if byte > 127:
                request_id_, at = long_int64(data, at, request_id_)
    out: dict[str, Any] = {"request_id": request_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 16:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = scalable_consumer_assignment(data, at, stop)
        at = stop
        out["assignment"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_scalable_topic_assignment_update(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    consumer_id_ = data[at + 1]
    at += 1 + 1
    if consumer_id_ > 127:
        byte = data[at]
        at += 1
        consumer_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            consumer_id_ += (byte << 14) - 16384
            if byte > 127:
                consumer_id_, at = long_int64(data, at, consumer_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    assignment_ = scalable_consumer_assignment(data, at, stop)
    at = stop
    out: dict[str, Any] = {"consumer_id": consumer_id_, "assignment": assignment_}
    if at == end:
        return out
    raise UncommonFormError


def command_watch_scalable_topics(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    watch_id_ = data[at + 1]
    at += 1 + 1
    if watch_id_ > 127:
        byte = data[at]
        at += 1
        watch_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watch_id_ += (byte << 14) - 16384
            if byte > 127:
                watch_id_, at = long_int64(data, at, watch_id_)
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    namespace_ = data[at:stop].decode()
    at = stop
    out: dict[str, Any] = {"watch_id": watch_id_, "namespace": namespace_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 26:
        items = out["property_filters"] = []
        while tag == 26:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["current_hash"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def scalable_topics_snapshot(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 10:
        items = out["topics"] = []
        while tag == 10:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def scalable_topics_diff(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 10:
        items = out["added"] = []
        while tag == 10:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 18:
        items = out["removed"] = []
        while tag == 18:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def command_watch_scalable_topics_update(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    watch_id_ = data[at + 1]
    at += 1 + 1
    if watch_id_ > 127:
        byte = data[at]
        at += 1
        watch_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watch_id_ += (byte << 14) - 16384
            if byte > 127:
                watch_id_, at = long_int64(data, at, watch_id_)
    out: dict[str, Any] = {"watch_id": watch_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = scalable_topics_snapshot(data, at, stop)
        at = stop
        out["snapshot"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = scalable_topics_diff(data, at, stop)
        at = stop
        out["diff"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 32:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_watch_scalable_topics_close(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    watch_id_ = data[at + 1]
    at += 1 + 1
    if watch_id_ > 127:
        byte = data[at]
        at += 1
        watch_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watch_id_ += (byte << 14) - 16384
            if byte > 127:
                watch_id_, at = long_int64(data, at, watch_id_)
    out: dict[str, Any] = {"watch_id": watch_id_}
    if at == end:
        return out
    raise UncommonFormError


def command_watch_tc_assignments(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    watch_id_ = data[at + 1]
    at += 1 + 1
    if watch_id_ > 127:
        byte = data[at]
        at += 1
        watch_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watch_id_ += (byte << 14) - 16384
            if byte > 127:
                watch_id_, at = long_int64(data, at, watch_id_)
    out: dict[str, Any] = {"watch_id": watch_id_}
    if at == end:
        return out
    raise UncommonFormError


def tc_assignment(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    tc_id_ = data[at + 1]
    at += 1 + 1
    if tc_id_ > 127:
        byte = data[at]
        at += 1
        tc_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            tc_id_ += (byte << 14) - 16384
            if byte > 127:
                tc_id_, at = long_int64(data, at, tc_id_)
    out: dict[str, Any] = {"tc_id": tc_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["broker_service_url"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 26:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["broker_service_url_tls"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def tc_assignments_snapshot(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    parallelism_ = data[at + 1]
    at += 1 + 1
    if parallelism_ > 127:
        byte = data[at]
        at += 1
        parallelism_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            parallelism_ += (byte << 14) - 16384
            if byte > 127:
                parallelism_, at = long_uint32(data, at, parallelism_)
    out: dict[str, Any] = {"parallelism": parallelism_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 18:
        items = out["assignments"] = []
        while tag == 18:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = tc_assignment(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


def command_watch_tc_assignments_update(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    watch_id_ = data[at + 1]
    at += 1 + 1
    if watch_id_ > 127:
        byte = data[at]
        at += 1
        watch_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watch_id_ += (byte << 14) - 16384
            if byte > 127:
                watch_id_, at = long_int64(data, at, watch_id_)
    out: dict[str, Any] = {"watch_id": watch_id_}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 18:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = tc_assignments_snapshot(data, at, stop)
        at = stop
        out["snapshot"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 24:
        value = _SERVER_ERROR[data[at + 1]]
        at += 1 + 1
        out["error"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 34:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["message"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


def command_watch_tc_assignments_close(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 8:
        raise UncommonFormError
    watch_id_ = data[at + 1]
    at += 1 + 1
    if watch_id_ > 127:
        byte = data[at]
        at += 1
        watch_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            watch_id_ += (byte << 14) - 16384
            if byte > 127:
                watch_id_, at = long_int64(data, at, watch_id_)
    out: dict[str, Any] = {"watch_id": watch_id_}
    if at == end:
        return out
    raise UncommonFormError


def encryption_keys(data: bytes, at: int, end: int) -> dict[str, Any]:
    if data[at] != 10:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    key_ = KEYS[data[at:stop]]
    at = stop
    if data[at] != 18:
        raise UncommonFormError
    size = data[at + 1]
    at += 1 + 1
    if size > 127:
        byte = data[at]
        at += 1
        size += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            size += (byte << 14) - 16384
        if byte > 127 or at + size > end:
            raise UncommonFormError
    stop = at + size
    value_ = data[at:stop]
    at = stop
    out: dict[str, Any] = {"key": key_, "value": value_}
    if at == end:
        return out
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 26:
        items = out["metadata"] = []
        while tag == 26:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    raise UncommonFormError


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
    at += 1 + 1
    if sequence_id_ > 127:
        byte = data[at]
        at += 1
        sequence_id_ += (byte << 7) - 128
        if byte > 127:
            byte = data[at]
            at += 1
            sequence_id_ += (byte << 14) - 16384
            if byte > 127:
                sequence_id_, at = long_int64(data, at, sequence_id_)
    if data[at] != 24:
        raise UncommonFormError
    publish_time_ = TIMES.get(data[at + 1 : at + 1 + 6], 0)
    if publish_time_:
        at += 1 + 6
    else:
        publish_time_, at = read_time(data, at + 1)
    out: dict[str, Any] = {"producer_name": producer_name_, "sequence_id": sequence_id_, "publish_time": publish_time_}
    if at == end:
        return out
    return message_metadata_rest(data, at, end, out)


def message_metadata_rest(data: bytes, at: int, end: int, out: dict[str, Any]) -> dict[str, Any]:
    raw = data[at:end]
    rest = RESTS.get(raw)
    if rest is None:
        rest = message_metadata_optional(data, at, end, {})
        remember_rest(raw, rest)
    out.update(rest)
    return out


def message_metadata_optional(data: bytes, at: int, end: int, out: dict[str, Any]) -> dict[str, Any]:
    value: Any
    items: list[Any]
    tag = data[at]
    if tag == 34:
        items = out["properties"] = []
        while tag == 34:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = key_value(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 42:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["replicated_from"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 50:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["partition_key"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 58:
        items = out["replicate_to"] = []
        while tag == 58:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = data[at:stop].decode()
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 64:
        value = _COMPRESSION_TYPE[data[at + 1]]
        at += 1 + 1
        out["compression"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 72:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_uint32(data, at, value)
        out["uncompressed_size"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 88:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["num_messages_in_batch"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 96:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["event_time"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 106:
        items = out["encryption_keys"] = []
        while tag == 106:
            size = data[at + 1]
            at += 1 + 1
            if size > 127:
                byte = data[at]
                at += 1
                size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 14) - 16384
                if byte > 127 or at + size > end:
                    raise UncommonFormError
            stop = at + size
            value = encryption_keys(data, at, stop)
            at = stop
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at]
    if tag == 114:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["encryption_algo"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 122:
        size = data[at + 1]
        at += 1 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["encryption_param"] = value
        if at == end:
            return out
        tag = data[at]
    if tag > 127:
        tag += data[at + 1] << 8
    if tag == 386:
        size = data[at + 2]
        at += 2 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["schema_version"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 392:
        value = BOOLS[data[at + 2]]
        at += 2 + 1
        out["partition_key_b64_encoded"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 402:
        size = data[at + 2]
        at += 2 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["ordering_key"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 408:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["deliver_at_time"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 416:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["marker_type"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 432:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_least_bits"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 440:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["txnid_most_bits"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 448:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["highest_sequence_id"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 456:
        value = BOOLS[data[at + 2]]
        at += 2 + 1
        out["null_value"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 466:
        size = data[at + 2]
        at += 2 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop].decode()
        at = stop
        out["uuid"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 472:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["num_chunks_from_msg"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 480:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["total_chunk_msg_size"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 488:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int32(data, at, value)
        out["chunk_id"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 496:
        value = BOOLS[data[at + 2]]
        at += 2 + 1
        out["null_partition_key"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 504:
        items = out["compacted_batch_indexes"] = []
        while tag == 504:
            value = data[at + 2]
            at += 2 + 1
            if value > 127:
                byte = data[at]
                at += 1
                value += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    value += (byte << 14) - 16384
                    if byte > 127:
                        value, at = long_int32(data, at, value)
            items.append(value)
            if at == end:
                return out
            if at >= end:
                raise UncommonFormError
            tag = data[at] + (data[at + 1] << 8)
    if tag == 642:
        size = data[at + 2]
        at += 2 + 1
        if size > 127:
            byte = data[at]
            at += 1
            size += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                size += (byte << 14) - 16384
            if byte > 127 or at + size > end:
                raise UncommonFormError
        stop = at + size
        value = data[at:stop]
        at = stop
        out["schema_id"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 648:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_uint32(data, at, value)
        out["entry_hash_min"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    if tag == 656:
        value = data[at + 2]
        at += 2 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_uint32(data, at, value)
        out["entry_hash_max"] = value
        if at == end:
            return out
        tag = data[at] + (data[at + 1] << 8)
    raise UncommonFormError


def broker_entry_metadata(data: bytes, at: int, end: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if at == end:
        return out
    value: Any
    tag = data[at]
    if tag == 8:
        value = TIMES.get(data[at + 1 : at + 1 + 6], 0)
        if value:
            at += 1 + 6
        else:
            value, at = read_time(data, at + 1)
        out["broker_timestamp"] = value
        if at == end:
            return out
        tag = data[at]
    if tag == 16:
        value = data[at + 1]
        at += 1 + 1
        if value > 127:
            byte = data[at]
            at += 1
            value += (byte << 7) - 128
            if byte > 127:
                byte = data[at]
                at += 1
                value += (byte << 14) - 16384
                if byte > 127:
                    value, at = long_int64(data, at, value)
        out["index"] = value
        if at == end:
            return out
        tag = data[at]
    raise UncommonFormError


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
                    at += 1 + 1
                    if size > 127:
                        byte = data[at]
                        at += 1
                        size += (byte << 7) - 128
                        if byte > 127:
                            byte = data[at]
                            at += 1
                            size += (byte << 14) - 16384
                        if byte > 127 or at + size > end:
                            raise UncommonFormError
                    stop = at + size
                    pair_end = stop
                    if data[at] != 10:
                        return position
                    size = data[at + 1]
                    at += 1 + 1
                    if size > 127:
                        byte = data[at]
                        at += 1
                        size += (byte << 7) - 128
                        if byte > 127:
                            byte = data[at]
                            at += 1
                            size += (byte << 14) - 16384
                        if byte > 127 or at + size > end:
                            raise UncommonFormError
                    stop = at + size
                    key_at, key_end = at, stop
                    at = stop
                    if data[at] != 18:
                        return position
                    size = data[at + 1]
                    at += 1 + 1
                    if size > 127:
                        byte = data[at]
                        at += 1
                        size += (byte << 7) - 128
                        if byte > 127:
                            byte = data[at]
                            at += 1
                            size += (byte << 14) - 16384
                        if byte > 127 or at + size > end:
                            raise UncommonFormError
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
                at += 1 + 1
                if size > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 7) - 128
                    if byte > 127:
                        byte = data[at]
                        at += 1
                        size += (byte << 14) - 16384
                    if byte > 127 or at + size > end:
                        raise UncommonFormError
                stop = at + size
                partition_key = data[at:stop].decode()
                at = stop
                tag = data[at]
            if tag != 24:
                return position
            payload_size = data[at + 1]
            at += 1 + 1
            if payload_size > 127:
                byte = data[at]
                at += 1
                payload_size += (byte << 7) - 128
                if byte > 127:
                    byte = data[at]
                    at += 1
                    payload_size += (byte << 14) - 16384
                    if byte > 127:
                        payload_size, at = long_int32(data, at, payload_size)
            sequence_id = default_id
            if at != end:
                if data[at] != 64:
                    return position
                sequence_id = data[at + 1]
                at += 1 + 1
                if sequence_id > 127:
                    byte = data[at]
                    at += 1
                    sequence_id += (byte << 7) - 128
                    if byte > 127:
                        byte = data[at]
                        at += 1
                        sequence_id += (byte << 14) - 16384
                        if byte > 127:
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
    "FeatureFlags": feature_flags,
    "CommandConnect": command_connect,
    "CommandConnected": command_connected,
    "MessageIdData": message_id_data,
    "KeyValue": key_value,
    "Schema": schema,
    "IntRange": int_range,
    "KeySharedMeta": key_shared_meta,
    "CommandSubscribe": command_subscribe,
    "CommandProducer": command_producer,
    "CommandSend": command_send,
    "CommandSendReceipt": command_send_receipt,
    "CommandSendError": command_send_error,
    "CommandMessage": command_message,
    "KeyLongValue": key_long_value,
    "CommandAck": command_ack,
    "CommandFlow": command_flow,
    "CommandUnsubscribe": command_unsubscribe,
    "CommandSuccess": command_success,
    "CommandError": command_error,
    "CommandCloseProducer": command_close_producer,
    "CommandCloseConsumer": command_close_consumer,
    "CommandProducerSuccess": command_producer_success,
    "CommandPing": command_ping,
    "CommandPong": command_pong,
    "CommandRedeliverUnacknowledgedMessages": command_redeliver_unacknowledged_messages,
    "CommandPartitionedTopicMetadata": command_partitioned_topic_metadata,
    "CommandPartitionedTopicMetadataResponse": command_partitioned_topic_metadata_response,
    "CommandLookupTopic": command_lookup_topic,
    "CommandLookupTopicResponse": command_lookup_topic_response,
    "CommandConsumerStats": command_consumer_stats,
    "CommandConsumerStatsResponse": command_consumer_stats_response,
    "CommandReachedEndOfTopic": command_reached_end_of_topic,
    "CommandSeek": command_seek,
    "CommandGetLastMessageId": command_get_last_message_id,
    "CommandGetLastMessageIdResponse": command_get_last_message_id_response,
    "CommandActiveConsumerChange": command_active_consumer_change,
    "CommandGetTopicsOfNamespace": command_get_topics_of_namespace,
    "CommandGetTopicsOfNamespaceResponse": command_get_topics_of_namespace_response,
    "CommandGetSchema": command_get_schema,
    "CommandGetSchemaResponse": command_get_schema_response,
    "AuthData": auth_data,
    "CommandAuthChallenge": command_auth_challenge,
    "CommandAuthResponse": command_auth_response,
    "CommandAckResponse": command_ack_response,
    "CommandGetOrCreateSchema": command_get_or_create_schema,
    "CommandGetOrCreateSchemaResponse": command_get_or_create_schema_response,
    "CommandNewTxn": command_new_txn,
    "CommandNewTxnResponse": command_new_txn_response,
    "CommandAddPartitionToTxn": command_add_partition_to_txn,
    "CommandAddPartitionToTxnResponse": command_add_partition_to_txn_response,
    "Subscription": subscription,
    "CommandAddSubscriptionToTxn": command_add_subscription_to_txn,
    "CommandAddSubscriptionToTxnResponse": command_add_subscription_to_txn_response,
    "CommandEndTxn": command_end_txn,
    "CommandEndTxnResponse": command_end_txn_response,
    "CommandEndTxnOnPartition": command_end_txn_on_partition,
    "CommandEndTxnOnPartitionResponse": command_end_txn_on_partition_response,
    "CommandEndTxnOnSubscription": command_end_txn_on_subscription,
    "CommandEndTxnOnSubscriptionResponse": command_end_txn_on_subscription_response,
    "CommandTcClientConnectRequest": command_tc_client_connect_request,
    "CommandTcClientConnectResponse": command_tc_client_connect_response,
    "CommandWatchTopicList": command_watch_topic_list,
    "CommandWatchTopicListSuccess": command_watch_topic_list_success,
    "CommandWatchTopicUpdate": command_watch_topic_update,
    "CommandWatchTopicListClose": command_watch_topic_list_close,
    "CommandTopicMigrated": command_topic_migrated,
    "CommandScalableTopicLookup": command_scalable_topic_lookup,
    "SegmentInfoProto": segment_info_proto,
    "SegmentBrokerAddress": segment_broker_address,
    "ScalableTopicDAG": scalable_topic_dag,
    "CommandScalableTopicUpdate": command_scalable_topic_update,
    "CommandScalableTopicClose": command_scalable_topic_close,
    "CommandScalableTopicSubscribe": command_scalable_topic_subscribe,
    "ScalableAssignedSegment": scalable_assigned_segment,
    "ScalableConsumerAssignment": scalable_consumer_assignment,
    "CommandScalableTopicSubscribeResponse": command_scalable_topic_subscribe_response,
    "CommandScalableTopicAssignmentUpdate": command_scalable_topic_assignment_update,
    "CommandWatchScalableTopics": command_watch_scalable_topics,
    "ScalableTopicsSnapshot": scalable_topics_snapshot,
    "ScalableTopicsDiff": scalable_topics_diff,
    "CommandWatchScalableTopicsUpdate": command_watch_scalable_topics_update,
    "CommandWatchScalableTopicsClose": command_watch_scalable_topics_close,
    "CommandWatchTcAssignments": command_watch_tc_assignments,
    "TcAssignment": tc_assignment,
    "TcAssignmentsSnapshot": tc_assignments_snapshot,
    "CommandWatchTcAssignmentsUpdate": command_watch_tc_assignments_update,
    "CommandWatchTcAssignmentsClose": command_watch_tc_assignments_close,
    "EncryptionKeys": encryption_keys,
    "MessageMetadata": message_metadata,
    "BrokerEntryMetadata": broker_entry_metadata,
}
"""Readers by message."""
