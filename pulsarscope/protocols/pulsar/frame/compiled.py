"""The compiled reader of frames on the data path and of plain connections: the distribution `pulsarscope-native`, if installed.

It gives the same values as the Python reader, and gets its tables from here. It leaves everything that is not plain to the Python reader.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.frames import Attachment
from pulsarscope.model.limits import FRAME_DEFAULT_MAX_BYTES, FRAME_PADDING_BYTES, PROTOBUF_DEPTH_MAX
from pulsarscope.model.records import Checksum, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.frame.commands import OPENING_COMMANDS, command_table
from pulsarscope.protocols.pulsar.frame.fast_path import MEMO_MAX
from pulsarscope.protocols.pulsar.frame.protobuf import ENUM, MESSAGE, SECRET_KINDS, Plan, redacted_content, shared_plans
from pulsarscope.protocols.pulsar.frame.secret_fields import is_secret_name
from pulsarscope.protocols.pulsar.metadata_fields import QUIET, QUIET_ACKNOWLEDGED, QUIET_DELIVERED, RARE, WRAPPED
from pulsarscope.protocols.pulsar.session.anchors import ANCHORING
from pulsarscope.protocols.pulsar.session.description import described
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY
from pulsarscope.protocols.pulsar.session.sends import Sent

DATA_PATH = frozenset({"SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW"})
"""Commands that it reads in any connection."""

REQUESTS = frozenset(
    {
        "PARTITIONED_METADATA",
        "LOOKUP",
        "GET_LAST_MESSAGE_ID",
        "PRODUCER",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "SEEK",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
    }
)
"""Requests that it reads, with their responses, in short connections."""

COMMANDS = DATA_PATH | REQUESTS | {ANSWERED_BY[request] for request in REQUESTS} | OPENING_COMMANDS


class CompiledReader(NamedTuple):
    """The functions of the compiled reader that `CompiledSplitter`, `Conversation` and `ShortConnections` call."""

    join: Any
    """Joins bytes and pieces of a stream."""
    frames: Any
    """Makes an empty batch of frames in columns."""
    sizes: tuple[int, int]
    """Size of the largest frame before a size is announced, and the margin that frames may have beyond the announced size."""
    described: Any = None
    """Returns the columns of the connection row that follow from the fields of a CONNECT and a CONNECTED."""


@cache
def compiled_reader(module: Any, *, show_secrets: bool) -> CompiledReader:
    """Return the compiled reader with the tables of the commands that it reads. `module` is the module of pulsarscope-native.

    With `show_secrets`, frames with credentials are left to the Python reader.
    """
    plans = shared_plans(show_secrets=False)
    numbers: dict[str, int] = {}
    tables: list[Any] = []

    def table(plan: Plan) -> int:
        """Return the number of a message's table; on first use, make it and the tables within it."""
        if plan.name not in numbers:
            numbers[plan.name] = index = len(tables)
            tables.append(None)
            rows = [
                (
                    tag,
                    row.name,
                    row.kind,
                    row.repeated,
                    row.extra if row.kind == ENUM else {},
                    table(row.extra) if row.kind == MESSAGE else 0,
                    row.name in plan.required,
                )
                for tag, row in plan.rows.items()
                if row.kind <= MESSAGE or (row.kind in SECRET_KINDS and not show_secrets)
            ]
            tables[index] = rows, plan.hides_value
        return numbers[plan.name]

    known = {command.name: (number, command) for number, command in command_table(plans).items() if command.name in COMMANDS}
    commands = [
        (
            number,
            name,
            command.tag,
            table(command.plan),
            command.payload,
            known[ANSWERED_BY[name]][0] if name in REQUESTS else 0,
            name in ANCHORING,
        )
        for name, (number, command) in known.items()
    ]
    metadata, entry_metadata = table(plans.named("MessageMetadata")), table(plans.named("BrokerEntryMetadata"))

    def is_plain_name(name: str) -> bool:
        return not is_secret_name(name)

    secrets = is_plain_name, redacted_content
    types = Checksum, FrameRow, Attachment, Sent, ExchangeRow
    bounds = MEMO_MAX, PROTOBUF_DEPTH_MAX
    names = set(WRAPPED), set(RARE), [*map(set, (QUIET, QUIET_DELIVERED, QUIET_ACKNOWLEDGED))]
    reader = module.Reader(tables, commands, metadata, entry_metadata, secrets, names, types, bounds)
    sizes = FRAME_DEFAULT_MAX_BYTES + FRAME_PADDING_BYTES, FRAME_PADDING_BYTES
    return CompiledReader(module.Joined, partial(module.Frames, reader), sizes, described)
