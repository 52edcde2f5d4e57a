"""Compiled reader of the frames of the data path: the distribution `pulsarscope-native`, where it is installed.

It gives the values of the Python reader and takes its tables from here; what it does not find plain it leaves to the Python reader.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

from pulsarscope.dissect.frames import Attachment
from pulsarscope.model.limits import PROTOBUF_DEPTH_MAX
from pulsarscope.model.records import Checksum, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.frame.commands import command_table
from pulsarscope.protocols.pulsar.frame.fast_path import MEMO_MAX
from pulsarscope.protocols.pulsar.frame.protobuf import ENUM, MESSAGE, Plan, shared_plans
from pulsarscope.protocols.pulsar.frame.secret_fields import is_secret_name
from pulsarscope.protocols.pulsar.metadata_fields import QUIET, RARE, WRAPPED
from pulsarscope.protocols.pulsar.session.sends import Sent

COMMANDS = frozenset({"SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW"})
"""Commands that it reads."""


class CompiledReader(NamedTuple):
    """The functions of the compiled reader that `CompiledSplitter` and `Conversation` call."""

    join: Any
    """Joins bytes and pieces of a stream."""
    frames: Any
    """Makes an empty batch of frames in columns."""


@cache
def compiled_reader(module: Any) -> CompiledReader:
    """Return the compiled reader with the tables of the commands it reads. `module` is that of pulsarscope-native."""
    plans = shared_plans(show_secrets=False)
    numbers: dict[str, int] = {}
    tables: list[Any] = []

    def table(plan: Plan) -> int:
        """Return the number of a message's table, and make it and those within it on first use."""
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
                if row.kind <= MESSAGE  # what hides a credential is left to the Python reader
            ]
            tables[index] = rows, plan.hides_value
        return numbers[plan.name]

    commands = [
        (number, command.name, command.tag[0], table(command.plan), command.payload)
        for number, command in command_table(plans).items()
        if command.name in COMMANDS
    ]
    metadata, entry_metadata = table(plans.named("MessageMetadata")), table(plans.named("BrokerEntryMetadata"))

    def is_plain_name(name: str) -> bool:
        return not is_secret_name(name)

    types = Checksum, FrameRow, Attachment, Sent, ExchangeRow
    bounds = MEMO_MAX, PROTOBUF_DEPTH_MAX
    reader = module.Reader(tables, commands, metadata, entry_metadata, is_plain_name, (set(WRAPPED), set(RARE), set(QUIET)), types, bounds)
    return CompiledReader(module.Joined, partial(module.Frames, reader))
