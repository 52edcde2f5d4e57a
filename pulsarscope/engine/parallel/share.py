"""Which of several processes decodes which connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsarscope.tcp import ConnectionEvents, Data


class ProcessShare:
    """Connections of one of several processes, which all see all connections: each goes to the process with the least to do so far."""

    def __init__(self, number: int, count: int) -> None:
        """Begin; `number` is the position of the process among `count`."""
        self._number = number
        self._loads = [0] * count
        """By process: segments with data, and connections."""
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
            loads[owner] += event.opened + sum([len(item.pieces) for items in event.items for item in items if type(item) is Data])
            if event.finished:
                del owners[name]
            if owner == self._number:
                yield index, event
