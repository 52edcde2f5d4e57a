"""The command `decode`."""

from __future__ import annotations

from pulsarscope.cli.options import (
    NEVER,
    ColumnsOption,
    DetailOption,
    FailOnOption,
    Files,
    FilterOption,
    HexOption,
    JobsOption,
    LimitOption,
    NoColorOption,
    OutOption,
    PayloadOption,
    QuietOption,
    ReadOptions,
    RecordsOption,
    Request,
    RowFormatOption,
    SecretsOption,
    TimeOption,
    command,
)
from pulsarscope.cli.run_command import run_command


class DecodeRequest(Request, frozen=True, kw_only=True):
    """Options of `decode`."""

    files: Files
    detail: DetailOption = False
    hex: HexOption = False
    format: RowFormatOption = None
    out: OutOption = None
    records: RecordsOption = "frame"
    columns: ColumnsOption = None
    time: TimeOption = "relative"
    payload: PayloadOption = None
    show_secrets: SecretsOption = False
    no_color: NoColorOption = False
    filter: FilterOption = None
    limit: LimitOption = None
    quiet: QuietOption = False
    fail_on: FailOnOption = NEVER
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


@command
def decode(request: DecodeRequest) -> int:
    """Show captures frame by frame.

    Commands with their fields, times, senders and the requests that they answer.
    """
    return run_command(request)
