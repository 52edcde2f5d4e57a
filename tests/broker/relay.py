"""A TCP relay in user space: a slow link between a client and a broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK_BYTES = 1 << 16


@contextmanager
def relaying(port: int, target: int, delay: float) -> Iterator[None]:
    """Forward connections from a loopback `port` to `target`, in both directions, with each piece `delay` seconds late."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_listen(port, target, delay), loop).result()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(port: int, target: int, delay: float) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", target)
        try:
            await asyncio.gather(_hand_on(reader, onward_writer, delay), _hand_on(onward_reader, writer, delay))
        finally:
            for each in (writer, onward_writer):
                each.close()
                with suppress(OSError):
                    await each.wait_closed()

    return await asyncio.start_server(connected, "127.0.0.1", port)


async def _stop(server: asyncio.Server) -> None:
    server.close()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(due - loop.time())
            if not piece:
                writer.close()
                return
            writer.write(piece)

    async def read() -> None:
        piece = b"-"
        while piece:
            piece = await reader.read(CHUNK_BYTES)
            pieces.put_nowait((loop.time() + delay, piece))

    with suppress(OSError):
        await asyncio.gather(read(), write())
