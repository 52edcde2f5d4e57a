"""The command `messages`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import (
    Files,
    FollowFileOption,
    HexDumpOption,
    JobsOption,
    PayloadForm,
    RawStreamsOption,
    RedactKeyOption,
    RedactRowsOption,
    RowsRequest,
    TailOption,
    filter_option,
)
from pulsarscope.cli.arguments.row_request import PAYLOAD_FORM
from pulsarscope.cli.exit_codes import EXIT_INCOMPLETE
from pulsarscope.cli.run_command import run_command
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import MessageRow
from pulsarscope.model.text import printable
from pulsarscope.output.export.payload_files import INDEX


class MessagesRequest(RowsRequest, frozen=True, kw_only=True):
    """Options of `messages`."""

    records: str = MessageRow.kind
    once: bool = True
    files: Files
    payload: Annotated[PayloadForm | None, option("--payload", help="Include the payloads.")] = None
    filter: Annotated[str | None, filter_option("payload_size > 1KB")] = None
    tail: TailOption = None
    follow_file: FollowFileOption = False
    raw_streams: RawStreamsOption = False
    hexdump: HexDumpOption = False
    export: Annotated[
        str | None,
        option("--export", metavar="DIR", help="Write each payload to a file of this new folder, and a list of the messages."),
    ] = None
    redact: RedactRowsOption = False
    mask_key: RedactKeyOption = None
    jobs: JobsOption = 1


def messages(request: MessagesRequest) -> int:
    """Show the messages that applications sent and received.

    Batches are opened, chunks are joined, and produced messages have the ids of their receipts. If both legs of a path through a proxy are
    in the capture, the messages of the client's leg are shown.
    """
    if request.export is None:
        return run_command(request)
    given = {"-o": request.out, "--format": request.format, "--columns": request.columns, "--payload": request.payload}
    if conflicts := [option for option, value in given.items() if value is not None]:
        raise UsageError(f"--export writes files: it cannot be combined with {', '.join(conflicts)}")
    code = run_command(msgspec.structs.replace(request, out=request.export, payload=PAYLOAD_FORM))
    if not request.quiet and code != EXIT_INCOMPLETE:
        warn(f"the payloads are in {printable(request.export)}, and {INDEX} lists them")
    return code
