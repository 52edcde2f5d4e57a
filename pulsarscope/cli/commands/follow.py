"""The command `follow`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import (
    CommandRequest,
    Files,
    FilterOption,
    FollowFileOption,
    LimitOption,
    NoColorOption,
    OutOption,
    QuietOption,
    ReadOptions,
    RedactKeyOption,
    RedactRowsOption,
    RowFormatOption,
    SecretsOption,
    TimeOption,
)
from pulsarscope.cli.run_command import run_command
from pulsarscope.dissect.contract.capabilities import FOLLOW_SUBJECTS
from pulsarscope.model.errors import UsageError


class FollowRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `follow`."""

    files: Files
    connection: Annotated[
        str | None,
        option("--connection", metavar="NAME", help="Its first packet, as in 17 for #17, or FILE:PACKET for #FILE:PACKET."),
    ] = None
    producer: Annotated[str | None, option("--producer", metavar="NAME", help="Producer name; includes its deliveries.")] = None
    consumer: Annotated[str | None, option("--consumer", metavar="ID", help="Consumer id, name or subscription.")] = None
    topic: Annotated[str | None, option("--topic", metavar="T", help="Topic; its last part is enough where that is unique.")] = None
    message: Annotated[
        str | None,
        option("--message", metavar="ID", help="LEDGER:ENTRY or LEDGER:ENTRY:BATCH; of a log of Kafka 0.7, TOPIC-PARTITION@OFFSET."),
    ] = None
    txn: Annotated[str | None, option("--txn", metavar="MOST:LEAST", help="The two numbers of a transaction id.")] = None
    filter: FilterOption = None
    format: RowFormatOption = None
    out: OutOption = None
    time: TimeOption = "relative"
    show_secrets: SecretsOption = False
    no_color: NoColorOption = False
    follow_file: FollowFileOption = False
    redact: RedactRowsOption = False
    mask_key: RedactKeyOption = None
    limit: LimitOption = None
    quiet: QuietOption = False
    reading: ReadOptions = ReadOptions()


def follow(request: FollowRequest) -> int:
    """Follow a connection, producer, consumer, topic, message or txn.

    As a lane diagram between clients and broker, across connections.
    """
    return run_command(msgspec.structs.replace(request, subject=subject_of(request)))


def subject_of(request: FollowRequest) -> tuple[str, str]:
    """Return the kind and the name of the subject to follow. Raises UsageError when none or several are given, or an empty name."""
    named = [(kind, name) for kind in FOLLOW_SUBJECTS if (name := getattr(request, kind)) is not None]
    if len(named) != 1:
        raise UsageError(f"give {'only ' if named else ''}one of {', '.join(f'--{kind}' for kind in FOLLOW_SUBJECTS)}")
    kind, name = named[0]
    if not name.strip():
        raise UsageError(f"--{kind} is empty: give a name")
    return kind, name
