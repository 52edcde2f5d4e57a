"""The Kafka 0.7 dissector: the contract, kept by the modules of this folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.capabilities import FollowKinds, Ranges, ReadRegistry, Redact, Vocabulary
from pulsarscope.dissect.contract import Candidate, Dissector
from pulsarscope.dissect.dissector_rules import Rules
from pulsarscope.dissect.frames import Decoded
from pulsarscope.dissect.session import SessionContext
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.kafka07.commands import REQUESTS, RESPONSES
from pulsarscope.protocols.kafka07.findings import CODES
from pulsarscope.protocols.kafka07.framing import FRAMING

if TYPE_CHECKING:
    from pulsarscope.model.masked_names import MaskedNames
    from pulsarscope.protocols.kafka07.session import Kafka07Session

SHIPPED_PORT, CODE_PORT = 9092, 6667
"""Ports of the server.properties of the distribution, and of the code without one."""

_SENDERS = dict.fromkeys(REQUESTS, CLIENT) | dict.fromkeys(RESPONSES, SERVER)


class Kafka07Dissector(Dissector):
    """Stateless; one instance serves any number of connections."""

    name = "kafka07"
    ports = frozenset({SHIPPED_PORT, CODE_PORT})
    codes = CODES
    framing = FRAMING
    sides = "client", "broker"
    keeps_frames = True

    # Imported on first use, as all below: most captures show that they hold another protocol by their first frame.

    @cached_property
    def recognise(self) -> Callable[..., Candidate | None]:
        """See the contract."""
        from pulsarscope.protocols.kafka07.boundary import candidate  # noqa: PLC0415 - see above

        return candidate

    @cached_property
    def find_candidate(self) -> Callable[[bytes, int, int], int]:
        """See the contract."""
        from pulsarscope.protocols.kafka07.boundary import find_candidate  # noqa: PLC0415 - see above

        return find_candidate

    @cached_property
    def opens(self) -> Callable[[bytes, int, int], str | None]:
        """See the contract."""
        from pulsarscope.protocols.kafka07.boundary import opens  # noqa: PLC0415 - see above

        return opens

    @cached_property
    def decode(self) -> Callable[[bytes, int, int], Decoded]:
        """See the contract."""
        from pulsarscope.protocols.kafka07.frame import decode  # noqa: PLC0415 - see above

        return decode

    @cached_property
    def decode_partial(self) -> Callable[[bytes, int, int], Decoded]:
        """See the contract."""
        from pulsarscope.protocols.kafka07.frame import decode_partial  # noqa: PLC0415 - see above

        return decode_partial

    def sender(self, command: str) -> str | None:
        """See the contract."""
        return _SENDERS.get(command)

    def foreign(self, name: str | None, port: int) -> tuple[str, str]:
        """See the contract."""
        return "not-kafka07", f"{name or 'a protocol other than Kafka 0.7'} is spoken on port {port}"

    def session(self, context: SessionContext) -> Kafka07Session:
        """See the contract."""
        from pulsarscope.protocols.kafka07.session import Kafka07Session  # noqa: PLC0415 - see above

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
