"""The text about a side that does not answer the other's PING."""

from __future__ import annotations

from typing import NamedTuple

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow
from pulsarscope.model.text import duration, plural
from pulsarscope.protocols.pulsar.rules.connections.closing_state import LastCommand
from pulsarscope.protocols.pulsar.rules.connections.outages import SILENT
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, gap_note
from pulsarscope.protocols.pulsar.rules.exchanges.departures import CUT, REACH
from pulsarscope.protocols.pulsar.text.formatting import host


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
