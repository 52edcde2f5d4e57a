"""Division of connections among several processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsarscope.tcp import ConnectionEvents, Data

MERGING_LOAD = 0.3
"""Work of merging the rows of all processes, which the first one does, as a share of that of decoding them."""


class Share:
    """Connections of one of several processes, which all see all connections: each goes to the process with the least work so far."""

    def __init__(self, number: int, count: int) -> None:
        """Begin without any connection, for the process at position `number` among `count`."""
        self._number = number
        self._loads = [0.0] * count
        """Work by process: segments with data, and connections."""
        self._owners: dict[str, int] = {}
        """Position of the process of each connection that is not finished."""

    def select(self, events: Sequence[ConnectionEvents]) -> Iterator[tuple[int, ConnectionEvents]]:
        """Give the connections of this process, each with its position among all."""
        loads, owners = self._loads, self._owners
        for index, event in enumerate(events):
            name = event.connection.name
            owner = owners.get(name)
            if owner is None:
                owner = owners[name] = loads.index(min(loads))
            load = event.opened + sum([len(item.pieces) for items in event.items for item in items if type(item) is Data])
            loads[owner] += load
            loads[0] += load * MERGING_LOAD
            if event.finished:
                del owners[name]
            if owner == self._number:
                yield index, event
