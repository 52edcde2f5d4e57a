"""The command `live`, run like a user does."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pulsarscope.cli.arguments.application import app
from pulsarscope.model.errors import PulsarscopeError
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.command_line import execute_here
from tests.scenarios.commands import producer
from tests.scenarios.conversation import SECOND
from tests.scenarios.legs import Path as Legs
from tests.scenarios.loopback import free_port, needs_capturing, replay, said_in

COMMAND = (sys.executable, "-m", "pulsarscope", "live")

SAME = ("command", "fields", "metadata", "broker_entry_metadata", "checksum", "payload_size", "offset", "size", "direction", "status")
"""Columns of a frame that do not depend on sender and time."""

REPLAYED = (("quickstart.pcapng", "2"), ("errors.pcap", "1"), ("compress-zlib.pcap", "1"), ("acks-batchindex.pcap", "2"))
"""Captures, each with a number of processes."""


class Sniffer:
    """A running `live` that writes into files: a pipe read line by line would lose what is left at the end."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self._out, self._err = out, err

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to end it; return its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(timeout=60)

    def has_said(self, text: str, seconds: float = 30) -> bool:
        """Return whether it writes this text within `seconds`."""
        end = time.monotonic() + seconds
        while text.encode() not in self._out.read_bytes() and time.monotonic() < end:
            time.sleep(0.05)
        return text.encode() in self._out.read_bytes()

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@contextmanager
def sniffing(tmp_path: Path, *arguments: str, ready: bool = True, pipe: int | None = None) -> Iterator[Sniffer]:
    """Run `live`, which captures when the block begins: its file exists. `pipe`: its standard output instead of a file."""
    kept, out, err = tmp_path / "ready.pcapng", tmp_path / "out", tmp_path / "err"
    if "-w" not in arguments and ready:
        arguments = (*arguments, "-w", str(kept))
    with (
        out.open("wb") as stdout,
        err.open("wb") as stderr,
        subprocess.Popen([*COMMAND, *arguments], stdout=stdout if pipe is None else pipe, stderr=stderr) as process,
    ):
        try:
            end = time.monotonic() + 30
            while ready and not kept.exists() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            yield Sniffer(process, out, err)
        finally:
            if process.poll() is None:
                process.kill()


