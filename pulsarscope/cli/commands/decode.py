"""The command `decode`."""

from __future__ import annotations

from pulsarscope.cli.arguments.options import (
    DecodeFormatOption,
    DecodeRecordsOption,
    DetailOption,
    Files,
    FollowFileOption,
    HexDumpOption,
    HexOption,
    JobsOption,
    RawStreamsOption,
    RedactKeyOption,
    RedactRowsOption,
    RowsRequest,
    TailOption,
)
from pulsarscope.cli.run_command import run_command


class DecodeRequest(RowsRequest, frozen=True, kw_only=True):
    """Options of `decode`."""

    files: Files
    detail: DetailOption = False
    hex: HexOption = False
    records: DecodeRecordsOption = None
    format: DecodeFormatOption = None  # type: ignore[assignment]  # more than the others have
    tail: TailOption = None
    follow_file: FollowFileOption = False
    raw_streams: RawStreamsOption = False
    hexdump: HexDumpOption = False
    redact: RedactRowsOption = False
    mask_key: RedactKeyOption = None
    jobs: JobsOption = 1


def decode(request: DecodeRequest) -> int:
    """Show captures frame by frame.

    Commands with their fields, times, senders and the requests that they answer.
    """
    return run_command(request)
