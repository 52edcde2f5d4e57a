"""The Kafka 0.7 dissector: the contract, kept by the modules of this folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.capabilities import FollowKinds, Ranges, ReadRegistry, Redact, Vocabulary
from pulsarscope.dissect.contract import Dissector, Framing
from pulsarscope.dissect.dissector_rules import Rules
from pulsarscope.dissect.session import SessionContext
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.kafka07 import boundary, frame
from pulsarscope.protocols.kafka07.commands import REQUESTS, RESPONSES
from pulsarscope.protocols.kafka07.findings import CODES
from pulsarscope.protocols.kafka07.requests import HEADER_BYTES
from pulsarscope.protocols.kafka07.session import Kafka07Session

if TYPE_CHECKING:
    from pulsarscope.model.masked_names import MaskedNames

SHIPPED_PORT, CODE_PORT = 9092, 6667
"""Ports of the server.properties of the distribution, and of the code without one."""

_SENDERS = dict.fromkeys(REQUESTS, CLIENT) | dict.fromkeys(RESPONSES, SERVER)


class Kafka07Dissector(Dissector):
    """Stateless; one instance serves any number of connections."""

    name = "kafka07"
    ports = frozenset({SHIPPED_PORT, CODE_PORT})
    codes = CODES
    framing = Framing(boundary.LEAST_FRAME_BYTES, FRAME_HARD_MAX_BYTES, boundary.LOOKAHEAD_BYTES, adds=HEADER_BYTES)
    sides = "client", "broker"
    keeps_frames = True
    decode = staticmethod(frame.decode)
    decode_partial = staticmethod(frame.decode_partial)
    recognise = staticmethod(boundary.candidate)
    find_candidate = staticmethod(boundary.find_candidate)
    opens = staticmethod(boundary.opens)

    def sender(self, command: str) -> str | None:
        """See the contract."""
        return _SENDERS.get(command)

    def foreign(self, name: str | None, port: int) -> tuple[str, str]:
        """See the contract."""
        return "not-kafka07", f"{name or 'a protocol other than Kafka 0.7'} is spoken on port {port}"

    def session(self, context: SessionContext) -> Kafka07Session:
        """See the contract."""
        return Kafka07Session(context)

    @cached_property
    def rules(self) -> Rules:
        """See the contract; imported on first use."""
        from pulsarscope.protocols.kafka07.rules import RULES  # noqa: PLC0415 - most runs judge nothing

        return RULES

    @cached_property
    def summary(self) -> Callable[[FrameRow], str]:
        """See the contract; as `rules`."""
        from pulsarscope.protocols.kafka07.summary import summary  # noqa: PLC0415

        return summary

    @cached_property
    def message_summary(self) -> Callable[[MessageRow], str]:
        """See the contract; as `rules`."""
        from pulsarscope.protocols.kafka07.summary import message_summary  # noqa: PLC0415

        return message_summary

    @cached_property
    def explain(self) -> Callable[[str, Any], str | None]:
        """See the contract; as `rules`."""
        from pulsarscope.protocols.kafka07.summary import explain  # noqa: PLC0415

        return explain

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """See the contract; as `rules`."""
        from pulsarscope.protocols.kafka07.vocabulary import VOCABULARY  # noqa: PLC0415

        return VOCABULARY

    @cached_property
    def follow_kinds(self) -> FollowKinds:
        """See the contract."""
        from pulsarscope.protocols.kafka07.follow import FOLLOW_KINDS  # noqa: PLC0415 - only `follow` needs it

        return FOLLOW_KINDS

    @cached_property
    def registry(self) -> ReadRegistry:
        """See the contract; as `rules`."""
        from pulsarscope.protocols.kafka07.zookeeper import read_registry  # noqa: PLC0415

        return read_registry

    def redaction(self, names: MaskedNames) -> Redact:
        """See the contract."""
        from pulsarscope.protocols.kafka07.redaction import Kafka07Redaction  # noqa: PLC0415 - one command needs it

        return Kafka07Redaction(names).redact

    def ranges(self, data: bytes) -> Ranges:
        """See the contract."""
        from pulsarscope.protocols.kafka07.ranges import ranges  # noqa: PLC0415 - only a hex view needs it

        return data, ranges(data)
