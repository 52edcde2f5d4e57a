"""The Kafka 0.7 dissector: the contract, implemented by the modules of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.dissect.contract.capabilities import Ranges, Redact
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.session import SessionContext
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.on_use import on_use
from pulsarscope.protocols.kafka07.commands import REQUESTS, RESPONSES
from pulsarscope.protocols.kafka07.findings import CODES
from pulsarscope.protocols.kafka07.framing import FRAMING

if TYPE_CHECKING:
    from pulsarscope.model.masked_names import MaskedNames
    from pulsarscope.protocols.kafka07.session import Kafka07Session

SHIPPED_PORT, CODE_PORT = 9092, 6667
"""Ports in the distribution's server.properties, and in the code without such a file."""

_SENDERS = dict.fromkeys(REQUESTS, CLIENT) | dict.fromkeys(RESPONSES, SERVER)


class Kafka07Dissector(Dissector):
    """The dissector: stateless, so that one instance serves any number of connections."""

    name = "kafka07"
    ports = frozenset({SHIPPED_PORT, CODE_PORT})
    codes = CODES
    framing = FRAMING
    sides = "client", "broker"
    keeps_frames = True

    # Imported on use: the first frame of most captures shows another protocol, and most runs evaluate no rules.
    recognise = on_use("pulsarscope.protocols.kafka07.boundary:candidate")
    find_candidate = on_use("pulsarscope.protocols.kafka07.boundary:find_candidate")
    opens = on_use("pulsarscope.protocols.kafka07.boundary:opens")
    decode = on_use("pulsarscope.protocols.kafka07.frame:decode")
    decode_partial = on_use("pulsarscope.protocols.kafka07.frame:decode_partial")
    rules = on_use("pulsarscope.protocols.kafka07.rules:RULES")
    summary = on_use("pulsarscope.protocols.kafka07.summary:summary")
    message_summary = on_use("pulsarscope.protocols.kafka07.summary:message_summary")
    explain = on_use("pulsarscope.protocols.kafka07.summary:explain")
    vocabulary = on_use("pulsarscope.protocols.kafka07.vocabulary:VOCABULARY")
    follow_kinds = on_use("pulsarscope.protocols.kafka07.follow:FOLLOW_KINDS")
    registry = on_use("pulsarscope.protocols.kafka07.zookeeper:read_registry")

    def sender(self, command: str) -> str | None:
        return _SENDERS.get(command)

    def foreign(self, name: str | None, port: int) -> tuple[str, str]:
        return "not-kafka07", f"{name or 'a protocol other than Kafka 0.7'} is spoken on port {port}"

    def session(self, context: SessionContext) -> Kafka07Session:
        from pulsarscope.protocols.kafka07.session import Kafka07Session  # noqa: PLC0415 - see above

        return Kafka07Session(context)

    def redaction(self, names: MaskedNames) -> Redact:
        from pulsarscope.protocols.kafka07.redaction import Kafka07Redaction  # noqa: PLC0415 - one command needs it

        return Kafka07Redaction(names).redact

    def ranges(self, data: bytes) -> Ranges:
        from pulsarscope.protocols.kafka07.ranges import ranges  # noqa: PLC0415 - only a hex view needs it

        return data, ranges(data)
