"""The command `findings`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pulsarscope.cli.arguments.declarations import argument, option
from pulsarscope.cli.arguments.options import CommandRequest, NoColorOption, OutOption, ReportFormatOption
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.cli.reports import report_options
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import escape, hint_for

LayerName = Literal["capture", "tcp", "tls", "frame", "payload", "session", "tuning"]
SeverityName = Literal["error", "warning", "note"]


class FindingsRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `findings`."""

    code: Annotated[str | None, argument(metavar="CODE", help="Finding to explain; without it, all are listed.", show_default=False)] = None
    layer: Annotated[LayerName | None, option("--layer", help="Only findings of this layer.")] = None
    severity: Annotated[SeverityName | None, option("--severity", help="Only findings of this severity.")] = None
    format: ReportFormatOption = None
    out: OutOption = None
    no_color: NoColorOption = False


@with_output
def findings(request: FindingsRequest, output: CommandOutput) -> int:
    """List the findings, or explain one.

    What it means, what to try, the limits that decide it (--threshold), and an example.
    """
    from pulsarscope.dissect.plugins.finding_catalogue import finding_entries
    from pulsarscope.output.render.finding_catalogue import catalogue_text, entry_text
    from pulsarscope.protocols import make_dissectors

    known = finding_entries(make_dissectors())
    if request.code is not None and request.code not in known:
        raise UsageError(f'unknown finding "{escape(request.code)}"{hint_for(request.code, [*known], "pulsarscope findings lists them")}')
    entries = [
        entry
        for entry in known.values()
        if request.code in (None, entry.code) and request.layer in (None, entry.layer) and request.severity in (None, entry.severity)
    ]
    if not entries:
        raise UsageError("no finding is of this code, layer and severity")
    if request.format is not None:
        records = [msgspec.json.encode(entry.record()) for entry in entries]
        data = b"[\n%b\n]\n" % b",\n".join(records) if request.format == "json" else b"".join(b"%b\n" % record for record in records)
    elif request.code is None:
        data = catalogue_text(entries, report_options(request, ()))
    else:
        data = entry_text(entries[0], report_options(request, ()))
    output.write(request, data)
    return EXIT_DONE
