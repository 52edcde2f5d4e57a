"""The command `messages`."""

from __future__ import annotations

from typing import Annotated

import typer

from pulsarscope.cli.options import (
    NEVER,
    ColumnsOption,
    FailOnOption,
    Files,
    JobsOption,
    LimitOption,
    NoColorOption,
    OutOption,
    PayloadForm,
    QuietOption,
    ReadOptions,
    Request,
    RowFormatOption,
    SecretsOption,
    TimeOption,
    command,
    filter_option,
)
from pulsarscope.cli.run_command import run_command
from pulsarscope.model.records import MessageRow


class MessagesRequest(Request, frozen=True, kw_only=True):
    """Options of `messages`."""

    records: str = MessageRow.kind
    files: Files
    format: RowFormatOption = None
    out: OutOption = None
    columns: ColumnsOption = None
    time: TimeOption = "relative"
    payload: Annotated[PayloadForm | None, typer.Option("--payload", help="Include the payloads.")] = None
    show_secrets: SecretsOption = False
    no_color: NoColorOption = False
    filter: Annotated[str | None, filter_option("payload_size > 1KB")] = None
    limit: LimitOption = None
    quiet: QuietOption = False
    fail_on: FailOnOption = NEVER
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


@command
def messages(request: MessagesRequest) -> int:
    """Show the messages of the applications.

    Batches are opened, chunks are joined, produced messages have the ids of their receipts.
    """
    return run_command(request)
