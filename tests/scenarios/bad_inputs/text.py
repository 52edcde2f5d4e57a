"""Text from a peer with control characters, markup and formulas, wherever a peer can send text."""

from __future__ import annotations

import re

from tests.scenarios import Conversation, Packet, Single, batch, command_frame, message_metadata, payload_frame
from tests.scenarios.bad_inputs.cases import CONNECTED

OWN_COLORS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = [
    "\x1b[2J\x1b]0;title\x07",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1bP1;2|dcs\x1b\\",
    "\x9b31mred\x9d0;c1\x9c",
    "\u202egnp.exe\u2066\u2069\u200f\u200b\ufeff",
    "line\nbreak\rreturn\ttab\0nul\x7fdel\x0b\x0c\x85\u2028\u2029",
    "[bold red]markup[/] [/x] [link=http://evil]x[/link] :smile:",
    "a\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309 zalgo",
    "e\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f466 漢字 \U000e0041 \uffff",
    '=cmd|" /c calc"!A1',
    "+1-1@SUM(A1)",
    '<script>alert(1)</script> " onload="x',
]


BATCH = batch([Single(text.encode(), {"partition_key": text, "properties": [{"key": text, "value": text}]}) for text in HOSTILE])


def hostile_packets() -> list[Packet]:
    """Packets with a text of the peer wherever a peer can send text."""
    conversation = Conversation().handshake()
    conversation.client(command_frame("CONNECT", client_version=HOSTILE[0], protocol_version=1, auth_method_name=HOSTILE[1]))
    conversation.server(CONNECTED)
    for number, text in enumerate(HOSTILE):
        conversation.client(
            command_frame(
                "PRODUCER", topic=text, producer_id=number, request_id=number, producer_name=text, metadata=[{"key": text, "value": text}]
            )
        )
        conversation.server(command_frame("PRODUCER_SUCCESS", request_id=number, producer_name=text))
        metadata = message_metadata(
            producer_name=text, sequence_id=1, properties=[{"key": text, "value": text}], partition_key=text, ordering_key=text.encode()
        )
        conversation.client(payload_frame("SEND", metadata, text.encode(), producer_id=number, sequence_id=1))
        conversation.server(command_frame("SEND_RECEIPT", producer_id=number, sequence_id=1, message_id={"ledgerId": 1, "entryId": number}))
        conversation.client(
            command_frame("SUBSCRIBE", topic=text, subscription=text, subType=0, consumer_id=number, request_id=100 + number)
        )
        conversation.server(command_frame("ERROR", request_id=100 + number, error="TopicNotFound", message=text))
        conversation.client(command_frame("LOOKUP", topic=text, request_id=200 + number))
        conversation.server(
            command_frame("LOOKUP_RESPONSE", request_id=200 + number, response="Redirect", brokerServiceUrl=text, message=text)
        )
        encrypted = message_metadata(producer_name=text, encryption_keys=[{"key": text, "value": b"?"}])
        conversation.client(payload_frame("SEND", encrypted, b"?", producer_id=number, sequence_id=2))
    conversation.client(payload_frame("SEND", message_metadata(num_messages_in_batch=len(HOSTILE)), BATCH, producer_id=0, sequence_id=3))
    conversation.client("\x1b[2J\u202e".encode() * 20).server(command_frame("PONG")).client(command_frame("PING"))
    return conversation.close().packets
