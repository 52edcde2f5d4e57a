"""Dissectors of other packages: a third protocol, installed as a wheel, in every command; and the effects of a broken one."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from pulsarscope.analysis.sections import Sections
from pulsarscope.dissect.contract.capabilities import BoundedFold, ReportTable
from pulsarscope.dissect.plugins.isolation import PluginWarning
from pulsarscope.dissect.plugins.registry import DISSECTOR_GROUP, share_stored_readers, with_plugins
from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import entry_points, module_path
from pulsarscope.protocols import DISSECTORS, make_dissectors
from tests.dissect.third_protocol import card, put, write_capture, write_wheel
from tests.dissect.third_protocol.pulsarscope_postcard import PostcardDissector
from tests.places import ROOT

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of the third protocol, installed by pip."""
    folder = tmp_path_factory.mktemp("plugin")
    wheel = write_wheel(folder)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel)]
    subprocess.run(command, check=True, timeout=120, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return folder / "site"


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of it on its port, and one on another port."""
    folder = tmp_path_factory.mktemp("cards")
    write_capture(folder / "elsewhere.pcap", port=9000)
    return write_capture(folder / "cards.pcap")


@pytest.fixture
def run(site: Path) -> Run:
    def run(*arguments: str | Path, path: Sequence[Path] = (site,), code: int = 0) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path))), "NO_COLOR": "1", "COLUMNS": "100"}
        command = [sys.executable, "-m", "pulsarscope", *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
        assert result.returncode == code, result.stderr
        return result

    return run


def rows(result: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


# ---- the third protocol


@pytest.mark.slow
def test_without_the_package_its_connections_are_of_no_known_protocol(run: Run, cards: Path) -> None:
    (row,) = rows(run("decode", cards, "--records", "connection", "--format", "ndjson", path=()))
    assert "dissector" not in row


@pytest.mark.slow
def test_the_version_names_it(run: Run) -> None:
    assert "\nother dissectors: postcard of pulsarscope-postcard\n" in run("--version").stdout
    assert "dissectors" not in run("--version", path=()).stdout


@pytest.mark.slow
def test_decode_recognises_it_on_any_port(run: Run, cards: Path) -> None:
    for capture in (cards, cards.with_name("elsewhere.pcap")):
        made = rows(run("decode", capture, "--format", "ndjson", "--records", "frame,exchange,connection"))
        frames = [row for row in made if row["record"] == "frame"]
        assert [row["command"] for row in frames] == ["PUT", "TAKEN"] * 3
        assert frames[0]["fields"] == {"number": 1, "box": "aunts"}
        assert frames[0]["extra"] == {"stamp": 95}
        assert (frames[1]["request"], frames[1]["latency_ns"]) == ("0:4.1", 200_000)
        assert [row["status"] for row in made if row["record"] == "exchange"] == ["ok", "ok", "error"]
        assert made[-1]["dissector"] == "postcard"


@pytest.mark.slow
def test_a_port_can_be_taken_for_it(run: Run, cards: Path) -> None:
    elsewhere = cards.with_name("elsewhere.pcap")
    assert len(rows(run("decode", elsewhere, "-d", "9000=postcard", "--format", "ndjson"))) == 6
    printed = run("decode", elsewhere, "-d", "9000=letter", code=2).stderr
    assert (
        printed == f"pulsarscope: no dissector is named 'letter': there are {', '.join(one.name for one in make_dissectors())}, postcard\n"
    )


@pytest.mark.slow
def test_text_shows_it_in_its_own_words(run: Run, cards: Path) -> None:
    assert re.search(r"→ PUT +number 1  box aunts$", run("decode", cards).stdout, re.MULTILINE)
    assert "trouble                     4" in run("decode", "-V", cards).stdout
    assert "length" in run("decode", "-x", cards).stdout


@pytest.mark.slow
def test_messages_gives_its_texts_and_its_own_columns_under_extra(run: Run, cards: Path) -> None:
    made = rows(run("messages", cards, "--payload", "text", "--format", "ndjson", "--columns", "topic,payload,extra"))
    assert [row["payload"] for row in made] == ["hello", "hello again", "bye"]
    assert [row["extra"] for row in made] == [{"stamp": 95}, {"stamp": 45}, {"stamp": 95}]
    table = list(csv.DictReader(run("messages", cards, "--format", "csv").stdout.splitlines()))
    assert [(row["topic"], row["extra"]) for row in table[1:]] == [("aunts", '{"stamp":45}'), ("uncles", '{"stamp":95}')]


@pytest.mark.slow
def test_parquet_holds_its_columns_without_a_change_of_schema(run: Run, cards: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    quickstart = ROOT / "captures" / "quickstart.pcapng"
    for name, capture, path in (("with", cards, None), ("without", quickstart, ())):
        run("decode", capture, "--format", "parquet", "-o", tmp_path / name, **({} if path is None else {"path": path}))
    made = parquet.read_table(tmp_path / "with")
    assert made.schema.equals(parquet.read_table(tmp_path / "without").schema)
    assert made["extra"].to_pylist()[:2] == ['{"stamp":95}', None]


@pytest.mark.slow
def test_statistics_count_it_and_its_rules_evaluate_it(run: Run, cards: Path) -> None:
    counted = json.loads(run("stats", cards, "--format", "json").stdout)
    assert [(one["topic"], one["client_messages"]) for one in counted["topics"]] == [("aunts", 2), ("uncles", 1)]
    assert [one["request"] for one in counted["exchanges"]] == ["PUT"]
    judged = json.loads(run("diagnose", cards, "--format", "json", code=1).stdout)
    assert [(one["code"], one["hint"]) for one in judged["findings"]] == [("postcard-lost", "Write again.")]


@pytest.mark.slow
def test_what_is_odd_in_its_frames_is_a_finding_with_advice(run: Run, tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "odd.pcap", last=card(9, 4, b"?") + put(5, 0, b"aunts", b"unfinished")[:-3])
    made = rows(run("decode", capture, "--format", "ndjson", "--records", "frame,finding"))
    assert [row["status"] for row in made if row["record"] == "frame"][-2:] == ["malformed", "truncated"]
    found = {row["code"]: row["hint"] for row in made if row["record"] == "finding"}
    assert found["frame-malformed"] == "Look at it with decode -x."
    assert found["frame-truncated"] == "The connection ended within it, or packets are missing."


@pytest.mark.slow
def test_a_filter_can_name_its_fields_and_fields_lists_them(run: Run, cards: Path) -> None:
    made = rows(run("decode", cards, "-Y", 'PUT.box == "aunts" && extra.stamp < 90', "--format", "ndjson"))
    assert [row["packet"] for row in made] == [10]
    assert rows(run("decode", cards, "-Y", "TAKEN.trouble > 0", "--format", "ndjson"))[0]["packet"] == 16
    assert [row["packet"] for row in rows(run("decode", cards, "-Y", 'command == "PUT"', "--format", "ndjson"))] == [4, 10, 14]
    exchanges = ("--records", "exchange", "--format", "ndjson")
    assert len(rows(run("decode", cards, *exchanges, "-Y", "request == PUT and response == taken"))) == 3
    assert len(rows(run("decode", cards, *exchanges, "-Y", 'error == "trouble 4"'))) == 1
    assert 'write "trouble" in quotes' in run("decode", cards, *exchanges, "-Y", "error == trouble", code=2).stderr
    assert 'command is never "PTU"; did you mean PUT?' in run("decode", cards, "-Y", "command == PTU", code=2).stderr
    assert "PUT.box" in run("fields", "PUT").stdout
    assert "extra.stamp" in run("fields", "extra").stdout


@pytest.mark.slow
def test_one_card_is_followed_by_its_number_though_other_protocols_name_messages_otherwise(run: Run, cards: Path) -> None:
    made = rows(run("follow", cards, "--message", "2", "--format", "ndjson"))
    assert [row["packet"] for row in made] == [10, 12]


@pytest.mark.slow
def test_its_packets_are_extracted(run: Run, cards: Path, tmp_path: Path) -> None:
    out = tmp_path / "second.pcapng"
    assert "2 of 20 packets, for 1 frame" in run("extract", cards, "-Y", "extra.stamp == 45", "-o", out).stderr
    assert run("decode", out, "--format", "ndjson").stdout.count('"PUT"') == 1


@pytest.mark.slow
def test_several_processes_know_it_too(run: Run, cards: Path) -> None:
    arguments = ("decode", cards, cards.with_name("elsewhere.pcap"), "--format", "ndjson", "--records", "all")
    assert run(*arguments, "--jobs", "2").stdout == run(*arguments).stdout


# ---- broken dissectors


def installed(folder: Path, declared: str, source: str = "", name: str = "other") -> Path:
    """A folder of the module path in which a package declares entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{DISSECTOR_GROUP}]\n{declared}\n")
    (folder / f"{name}.py").write_text(source)
    return folder


