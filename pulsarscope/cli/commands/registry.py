"""The command `registry`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pulsarscope.cli.arguments.declarations import argument, option
from pulsarscope.cli.arguments.options import CommandRequest, LinesOption, ListFormatOption, NoColorOption, OutOption, QuietOption
from pulsarscope.cli.arguments.read_options import choose
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE
from pulsarscope.cli.reports import ROWS_SHOWN, report_options
from pulsarscope.cli.standard_error import warn
from pulsarscope.inputs.zookeeper import read_dump
from pulsarscope.output.export.report_encoding import report_bytes

OTHER, NOTES = "other", "notes"

Sections = dict[str, tuple[str, list[dict[str, Any]]]]
"""Heading and records of each section, by name."""


class RegistryRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `registry`."""

    files: Annotated[
        list[str],
        argument(
            metavar="FILE...",
            help="PATH<tab>VALUE lines, a session of zkCli, JSON, or the server's snapshot and logs of transactions, or its folder; plain, "
            "Snappy, .gz or .zst; - for standard input.",
            show_default=False,
        ),
    ]
    by: Annotated[
        str | None,
        option("--by", metavar="SECTION,...", help="Sections: brokers, topics, consumers, partitions, other, notes; all by default."),
    ] = None
    format: ListFormatOption = None
    out: OutOption = None
    no_color: NoColorOption = False
    limit: LinesOption = None
    quiet: QuietOption = False


@with_output
def registry(request: RegistryRequest, output: CommandOutput) -> int:
    """Show the registry of Kafka 0.7 from a dump of ZooKeeper.

    Brokers, topics, consumer groups, and which thread reads which partition from which byte.
    """
    from pulsarscope.capture.formats.compression import ReadProgress, decompressed
    from pulsarscope.dissect.plugins.registry import read_registries
    from pulsarscope.protocols import make_dissectors

    def decompress(chunks: Iterator[bytes]) -> tuple[Iterator[bytes], ReadProgress]:
        progress = ReadProgress()
        return decompressed(chunks, progress, file=0), progress

    dump = read_dump(request.files, decompress)
    contents = read_registries(dump.nodes, make_dissectors())
    parents = {node.path.rpartition("/")[0] or "/" for node in dump.nodes}
    unknown = [node for node in contents.unknown if node.value or node.path not in parents]
    notes = [*dump.notes, *contents.notes]
    all_sections: Sections = {
        **contents.sections,
        OTHER: ("paths unknown to every dissector", [{"path": node.path, "value": node.value} for node in unknown]),
        NOTES: ("irregularities, with their places in the dump", [note._asdict() for note in notes]),
    }
    names = tuple(all_sections) if request.by is None else choose(request.by, tuple(all_sections), "--by", "section")
    sections = {name: all_sections[name] for name in names}
    if request.format is None:
        from pulsarscope.output.render.zookeeper import registry_text  # for text only

        data = registry_text(sections, report_options(request, request.files))
    else:
        data = report_bytes({name: records[: request.limit] for name, (_, records) in sections.items()}, request.format)
    output.write(request, data, request.files)
    if NOTES not in sections and not request.quiet:
        shown = notes[: request.limit or ROWS_SHOWN]
        for note in shown:
            warn(" ".join(filter(None, (f"{note.place}:", note.path, note.text))))
        if len(notes) > len(shown):
            warn(f"{len(notes) - len(shown):,} more notes (--by notes shows them)")
    return EXIT_DAMAGED if dump.damaged else EXIT_DONE