def frames_of(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the frames of each connection, by direction and place."""
    frames_by_connection: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        frames_by_connection[row["connection"]].append({name: row.get(name) for name in SAME})
    return [sorted(frames, key=lambda frame: (frame["direction"], frame["offset"])) for frames in frames_by_connection.values()]


@pytest.mark.slow
@needs_capturing
@pytest.mark.parametrize(("name", "jobs"), REPLAYED)
def test_what_is_said_again_on_loopback_gives_the_frames_of_decode(name: str, jobs: str, captures: Path, tmp_path: Path) -> None:
    port = free_port()
    said = said_in(captures / name)
    with sniffing(tmp_path, "-i", "lo", "--port", str(port), "--format", "ndjson", "--jobs", jobs) as sniffer:
        replay(said, port)
        assert sniffer.stop() == 0
    assert "none dropped by the kernel" in sniffer.err
    decoded = CliRunner().invoke(app, ["decode", str(captures / name), "--format", "ndjson"]).stdout.splitlines()
    assert frames_of(sniffer.records) == frames_of([json.loads(line) for line in decoded])
    kept = (
        CliRunner().invoke(app, ["decode", str(tmp_path / "ready.pcapng"), "--port", str(port), "--format", "ndjson"]).stdout.splitlines()
    )
    assert [json.loads(line) for line in kept] == sniffer.records  # all columns, including times and names


@pytest.mark.slow
@needs_capturing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_file_and_ends_with_code_0(number: signal.Signals, captures: Path, tmp_path: Path) -> None:
    port = free_port()
    with sniffing(tmp_path, "-i", "lo", "--port", str(port)) as sniffer:
        replay(said_in(captures / "quickstart.pcapng"), port)
        assert sniffer.stop(number) == 0
    assert "PRODUCER_SUCCESS" in sniffer.out
    assert "94 frames" in sniffer.out
    first, last = sniffer.err.splitlines()
    assert first.startswith("pulsarscope: listening on lo: TCP ports 3181, 6650, ")
    assert str(port) in first
    assert "packets from lo" in last


@pytest.mark.slow
@needs_capturing
def test_text_comes_while_it_happens(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    with sniffing(tmp_path, "-i", "lo", "--port", str(port)) as sniffer:
        replay(said_in(captures / "quickstart.pcapng"), port)
        assert sniffer.has_said("connection #")
        assert sniffer.has_said("CONNECT")
        assert sniffer.process.poll() is None
        sniffer.stop()


@pytest.mark.slow
@needs_capturing
def test_it_ends_after_a_time_or_so_many_packets(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    with sniffing(tmp_path, "-i", "lo", "--port", str(port), "--packets", "10") as sniffer:
        replay(said_in(captures / "quickstart.pcapng"), port)
        assert sniffer.wait() == 0
    assert "10 packets from lo" in sniffer.err
    with sniffing(tmp_path, "-i", "lo", "--port", str(port), "--for", "100ms", ready=False) as sniffer:
        assert sniffer.wait() == 0


@pytest.mark.slow
@needs_capturing
def test_what_comes_behind_a_limit_is_not_missed(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    with sniffing(tmp_path, "-i", "lo", "--port", str(port), "--limit", "5", "--format", "ndjson") as sniffer:
        replay(said_in(captures / "quickstart.pcapng"), port)
        assert sniffer.wait() == 0
    assert len(sniffer.records) == 5
    assert "packets from lo, none dropped by the kernel, saved to" in sniffer.err
    assert "not decoded" not in sniffer.err


@pytest.mark.slow
@needs_capturing
def test_it_ends_at_a_finding(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    with sniffing(
        tmp_path, "-i", "lo", "--port", str(port), "--until", "producer-busy", "--records", "finding", "--format", "ndjson"
    ) as sniffer:
        replay(said_in(captures / "errors.pcap"), port)
        assert sniffer.wait() == 0
    assert [row["code"] for row in sniffer.records].count("producer-busy") == 1


@pytest.mark.slow
@needs_capturing
def test_a_trigger_keeps_the_packets_around_it(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    arguments = ("-w", str(tmp_path / "around.pcapng"), "--trigger", "producer-busy", "--records", "finding", "--format", "ndjson")
    with sniffing(tmp_path, "-i", "lo", "--port", str(port), *arguments, ready=False) as sniffer:
        said, tries = False, 10
        while not said and tries:  # nothing shows when it begins to capture
            replay(said_in(captures / "errors.pcap"), port)
            said, tries = sniffer.has_said("producer-busy", 3), tries - 1
        assert said
        assert sniffer.stop() == 0
    (kept,) = tmp_path.glob("around_00001_*.pcapng")
    output = CliRunner().invoke(app, ["decode", str(kept), "--port", str(port), "--records", "finding", "--format", "ndjson"]).stdout
    assert "producer-busy" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trigger", "files"),
    [("any-error", 1), ('command == "ERROR"', 1), ('severity == "error"', 1), ('error == "ChecksumError"', 0), ("latency > 1h", 0)],
)
def test_a_trigger_may_be_a_filter_and_counts_at_the_very_end(trigger: str, files: int, captures: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.pcapng"
    arguments = [*COMMAND, "-i", "-", "-w", str(kept), "--trigger", trigger, "--around", "1h", "-q", "--records", "frame", "-o", os.devnull]
    with (captures / "errors.pcap").open("rb") as capture:
        subprocess.run(arguments, stdin=capture, check=True)
    assert len(list(tmp_path.glob("kept_*.pcapng"))) == files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "last_words"),
    [
        ([], "saved to {folder}/kept.pcapng"),
        (["--rotate", "4KB"], "saved to 5 files"),
        (["--rotate", "4KB", "--keep", "2"], "the latest saved to 2 files"),
        (["--trigger", "latency > 1h"], "nothing saved, as nothing matched --trigger"),
    ],
    ids=["one", "several", "the-latest", "none"],
)
def test_the_last_line_says_which_packets_are_saved(options: list[str], last_words: str, captures: Path, tmp_path: Path) -> None:
    arguments = [*COMMAND, "-i", "-", "-w", str(tmp_path / "kept.pcapng"), *options, "-o", os.devnull]
    with (captures / "errors.pcap").open("rb") as capture:
        done = subprocess.run(arguments, stdin=capture, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == f"pulsarscope: 97 packets from standard input, {last_words.format(folder=tmp_path)}"


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--capture-only", "-w", "never.pcapng"]], ids=["decoded", "only-saved"])
def test_a_signal_ends_the_wait_for_an_interface_with_code_0(options: list[str], tmp_path: Path) -> None:
    with sniffing(tmp_path, "-i", "nothing0", "--wait-for-interface", *options, ready=False) as sniffer:
        end = time.monotonic() + 30
        while "waiting for interface nothing0" not in sniffer.err and time.monotonic() < end:
            time.sleep(0.02)
        assert sniffer.stop() == 0
    assert sniffer.err.splitlines()[-1] == "pulsarscope: no packets: there was no interface nothing0"


@pytest.mark.slow
def test_a_key_log_that_does_not_exist_yet_is_named(captures: Path, tmp_path: Path) -> None:
    arguments = [*COMMAND, "-i", "-", "--tls-keylog", str(tmp_path / "later.log"), "--tls-keylog", str(captures / "go-tls13.keylog")]
    with (captures / "go-tls13.pcap").open("rb") as capture:
        done = subprocess.run(arguments, stdin=capture, capture_output=True, text=True, check=True)
    assert f"listening to standard input; waiting for {tmp_path / 'later.log'}; Ctrl-C stops" in done.stderr


@pytest.mark.slow
@needs_capturing
def test_metrics_are_served_meanwhile(captures: Path, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    port, metrics_port = free_port(), free_port()
    arguments = ("-i", "lo", "--port", str(port), "--metrics", f"127.0.0.1:{metrics_port}", "--format", "ndjson")
    with sniffing(tmp_path, *arguments) as sniffer:
        replay(said_in(captures / "errors.pcap"), port)
        end, result = time.monotonic() + 30, ""
        while 'code="producer-busy"' not in result and time.monotonic() < end:
            time.sleep(0.2)
            result = urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics").read().decode()
        assert 'pulsarscope_findings_total{code="producer-busy",severity="error"} 1.0' in result
        assert "pulsarscope_dropped_packets_total 0.0" in result
        assert sniffer.stop() == 0
    assert {row["record"] for row in sniffer.records} == {"frame"}  # rows needed only for the metrics are not in the output


@pytest.mark.slow
def test_the_screen_shows_what_is_said_and_leaves_a_summary(captures: Path) -> None:
    ours, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}  # a service has no such variable
    streams = {"stdin": subprocess.PIPE, "stdout": terminal, "stderr": terminal}
    with subprocess.Popen([*COMMAND, "-i", "-", "--top"], env=environment, **streams) as process:  # type: ignore[call-overload]
        os.close(terminal)
        assert process.stdin is not None
        process.stdin.write((captures / "errors.pcap").read_bytes())
        process.stdin.flush()
        shown = b""
        with suppress(OSError):  # a terminal ends in this way on Linux
            while data := os.read(ours, 65_536):
                shown += data
                if b"topics" in shown and not process.stdin.closed:
                    process.stdin.close()
        assert process.wait(30) == 0
    os.close(ours)
    assert b"topics" in shown
    _, after = shown.rsplit(b"\x1b[?1049l", 1)  # the earlier screen is back
    assert b"packets from standard input" in after


@pytest.mark.slow
@needs_capturing
def test_nobody_reading_ends_it_quietly(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    reading, writing = os.pipe()
    os.close(reading)
    with sniffing(tmp_path, "-i", "lo", "--port", str(port), pipe=writing) as sniffer:
        os.close(writing)
        replay(said_in(captures / "quickstart.pcapng"), port)
        assert sniffer.wait() == 0
    assert "Traceback" not in sniffer.err


@pytest.mark.slow
@needs_capturing
def test_without_the_capability_it_says_what_to_do() -> None:
    setup = "import ctypes; from pulsarscope.live.privileges import drop_privileges; drop_privileges()"
    program = f"{setup}; from pulsarscope.cli import main; import sys; sys.argv = ['pulsarscope', 'live', '-i', 'lo']; main()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "CAP_NET_RAW" in result.stderr
    assert "may not capture on lo" in result.stderr
    assert "run it with sudo, or let tcpdump capture" in result.stderr
    assert "setcap" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_pipe_is_decoded_like_a_file(captures: Path) -> None:
    data = (captures / "quickstart.pcapng").read_bytes()
    result = subprocess.run([*COMMAND, "-i", "-", "--format", "ndjson", "-q"], input=data, capture_output=True, check=True)
    assert (
        result.stdout == CliRunner().invoke(app, ["decode", str(captures / "quickstart.pcapng"), "--format", "ndjson", "-q"]).stdout_bytes
    )


@pytest.mark.slow
def test_parquet_of_all_records_is_a_folder(captures: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    data = (captures / "quickstart.pcapng").read_bytes()
    command = [*COMMAND, "-i", "-", "--format", "parquet", "--records", "all", "-o", str(tmp_path / "tables")]
    subprocess.run(command, input=data, capture_output=True, check=True)
    assert {path.name for path in (tmp_path / "tables").iterdir()} >= {"frame.parquet", "message.parquet", "finding.parquet"}


@pytest.mark.slow
def test_what_was_put_out_stays_when_no_more_fits(captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ndjson"
    command = ["bash", "-c", 'ulimit -f 16; trap "" XFSZ; exec "$@"', "-", *COMMAND, "-i", "-", "--format", "ndjson", "-o", str(out)]
    result = subprocess.run(command, input=(captures / "quickstart.pcapng").read_bytes(), capture_output=True, check=False)
    assert result.returncode == 5
    (out,) = tmp_path.glob("out.ndjson.*.partial")
    assert f"the output before that is in {out}" in result.stderr.decode()
    assert len(out.read_bytes()) == 16 << 10
    assert not (tmp_path / "out.ndjson").exists()


def test_the_interfaces_are_named() -> None:
    result = CliRunner().invoke(app, ["live", "--list"])
    assert result.exit_code == 0
    assert "any" in result.stdout
    assert "MTU 0" not in result.stdout  # unknown if /sys is that of another namespace


WRONG = {
    "no such interface": (["-i", "nothing0"], "unknown interface nothing0; known: "),
    "an empty name": (["-i", ""], 'unknown interface ""; known: '),
    "two interfaces": (["-i", "lo", "-i", "eth0"], "give one -i, or -i any"),
    "no such trigger": (["-w", "never.pcapng", "--trigger", "any-eror"], "did you mean any-error?"),
    "a filter that is none": (["-w", "never.pcapng", "--trigger", "command == "], "command == "),
    "no such finding": (["--until", "producer-bsy"], "did you mean producer-busy?"),
    "a trigger without a file": (["--trigger", "producer-busy"], "-w"),
    "rotation without a file": (["--rotate", "10MB"], "-w"),
    "a size without a unit": (["-i", "lo", "-w", "never.pcapng", "--rotate", "10"], "--rotate 10: give a number with a unit"),
    "a screen without a terminal": (["--top"], "--top needs a terminal"),
    "a screen and lines": (["--top", "--format", "ndjson", "-V"], "cannot be combined with --format, -V"),
    "metrics nowhere": (["--metrics", "9464"], "--metrics 9464: give an address and a port"),
    "more memory than there is": (["-i", "lo", "--buffer", "1000TB"], "--buffer 1000TB: at most a quarter of this host's memory"),
    "a folder for packets": (["-i", "lo", "-w", "."], ". is a folder: name a file"),
    "files kept of one": (["-i", "lo", "-w", "never.pcapng", "--keep", "3"], "--keep needs --rotate"),
    "packets around nothing": (["-i", "lo", "-w", "never.pcapng", "--around", "3s"], "--around needs --trigger"),
    "a filter for a pipe": (["-i", "-", "-f", "port 6650", "--any-port"], "cannot be combined with -f, --any-port"),
    "a format for a capture filter": (["-i", "lo", "-f", "ndjson"], "for ndjson give --format ndjson"),
    "a format for a pipe": (["-i", "-", "-f", "csv"], "for csv give --format csv"),
    "a file": (["-i", __file__], "use pulsarscope decode"),
    "packets over an input": (["--tls-keylog", __file__, "-w", __file__], "is one of the inputs: name another file with -w"),
    "rows over an input": (["-i", "-", "--tls-keylog", __file__, "-o", __file__], "is one of the inputs: name another file with -o"),
    "rows over packets": (["-o", "never.pcapng", "-w", "./never.pcapng"], "-w and -o name one file"),
    "packets saved nowhere": (["--capture-only"], "name it with -w"),
    "packets decoded and not": (["--capture-only", "-w", "never.pcapng", "--top", "-V"], "cannot be combined with --top, -V"),
    "packets to standard output": (["-i", "-", "-w", "-"], "-w needs the name of a file"),
    "packets compressed": (["-i", "-", "-w", "never.pcapng.gz"], "-w saves packets uncompressed: name the file without .gz"),
    "a time that is none": (["--for", "soon"], "--for soon"),
}


@pytest.mark.parametrize(("arguments", "text"), WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_one_line(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, ["live", *arguments])
    assert isinstance(result.exception, PulsarscopeError)
    assert text in str(result.exception)


@pytest.mark.slow
@needs_capturing
def test_packets_are_saved_without_being_decoded(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    with sniffing(tmp_path, "-i", "lo", "--port", str(port), "--capture-only") as sniffer:
        replay(said_in(captures / "errors.pcap"), port)
        assert sniffer.stop(signal.SIGINT) == 0
    assert sniffer.out == ""
    assert "none dropped by the kernel, saved to" in sniffer.err
    assert "not decoded" not in sniffer.err
    command = [sys.executable, "-m", "pulsarscope", "stats", str(tmp_path / "ready.pcapng"), "--port", str(port), "-f", "json"]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


@pytest.mark.slow
def test_packets_that_could_not_be_written_are_not_said_to_be_saved(captures: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.pcapng"
    command = ["bash", "-c", 'ulimit -f 4; trap "" XFSZ; exec "$@"', "-", *COMMAND, "-i", "-", "--capture-only", "-w", str(kept)]
    with (captures / "errors.pcap").open("rb") as capture:
        done = subprocess.run(command, stdin=capture, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert "the packets before are in it" in done.stderr
    assert "saved to" not in done.stderr


@pytest.mark.slow
@needs_capturing
def test_a_signal_sent_to_a_job_in_the_background_ends_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for `command &`
    try:
        with sniffing(tmp_path, "-i", "lo", "--port", str(free_port())) as sniffer:
            while "listening" not in sniffer.err:
                time.sleep(0.05)
            assert sniffer.stop(signal.SIGINT) == 0
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@needs_capturing
def test_findings_stand_in_the_timeline_under_the_time_of_day(captures: Path, tmp_path: Path) -> None:
    port = free_port()
    with sniffing(tmp_path, "-i", "lo", "--port", str(port)) as sniffer:
        replay(said_in(captures / "errors.pcap"), port)
        assert sniffer.stop() == 0
    assert "producer-busy" in sniffer.out
    assert time.strftime("%H:") in sniffer.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "code", "frames"),
    [
        ("rules.sends.sizes.SizeRule.end", "rule-failed", 75),
        ("session.session.PulsarSession.observe", "dissector-failed", 75),
        ("frame.decoder.FrameDecoder.decode", "dissector-failed", 0),
    ],
)
def test_what_raises_is_a_finding_and_the_capture_goes_on(broken: str, code: str, frames: int, captures: Path) -> None:
    module, owner, name = broken.rsplit(".", 2)
    script = (
        f"from pulsarscope.protocols.pulsar.{module} import {owner}\nfrom pulsarscope.cli import main\n"
        f"def fail(*_): raise ValueError('why')\n{owner}.{name} = fail\nmain()"
    )
    command = [sys.executable, "-c", script, "live", "-i", "-", "--format", "ndjson", "--records", "frame,finding"]
    result = subprocess.run(command, input=(captures / "errors.pcap").read_bytes(), capture_output=True, check=False)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert code in {row.get("code") for row in rows}
    assert sum(row["record"] == "frame" and row["status"] != "skipped" for row in rows) == frames


@pytest.mark.slow
def test_a_rule_that_does_not_return_is_named_and_the_capture_goes_on(captures: Path) -> None:
    script = (
        "import time\nfrom pulsarscope.protocols.pulsar.rules.sends.sizes import SizeRule\nfrom pulsarscope.cli import main\n"
        "def hang(*_): time.sleep(6.5)\nSizeRule.end = hang\nmain()"
    )
    command = [sys.executable, "-c", script, "live", "-i", "-", "--format", "ndjson", "--records", "frame,finding"]
    result = subprocess.run(command, input=(captures / "quickstart.pcapng").read_bytes(), capture_output=True, check=False)
    assert result.returncode == 0
    (line,) = [line for line in result.stderr.decode().splitlines() if "has been running" in line]
    assert "has been running for 5 s; Ctrl-C ends it" in line
    assert b'"record":"frame"' in result.stdout


@pytest.mark.slow
def test_findings_of_both_legs_of_a_path_are_reported_once(tmp_path: Path) -> None:
    path = Legs()
    path.produce(12).client(producer(2, request=77)).wait(40 * SECOND).close()
    packets = sorted([*path.outer.packets, *path.inner.packets], key=lambda packet: packet.time_ns)
    data = write_pcap(tmp_path / "legs.pcap", packets).read_bytes()
    command = [*COMMAND, "-i", "-", "--format", "ndjson", "--records", "frame,finding"]
    rows = [json.loads(line) for line in subprocess.run(command, input=data, capture_output=True, check=True).stdout.splitlines()]
    reported = [(row["connection"], row["code"]) for row in rows if row["record"] == "finding" and row["code"] != "proxy-legs"]
    outer, _ = sorted({row["connection"] for row in rows if row["record"] == "frame"})
    assert reported
    assert {connection for connection, _ in reported} == {outer}


@pytest.mark.parametrize(
    ("options", "why"), [(["--columns", "nope"], 'unknown column "nope" in frame records'), (["--columns", "len("], "")]
)
@pytest.mark.parametrize("output", [[], ["--format", "ndjson"], ["--format", "csv"]])
def test_columns_that_do_not_exist_are_refused_before_anything_is_captured(options: list[str], why: str, output: list[str]) -> None:
    done = execute_here("live", "-i", "-", *options, *output)
    assert done.returncode == 2
    assert b"listening" not in done.stderr
    assert why.encode() in done.stderr
