"""Sides that do not answer the other's PING, or only late."""

from __future__ import annotations

from typing import NamedTuple

from pulsarscope.dissect.contract.rules import RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.protocols.pulsar.rules.connections.closing_state import LastCommand
from pulsarscope.protocols.pulsar.rules.connections.outages import SILENT
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, gap_note, may_lack
from pulsarscope.protocols.pulsar.rules.exchanges.departures import CUT, REACH
from pulsarscope.protocols.pulsar.text.formatting import host

CODES = table(
    SESSION.warning(
        "keepalive-late",
        "One side sent nothing for many seconds, not even the answer to the other's PING, and then went on.",
        "Without a network-stall on the connection, its host acknowledged all the time: its process stood still, in garbage collection, "
        "stopped, suspended with its machine or out of CPU. See its garbage collection log and the throttling of its container.",
        (
            "broker-outage",
            "broker-silent",
            "client-not-reading",
            "consumer-behind",
            "delivery-behind",
            "producer-behind",
            "send-unanswered",
            "request-unanswered",
            "slow-exchange",
            "slow-publish",
            "zero-window",
        ),
        to_act="whoever runs the silent side",
    ),
)

_LARGE_BYTES = 65_536
"""Size of a frame from which its transmission may take long, in which its sender cannot send a PONG."""


def report_resumed(context: RuleContext, ping: Where, row: FrameRow) -> None:
    """Report a side that sends a frame long after the other one's first PING, and nothing in between."""
    waited = row.time - ping.time
    if waited < context.thresholds.ns("keepalive-lost-seconds") or row.size >= _LARGE_BYTES:
        return
    if may_lack(context, ping.time, row.time, row.direction):
        return
    side = f"client {context.client}" if row.direction == CLIENT else f"broker {context.server}"
    text = f"The {side} sent nothing for {duration(waited)} after a PING, and then {row.command or 'a frame'} ({where_of(row).name})."
    evidence = {"frames": [ping.name, where_of(row).name], "silent": row.direction, "silent_ns": waited}
    context.report("keepalive-late", ping, text, evidence | context.thresholds.evidence("keepalive-lost-seconds"))


class Pings(NamedTuple):
    """Unanswered PINGs, and earlier ones."""

    places: list[Where]
    """The first and the latest unanswered PING."""
    times: int
    pongs: int
    """Number of answers to earlier PINGs."""
    round_trip_max_ns: int
    """Longest time to one of these answers."""


def report_silent(context: RuleContext, row: ConnectionRow, side: str, command: LastCommand | None, pings: Pings) -> None:
    """Report a side that has not answered; `command`: its last one."""
    first, end = pings.places[0], row.end
    peer = f"client {context.client}" if side == CLIENT else f"broker {context.server}"
    latest = f", its last command was {command.command} {duration(end - command.where.time)} before the end" if command else ""
    closed = f"the {'broker' if row.closed_by == SERVER else 'client'} closed" if row.closed_by else "the connection is open"
    unanswered = plural(pings.times, "PING")
    text = f"The {peer} has not answered {unanswered} for {duration(end - first.time)}{latest}; {closed}{gap_note(lost=context.lost)}."
    evidence = {
        "frames": frame_names([command.where.name if command else None, *(where.name for where in pings.places)]),
        "silent": side,
        "pings": pings.times,
        "silent_ns": end - first.time,
        "pongs_before": pings.pongs,
        "round_trip_max_ns": pings.round_trip_max_ns,
        "closed": row.closed,
        "closed_by": row.closed_by,
    }
    context.report(SILENT, first, text, evidence)
    if side == SERVER:
        context.emit_fact(REACH, host(context.client), first, CUT, {"code": SILENT})
