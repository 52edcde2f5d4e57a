"""Frames of commands with defaults: one encoder for each command of the protocol that tests send."""

from __future__ import annotations

from typing import Any

from tests.scenarios.frames import command_frame, kept, message_metadata, payload_frame

TOPIC = "persistent://public/default/t"
BY_BROKER = (1 << 64) - 1
"""Request id of the CLOSE_PRODUCER and CLOSE_CONSUMER that a broker sends on its own."""

CONNECT = command_frame("CONNECT", client_version="x", protocol_version=21)
CONNECTED = command_frame("CONNECTED", server_version="y", protocol_version=21)
PING, PONG = command_frame("PING"), command_frame("PONG")


@kept
def producer(number: int = 1, name: str = "p", request: int = 1, topic: str = TOPIC, **fields: Any) -> bytes:
    """A PRODUCER."""
    return command_frame("PRODUCER", topic=topic, producer_id=number, request_id=request, producer_name=name, **fields)


@kept
def created(name: str = "p", request: int = 1, **fields: Any) -> bytes:
    """A PRODUCER_SUCCESS."""
    return command_frame("PRODUCER_SUCCESS", request_id=request, producer_name=name, **fields)


def close_producer(number: int = 1, request: int = BY_BROKER, **fields: Any) -> bytes:
    """A CLOSE_PRODUCER."""
    return command_frame("CLOSE_PRODUCER", producer_id=number, request_id=request, **fields)


@kept
def send(
    producer_id: int = 1, sequence_id: int = 0, payload: bytes = b"payload", metadata: dict[str, Any] | None = None, **fields: Any
) -> bytes:
    """A SEND; the sequence id of the metadata is that of the command."""
    head = message_metadata(**({"sequence_id": sequence_id} | (metadata or {})))
    return payload_frame("SEND", head, payload, producer_id=producer_id, sequence_id=sequence_id, **fields)


@kept
def receipt(producer_id: int = 1, sequence_id: int = 0, ledger: int = 7, entry: int = 0, **ident: Any) -> bytes:
    """A SEND_RECEIPT."""
    message_id = {"ledgerId": ledger, "entryId": entry, **ident}
    return command_frame("SEND_RECEIPT", producer_id=producer_id, sequence_id=sequence_id, message_id=message_id)


def copied(place: int, sequence_id: int = 0, *, producer_id: int = 1, ledger: int = 6, marker: bool = False, **fields: Any) -> bytes:
    """A SEND of a replicator: a property contains the place of the message, or marker, in its own cluster."""
    said = [{"key": "__MSG_PROP_REPL_SOURCE_POSITION", "value": f"{ledger}:{place}"}]
    metadata = {"replicated_from": "west", "properties": said, **({"marker_type": 10} if marker else {}), **fields}
    return send(producer_id, sequence_id, b"x", metadata, **({"marker": True} if marker else {}))


def copied_receipt(place: int, entry: int, *, producer_id: int = 1, ledger: int = 6) -> bytes:
    """A receipt for a replicator: brokers with the feature repl_dedup_by_lid_and_eid name the place in the other cluster."""
    ids = {"sequence_id": ledger, "highest_sequence_id": place}
    return command_frame("SEND_RECEIPT", producer_id=producer_id, message_id={"ledgerId": 7, "entryId": entry}, **ids)


def send_error(name: str, message: str, producer_id: int = 1, sequence_id: int = 0) -> bytes:
    """A SEND_ERROR."""
    return command_frame("SEND_ERROR", producer_id=producer_id, sequence_id=sequence_id, error=name, message=message)


@kept
def subscribe(
    number: int = 1,
    name: str = "c",
    request: int = 2,
    kind: str = "Exclusive",
    topic: str = TOPIC,
    subscription: str = "s",
    **fields: Any,
) -> bytes:
    """A SUBSCRIBE."""
    names = {"topic": topic, "subscription": subscription, "consumer_name": name}
    return command_frame("SUBSCRIBE", subType=kind, consumer_id=number, request_id=request, **names, **fields)


def close_consumer(number: int = 1, request: int = 900) -> bytes:
    """A CLOSE_CONSUMER."""
    return command_frame("CLOSE_CONSUMER", consumer_id=number, request_id=request)


@kept
def flow(permits: int, number: int = 1) -> bytes:
    """A FLOW."""
    return command_frame("FLOW", consumer_id=number, messagePermits=permits)


@kept
def message(
    consumer_id: int = 1,
    entry: int = 0,
    payload: bytes = b"payload",
    metadata: dict[str, Any] | None = None,
    broker_entry: dict[str, Any] | None = None,
    ledger: int = 7,
    **fields: Any,
) -> bytes:
    """A MESSAGE; its sequence id is the number of its entry."""
    head = message_metadata(**({"sequence_id": entry} | (metadata or {})))
    ident = {"ledgerId": ledger, "entryId": entry}
    return payload_frame("MESSAGE", head, payload, broker_entry=broker_entry, consumer_id=consumer_id, message_id=ident, **fields)


@kept
def delivery(entry: int, number: int = 1, *, ack_set: list[int] | None = None, again: int = 0, batch: int = 0, **metadata: Any) -> bytes:
    """A MESSAGE with a redelivery count; with `batch`, an entry of this number of messages."""
    if batch:
        metadata["num_messages_in_batch"] = batch
    return message(number, entry, metadata=metadata, ack_set=ack_set or [], redelivery_count=again)


@kept
def ack(*entries: int, number: int = 1, kind: str = "Individual", ack_set: list[int] | None = None, **fields: Any) -> bytes:
    """An ACK of entries of ledger 7."""
    ids = [{"ledgerId": 7, "entryId": entry, "ack_set": ack_set or []} for entry in entries]
    return command_frame("ACK", consumer_id=number, ack_type=kind, message_id=ids, **fields)


def ack_response(request: int, number: int = 1, **fields: Any) -> bytes:
    """An ACK_RESPONSE."""
    return command_frame("ACK_RESPONSE", consumer_id=number, request_id=request, **fields)


def redeliver(*entries: int, number: int = 1) -> bytes:
    """A REDELIVER_UNACKNOWLEDGED_MESSAGES, for all messages if no entry is named."""
    ids = [{"ledgerId": 7, "entryId": entry} for entry in entries]
    return command_frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=number, message_ids=ids)


def lookup(request: int = 1, *, topic: str = TOPIC, authoritative: bool = False) -> bytes:
    """A LOOKUP."""
    return command_frame("LOOKUP", topic=topic, request_id=request, authoritative=authoritative)


def lookup_response(response: str, url: str = "", request: int = 1, **fields: Any) -> bytes:
    """A LOOKUP_RESPONSE."""
    return command_frame("LOOKUP_RESPONSE", request_id=request, response=response, brokerServiceUrl=url, **fields)


@kept
def success(request: int) -> bytes:
    """A SUCCESS."""
    return command_frame("SUCCESS", request_id=request)


def error(request: int, name: str, message: str = "so it is") -> bytes:
    """An ERROR."""
    return command_frame("ERROR", request_id=request, error=name, message=message)
