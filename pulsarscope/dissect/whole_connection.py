"""Connections of which all bytes are known at once, and are plain: the compiled reader reads them as a whole, their session included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.column_batch import ColumnBatch
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.tcp.pieces import Data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulsarscope.dissect.contract import Dissector
    from pulsarscope.tcp.pieces import Item


def read_connection(
    dissector: Dissector, items: Sequence[Sequence[Item]], file: int, source: str | None, connection: str
) -> ColumnBatch | None:
    """Return all frames of a connection, named and paired; None if Python must read it. `items` are those of the client and the server."""
    if not (len(items[0]) == len(items[1]) == 1):
        return None
    (client,), (server,) = items
    if not (isinstance(client, Data) and isinstance(server, Data)):
        return None
    pieces: tuple[Any, Any] = client.pieces, server.pieces
    if isinstance(pieces[0], list) or isinstance(pieces[1], list):
        return None
    columns = dissector.compiled.frames()
    names = source, file, connection, dissector.name, CLIENT, SERVER
    return ColumnBatch(columns) if columns.read_connection(*pieces, names, dissector.compiled.sizes) else None
