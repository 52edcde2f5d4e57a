from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pulsarscope.__main__ import main as start_program
from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.model.platform import install_command
from pulsarscope.spark.sessions import spark_session
from pulsarscope.testing import ScriptedConnection
from tests.places import CAPTURES
from tests.scenarios import Single, batch, message_metadata, payload_frame
from tests.scenarios.command_line import COMMAND, execute, run
from tests.scenarios.commands import CONNECT, CONNECTED, created, producer

QUICKSTART = str(CAPTURES / "quickstart.pcapng")


def test_no_arguments_show_the_help_on_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "decode" in captured.err


@pytest.mark.parametrize("arguments", [["--help"], ["decode", "--help"], ["messages", "-h"], ["extract", "-h"]])
def test_help_is_on_standard_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out.startswith("Usage: pulsarscope")


@pytest.mark.parametrize(
    "command",
    [["decode"], ["messages"], ["stats"], ["diagnose"], ["compare", QUICKSTART], ["follow", "--topic", "x"], ["extract", "-o", os.devnull]],
    ids=lambda command: command[0],
)
def test_the_filter_that_help_shows_is_one_for_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run(monkeypatch, command[0], "--help") == 0
    example = " ".join(capsys.readouterr().out.split()).partition("Only records that match, as in '")[2].partition("'")[0]
    assert run(monkeypatch, *command, QUICKSTART, "-q", "-Y", example) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_their_help(name: str) -> None:
    command = getattr(import_module(f"pulsarscope.cli.commands.{name}"), name)
    assert (command.__doc__ or "").splitlines()[0] == COMMANDS[name]


def test_the_list_of_commands_is_whole_in_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, "--help") == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_the_version_stands_beside_the_reader(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert re.match(r"pulsarscope 0\..*\nreader: (Python|compiled) \(.+\)\n$", capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [["decode"], ["nonsense"], ["n" * 300], ["decode", "x", "--format", "xml"], ["decode", "x", "--limit", "0"], ["--nonsense"]],
)
def test_wrong_usage_is_two(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("decode a.pcap --limit x", "'--limit': x: give a whole number from 1 on."),
        ("decode a.pcap --jobs -2", "'--jobs': -2: give a whole number from 0 to 256."),
        ("decode a.pcap -j -2", "'--jobs': -2: give a whole number from 0 to 256."),
        ("decode a.pcap --port 70000", "'--port': 70000: give a whole number from 1 to 65535."),
        ("pipeline a.pcap --every x", "'--every': x: give a number from 0.1 on."),
        ("live -i lo --duration 3", "(Possible options: --for)"),
        ("decode a.pcap --threads 3", "(Possible options: --jobs)"),
        ("extract a.pcap -w b.pcap", "(Possible options: --output)"),
        ("diagnose -r a.pcap", "No such option: -r (name captures without it)"),
    ],
)
def test_wrong_options_are_explained_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    assert run(monkeypatch, *arguments.split()) == 2
    assert said in capsys.readouterr().err


def test_a_usage_error_of_ours_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "decode", "x", "--records", "frames") == 2
    assert capsys.readouterr().err == 'pulsarscope: unknown record kind "frames"; did you mean frame?\n'


def test_a_missing_file_is_one_line_and_three(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "decode", "no-such-file.pcap") == 3
    err = capsys.readouterr().err
    assert "no-such-file.pcap" in err
    assert len(err.splitlines()) == 1


def test_each_output_of_decode_works_on_a_real_capture(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], captures: Path
) -> None:
    path = str(captures / "quickstart.pcapng")
    for options, start in (
        ([], b" frame "),
        (["-V"], b"connection #1"),
        (["-x"], b" frame "),
        (["--columns", "packet,command"], b"packet"),
    ):
        assert run(monkeypatch, "decode", path, *options) == 0
        assert capsysbinary.readouterr().out.startswith(start)
    assert run(monkeypatch, "decode", path, "--format", "ndjson") == 0
    lines = capsysbinary.readouterr().out.splitlines()
    assert run(monkeypatch, "decode", path, "--format", "json") == 0
    assert json.loads(capsysbinary.readouterr().out) == [json.loads(line) for line in lines]
    assert run(monkeypatch, "decode", path, "--format", "csv") == 0
    assert len(capsysbinary.readouterr().out.split(b"\r\n")) == len(lines) + 2


def test_messages_give_their_payload_on_request(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], captures: Path
) -> None:
    assert run(monkeypatch, "messages", str(captures / "quickstart.pcapng"), "--payload", "hex", "--format", "ndjson") == 0
    records = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert {record["record"] for record in records} == {"message"}
    assert all(len(record["payload"]) == 2 * record["payload_size"] for record in records)