def put_first(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put a folder first, like `syspath_prepend`; earlier imports under the name of the package are forgotten."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "other", raising=False)


PULSAR = "from pulsarscope.protocols.pulsar.dissector import PulsarDissector\n"

BROKEN = {
    "no module": ("x = nowhere:X", "", "ModuleNotFoundError: No module named 'nowhere'"),
    "no class": ("x = other:X", "", "has no attribute 'X'"),
    "fails when imported": ("x = other:X", "1 / 0", "ZeroDivisionError: division by zero"),
    "ends the program": ("x = other:X", "import sys; sys.exit(3)", "SystemExit: 3"),
    "fails when made": ("x = other:X", "class X:\n  def __init__(self, **given): raise OSError", "OSError"),
    "takes no options": ("x = other:X", "class X: pass", "takes no arguments"),
    "is no dissector": ("x = other:X", "class X:\n  def __init__(self, **given): self.name = 'x'", "it is not a subclass of"),
    "lacks a member": (
        "x = other:X",
        PULSAR
        + "from pulsarscope.dissect import Dissector\nclass X(Dissector): name, ports, framing = 'x', frozenset(), PulsarDissector.framing",
        "it lacks recognise, decode, session",
    ),
    "has ports of another type": ("x = other:X", PULSAR + "class X(PulsarDissector): ports = [1]", "its ports is not a frozenset"),
    "fails to give a member": (
        "x = other:X",
        PULSAR + "class X(PulsarDissector):\n  families = property(lambda self: 1 / 0)",
        "ZeroDivisionError",
    ),
    "has no framing": ("x = other:X", PULSAR + "class X(PulsarDissector): framing = 4", "its framing is not a Framing"),
    "is of another contract": (
        "x = other:X",
        PULSAR + "class X(PulsarDissector): contract = 2",
        "it is written for version 2 of the contract",
    ),
    "has no name": ("x = other:X", PULSAR + "class X(PulsarDissector): name = ''", "it lacks a name"),
}


@pytest.mark.parametrize(("declared", "source", "reason"), BROKEN.values(), ids=BROKEN)
def test_one_that_does_not_work_is_named_with_the_reason_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: str, source: str, reason: str
) -> None:
    put_first(monkeypatch, installed(tmp_path, declared, source))
    with pytest.warns(PluginWarning, match=re.escape(reason)) as warned:
        assert with_plugins(DISSECTORS) == DISSECTORS
    assert str(warned[0].message).startswith("the dissector x of other is left out: ")
    assert with_plugins(DISSECTORS) == DISSECTORS  # the warning is not repeated


