"""The command `registry`: a dump of ZooKeeper, read."""

from __future__ import annotations

from functools import partial
from typing import Any

from pulsarscope.capture.formats.compression import ReadProgress, decompressed
from pulsarscope.cli.reports import DEFAULT_LIMIT, report_options, sections_named
from pulsarscope.cli.run_command import EXIT_DAMAGED, EXIT_DONE, Delivery, Request, complain, deliver
from pulsarscope.dissect.registry import read_registries
from pulsarscope.inputs.zookeeper import read_dump
from pulsarscope.output.export.sections import report_bytes
from pulsarscope.protocols import make_dissectors

Sections = dict[str, tuple[str, list[dict[str, Any]]]]

UNKNOWN, NOTES = "other", "notes"


def registry(request: Request, by: str | None) -> int:
    """Read the one file of the request, and return the exit code.

    Raises:
        UsageError: it cannot be carried out as asked. CaptureError: the file cannot be read. OutputError: the result could not be written.
    """

    def carry_out(delivery: Delivery) -> int:
        (path,) = request.files
        progress = ReadProgress()
        dump = read_dump(path, partial(decompressed, progress=progress, file=0), progress)
        found = read_registries(dump.nodes, make_dissectors())
        folders = {node.path.rpartition("/")[0] or "/" for node in dump.nodes}
        unknown = [node for node in found.unknown if node.value or node.path not in folders]
        notes = [*dump.notes, *found.notes]
        sections: Sections = {
            **found.sections,
            UNKNOWN: ("paths that mean nothing to any dissector", [{"path": node.path, "value": node.value} for node in unknown]),
            NOTES: ("what is odd, and where in the dump", [note._asdict() for note in notes]),
        }
        chosen = {name: sections[name] for name in sections_named(by, tuple(sections))}
        if request.format is None:
            from pulsarscope.output.render.zookeeper import registry_text  # noqa: PLC0415 - programs need none of it

            made = registry_text(chosen, report_options(request, (path,)))
        else:
            made = report_bytes({name: records[: request.limit] for name, (_, records) in chosen.items()}, request.format)
        sink = delivery.open(request.out, (path,))
        sink.write(made)
        sink.finish()
        if NOTES not in chosen and not request.quiet:
            shown = notes[: request.limit or DEFAULT_LIMIT]
            for note in shown:
                complain(" ".join(filter(None, (f"{note.place}:", note.path, note.text))))
            if len(notes) > len(shown):
                complain(f"and {len(notes) - len(shown):,} notes more: --by notes gives them")
        return EXIT_DAMAGED if dump.damaged else EXIT_DONE

    return deliver(carry_out)
