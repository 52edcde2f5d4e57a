"""Live rows as an asynchronous iterator."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import aclosing
from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.api import live
from tests.places import CAPTURES

QUICKSTART = CAPTURES / "quickstart.pcapng"


def piped(path: Path, data: bytes, hold: threading.Event | None = None) -> threading.Thread:
    """Write into a new pipe, which then stays open until `hold` is set."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            pipe.write(data)
            if hold is not None:
                hold.wait(20)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_rows_of_a_pipe_are_those_of_the_capture(tmp_path: Path) -> None:
    writer = piped(tmp_path / "pipe", QUICKSTART.read_bytes())

    async def read_frames() -> list[ps.Row]:
        return [row async for row in ps.listen(str(tmp_path / "pipe"), filter="size > 60")]

    rows = asyncio.run(read_frames())
    writer.join()
    assert rows == list(ps.open(QUICKSTART).frames(filter="size > 60"))


@pytest.mark.parametrize("left", ["cancelled", "broken", "timed-out"])
def test_leaving_the_loop_ends_the_capture(left: str, tmp_path: Path) -> None:
    hold = threading.Event()
    writer = piped(tmp_path / "pipe", QUICKSTART.read_bytes(), hold)
    seen: list[ps.Row] = []
    begun = asyncio.Event()

    async def read() -> None:
        async with aclosing(ps.listen(str(tmp_path / "pipe"))) as rows:
            async for row in rows:
                seen.append(row)
                begun.set()
                if left == "broken":
                    break

    async def main() -> None:
        task = asyncio.create_task(read())
        if left == "broken":
            await task
            return
        await begun.wait()
        if left == "cancelled":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(task, 0.05)

    asyncio.run(main())
    assert seen
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pulsarscope")]
    hold.set()
    writer.join()


def test_a_task_cancelled_while_the_source_is_opened_leaves_none_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opens, cancelled, calls = threading.Event(), threading.Event(), []

    class Source:
        def __init__(self, *_: object) -> None:
            opens.set()
            cancelled.wait(20)
            self.feed = self

        def stop(self) -> None:
            calls.append("stop")

        def close(self) -> None:
            calls.append("close")

    monkeypatch.setattr(live, "_Listening", Source)

    async def main() -> None:
        task = asyncio.ensure_future(anext(ps.listen("lo")))
        await asyncio.to_thread(opens.wait, 20)
        task.cancel()
        asyncio.get_running_loop().call_soon(cancelled.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert calls == ["stop", "close"]


def test_what_cannot_be_captured_is_an_error_of_the_first_step() -> None:
    async def read(**options: str) -> None:
        async for _ in ps.listen("nosuch0", **options):  # type: ignore[arg-type]
            pass

    with pytest.raises(ps.UsageError, match="unknown interface nosuch0"):
        asyncio.run(read())
    with pytest.raises(ps.UsageError, match="payload"):
        asyncio.run(read(payload="oops"))