@pytest.mark.slow
def test_a_folder_without_metadata_is_named_by_its_module(run: Run, cards: Path, tmp_path: Path) -> None:
    folder = installed(tmp_path, "x = other:X", "1 / 0")
    (folder / "other-1.0.dist-info" / "METADATA").unlink()
    assert "the dissector x of the module other is left out" in run("decode", cards, path=(folder,)).stderr


@pytest.mark.slow
def test_the_command_line_says_it_in_one_line_and_the_others_work(run: Run, cards: Path, site: Path, tmp_path: Path) -> None:
    path = (installed(tmp_path, "x = other:X", r"raise ValueError('\x1b[2J')"), site)
    result = run("decode", cards, "--format", "ndjson", path=path)
    assert result.stderr == "pulsarscope: the dissector x of other is left out: ValueError: \\x1b[2J\n"
    assert result.stdout.count("\n") == 6


@pytest.mark.slow
def test_quiet_leaves_the_warning_out_and_several_processes_report_it_once(run: Run, cards: Path, site: Path, tmp_path: Path) -> None:
    path = (installed(tmp_path, "x = nowhere:X"), site)
    assert run("decode", cards, "--format", "ndjson", "-q", path=path).stderr == ""
    result = run("decode", cards, cards.with_name("elsewhere.pcap"), "--format", "ndjson", "--jobs", "2", path=path)
    assert result.stderr.count("left out") == 1
    assert run("fields", "PUT", path=path).stderr.count("left out") == 1


