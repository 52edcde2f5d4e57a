"""Loss and memory of `pulsarscope live -w` on a full line: `python -m benchmarks.live_load`. Needs CAP_NET_RAW, and two processors or more.

One process sends Pulsar frames through a loopback connection as fast as it can, or at --rate; another receives them. The results are the
bytes sent, the fate of the packets (kept, dropped by the kernel, not decoded), processor time and memory.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from struct import Struct
from typing import Any

from benchmarks.traffic import CLIENT, scenario

CHUNK_BYTES = 1 << 20
MEGABYTE = 1_000_000
SAMPLE_SECONDS = 1.0
STATISTICS_BLOCK, PACKET_BLOCK = 5, 6
_block_head = Struct("<II").unpack_from
_options = Struct("<HHQ").unpack_from


def frames_of(name: str) -> bytes:
    """Return the client's bytes of `benchmarks.traffic`, about CHUNK_BYTES."""
    scene = scenario(name, seed=1)
    said = bytearray()
    for writes in itertools.chain([scene.first], scene.rounds):
        said += b"".join(data for side, data in writes if side == CLIENT)
        if len(said) >= CHUNK_BYTES:
            break
    return bytes(said)


def send(port: int, frames: bytes, seconds: float, rate: float | None, sent: multiprocessing.Queue[int]) -> None:
    """Send the frames over and over; return the number of bytes sent."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        begin, total = time.monotonic(), 0
        while (passed := time.monotonic() - begin) < seconds:
            if rate is not None and total > passed * rate:
                time.sleep(0.001)
                continue
            connection.sendall(frames)
            total += len(frames)
    sent.put(total)


def take(server: socket.socket) -> None:
    """Receive and discard the bytes of one connection."""
    connection, _ = server.accept()
    room = bytearray(CHUNK_BYTES)
    while connection.recv_into(room):
        pass


def kept(path: Path) -> tuple[int, int, int, int]:
    """Return the packets of a pcapng file, their bytes, and the kernel's counts of packets received and dropped."""
    packets = size = received = dropped = 0
    with path.open("rb") as file:
        while len(head := file.read(8)) == 8:
            kind, length = _block_head(head)
            if kind == PACKET_BLOCK:
                packets += 1
                size += int.from_bytes(file.read(16)[12:16], "little")
                file.seek(length - 24, 1)
                continue
            body = file.read(length - 8)
            if kind == STATISTICS_BLOCK:
                _, _, received = _options(body, 12)
                _, _, dropped = _options(body, 24)
    return packets, size, received, dropped


def memory(process: int) -> float:
    """Return the resident memory in MiB."""
    (pages,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(pages) / 1024


def run(seconds: float, rate: float | None, traffic: str, folder: str | None, options: list[str]) -> dict[str, Any]:
    """Send for some seconds, at `rate` bytes per second or as fast as possible, and return the results."""
    with tempfile.TemporaryDirectory(dir=folder) as place, socket.create_server(("127.0.0.1", 0)) as server:
        port, path = server.getsockname()[1], Path(place) / "kept.pcapng"
        command = [sys.executable, "-m", "pulsarscope", "live", "-i", "lo", "--port", str(port), "-w", str(path), *options]
        sent: multiprocessing.Queue[int] = multiprocessing.Queue()
        taker = multiprocessing.Process(target=take, args=(server,))
        sender = multiprocessing.Process(target=send, args=(port, frames_of(traffic), seconds, rate, sent))
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as live:
            while not path.exists() and live.poll() is None:
                time.sleep(0.05)
            taker.start()
            sender.start()
            samples = []
            while sender.is_alive():
                time.sleep(SAMPLE_SECONDS)
                samples.append(round(memory(live.pid)))
            total = sent.get()
            sender.join()
            taker.join()
            live.send_signal(signal.SIGTERM)
            _, words = live.communicate()
        packets, size, received, dropped = kept(path)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "said": words.strip(),
        "sent_bytes": total,
        "sent_MB_per_second": round(total / MEGABYTE / seconds),
        "kept_MB_per_second": round(size / MEGABYTE / seconds),
        "kept_packets": packets,
        "kernel_received": received,
        "kernel_dropped": dropped,
        "memory_MiB": samples,
        "processor_seconds_of_all": round(used.ru_utime + used.ru_stime, 1),
    }


def main() -> None:
    """Run the measurement and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--traffic", default="big", choices=("tiny", "batch", "big"))
    parser.add_argument("--rate", type=float, help="MB/s; as fast as it goes without")
    parser.add_argument("--folder", help="where the packets are kept")
    parser.add_argument("options", nargs="*", help="more options of live, behind --", default=["--format", "ndjson", "-o", "/dev/null"])
    given = parser.parse_args()
    rate = None if given.rate is None else given.rate * MEGABYTE
    for name, value in run(given.seconds, rate, given.traffic, given.folder, given.options).items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
