"""Whether connections from one address come from one host.

A host takes the ports of its connections to one server in order, a few apart. A network address translator keeps these ports, so that those
of several hosts alternate, or chooses others, in no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

PORTS_APART_MAX = 64
"""Maximum distance of ports that one host takes one after the other: others of its connections may have those in between."""

_OVERLAPS = 5
"""Number of overlaps that chance would cause: that there is none has a probability below 1 %."""


def of_one_host(ports: Sequence[int]) -> bool:
    """Return True when most ports of connections, in their order, follow the one before.

    Not all do: Linux begins elsewhere every ten seconds.
    """
    near = sum(abs(after - before) <= PORTS_APART_MAX for before, after in pairwise(ports))
    return 2 * near >= len(ports) - 1


def in_turn_on_purpose(times: Sequence[tuple[int, int]]) -> bool:
    """Return True when connections (start and end), in their order, are one at a time, although independent ones would overlap."""
    if any(end > start for (_, end), (start, _) in pairwise(times)):
        return False
    return len(times) * sum(end - start for start, end in times) >= _OVERLAPS * (times[-1][0] - times[0][0])
