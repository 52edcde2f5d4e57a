"""Sides that do not answer the other's PING, or only late."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, RuleContext, Where, name_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.rules.connections.closing_state import LastCommand
from pulsarscope.protocols.pulsar.rules.connections.outages import SILENT
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, gap_note, may_lack
from pulsarscope.protocols.pulsar.rules.exchanges.departures import CUT, REACH
from pulsarscope.protocols.pulsar.text.formatting import host

CODES = table(
    SESSION.warning(
        "keepalive-lost",
        "One side no longer answers the other's PING.",
        "With a network-stall on the connection, the network drops packets: look for a middlebox. Without one its host still acknowledges: "
        "its process hangs, in garbage collection or stopped.",
        ("request-unanswered", "send-unanswered"),
        to_act="the operators of the silent side",
    ),
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
        to_act="the operators of the silent side",
    ),
)

THRESHOLDS = (
    in_seconds(
        "keepalive-lost-seconds",
        10,
        "Time without a PONG; garbage collection pauses are shorter, the keep-alive interval (30 s) is longer.",
        "keepalive-lost",
        "keepalive-late",
    ),
    in_seconds(
        "keepalive-lost-closed-seconds",
        1,
        "Time without a PONG that is enough when the side that asked then closes; keep-alive intervals may be a few seconds.",
        "keepalive-lost",
    ),
)

_LARGE_BYTES = 65_536
"""Size of a frame from which its transmission may take long, in which its sender cannot send a PONG."""


AHEAD = 1_000_000_000
"""Nanoseconds by which a PONG may stand before its PING, where the two directions of a capture were recorded by different clocks."""


def may_be_answered(context: RuleContext, ping: Where, side: str, latest: LastCommand, end: int, *, alone: bool) -> bool:
    """Return True if this side's answer to a PING may be among lost bytes, or stand before it.

    `latest`: last command of the side, `end`: end of the connection, `alone`: no PING of the connection has an answer behind it.
    """
    ahead = ping.time - latest.where.time
    if latest.command == "PONG" and -AHEAD < ahead < (AHEAD if alone else 0):
        return True  # one behind the PING counts even if the side that asked has closed in between
    return may_lack(context, ping.time, end, side)


class Resumption(msgspec.Struct):
    """A side that sent a frame long after the other one's PING.

    A PONG, and a frame of the other side after it, show that its process went on. Other frames may be all that its host still had to send.
    """

    side: str
    ping: Where
    text: str
    evidence: dict[str, Any]
    answered: bool = False
    """True after a PONG."""


def resumption_of(context: RuleContext, ping: Where, before: Where | None, row: FrameRow) -> Resumption | None:
    """Return the resumption of a side that sends a frame long after the other one's first PING, and nothing in between.

    `before`: its frame before this one.
    """
    if before is not None and before.time > ping.time:
        return None  # after lost bytes, the PING is read late
    waited = row.time - ping.time
    if waited < context.thresholds.ns("keepalive-lost-seconds") or row.size >= _LARGE_BYTES:
        return None
    if may_lack(context, ping.time, row.time, row.direction):
        return None
    side = f"client {context.client}" if row.direction == CLIENT else f"broker {context.server}"
    text = f"The {side} sent nothing for {duration(waited)} after a PING, and then {row.command or 'a frame'} ({name_of(row)})."
    evidence = {"frames": [ping.name, name_of(row)], "silent": row.direction, "silent_ns": waited}
    return Resumption(row.direction, ping, text, evidence | context.thresholds.evidence("keepalive-lost-seconds"))


def report_certain(context: RuleContext, resumptions: Sequence[Resumption], row: FrameRow) -> list[Resumption]:
    """Report the resumptions of which a frame makes certain that the process went on, and return the others."""
    for each in resumptions:
        each.answered = each.answered or (row.direction == each.side and row.command == "PONG")
    report_resumed(context, [each for each in resumptions if each.answered and row.direction != each.side])
    return [each for each in resumptions if not each.answered or row.direction == each.side]


def report_resumed(context: RuleContext, resumptions: Sequence[Resumption], silent: str | None = None) -> None:
    """Report resumptions, except those of a side that turned out not to answer any more."""
    for each in resumptions:
        if each.side != silent:
            context.report("keepalive-late", each.ping, each.text, each.evidence)


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
    latest = f"; its last command was {command.command}, {duration(end - command.where.time)} before the end" if command else ""
    closed = (
        f"the {'broker' if row.closed_by == SERVER else 'client'} closed the connection"
        if row.closed_by
        else "the connection is still open"
    )
    unanswered = plural(pings.times, "PING") if pings.times > 1 else "a PING"
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


def report_still_silent(
    client: str, silent: Sequence[Fact], connections: Sequence[Fact], report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report brokers that fell silent, and then answered nothing on later connections of a client either.

    `silent`: facts on the connections on which they fell silent. `connections`: one fact for each connection of the client.
    """
    servers = {fact.where.connection: fact.values["server"] for fact in connections}
    begun: dict[str, list[Fact]] = {}
    for fact in sorted(connections, key=lambda each: each.where.time):
        begun.setdefault(fact.values["server"], []).append(fact)
    done: dict[str, float] = {}  # up to when the later connections to a server have been looked at
    for fact in sorted(silent, key=lambda each: each.where.time):
        server = servers.get(fact.where.connection, "")
        if fact.where.time < done.get(server, 0):
            continue
        later = [each for each in begun.get(server, ()) if each.where.time > fact.where.time]
        back = next((each.where.time for each in later if each.values["server_bytes"]), inf)
        done[server] = back
        mute = [
            each
            for each in later
            if each.values["client_bytes"]
            and each.where.time < back
            and not each.values["server_bytes"]
            and each.values["closed_by"] == CLIENT
            and each.values["end"] - each.where.time >= thresholds.ns("keepalive-lost-closed-seconds")
        ]
        if not mute:
            continue
        done[server] = inf
        span = mute[-1].values["end"] - fact.where.time
        text = f"The broker {server} did not answer anything on {plural(len(mute), 'later connection')} of {client} either, which its host "
        text += (
            f"accepted, up to {duration(span)} after the PING ({fact.where.name}), as a process that hangs, or a proxy without its broker."
        )
        evidence = {
            "frames": [fact.where.name],
            "connections": [each.where.connection for each in (fact, *mute)][:DIAGNOSIS_NAMES_MAX],
            "silent": SERVER,
            "silent_ns": span,
            "count": len(mute),
            **thresholds.evidence("keepalive-lost-closed-seconds"),
        }
        report(SILENT, mute[0].where, text, evidence)