@pytest.mark.parametrize(
    "arguments", [["decode", QUICKSTART], ["decode", QUICKSTART, "--format", "ndjson"], ["decode", "-h"], ["--version"]]
)
def test_a_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("arguments", [["decode", QUICKSTART], ["decode", "-h"], ["--version"]])
def test_a_full_standard_output_is_five_and_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert result.returncode == 5
    assert result.stderr == b"pulsarscope: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize("arguments", [["decode", QUICKSTART], ["decode", "--help"], ["-h"], ["--version"], ["live", "--list"], ["help"]])
def test_a_closed_standard_output_is_five_and_one_line(arguments: list[str]) -> None:
    ended = subprocess.run(["/bin/sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *arguments], stderr=subprocess.PIPE, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (5, b"pulsarscope: cannot write standard output: it is closed\n")


def test_a_closed_standard_output_is_not_missed_by_what_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "frames.csv"
    command = [*COMMAND, "decode", QUICKSTART, "-f", "csv", "-o", str(out)]
    ended = subprocess.run(["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert out.stat().st_size


@pytest.mark.slow
def test_text_goes_to_a_stream_of_any_encoding(captures: Path) -> None:
    path = str(captures / "quickstart.pcapng")
    result = execute("decode", path, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0
    assert b" #1 -> CONNECT " in result.stdout
    forced = execute("decode", path, env=os.environ | {"FORCE_COLOR": "1"})
    assert b"\x1b[" in forced.stdout


@pytest.mark.slow
def test_an_interrupted_command_is_five(captures: Path, tmp_path: Path) -> None:
    """The capture comes through a pipe that stays open, so the command waits for the signal once its output is open."""
    data = (captures / "quickstart.pcapng").read_bytes()
    out = tmp_path / "out.ndjson"
    command = [*COMMAND, "decode", "-", "--format", "ndjson", "-o", str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(data)
        process.stdin.flush()
        end = time.monotonic() + 60
        while not [*tmp_path.glob("out.ndjson.*.partial")] and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        # Not communicate(): it would close standard input, which ends the command in the ordinary way.
        assert b"interrupted" in process.stderr.read()
        assert process.wait(60) == 5


def test_the_module_runs_as_the_command() -> None:
    assert execute("--version").stdout.startswith(b"pulsarscope ")


def test_help_does_not_need_what_decoding_needs() -> None:
    code = (
        "import sys, pulsarscope.cli as c; sys.argv = ['x', '--help']\ntry: c.main()\nfinally: print(*sorted(sys.modules), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    loaded = set(result.stderr.split())
    assert not loaded & {"google.protobuf", "pyarrow", "numpy", "scapy", "rich.table", "rich.progress", "pulsarscope.engine.local"}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["decode", "-"], ["registry", "-"], ["decode", "--raw", "-"], ["live", "-i", "-"]])
def test_a_closed_standard_input_is_an_empty_one(arguments: list[str]) -> None:
    ended = subprocess.run(["/bin/sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, *arguments], capture_output=True, timeout=60, check=False)
    assert ended.returncode in (0, 3)
    assert b"internal error" not in ended.stderr
    assert b"empty" in ended.stdout + ended.stderr


def test_a_wrong_filter_is_shown_with_a_mark_under_the_place(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "decode", "x", "-Y", "comand == SEND") == 2
    expected = """pulsarscope: unknown field "comand" in frame records; did you mean command?
  comand == SEND
  ^~~~~~
"""
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("view", [["-V"], ["-x"], [], ["--format", "csv"], ["--columns", "packet,command"], ["--format", "json"]])
def test_every_output_follows_the_filter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], captures: Path, view: list[str]
) -> None:
    quickstart = str(captures / "quickstart.pcapng")
    assert run(monkeypatch, "decode", quickstart, "-Y", "command == CONNECTED", *view) == 0
    out = capsys.readouterr().out
    assert out.count("CONNECTED") == (2 if view == ["-x"] else 1)  # also as the value of a field
    assert "SEND" not in out
    if view == ["-x"]:
        assert out.count("0000  ") == 1


def test_messages_are_filtered_by_their_payload(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], captures: Path
) -> None:
    quickstart = str(captures / "quickstart.pcapng")
    assert run(monkeypatch, "messages", quickstart, "--format", "ndjson", "--payload", "hex") == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])["payload"][:8]
    assert run(monkeypatch, "messages", quickstart, "--format", "ndjson", "-Y", f"payload[0:4] == 0x{first}") == 0
    assert capsys.readouterr().out


def test_follow_draws_a_message_across_connections(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], captures: Path
) -> None:
    assert run(monkeypatch, "follow", str(captures / "stuck-consumer.pcap"), "--message", "96:2", "-q") == 0
    drawn = capsys.readouterr().out.splitlines()
    commands = ["SEND", "SEND_RECEIPT", "MESSAGE", "MESSAGE", "ACK"]
    assert [
        next(word for word in line.split() if word.isupper() and word.isascii() and word[0] > "9") for line in drawn if "later" not in line
    ] == commands
    assert [line.split()[2] for line in drawn if "later" not in line] == ["#15", "#15", "#1", "#15", "#15"]  # named as by decode


@pytest.mark.parametrize("options", [(), ("-V",), ("--jobs", "2")])
def test_connections_have_the_names_that_they_have_without_the_filter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], captures: Path, options: tuple[str, ...]
) -> None:
    path = str(captures / "stuck-consumer.pcap")
    assert run(monkeypatch, "decode", path) == 0
    headings = re.findall(r"^connection (#\d+)  .*$", capsys.readouterr().out, re.MULTILINE)
    assert headings == ["#1", "#15"]
    assert run(monkeypatch, "decode", path, "-Y", f"connection == {headings[1]}", *options) == 0
    assert re.findall(r"^connection (#\d+)  .*$", capsys.readouterr().out, re.MULTILINE) == headings[1:]


