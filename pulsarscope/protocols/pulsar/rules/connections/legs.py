"""Paths through a proxy with both legs in the capture: client → proxy and proxy → broker."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.contract.legs import Legs
from pulsarscope.dissect.contract.rules import Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration, plural

CODES = table(
    SESSION.note(
        "proxy-legs",
        "The capture has both legs of a path through a proxy or TCP load balancer, which forwards the same frames.",
        "Messages, statistics and findings across connections count the client's leg only; decode shows both. The times of the legs "
        "tell whether the proxy or the broker is slow.",
    ),
)

_PARTS = ("forward", "to forward a request"), ("answer", "until the broker answers"), ("back", "to return the answer")
"""Parts of the time of an exchange: name in the evidence, and in the text."""


def describe(legs: Legs) -> tuple[str, Where, str, dict[str, Any]]:
    """Return the finding about two legs, with the times of the exchanges that passed over both."""
    (client, proxy), (_, broker) = legs.outer_ends, legs.inner_ends
    names = legs.outer.connection, legs.inner.connection
    text = (
        f"{proxy} forwards client {client} (connection {names[0]}) to {broker} (connection {names[1]}): "
        f"{plural(legs.anchors, 'exchange')} seen on both"
    )
    evidence: dict[str, Any] = {
        "frames": [*legs.first, legs.inner.name, legs.outer.name],
        "connections": [*names],
        "client": client,
        "proxy": proxy,
        "broker": broker,
        "exchanges": legs.anchors,
    }
    shares = []
    for part, times in enumerate(zip(*legs.times, strict=True)):
        name, what = _PARTS[part]
        median, longest = sorted(times)[len(times) // 2], max(times)
        evidence[name] = {"p50_ns": median, "max_ns": longest}
        shares.append(f"{duration(median)} {what} (at most {duration(longest)})")
    times_text = f"; {', '.join(shares)}" if shares else ""
    return "proxy-legs", legs.outer, f"{text}{times_text}.", evidence
