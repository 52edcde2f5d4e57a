"""Fields as Wireshark names them, and as they are named here."""

from __future__ import annotations

NAMES = {
    "frame.number": "packet",
    "frame.time": "time",
    "frame.time_epoch": "time",
    "frame.time_relative": "time",
    "frame.len": "size",
    "ip.addr": "ip",
    "ip.src": "client.ip or server.ip",
    "ip.dst": "client.ip or server.ip",
    "ipv6.addr": "ip",
    "tcp.port": "port",
    "tcp.srcport": "client.port or server.port",
    "tcp.dstport": "client.port or server.port",
    "tcp.stream": "connection",
    "tcp.analysis.retransmission": "retransmitted, of connection records",
    "producer": "producer_name",
    "pulsar.cmd_type": "command",
    "pulsar.topic": "topic",
    "pulsar.producer_name": "producer_name",
    "pulsar.subscription": "subscription",
}
