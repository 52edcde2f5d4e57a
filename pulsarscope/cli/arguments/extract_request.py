"""Options of `extract`."""

from __future__ import annotations

from typing import Annotated

from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import (
    NEVER,
    CommandRequest,
    FailOnOption,
    Files,
    FilterOption,
    JobsOption,
    LimitOption,
    OutOption,
    ReadOptions,
    RedactKeyOption,
    RedactOption,
)


class ExtractRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `extract`."""

    files: Files
    filter: FilterOption = None
    out: OutOption = None
    kinds: Annotated[
        str | None,
        option(
            "--records", metavar="KIND,...", help="Record kinds to search; by default frame with -Y, else connection.", show_default=False
        ),
    ] = None
    context: Annotated[bool, option("--context", help="Include the packets that open and close the connections.")] = False
    findings: Annotated[
        bool,
        option("--findings", help="Also run the rules, and put their findings into comments; implied by --records finding and --fail-on."),
    ] = False
    redact: RedactOption = False
    mask_key: RedactKeyOption = None
    limit: LimitOption = None
    quiet: Annotated[bool, option("-q", "--quiet", help="Omit progress, warnings and the summary.")] = False
    fail_on: FailOnOption = NEVER
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()
