"""Clients that were redirected to another broker, and of which nothing more is in the capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.rules import Fact, ReportFinding
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.thresholds import SECONDS, Threshold, Thresholds
from pulsarscope.protocols.pulsar.text.formatting import duration, host, listing

CODES = table(
    SESSION.note(
        "redirect-unseen",
        "A client was redirected to another broker, and the capture has nothing of what it did then.",
        "Its connection to the other broker may pass by the capturing host: capture on the host of the client.",
    ),
)

THRESHOLDS = (
    Threshold(
        "redirect-idle-seconds",
        2,
        SECONDS,
        "Clients follow a redirect within milliseconds, or after a backoff of a second.",
        ("redirect-not-followed", "redirect-unseen"),
    ),
)


class Redirect(NamedTuple):
    """A LOOKUP_RESPONSE that redirects, behind which the client asks nothing more of that broker."""

    frame: str
    time: int
    addresses: tuple[str, ...]
    topic: str | None


def judge_idle(
    client: str, connections: Sequence[Fact], may_be: Callable[[str, str], bool], report: ReportFinding, thresholds: Thresholds
) -> None:
    """Report the redirects behind which this client (a host) opened no connection, and had none with the broker that they name."""
    end = max((fact.values["end"] for fact in connections), default=0)
    for fact in connections:
        if (values := fact.values.get("redirect")) is None:
            continue
        redirect, asked = Redirect(*values), fact.values["server"]
        rest = (end if fact.values["closed"] == "open" else fact.values["end"]) - redirect.time
        others = [other for other in connections if other is not fact and other.values["end"] >= redirect.time]
        goes_on = any(
            other.where.time >= redirect.time or any(may_be(address, other.values["server"]) for address in redirect.addresses)
            for other in others
        )
        if goes_on or rest < thresholds.ns("redirect-idle-seconds"):
            continue
        told, of = listing(redirect.addresses), f" of {redirect.topic}" if redirect.topic else ""
        text = f"The lookup{of} by {client} was redirected from {asked} to {told} ({redirect.frame}), but "
        evidence: dict[str, Any] = {"frames": [redirect.frame], "topic": redirect.topic, "client": client, "count": 1, "rest_ns": rest}
        evidence |= thresholds.evidence("redirect-idle-seconds")
        # What a client does at another port of the same host passes by the same place.
        if any(host(address) == host(asked) for address in redirect.addresses):
            report("redirect-not-followed", fact.where._replace(time=redirect.time), f"{text}did nothing for {duration(rest)}.", evidence)
        else:
            text += f"nothing follows within {duration(rest)}: it did nothing, or what it did is not in the capture."
            report("redirect-unseen", fact.where._replace(time=redirect.time), text, evidence)
