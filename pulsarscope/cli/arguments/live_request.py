"""Options of `live`."""

from __future__ import annotations

from typing import Annotated

from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import DetailOption, HexOption, JobsOption, RowFormat, RowsRequest, TimeOption
from pulsarscope.live.interfaces import ANY


class LiveRequest(RowsRequest, frozen=True, kw_only=True):
    """Options of `live`."""

    once: bool = True

    interfaces: Annotated[
        list[str] | None,
        option("-i", "--interface", metavar="NAME", help="Source: an interface, any (the default), - for standard input, or a pipe."),
    ] = None
    list_interfaces: Annotated[bool, option("--list", help="List the interfaces and exit.")] = False
    wait_for_interface: Annotated[
        bool, option("--wait-for-interface", help="Wait for an interface that does not exist yet, or goes down.")
    ] = False
    capture_filter: Annotated[
        str | None, option("-f", "--capture-filter", metavar="BPF", help="Capture filter in the syntax of tcpdump.")
    ] = None
    any_port: Annotated[bool, option("--any-port", help="Capture all TCP, not only the ports of the known protocols.")] = False
    buffer: Annotated[str | None, option("--buffer", metavar="SIZE", help="Size of the kernel's buffer; 64MiB by default.")] = None
    write: Annotated[str | None, option("-w", "--write", metavar="FILE", help="Save the packets as pcapng.")] = None
    capture_only: Annotated[bool, option("--capture-only", help="Only save the packets to the file of -w; decode nothing.")] = False
    rotate: Annotated[
        list[str] | None, option("--rotate", metavar="SIZE|TIME", help="Start a new file after this size or time; repeatable.")
    ] = None
    keep: Annotated[int | None, option("--keep", min=1, metavar="N", help="Keep the latest N files.")] = None
    duration: Annotated[str | None, option("--for", metavar="TIME", help="Stop after this time, for example 30s.")] = None
    packets: Annotated[int | None, option("--packets", min=1, metavar="N", help="Stop after N packets.")] = None
    until: Annotated[str | None, option("--until", metavar="FINDING", help="Stop at the first finding with this code.")] = None
    trigger: Annotated[
        str | None,
        option(
            "--trigger",
            metavar="FINDING|any-error|FILTER",
            help="Save only the packets around each finding with this code, each error, or each match.",
        ),
    ] = None
    around: Annotated[str | None, option("--around", metavar="TIME", help="Time to save before and after it; 10s by default.")] = None
    top: Annotated[
        bool,
        option(
            "--top",
            help="Show a screen of topics, producers, subscriptions, rates, latencies and findings; with --records message, also of keys.",
        ),
    ] = False
    browse: Annotated[
        bool, option("--browse", help="Show a screen of frames as they happen, to pause, scroll back, filter and search.")
    ] = False
    metrics: Annotated[
        str | None,
        option("--metrics", metavar="HOST:PORT", help="Serve counts and latencies to Prometheus, for example at 127.0.0.1:9464."),
    ] = None
    detail: DetailOption = False
    hex: HexOption = False
    format: Annotated[RowFormat | None, option("--format", help="Write records for programs instead of text.")] = None
    records: Annotated[
        str,
        option("--records", metavar="KIND,...", help="Record kinds; text shows frames and findings by default.", show_default=False),
    ] = ""
    time: TimeOption = "local"
    jobs: JobsOption = 1

    @property
    def interface(self) -> str:
        """Return the source to capture on."""
        return self.interfaces[-1] if self.interfaces else ANY