def test_follow_needs_one_thing_to_follow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "follow", "x.pcap") == 2
    assert "give one of --connection, --producer, --consumer, --topic, --message, --txn" in capsys.readouterr().err.lower()


NEEDING_EXTRAS = [
    ("pyarrow", "parquet", ("decode", QUICKSTART, "-f", "parquet", "-o", "OUT")),
    ("pyarrow", "parquet", ("decode", QUICKSTART, "--records", "all", "-f", "parquet", "-o", "OUT")),
    ("pyarrow", "parquet", ("decode", QUICKSTART, "-f", "parquet", "-o", "OUT", "--jobs", "2")),
    ("pyarrow", "parquet", ("decode", QUICKSTART, "-f", "parquet")),
    ("pyarrow", "parquet", ("messages", QUICKSTART, "-f", "parquet", "-o", "OUT", "--columns", "topic", "-Y", "message.entry > 0")),
    ("pyarrow", "parquet", ("follow", QUICKSTART, "--connection", "1", "-f", "parquet", "-o", "OUT")),
    ("pyarrow", "parquet", ("live", "-i", "-", "--format", "parquet", "-o", "OUT", "-w", "PACKETS")),
    ("prometheus_client", "live", ("live", "-i", "-", "--metrics", "127.0.0.1:0", "-o", "OUT", "-w", "PACKETS")),
]


@pytest.mark.parametrize(("module", "extra", "arguments"), NEEDING_EXTRAS)
@pytest.mark.parametrize("there", [False, True], ids=["new", "present"])
def test_the_extra_is_named_before_any_file_is_touched(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    module: str,
    extra: str,
    arguments: tuple[str, ...],
    there: bool,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "OUT").write_text("before")
        (tmp_path / "PACKETS").write_text("before")
    assert run(monkeypatch, *arguments) == 2
    written = capsys.readouterr()
    (line,) = written.err.splitlines()
    assert install_command(extra) in line
    assert not written.out
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == ({"OUT": "before", "PACKETS": "before"} if there else {})


