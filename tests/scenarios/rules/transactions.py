"""Conversations with transactions."""

from __future__ import annotations

from typing import Any

from tests.scenarios.commands import TOPIC
from tests.scenarios.connections import connected
from tests.scenarios.conversation import Conversation
from tests.scenarios.frames import command_frame

ID: dict[str, Any] = {"txnid_most_bits": 3, "txnid_least_bits": 5}


def begun() -> Conversation:
    """A transaction begun by packets 6 and 7; packets 8 and 9 add a partition."""
    talk = connected().client(command_frame("NEW_TXN", request_id=1, txn_ttl_millis=60_000, tc_id=0))
    talk.server(command_frame("NEW_TXN_RESPONSE", request_id=1, **ID))
    talk.client(command_frame("ADD_PARTITION_TO_TXN", request_id=2, partitions=[TOPIC], **ID))
    return talk.server(command_frame("ADD_PARTITION_TO_TXN_RESPONSE", request_id=2, **ID))


def ended(talk: Conversation, action: str = "COMMIT", **answer: Any) -> Conversation:
    talk.client(command_frame("END_TXN", request_id=3, txn_action=action, **ID))
    return talk.server(command_frame("END_TXN_RESPONSE", request_id=3, **(answer or ID))).close()
