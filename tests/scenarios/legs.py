"""Paths through a proxy, or a TCP load balancer, with both legs captured."""

from __future__ import annotations

from typing import Any

from tests.scenarios.commands import ack, created, delivery, flow, producer, receipt, send, subscribe, success
from tests.scenarios.conversation import MILLISECOND, START_NS, Conversation, Endpoint
from tests.scenarios.frames import command_frame

HOSTS: dict[str, tuple[Endpoint, Endpoint, Endpoint, Endpoint]] = {
    "apart": (("10.0.0.1", 40000), ("10.0.0.2", 6650), ("10.0.0.2", 50000), ("10.0.0.3", 6650)),
    "two interfaces": (("10.0.0.1", 40000), ("10.0.0.2", 6650), ("10.9.0.2", 50000), ("10.9.0.3", 6650)),
    "one host": (("127.0.0.1", 40000), ("127.0.0.1", 6650), ("127.0.0.1", 50000), ("127.0.0.1", 6651)),
    "translated": (("10.0.0.1", 40000), ("10.0.0.2", 6650), ("192.0.2.7", 50000), ("10.9.0.3", 6650)),
}
"""Addresses: client, proxy, proxy towards the broker, broker."""


class Path:
    """A client's connection to a proxy, `outer`, and the proxy's to the broker, `inner`: each frame appears on one, then on the other."""

    def __init__(
        self,
        hosts: str = "apart",
        proxy: str = "pulsar",
        *,
        delay: int = MILLISECOND,
        start: int = 0,
        port: int = 0,
        midstream: bool = False,
    ) -> None:
        """Connect, or begin midstream. `proxy`: "pulsar" sends its own CONNECT, "balancer" does not; `port` is added to client ports."""
        client, ahead, behind, broker = HOSTS[hosts]
        more: dict[str, Any] = {"acknowledge": False, "step_ns": 1_000, "start_ns": START_NS + start}
        self.outer = Conversation((client[0], client[1] + port), ahead, **more)
        self.inner = Conversation((behind[0], behind[1] + port), broker, **more)
        self._delay = delay
        if midstream:
            return
        connect, connected = {"client_version": "C", "protocol_version": 20}, {"server_version": "S", "protocol_version": 20}
        own = {"client_version": "Pulsar proxy", "protocol_version": 19} if proxy == "pulsar" else connect
        target = {"proxy_to_broker_url": "10.9.0.3:6650"} if proxy == "pulsar" else {}
        self.outer.handshake().client(command_frame("CONNECT", **connect, **target))
        self._meet()
        self.inner.handshake().client(command_frame("CONNECT", **own)).server(command_frame("CONNECTED", **connected))
        self._meet()
        self.outer.server(command_frame("CONNECTED", **connected))
        self._meet()

    def client(self, *frames: bytes) -> Path:
        """Send frames from the client, then from the proxy."""
        return self._say(self.outer, self.inner, "client", frames)

    def server(self, *frames: bytes) -> Path:
        """Send frames from the broker, then from the proxy."""
        return self._say(self.inner, self.outer, "server", frames)

    def wait(self, nanoseconds: int) -> Path:
        """Let time pass."""
        self.outer.wait(nanoseconds)
        self._meet()
        return self

    def close(self) -> Path:
        """Close from the client, then from the proxy."""
        self.outer.close()
        self._meet()
        self.inner.close()
        return self

    def _say(self, first: Conversation, second: Conversation, side: str, frames: tuple[bytes, ...]) -> Path:
        getattr(first, side)(*frames)
        second.time_ns = first.time_ns + self._delay
        getattr(second, side)(*frames)
        self._meet()
        return self

    def _meet(self) -> None:
        """Advance both legs to the time of the later one, plus the delay."""
        self.outer.time_ns = self.inner.time_ns = max(self.outer.time_ns, self.inner.time_ns) + self._delay

    def produce(self, count: int, *, name: str = "p", opens: bool = True, ledger: int = 7) -> Path:
        """Send `count` messages of a producer."""
        if opens:
            self.client(producer(name=name)).server(created(name=name))
        for number in range(count):
            self.client(send(1, number, b"m%d" % number, {"producer_name": name})).server(receipt(1, number, ledger=ledger, entry=number))
        return self

    def consume(self, count: int, *, name: str = "c", opens: bool = True, first: int = 0, **subscription: Any) -> Path:
        """Deliver `count` messages to a consumer that acknowledges each."""
        if opens:
            self.client(subscribe(1, name, 2, "Shared", **subscription)).server(success(2)).client(flow(1000))
        for number in range(first, first + count):
            self.server(delivery(number)).client(ack(number))
        return self
