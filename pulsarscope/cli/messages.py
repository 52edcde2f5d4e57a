"""The command `messages`."""

from __future__ import annotations

from typing import Annotated

import typer

from pulsarscope.cli.options import Files, JobsOption, PayloadForm, RowsRequest, filter_option
from pulsarscope.cli.run_command import run_command
from pulsarscope.model.records import MessageRow


class MessagesRequest(RowsRequest, frozen=True, kw_only=True):
    """Options of `messages`."""

    records: str = MessageRow.kind
    once: bool = True
    files: Files
    payload: Annotated[PayloadForm | None, typer.Option("--payload", help="Include the payloads.")] = None
    filter: Annotated[str | None, filter_option("payload_size > 1KB")] = None
    jobs: JobsOption = 1


def messages(request: MessagesRequest) -> int:
    """Show the messages of the applications.

    Batches are opened, chunks are joined, produced messages have the ids of their receipts. Of a path through a proxy with both legs in
    the capture, those of the client's leg.
    """
    return run_command(request)
