"""Builders shared by several rooms: frames, TCP conversations, capture files, and scenarios made from them.

The only thing it shares with the decoder is the generated protobuf module, so that a mistake in one shows in the other.
"""

from __future__ import annotations

from tests.scenarios.capturefile import Packet, pcap, write_pcap, write_pcapng
from tests.scenarios.conversation import Conversation
from tests.scenarios.frames import (
    BROKER_ENTRY_MAGIC,
    CHECKSUM_MAGIC,
    Single,
    base_command,
    batch,
    command_frame,
    compress,
    message_metadata,
    payload_frame,
    sized,
)
from tests.scenarios.packets import (
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    ethernet,
    ip_packet,
    ipv4,
    ipv6,
    tcp_segment,
)

__all__ = [
    "ACK",
    "BROKER_ENTRY_MAGIC",
    "CHECKSUM_MAGIC",
    "FIN",
    "PSH",
    "RST",
    "SYN",
    "Conversation",
    "Packet",
    "Single",
    "base_command",
    "batch",
    "command_frame",
    "compress",
    "ethernet",
    "ip_packet",
    "ipv4",
    "ipv6",
    "message_metadata",
    "payload_frame",
    "pcap",
    "sized",
    "tcp_segment",
    "write_pcap",
    "write_pcapng",
]
