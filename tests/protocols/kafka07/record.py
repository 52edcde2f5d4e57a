"""Record a client of Kafka 0.7 against `server`: python -m tests.protocols.kafka07.record OUT.pcap PORT COMMAND… (as root, on Linux)."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from threading import Thread

from tests.encoder.capturefile import Packet, write_pcap
from tests.protocols.kafka07.server import Broker

EVERY_PROTOCOL = 0x0003
OUTGOING = 4
"""What loopback sends comes back: each packet is seen twice."""
TIMESTAMPS = 35
"""SO_TIMESTAMPNS of Linux: seconds and nanoseconds at which the kernel saw a packet."""
QUIET_SECONDS = 0.5


def record(port: int, packets: list[Packet], until: list[bool]) -> None:
    """Keep the TCP packets of a port on loopback until someone says so."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) as wire:
        wire.setsockopt(socket.SOL_SOCKET, TIMESTAMPS, 1)
        wire.bind(("lo", 0))
        wire.settimeout(QUIET_SECONDS)
        while True:
            try:
                data, [(_, _, stamp)], _, (_, _, direction, *_) = wire.recvmsg(1 << 17, 64)
            except TimeoutError:
                if until:
                    return
                continue
            header = 14 + (data[14] & 15) * 4
            if direction != OUTGOING and data[12:14] == b"\x08\x00" and data[23] == 6 and port in struct.unpack_from(">HH", data, header):
                seconds, nanoseconds = struct.unpack("@ll", stamp)
                packets.append(Packet(seconds * 1_000_000_000 + nanoseconds, data))


def main(out: str, port: int, command: list[str]) -> int:
    """Run the command with the port in KAFKA_PORT, and write what was said."""
    packets: list[Packet] = []
    until: list[bool] = []
    recorder = Thread(target=record, args=(port, packets, until))
    recorder.start()
    with Broker(port) as broker:
        Thread(target=broker.serve_forever, daemon=True).start()
        try:
            result = subprocess.run(command, env=os.environ | {"KAFKA_PORT": str(port)}, timeout=60, check=False)
        finally:
            broker.shutdown()
            until.append(True)
            recorder.join()
    write_pcap(Path(out), packets)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