def test_the_pipeline_names_what_it_lacks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(spark_session, "version", missing)
    assert run(monkeypatch, "pipeline", QUICKSTART, "-o", str(tmp_path / "tables")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert install_command("spark") in line
    assert not [*tmp_path.iterdir()]


WRITING = [
    ("decode", "--format", "ndjson"),
    ("decode", "-V"),
    ("decode", "--format", "csv", "--jobs", "2"),
    ("decode", "--format", "parquet", "--records", "all"),
    ("messages", "--format", "parquet"),
    ("stats", "--format", "json"),
    ("diagnose",),
    ("extract",),
    ("fields",),
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_disk_that_fills_leaves_nothing_and_says_so_in_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command, *options = arguments
    files = [] if command == "fields" else [QUICKSTART]
    out = tmp_path / "out"
    full = ["bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "-", *COMMAND, command, *files, *options, "-o", str(out)]
    result = subprocess.run(full, capture_output=True, timeout=60, check=False)
    assert result.returncode == 5
    (line,) = result.stderr.decode().splitlines()
    assert "cannot write" in line
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_signal_leaves_no_temporary_folder_and_no_half_file(tmp_path: Path, number: signal.Signals, jobs: str) -> None:
    """`extract` copies standard input, to read it twice."""
    places = [tmp_path / "temporary", tmp_path / "out"]
    for place in places:
        place.mkdir()
    command = [*COMMAND, "extract", "-", "-o", str(places[1] / "out.pcapng"), "--jobs", jobs]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(places[0])}) as process:
        assert process.stdin is not None
        process.stdin.write(Path(QUICKSTART).read_bytes())
        process.stdin.flush()
        end = time.monotonic() + 60
        while not [*places[0].iterdir()] and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(60) == 5
    assert not [entry for place in places for entry in place.iterdir()]


@pytest.mark.parametrize("view", [["--format", "ndjson", "--records", "all"], ["-x"], ["-V"], ["--format", "csv", "--records", "message"]])
def test_credentials_in_properties_are_in_no_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, view: list[str]
) -> None:
    pairs = [{"key": "plain", "value": "shown"}, {"key": "db.password", "value": "h1dden"}]
    talk = ScriptedConnection(6650).client(CONNECT).server(CONNECTED).client(producer()).server(created())
    for number in range(3):  # a frame like the previous one is read with its template
        talk.client(payload_frame("SEND", message_metadata(properties=pairs), b"x", producer_id=1, sequence_id=number))
    several = batch([Single(b"x", {"properties": pairs})] * 40)
    if view != ["-x"]:  # it shows the content of payloads
        talk.client(payload_frame("SEND", message_metadata(num_messages_in_batch=40), several, producer_id=1, sequence_id=3))
    path = tmp_path / "a.pcap"
    path.write_bytes(talk.close().pcap())
    assert run(monkeypatch, "decode", str(path), *view) == 0
    shown = capsys.readouterr().out
    assert "h1dden" not in shown
    assert "h 1 d" not in shown
    assert run(monkeypatch, "decode", str(path), "--show-secrets", *view) == 0
    assert "h1dden" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("raised", "line"),
    [
        ("MemoryError()", "not enough memory"),
        ("KeyError('x')", "internal error: KeyError: 'x' ("),
        ("__import__('asyncio').CancelledError('why')", "internal error: CancelledError: why ("),
    ],
)
def test_what_nothing_contains_is_six_and_one_line(tmp_path: Path, raised: str, line: str, jobs: str) -> None:
    """Holds in this process, and in those that decode."""
    (tmp_path / "usercustomize.py").write_text(
        f"from pulsarscope.tcp import assembler\ndef feed(*_, **__): raise {raised}\nassembler.Assembler.feed = feed\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "PYTHONNOUSERSITE": ""}
    (tmp_path / "sitecustomize.py").write_text((tmp_path / "usercustomize.py").read_text())
    result = execute("decode", QUICKSTART, "--format", "ndjson", "-o", str(tmp_path / "out"), "--jobs", jobs, env=environment)
    (printed,) = result.stderr.decode().splitlines()
    assert line in printed
    assert result.returncode == 6
    assert not [*tmp_path.glob("out*")]


def test_a_signal_before_the_command_takes_signals_is_five_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_name: str) -> None:
        raise KeyboardInterrupt

    for place, option in (("application.command_of", "-h"), ("application.app", "-h"), ("plain_arguments.function_of", "-q")):
        with monkeypatch.context() as patched:
            patched.setattr(f"pulsarscope.cli.arguments.{place}", interrupt if place != "application.app" else lambda **_: interrupt(""))
            assert run(patched, "decode", "x.pcap", option) == 5
        assert capsys.readouterr().err == "pulsarscope: interrupted; there is no output\n"


class Interrupting:
    """A finder of modules during whose work Ctrl-C is pressed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pulsarscope.cli":
            raise KeyboardInterrupt


def test_a_signal_while_python_imports_ends_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "pulsarscope.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        start_program()
    assert ended.value.code == 5
    assert capsys.readouterr().err == "pulsarscope: interrupted; there is no output\n"


def test_the_package_imports_nothing_before_the_program_takes_signals() -> None:
    program = "import sys, pulsarscope.__main__; print(*(name for name in sys.modules if name.split('.')[0] in ('pulsarscope', 'typer')))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == [
        "pulsarscope",
        "pulsarscope.__main__",
    ]


class Gone(io.StringIO):
    """A standard error without a reader."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_wrong_usage_is_two_without_a_reader_of_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    assert run(monkeypatch, "decode", "--limit", "0") == 2


@pytest.mark.parametrize(
    "command",
    ["decode", "decode -V", "decode -f ndjson", "decode --columns packet", "messages --jobs 2", "stats", "diagnose", "report", "extract"],
)
def test_quiet_commands_name_an_unreadable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    name, *options = command.split()
    assert run(monkeypatch, name, QUICKSTART, str(tmp_path / "absent"), "-q", "-o", str(tmp_path / "out"), *options) == 4
    assert (
        capsys.readouterr().err
        == f"pulsarscope: {tmp_path}/absent cannot be read: No such file or directory. Check the path and its permissions.\n"
    )
