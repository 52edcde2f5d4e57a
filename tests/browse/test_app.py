"""The screen: the effect of keys, on real captures."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.browse.details import lane_lines
from pulsarscope.browse.frame_bytes import FrameBytes
from pulsarscope.browse.frame_list import FrameList
from pulsarscope.browse.pages import Lanes, frame_of, table_of
from pulsarscope.cli.commands.browse import BrowseRequest, browse, browse_app
from pulsarscope.cli.commands.index import IndexRequest, index
from pulsarscope.model.errors import CaptureError, UsageError
from tests.scenarios.bad_inputs.text import HOSTILE, hostile_packets
from tests.scenarios.capturefile import write_pcap

pytest.importorskip("textual")

Steps = Callable[[Any, Any], Awaitable[None]]

KEYS = {" ": "space", "=": "equals_sign", '"': "quotation_mark", "/": "slash", ":": "colon", ".": "full_stop", "_": "underscore"}


def on_screen(steps: Steps, *files: Path, size: tuple[int, int] = (120, 40), **options: Any) -> None:
    """Take steps on the screen of captures."""

    async def run() -> None:
        with TemporaryFile() as kept:
            app = browse_app(BrowseRequest(files=[str(file) for file in files], **options), kept)
            async with app.run_test(size=size) as pilot:
                await until(lambda: app.browsed.ended and app._row is not None, pilot)
                await steps(app, pilot)

    asyncio.run(run())


WAIT_SECONDS = 60
"""Much more than any step takes on a busy machine."""


async def until(holds: Callable[[], bool], pilot: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not come"
        await pilot.pause(0.02)


async def write(pilot: Any, text: str) -> None:
    for character in text:
        await pilot.press(KEYS.get(character, character))


def text_of(app: Any) -> str:
    """Return what the screen shows, without spaces at the end of lines."""
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips())


@pytest.mark.slow
def test_frames_are_listed_with_their_fields_below(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("j", "down", "down")
        await until(lambda: "answers" in text_of(app), pilot)
        shown = text_of(app)
        assert "94 frames" in shown
        assert "#1 ← PARTITIONED_METADATA_RESPONSE not partitioned" in shown
        await pilot.press("G")
        assert app.list.at == 93
        await pilot.press("g")
        assert app.list.at == 0

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
@pytest.mark.parametrize("before", ["j", "f"], ids=["list", "filter"])
def test_ctrl_c_quits(captures: Path, before: str) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press(before, "ctrl+c")
        await until(lambda: app._exit, pilot)

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_lines_fit_the_screen(captures: Path, size: tuple[int, int]) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await until(lambda: len(text_of(app).splitlines()) == size[1], pilot)
        await until(lambda: any(line.rstrip("█▁▂▃▄▅▆▇ ").endswith("µs") for line in text_of(app).splitlines()), pilot)
        await pilot.resize_terminal(100, 30)
        await until(lambda: len(text_of(app).splitlines()) == 30, pilot)

    on_screen(steps, captures / "quickstart.pcapng", size=size)


@pytest.mark.slow
def test_a_filter_is_checked_while_it_is_written_and_narrows_the_list(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("f")
        await write(pilot, "comand == SEND")
        assert app.prompt.has_class("invalid")
        await pilot.press("enter")
        assert app.filter_text == ""
        app.prompt.value = ""
        await write(pilot, "command == SEND")
        assert not app.prompt.has_class("invalid")
        await pilot.press("enter")
        expected = [frame for frame in ps.open(str(captures / "balancer.pcap")).frames() if frame.command == "SEND"]
        await until(lambda: app.list.count == len(expected), pilot)
        assert app.list.row == expected[0]
        await pilot.press("escape")
        assert app.list.count == len(app.browsed.frames)

    on_screen(steps, captures / "balancer.pcap")


@pytest.mark.slow
def test_names_are_completed_and_earlier_filters_come_back(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("f")
        await write(pilot, "comm")
        await pilot.pause(0.2)
        await pilot.press("right")
        assert app.prompt.value == "command"
        await write(pilot, " == PING")
        await pilot.press("enter", "f")
        app.prompt.value = ""
        await pilot.press("up")
        assert app.prompt.value == "command == PING"

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_a_finding_leads_to_its_frame(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("2")
        await until(lambda: table_of(app, "findings").row_count == 6, pilot)
        assert "6 errors in 1 connection" in text_of(app)
        finding = app.browsed.findings[0]
        assert str(table_of(app, "findings").get_row_at(0)[2]) == finding.evidence["frames"][0].partition(":")[2]
        await until(lambda: f"Try: {finding.hint}"[:60] in text_of(app), pilot)
        await pilot.press("enter")
        await until(lambda: f"0:{app.list.row.packet}.{app.list.row.sub}" == finding.evidence["frames"][0], pilot)

    on_screen(steps, captures / "errors.pcap")


@pytest.mark.slow
def test_what_is_stuck_is_seen_at_80_columns(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("2")
        await until(lambda: "never calls receive." in text_of(app), pilot)
        await pilot.press("down")
        await until(lambda: "and acknowledged none." in text_of(app), pilot)
        await pilot.press("5")
        await until(lambda: table_of(app, "consumers").row_count == 2, pilot)
        assert "stuck-t-20  Shared          8        0        8" in text_of(app)

    on_screen(steps, captures / "stuck-consumer.pcap", size=(80, 24))


@pytest.mark.slow
def test_a_connection_leads_to_its_frames(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("4")
        await until(lambda: table_of(app, "connections").row_count == len(app.browsed.connections) > 1, pilot)
        await pilot.press("enter")
        await until(lambda: 0 < app.list.count < len(app.browsed.frames), pilot)
        assert {app.browsed.frames[app.list.position(line)].connection for line in range(app.list.count)} == {app.list.row.connection}
        shown = table_of(app, "connections")
        names = [str(shown.get_row_at(line)[0]) for line in range(shown.row_count)]
        assert names == sorted(names, key=lambda name: int(name[1:])), "in the order of their first packets"

    on_screen(steps, captures / "balancer.pcap")


@pytest.mark.slow
def test_frames_are_found_by_name_time_and_text(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("colon")
        await write(pilot, "22.1")
        await pilot.press("enter")
        assert (app.list.row.packet, app.list.row.command) == (22, "SEND")
        await pilot.press("colon")
        await write(pilot, "0s")
        await pilot.press("enter")
        assert app.list.at == 0
        await pilot.press("slash")
        await write(pilot, "FLOW")
        await pilot.press("enter")
        await until(lambda: app.list.row.command == "FLOW", pilot)
        at = app.list.at
        await pilot.press("colon")
        await write(pilot, "nothing")
        await pilot.press("enter")
        assert app.list.at == at

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_the_second_opening_reads_an_index_and_shows_the_same(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = captures / "stuck-consumer.pcap"
    screens: list[list[str]] = []

    async def steps(app: Any, pilot: Any) -> None:
        shown = []
        for page in ("2", "4", "5", "1"):
            await pilot.press(page)
            await pilot.pause(0.5)
            shown.append(text_of(app))
        await pilot.press("x")
        await until(lambda: app.details.shows_bytes, pilot)
        await pilot.pause(0.5)
        screens.append([*shown, text_of(app)])

    on_screen(steps, path)
    assert len([*tmp_path.glob("pulsarscope/*.psidx")]) == 1
    monkeypatch.setattr("pulsarscope.browse.browsed_capture.Browsed.read", None)
    on_screen(steps, path)
    assert screens[0] == screens[1]
    assert not [*tmp_path.glob("pulsarscope/*.incomplete")]
    assert not capsys.readouterr().err


@pytest.mark.slow
def test_an_index_can_stand_beside_the_capture(captures: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes((captures / "ipv6.pcap").read_bytes())

    async def steps(_app: Any, pilot: Any) -> None:
        await until((tmp_path / "a.pcap.psidx").exists, pilot)

    on_screen(steps, path, index=True)


@pytest.mark.slow
def test_bytes_and_the_conversation_of_a_frame_are_shown(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("x")
        await until(lambda: "commandSize" in text_of(app), pilot)
        await pilot.press("x")
        await until(lambda: "client_version" in text_of(app), pilot)
        await pilot.press("l")
        await until(lambda: app.query_one("#pages").active == "follow" and "CONNECTED" in text_of(app), pilot)
        await pilot.press("escape")
        assert app.query_one("#pages").active == "frames"

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_the_diagram_is_as_wide_as_the_screen_when_that_is_resized(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("l")
        lanes = app.query_one(Lanes)

        def shows(lines: list[str]) -> bool:
            return [str(each.prompt) for each in lanes.options] == lines

        await until(lambda: lanes.highlighted is not None, pilot)
        await pilot.press("tab", "j", "j")
        selected = lanes.frame(lanes.highlighted)
        for width, height in ((160, 40), (80, 24)):
            await pilot.resize_terminal(width, height)
            lines = lane_lines(app.browsed, app.list.row.connection, width - 2)
            await until(partial(shows, lines), pilot)
            assert lanes.frame(lanes.highlighted) == selected
        await pilot.press("question_mark")
        await pilot.resize_terminal(100, 30)
        await pilot.pause(0.5)

    on_screen(steps, captures / "quickstart.pcapng", size=(120, 40))


def test_the_diagram_counts_the_findings_of_its_connection(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await until(lambda: len(app.browsed.findings) == 2, pilot)
        last = [lane_lines(app.browsed, connection, 100)[-1] for connection in ("0:1", "0:15")]
        assert last == ["1 connection · 2 warnings", "1 connection · no findings"]

    on_screen(steps, captures / "stuck-consumer.pcap")


@pytest.mark.slow
def test_an_arrow_of_the_diagram_leads_to_its_frame(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        app.list.select(20)
        await pilot.pause(0.1)
        row = app.list.row
        await pilot.press("l")
        lanes = app.query_one(Lanes)
        await until(lambda: lanes.highlighted is not None, pilot)
        assert lanes.frame(lanes.highlighted) == f"0:{row.packet}.{row.sub}"
        await pilot.press("k", "enter")
        await until(lambda: app.query_one("#pages").active == "frames", pilot)
        earlier = app.list.row
        assert earlier.connection == row.connection
        assert earlier.packet < row.packet
        lanes.clear_options()
        await pilot.click("#--content-tab-follow")
        await until(lambda: lanes.highlighted is not None, pilot)
        await pilot.press("tab", "g")
        await pilot.pause(0.1)
        await pilot.click("#lanes", offset=(30, lanes.highlighted + 1))
        await until(lambda: app.query_one("#pages").active == "frames", pilot)
        assert app.list.row.packet < earlier.packet

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ("  12.1 0.5 ─→", "0:12.1"),
        ("1:12.1 0.5", "1:12.1"),
        ("       │   1.2 s later   │", None),
        ("topic 12.1 x", None),
        ("12.1", None),
    ],
)
def test_lines_of_a_diagram_are_identified_by_the_names_of_frames(line: str, frame: str | None) -> None:
    assert frame_of(line) == frame


@pytest.mark.slow
def test_payloads_are_searched_inside_compressed_batches(captures: Path) -> None:
    """No field contains the text."""

    async def steps(app: Any, pilot: Any) -> None:
        noted: list[str] = []
        app.notify = lambda text, **_: noted.append(text)
        expected = sorted({(row.packet, row.sub) for row in ps.open(str(path), payload="text").messages() if text in (row.payload or "")})
        assert not any(text in str(frame.fields) for frame in ps.open(str(path)).frames())
        await pilot.press("s")
        app.prompt.value = text.upper()
        await pilot.press("enter")
        for frame in expected:
            await until(lambda frame=frame: (app.list.row.packet, app.list.row.sub) == frame, pilot)  # type: ignore[misc]
            await pilot.press("n")
        await until(lambda: bool(noted), pilot)
        assert noted[0].startswith(f"not found below this frame; {len(expected)} frames with it in ")
        assert "could not be read" not in noted[0]

    path, text = captures / "compress-zlib.pcap", '{"i": 3, '
    on_screen(steps, path)


@pytest.mark.slow
def test_consumers_have_a_page(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("5")
        await until(lambda: table_of(app, "consumers").row_count > 0, pilot)
        assert "cons-stuck" in text_of(app) or "stuck" in text_of(app)

    on_screen(steps, captures / "stuck-consumer.pcap")


@pytest.mark.slow
def test_marks_times_copies_and_help(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        copied: list[str] = []
        app.copy_to_clipboard = copied.append
        await pilot.press("j", "j", "m", "g", "apostrophe")
        assert app.list.at == 2
        await pilot.press("y", "Y", "C")
        assert copied[0] == "file == 0 && packet == 8 && sub == 1"
        assert copied[1].startswith('{"record":"frame"')
        assert copied[2].startswith("pulsarscope decode ")
        for _ in range(4):
            await pilot.press("T")
            await pilot.pause()
            assert text_of(app)
        await pilot.press("question_mark")
        await pilot.pause()
        assert "as JSON" in text_of(app)
        await pilot.pause(0.5)  # what is read in the meantime is shown later
        await pilot.press("escape", "D", "t")
        await pilot.pause(0.1)
        assert app.filter_text.startswith("topic == ")

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_the_selected_field_lights_its_bytes_and_a_byte_selects_its_field(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("x")
        await until(lambda: app.details.shows_bytes, pilot)
        view = app.query_one(FrameBytes)
        field = next(at for at, each in enumerate(view._ranges) if each[2].startswith("client_version"))
        view.fields.highlighted = field
        await until(lambda: view.hex.lit == view._ranges[field][:2], pilot)
        await until(lambda: "client_version  Pulsar-CPP" in text_of(app), pilot)
        view.hex.focus()
        await pilot.press("home", "right", "right", "right", "right", "right")
        await until(lambda: view._ranges[view.fields.highlighted][2].startswith("commandSize"), pilot)
        await until(lambda: view.hex.lit == (4, 8), pilot)
        await pilot.click("#hex", offset=(10, 0))
        await until(lambda: view.hex.lit == (0, 4), pilot)
        await pilot.press("x")
        await until(lambda: not app.details.shows_bytes and "frame 4.1  CONNECT" in text_of(app), pilot)

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_the_bytes_of_credentials_are_dots(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("x")
        await until(lambda: app.details.shows_bytes, pilot)
        view = app.query_one(FrameBytes)
        view.fields.highlighted = next(at for at, each in enumerate(view._ranges) if each[2].startswith("auth_data"))
        await until(lambda: "·· ·· ··" in text_of(app), pilot)
        assert "eyJ" not in text_of(app)
        assert "65 79 4a" not in text_of(app)

    on_screen(steps, captures / "token-auth-py.pcap", size=(200, 60))


@pytest.mark.slow
def test_messages_have_a_page_with_values_which_leads_to_their_frames(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("3")
        await until(lambda: "messages" in app.pages.messages_summary and "so far" not in app.pages.messages_summary, pilot)
        await until(lambda: table_of(app, "messages").row_count == len(app.pages.messages) > 10, pilot)
        assert '"name":"gamma"' in text_of(app)
        await pilot.press("down", "enter")
        await until(lambda: f"0:{app.list.row.packet}.{app.list.row.sub}" == app.pages.messages[1][0], pilot)
        assert app.list.row.command in {"SEND", "MESSAGE"}

    on_screen(steps, captures / "java-schemas.pcap")


def test_a_frame_that_is_selected_while_the_screen_closes_is_shown_nowhere(captures: Path) -> None:
    async def steps(app: Any, _: Any) -> None:
        await app.details.remove()
        app.on_frame_list_selected(FrameList.Selected(app._row))

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_messages_are_those_of_the_filter_where_it_is_one_for_them(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("3")
        await until(lambda: app.pages.messages_summary.startswith("all messages: "), pilot)
        app._filter('topic contains "31"')
        await until(lambda: app.pages.messages and not app.pages.messages_summary.startswith("all"), pilot)

    on_screen(steps, captures / "java-schemas.pcap", filter="command == SEND")


@pytest.mark.slow
def test_columns_are_chosen_and_kept(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSARSCOPE_CONFIG", str(tmp_path / "config.toml"))

    async def choose(app: Any, pilot: Any) -> None:
        await pilot.press("o")
        app.prompt.value = "send.sequence_id, size, nothing"
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert app.lines.columns is None
        await pilot.press("o")
        app.prompt.value = "send.sequence_id, size"
        await pilot.press("enter")
        await until(lambda: "send.sequence_id" in text_of(app), pilot)

    async def see(app: Any, pilot: Any) -> None:
        await until(lambda: "send.sequence_id size" in text_of(app), pilot)
        app.list.select(15)
        await until(lambda: app.list.row.command == "SEND", pilot)

    on_screen(choose, captures / "quickstart.pcapng")
    assert (tmp_path / "browse.json").exists()
    on_screen(see, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_a_paused_list_does_not_grow(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("p")
        count = app.list.count
        app.browsed.frames.add([app.browsed.frames[0]] * 5)
        await until(lambda: "paused, 5 more" in text_of(app), pilot)
        assert app.list.count == count
        await pilot.press("p")
        await until(lambda: app.list.count == count + 5, pilot)

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_what_is_shown_is_written_as_a_capture(captures: Path, tmp_path: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("w")
        app.prompt.value = str(tmp_path / "out.pcapng")
        await pilot.press("enter")
        await until((tmp_path / "out.pcapng").exists, pilot)

    on_screen(steps, captures / "quickstart.pcapng", filter="command == SEND")
    assert {frame.command for frame in ps.open(str(tmp_path / "out.pcapng")).frames() if frame.status == "ok"} == {"SEND"}


@pytest.mark.slow
def test_text_off_the_wire_is_inert(tmp_path: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        for line in range(0, app.list.count, 3):
            app.list.select(line)
            await pilot.pause()
            shown = text_of(app)
            assert not any(character in shown for character in HOSTILE if not character.isprintable())

    on_screen(steps, write_pcap(tmp_path / "hostile.pcap", hostile_packets()))


@pytest.mark.slow
def test_credentials_are_masked(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        for line in range(3):
            app.list.select(line)
            await pilot.pause()
            assert "eyJ" not in text_of(app)

    on_screen(steps, captures / "token-auth-py.pcap")


@pytest.mark.parametrize(
    ("files", "words"), [(["-"], "name a file"), (["x.pcap"], "needs a terminal")], ids=["standard input", "no terminal"]
)
def test_without_a_terminal_or_a_file_one_line_says_so(files: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        browse(BrowseRequest(files=files))


def test_a_missing_capture_or_a_wrong_filter_is_an_error_of_the_command_line(captures: Path) -> None:
    with TemporaryFile() as kept:
        with pytest.raises(CaptureError):
            browse_app(BrowseRequest(files=["missing.pcap"]), kept)
        with pytest.raises(UsageError, match="comand"):
            browse_app(BrowseRequest(files=[str(captures / "quickstart.pcapng")], filter="comand == 1"), kept)


@pytest.mark.slow
def test_a_filter_that_takes_longer_than_the_screen_to_come_up_to_date_passes_each_frame_once(
    captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsarscope.browse.frame_store.BROWSED_FRAMES_PER_CHUNK", 16)
    monkeypatch.setattr("pulsarscope.browse.app.REFRESH_SECONDS", 0.01)

    class Slow:
        def select(self, rows: list[Any], _endpoints: Any) -> list[Any]:
            time.sleep(0.04)
            return rows

    async def steps(app: Any, pilot: Any) -> None:
        app.browsed.make_filter = lambda _text: Slow()
        for text in ("packet > 0", "packet > 1"):
            app._filter(text)
            await pilot.pause(0.1)
        await until(lambda: app.list.count >= len(app.browsed.frames), pilot)
        await pilot.pause(0.1)
        assert [*app.list.matches] == [*range(len(app.browsed.frames))]

    on_screen(steps, captures / "quickstart.pcapng")


@pytest.mark.slow
def test_a_capture_that_is_gone_leaves_what_is_read(captures: Path, tmp_path: Path) -> None:
    capture = tmp_path / "gone.pcapng"
    shutil.copy(captures / "quickstart.pcapng", capture)

    async def steps(app: Any, pilot: Any) -> None:
        capture.unlink()
        await pilot.press("x")
        await until(lambda: "cannot be read: No such file" in text_of(app), pilot)
        await pilot.press("3")
        await pilot.pause(0.3)
        await pilot.press("1", "j")
        assert app.list.at == 1

    on_screen(steps, capture)


@pytest.mark.slow
def test_a_damaged_index_leaves_the_screen(captures: Path, tmp_path: Path) -> None:
    capture = tmp_path / "kept.pcap"
    shutil.copy(captures / "balancer.pcap", capture)
    assert index(IndexRequest(files=[str(capture)], beside=True, quiet=True)) == 0
    kept = capture.with_name("kept.pcap.psidx")
    data = kept.read_bytes()
    middle = len(data) // 2
    kept.write_bytes(data[:middle] + bytes(600) + data[middle + 600 :])

    async def run() -> None:
        with TemporaryFile() as file:
            app = browse_app(BrowseRequest(files=[str(capture)]), file)
            async with app.run_test() as pilot:
                app._go("200")
                app.action_lanes()
                app.search_lines("nowhere")
                app._filter("command == SEND")
                await until(lambda: "is damaged: remove it" in app.browsed.failure, pilot)
                assert app.list.count == 0

    asyncio.run(run())


@pytest.mark.slow
def test_the_prompt_says_what_it_asks_for_and_completes_only_names(captures: Path) -> None:
    async def steps(app: Any, pilot: Any) -> None:
        await pilot.press("slash")
        await until(lambda: "a text in lines and fields" in text_of(app), pilot)
        assert "/ Search" not in text_of(app).splitlines()[-1]  # it types a slash here
        await write(pilot, "ERROR")
        await pilot.pause(0.2)
        assert "ERROR.error" not in text_of(app)
        await pilot.press("escape", "f")
        await until(lambda: "latency > 5ms" in text_of(app), pilot)
        await write(pilot, "ERROR")
        await until(lambda: "ERROR.error" in text_of(app), pilot)
        await pilot.press("escape")
        await until(lambda: "f filter" in text_of(app), pilot)

    on_screen(steps, captures / "errors.pcap")


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 200])
def test_a_capture_without_frames_points_to_the_findings(captures: Path, tmp_path: Path, width: int) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes((captures / "errors.pcap").read_bytes()[:24])

    async def run() -> None:
        with TemporaryFile() as kept:
            app = browse_app(BrowseRequest(files=[str(empty)]), kept)
            async with app.run_test(size=(width, 24)) as pilot:
                await until(lambda: "0 frames · nothing of a known protocol" in " ".join(text_of(app).split()), pilot)

    asyncio.run(run())
