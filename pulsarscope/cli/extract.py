"""The command `extract`."""

from __future__ import annotations

from typing import Annotated

import typer

from pulsarscope.cli.options import (
    NEVER,
    CommandRequest,
    FailOnOption,
    Files,
    FilterOption,
    JobsOption,
    LimitOption,
    OutOption,
    ReadOptions,
)


class ExtractRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `extract`."""

    files: Files
    filter: FilterOption = None
    out: OutOption = None
    kinds: Annotated[
        str | None,
        typer.Option(
            "--records", metavar="KIND,...", help="Record kinds to search; by default frame with -Y, else connection.", show_default=False
        ),
    ] = None
    context: Annotated[bool, typer.Option("--context", help="Include the packets that open and close the connections.")] = False
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Blank credentials, payloads, properties and keys; mask addresses and names, others in each copy."),
    ] = False
    mask_key: Annotated[
        str | None,
        typer.Option("--redact-key", metavar="FILE", help="As --redact, with the same masks wherever this file is the key."),
    ] = None
    limit: LimitOption = None
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Omit progress, warnings and the summary.")] = False
    fail_on: FailOnOption = NEVER
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


def extract(request: ExtractRequest) -> int:
    """Copy the packets of matching records to a pcapng file.

    All packets that carried bytes of the matching frames, with the names of the frames in packet comments. Without a filter, all packets
    of recognised connections. The copy holds payloads and credentials; with --redact it can be shared.
    """
    from pulsarscope.cli.packet_copy import write_packets  # noqa: PLC0415 - help stays quick without it

    return write_packets(request)