CLASHES = {
    "name": ("class X(PulsarDissector): ports = frozenset({1})", "are both named pulsar"),
    "port": ("class X(PulsarDissector): name = 'x'", "both expect port 6650"),
}


@pytest.mark.parametrize(("source", "words"), CLASHES.values(), ids=CLASHES)
def test_a_clash_of_names_or_ports_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str) -> None:
    put_first(monkeypatch, installed(tmp_path, "x = other:X", PULSAR + source))
    with pytest.raises(UsageError, match=f"the dissectors x of other and pulsar of pulsarscope {words}"):
        make_dissectors()


@pytest.mark.slow
def test_a_clash_of_codes_ends_the_command_with_one_line(run: Run, cards: Path, tmp_path: Path) -> None:
    source = PULSAR + (
        "from msgspec.structs import replace\n"
        "class X(PulsarDissector):\n"
        "  name, ports = 'x', frozenset()\n"
        "  codes = {**PulsarDissector.codes, 'stream-gap': replace(PulsarDissector.codes['frame-malformed'], code='stream-gap')}\n"
    )
    (line,) = run("decode", cards, path=(installed(tmp_path, "x = other:X", source),), code=2).stderr.splitlines()
    assert "stream-gap is defined" in line
    assert line.endswith(", x")


def test_a_table_with_the_name_of_a_common_section_is_wrong_usage() -> None:
    table = ReportTable("topics", "Topics", "", (), BoundedFold)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a dissector has a table topics, which statistics have for all protocols"):
        Sections(("total",), {"topics": table})


def test_those_of_the_package_come_first_and_others_in_the_order_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = PULSAR + "class A(PulsarDissector): name, ports = 'b', frozenset()\nclass B(PulsarDissector): name, ports = 'a', frozenset()\n"
    put_first(monkeypatch, installed(tmp_path, "first = other:A\nsecond = other:B", source))
    assert [one.name for one in make_dissectors()] == [*(make().name for make in DISSECTORS), "b", "a"]


def test_where_nobody_declares_any_the_metadata_of_packages_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(metadata, "entry_points")  # 2 ms of every start, and 30 to import its dependencies
    assert entry_points(DISSECTOR_GROUP, module_path()) == []


def test_a_package_in_a_zip_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = write_wheel(tmp_path)
    assert zipfile.is_zipfile(wheel)
    monkeypatch.syspath_prepend(wheel)
    assert [point.name for point in entry_points(DISSECTOR_GROUP, module_path())] == ["postcard"]


# ---- readers of server storage


@pytest.mark.parametrize("fails", [property(lambda _: 1 // 0), property(lambda _: lambda *_: 1 // 0)], ids=["the member", "the reader"])
def test_a_reader_of_stored_entries_that_raises_harms_no_other(fails: property) -> None:
    failing = type("Failing", (PostcardDissector,), {"stored_reader": fails})()
    reading = type("Reading", (PostcardDissector,), {"stored_reader": property(lambda _: lambda data, start, end: data[start:end])})()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        share_stored_readers([failing, reading])
        found = [read(b"abc", 1, 3) for read in reading.stored_readers]
    assert [value for value in found if value is not None] == [b"bc"]
    assert ["stored_reader" in str(warning.message) for warning in warned] == [True]
