"""Records a third-party client of Kafka 0.7: sudo python -m tests.scenarios.record_kafka07_clients OUT.pcap COMMAND…

The command finds a broker at KAFKA_HOST:KAFKA_PORT. captures/README.md lists the recorded clients,
captures/kafka07-clients shows how they were recorded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from socket import create_server

from tests.scenarios.kafka07_broker import Broker
from tests.scenarios.record_kafka07 import KAFKA, Sniffer


def main(out: Path, command: list[str]) -> int:
    """Run the command, write the captured packets, and return its exit code."""
    host, port = KAFKA
    sniffer = Sniffer()
    with create_server(KAFKA, reuse_port=True) as listening:
        Broker(listening)
        environment = os.environ | {"KAFKA_HOST": host, "KAFKA_PORT": str(port)}
        code = subprocess.run(command, env=environment, timeout=60, check=False).returncode
    sniffer.write(out)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
