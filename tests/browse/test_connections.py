"""Connections that appear, change and disappear."""

from __future__ import annotations

from pulsarscope.browse.connections import Connections
from tests.scenarios import rows

ENDPOINTS = {f"0:{number}": (f"10.0.0.1:{number}", "10.0.0.2:6650") for number in range(1, 100)}


def frame(number: int, direction: str = "client") -> object:
    return rows.frame(connection=f"0:{number}", direction=direction, size=10)


def names(connections: Connections, maximum: int = 100) -> list[str | None]:
    return [row.connection for row in connections.take_changed(maximum)[1]]


def test_open_connections_count_their_frames_until_their_row_comes() -> None:
    connections = Connections(10, forgets=True)
    connections.feed([frame(1), frame(1), frame(1, "server")], ENDPOINTS)
    revision, (row,) = connections.take_changed(10)
    assert (row.client, row.client_bytes, row.server_bytes, row.closed) == ("10.0.0.1:1", 20, 10, "open")
    assert connections.take_changed(10) == (revision, [])
    ended = rows.connection(connection="0:1", closed="fin", client_bytes=99)
    connections.feed([ended, frame(1)], ENDPOINTS)
    assert connections.take_changed(10) == (revision, [ended])


def test_those_that_ended_first_make_room_in_a_live_capture() -> None:
    connections = Connections(10, forgets=True)
    connections.feed([frame(number) for number in range(1, 11)], ENDPOINTS)
    connections.feed([rows.connection(connection=f"0:{number}", closed="fin") for number in (4, 5, 6)], ENDPOINTS)
    before, taken = connections.take_changed(4)
    assert len(taken) == 4
    connections.feed([frame(20)], ENDPOINTS)
    revision, taken = connections.take_changed(2)
    assert revision == before + 1
    assert [row.connection for row in taken] + names(connections) == [f"0:{number}" for number in (1, 2, 3, 6, 7, 8, 9, 10, 20)]
    connections.feed([frame(21), frame(22), frame(23)], ENDPOINTS)
    assert len(connections) == 10, "the last is left out only while all others are open"


def test_a_file_leaves_out_the_last_and_orders_them_at_the_end() -> None:
    connections = Connections(3, forgets=False)
    connections.feed([rows.connection(connection=name, closed="fin") for name in ("0:12", "1:3", "0:9", "0:1")], ENDPOINTS)
    names(connections)
    connections.order()
    assert names(connections) == ["0:9", "0:12", "1:3"]
    connections.order()
    assert not names(connections)
