"""The rules that a dissector provides, with their codes and thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pulsarscope.dissect.contract.rules import ConnectionRule, KeyRule, StretchesOf
from pulsarscope.model.findings import Code
from pulsarscope.model.limits import JOURNEY_IDLE_NANOSECONDS
from pulsarscope.model.thresholds import Threshold

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.legs import DescribeLegs


class Rules(NamedTuple):
    """The rules of a dissector."""

    codes: dict[str, Code]
    """Their finding codes."""
    connection: tuple[type[ConnectionRule], ...] = ()
    keys: tuple[KeyRule, ...] = ()
    messages: bool = False
    """True when a rule handles MessageRows: payloads are then opened."""
    thresholds: tuple[Threshold, ...] = ()
    """Limits that decide their findings: each finding names all limits of its code, unless its evidence says which one applied."""
    needs_both: frozenset[str] = frozenset()
    """Codes of findings about something absent in one connection: not reported if the capture has only one direction."""
    unread: tuple[str, ...] = ()
    """Names of the key rules that also get a fact `UNREAD` for each connection that speaks TLS, or has no known protocol and on which the
    server sent nothing (a SYN that was refused or not answered). The key is the client's host; the values are server, client_bytes,
    server_bytes, closed, closed_by, end and tls."""
    legs: DescribeLegs | None = None
    """Makes the finding about two connections that are legs of one path; key rules do not see the facts of the inner one."""
    other_keys: frozenset[str] = frozenset()
    """Names of public key rules of other dissectors for which these rules emit facts; they need not be installed."""
    journeys: tuple[type[ConnectionRule], ...] = ()
    """The rules whose facts `KeyRule.journeys` needs, possibly including some of `connection`. They run when journeys are requested, and
    then see messages."""
    stretches: StretchesOf | None = None
    """Puts rows into columns for the rules that accept them."""

    def chosen(self, *, findings: bool, journeys: bool) -> Rules:
        """Return the rules that run when findings, or journeys, are requested."""
        chosen = self.connection if findings else ()
        if journeys:
            chosen += tuple(rule for rule in self.journeys if rule not in chosen)
        keys = self.keys if findings else tuple(key for key in self.keys if key.journeys is not None)
        keys = tuple(_with_journeys(key, journeys=journeys) for key in keys)
        unread = self.unread if findings else ()
        messages = (self.messages and findings) or any(rule.messages is not None for rule in chosen)
        return self._replace(connection=chosen, keys=keys, messages=messages, unread=unread)


def _with_journeys(key: KeyRule, *, journeys: bool) -> KeyRule:
    if key.journeys is None:
        return key
    return key._replace(idle_ns=max(key.idle_ns, JOURNEY_IDLE_NANOSECONDS)) if journeys else key._replace(journeys=None)
