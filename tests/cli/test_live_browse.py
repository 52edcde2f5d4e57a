"""The screen of a live capture: it fills while packets come, waits, and keeps earlier content."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from pulsarscope.cli.arguments.live_request import LiveRequest
from pulsarscope.cli.commands.live import live
from pulsarscope.model.errors import UsageError

pytest.importorskip("textual")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_frames_come_as_they_happen_wait_while_paused_and_stay(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pulsarscope.browse.pages import table_of  # noqa: PLC0415 - needs textual
    from pulsarscope.cli.live_browse import live_app  # noqa: PLC0415 - as above

    monkeypatch.setattr("pulsarscope.browse.pages.BROWSED_LIVE_MESSAGES_MAX", 5)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = (captures / "stuck-consumer.pcap").read_bytes()
    half, go_on = len(data) // 2, threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as stream:
            stream.write(data[:half])
            go_on.wait(60)
            stream.write(data[half:])

    writer = threading.Thread(target=write, daemon=True)
    writer.start()

    async def look() -> None:
        with TemporaryFile() as kept, live_app(LiveRequest(interfaces=[str(pipe)], quiet=True), None, kept) as (app, _):
            async with app.run_test(size=(100, 30)) as pilot:

                async def until(count: int) -> None:
                    for _ in range(600):
                        await pilot.pause(0.05)
                        if app.list.count >= count:
                            return
                    raise AssertionError(app.list.count)

                await until(50)
                before = app.list.count
                assert app.list.at == before - 1, "the newest is selected"
                shown = {}
                for key, page in (("3", "messages"), ("4", "connections"), ("5", "consumers")):
                    await pilot.press(key)
                    await pilot.pause(0.5)
                    table = table_of(app, page)
                    shown[page] = [" ".join(map(str, table.get_row_at(line))) for line in range(table.row_count)]
                assert 5 <= len(shown["messages"]) <= 10 < app.browsed.live_messages, "earlier ones went"
                assert all(len(line) > 100 for line in shown["messages"]), "with their values"
                assert any(" open " in line for line in shown["connections"])
                assert any("cons-stuck" in line for line in shown["consumers"])
                await pilot.press("1", "p")
                go_on.set()
                for _ in range(100):
                    await pilot.pause(0.05)
                    if app.browsed.ended:
                        break
                assert app.list.count <= before + 50 < len(app.browsed.frames)
                await pilot.press("p", "g")
                await pilot.pause(0.5)
                assert app.list.count == len(app.browsed.frames) == 339
                assert app.list.row is not None
                assert app.list.row.command == "CONNECT"
                await pilot.press("x")
                await pilot.pause(0.3)
                await pilot.press("q")

    asyncio.run(look())
    writer.join(10)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"interfaces": ["-"], "browse": True}, "terminal"),
        ({"browse": True, "top": True}, "cannot be combined with --top"),
        ({"browse": True, "out": "x"}, "-o"),
    ],
)
def test_what_a_screen_cannot_do_is_said(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        live(LiveRequest(**values))  # type: ignore[arg-type]
