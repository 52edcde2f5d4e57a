"""A dissector with any member that raises: its connection has a finding, and all other output of every command is complete."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from pulsarscope import protocols
from pulsarscope.cli.arguments.application import app
from pulsarscope.dissect.contract.capabilities import ReportColumn, ReportTable, TopicNames
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.events import Remark
from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers, KeyRule, RuleContext, where_of
from pulsarscope.dissect.plugins.isolation import Failure, PluginWarning, exception_text, of_type, raising_function, raising_line
from pulsarscope.model.errors import UsageError
from pulsarscope.protocols import DISSECTORS
from pulsarscope.testing import ScriptedConnection
from tests.dissect.third_protocol import card, put, taken, write_capture
from tests.dissect.third_protocol.pulsarscope_postcard import PostcardDissector, PostcardSession
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios.commands import CONNECT, CONNECTED, PING

SEND = payload_frame("SEND", message_metadata(), b"payload", producer_id=1, sequence_id=1)
PULSAR = ScriptedConnection(6650).client(CONNECT).server(CONNECTED).client(SEND, PING).server(command_frame("PONG")).close()


def fail(*_arguments: Any, **_options: Any) -> Any:
    message = "by design"
    raise ZeroDivisionError(message)


FAILING_LINE = fail.__code__.co_firstlineno + 2


class Session(PostcardSession):
    """A session, to be broken."""


class Rule(ConnectionRule):
    """A rule, to be broken."""

    def __init__(self, context: RuleContext) -> None:
        self.context = context

    def put(self, row: Any) -> None:
        self.context.emit_fact("cards", "all", where_of(row), "put", {})

    frames: ClassVar[Handlers] = {"PUT": put}


def with_session(**members: Any) -> dict[str, Any]:
    made = type("Broken", (Session,), members)
    return {"session": lambda _self, context: made(context)}


def setting(column: str, value: Any) -> Any:
    """An `observe` that sets a column of each frame."""

    def observe(_self: Any, frames: Any, _events: Any) -> None:
        for row in frames:
            setattr(row, column, value)

    return observe


def with_rules(key_rule: Any = lambda *_: None, **members: Any) -> dict[str, Any]:
    rule = type("BrokenRule", (Rule,), members)
    return {"rules": property(lambda _self: Rules({}, (rule,), (KeyRule("cards", 1, key_rule),)))}


ON_CONNECTIONS: dict[str, dict[str, Any]] = {
    "recognise": {"recognise": fail},
    "find_candidate": {"find_candidate": fail, "opens": lambda *_: None},
    "opens": {"opens": fail},
    "decode": {"decode": fail},
    "a tuple of another form": {"decode": lambda *_: ("PUT", {})},
    "decode_partial": {"decode_partial": fail},
    "max_frame_size": {"max_frame_size": fail, "announcing": frozenset({"PUT"})},
    "session": {"session": fail},
    "no session": {"session": lambda *_: None},
    "session.observe": with_session(observe=fail),
    "session.finish": with_session(finish=fail),
    "session.describe": with_session(describe=fail),
    "a code that is none": with_session(observe=lambda _self, frames, events: [events.append(Remark("none", row, "")) for row in frames]),
    "rule": with_rules(__init__=fail),
    "handler": with_rules(frames={"PUT": fail}),
    "end": with_rules(end=fail),
    "key rule": with_rules(fail),
    "rules": {"rules": property(fail)},
    "an odd command": with_session(observe=setting("command", 7)),
    "an odd topic": with_session(observe=setting("topic", object())),
    "half a character": with_session(observe=setting("topic", "\ud800")),
    "a large number": with_session(observe=setting("sequence_id", 1 << 80)),
    "odd fields": with_session(observe=setting("fields", {"a": {1, object()}})),
    "an odd connection": with_session(describe=lambda _self, row: setattr(row, "client_version", ["1"])),
    "an odd text": with_rules(end=lambda self, _row, last: self.context.report("rule-failed", last, 7, {})),
    "odd evidence": with_rules(end=lambda self, _row, last: self.context.report("rule-failed", last, "x", {"a": object()})),
    "an odd place": with_rules(end=lambda self, _row, _last: self.context.report("rule-failed", ("here",), "x", {})),
    "rules of another form": {"rules": property(lambda _: Rules({}, (7,)))},  # type: ignore[arg-type]
}
"""Members for one connection: they cause a finding."""

OF_RULES = ("rule", "handler", "end", "key rule", "rules", "rules of another form", "an odd text", "odd evidence", "an odd place")

IN_TEXT: dict[str, dict[str, Any]] = {
    "ranges": {"ranges": fail},
    "odd ranges": {"ranges": lambda _self, data: (data, [("a", 7)])},
    "ranges of text": {"ranges": lambda _self, _data: ("text", [])},
    "summary": {"summary": fail},
    "the property summary": {"summary": property(fail)},
    "no text": {"summary": lambda *_: 7},
    "message_summary": {"message_summary": fail},
    "explain": {"explain": fail},
    "completes": {"completes": fail},
}
"""Members that only some text output uses."""

OF_COMMANDS: dict[str, dict[str, Any]] = {
    "vocabulary": {"vocabulary": property(fail)},
    "follow_kinds": {"follow_kinds": property(fail)},
    "follow maker": {"follow_kinds": {"message": fail}},
    "follow test": {"follow_kinds": {"message": lambda _name: fail}},
    "registry": {"registry": property(fail)},
    "registry reader": {"registry": property(lambda _: fail)},
    "schema_reader": {"schema_reader": property(fail)},
    "schema reader": {"schema_reader": property(lambda _: fail)},
    "upgrade": {"upgrade": staticmethod(fail)},
    "odd upgrade": {"upgrade": staticmethod(lambda _head: "x")},
    "topics": {"topics": TopicNames(fail, fail, fail)},
    "odd topics": {"topics": TopicNames(*[lambda _name: 7] * 3)},  # type: ignore[arg-type]
}
"""Members for no connection: they cause a warning."""


class Fold:
    """A fold, to be broken, of a table with one number."""

    left_out = 0

    def feed(self, rows: Any, endpoints: Any) -> None:
        """Take rows."""

    def records(self) -> Any:
        """Return no records."""
        return []


def with_table(**members: Any) -> dict[str, Any]:
    fold = type("BrokenFold", (Fold,), members)
    return {"tables": (ReportTable("cards", "Cards", "", (ReportColumn("count", "cards"),), fold),)}


OF_REPORTS: dict[str, dict[str, Any]] = {
    "tables": {"tables": property(fail)},
    "a number for a table": {"tables": (7,)},
    "the fold": with_table(__init__=fail),
    "feed": with_table(feed=fail),
    "records": with_table(records=fail),
    "numbers for records": with_table(records=lambda _: [7]),
    "text for a number": with_table(records=lambda _: [{"count": "7"}]),
    "known_issues": {"known_issues": property(fail)},
    "odd known_issues": {"known_issues": 7},
    "odd vocabulary": {"vocabulary": 7},
}
"""Members that reports use."""

OF_REDACTION: dict[str, dict[str, Any]] = {
    "redaction": {"redaction": fail},
    "redact": {"redaction": lambda *_: fail},
    "odd redact": {"redaction": lambda *_: lambda *_: 7},
    "a short redact": {"redaction": lambda *_: lambda _frame, data: (data[:-1], True)},
}

COMMANDS = {
    "timeline": ("decode",),
    "tree": ("decode", "-V"),
    "hex": ("decode", "-x"),
    "json": ("decode", "--format", "json", "--records", "all"),
    "ndjson": ("decode", "--format", "ndjson", "--records", "all"),
    "csv": ("decode", "--format", "csv"),
    "parquet": ("decode", "--format", "parquet", "-o", "out"),
    "messages": ("messages",),
    "stats": ("stats",),
    "diagnose": ("diagnose",),
    "follow": ("follow", "--topic", "aunts"),
    "follow message": ("follow", "--message", "5:12"),
    "filter": ("decode", "-Y", "frame.size > 0"),
    "extract": ("extract", "-Y", "frame.size > 0", "-o", "out"),
}
"""Commands that read captures."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of Pulsar, one of postcards that ends within a card, and a dump of ZooKeeper."""
    folder = tmp_path_factory.mktemp("isolation")
    (folder / "a-pulsar.pcap").write_bytes(PULSAR.pcap())
    write_capture(folder / "cards.pcap", last=put(5, 0, b"aunts", b"unfinished")[:-3])
    (folder / "dump.txt").write_text("/brokers/ids/0\tbroker:1:10.0.0.1:9092\n")
    return folder


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that adds the dissector of postcards with other members to all commands."""

    def breaking(**members: Any) -> None:
        broken = type("Broken", (PostcardDissector,), {"package": "other", **members})
        monkeypatch.setattr(protocols, "DISSECTORS", (*DISSECTORS, broken))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        yield breaking


def run(*arguments: str, out: Path) -> str:
    """Return the output of a command."""
    result = CliRunner().invoke(app, [str(out) if argument == "out" else argument for argument in arguments])
    assert result.exception is None or (isinstance(result.exception, SystemExit) and result.exit_code in (0, 1)), result.exception
    return result.stdout


@pytest.fixture(scope="module")
def usual(folder: Path) -> dict[str, str]:
    """The output of commands on the capture of Pulsar."""
    return {name: run(*COMMANDS[name], str(folder / "a-pulsar.pcap"), out=folder) for name in ("timeline", "stats", "diagnose", "ndjson")}


@pytest.mark.parametrize("members", [*ON_CONNECTIONS.values(), *IN_TEXT.values(), *OF_COMMANDS.values()])
@pytest.mark.slow
def test_every_command_goes_on(folder: Path, usual: dict[str, str], breaking: Any, tmp_path: Path, members: dict[str, Any]) -> None:
    pulsar, cards = str(folder / "a-pulsar.pcap"), str(folder / "cards.pcap")
    breaking(**members)
    for name, text in usual.items():
        assert run(*COMMANDS[name], pulsar, out=tmp_path) == text
    both = {name: run(*command, pulsar, cards, out=tmp_path / name) for name, command in COMMANDS.items()}
    assert set(usual["ndjson"].splitlines()) <= set(both["ndjson"].splitlines())
    assert "10.0.0.1:9092" in run("registry", str(folder / "dump.txt"), out=tmp_path)
    assert "SEND.sequence_id" in run("fields", "SEND", out=tmp_path)
    assert run("messages", pulsar, "--schema", "x=int32", out=tmp_path)


@pytest.mark.parametrize("members", OF_REPORTS.values(), ids=OF_REPORTS)
def test_reports_of_others_are_whole(folder: Path, usual: dict[str, str], breaking: Any, tmp_path: Path, members: dict[str, Any]) -> None:
    pulsar, cards = str(folder / "a-pulsar.pcap"), str(folder / "cards.pcap")
    breaking(**members)
    assert run(*COMMANDS["stats"], pulsar, out=tmp_path) == usual["stats"]
    assert run(*COMMANDS["diagnose"], pulsar, out=tmp_path) == usual["diagnose"]
    if "tables" in members and isinstance(members["tables"], tuple) and isinstance(members["tables"][0], ReportTable):
        by = run("stats", "--by", "commands,cards", "--format", "json", pulsar, cards, out=tmp_path)
        assert json.loads(by)["cards"] == []
        assert "PUT" in by
    run("report", pulsar, cards, "-o", "out", out=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "TAKEN" in page
    assert "SEND_RECEIPT" in page or "PONG" in page
    assert "SEND.sequence_id" in run("fields", "SEND", out=tmp_path)


@pytest.mark.parametrize("members", OF_REDACTION.values(), ids=OF_REDACTION)
def test_what_cannot_be_redacted_is_in_no_copy(folder: Path, breaking: Any, tmp_path: Path, members: dict[str, Any]) -> None:
    breaking(**members)
    run("extract", "--redact", str(folder / "a-pulsar.pcap"), str(folder / "cards.pcap"), "-o", "out", out=tmp_path / "copy.pcapng")
    copy = (tmp_path / "copy.pcapng").read_bytes()
    assert b"aunts" in (folder / "cards.pcap").read_bytes()
    assert b"aunts" not in copy
    assert "PONG" in run("decode", str(tmp_path / "copy.pcapng"), out=tmp_path)


def test_two_tables_of_one_name_are_refused(folder: Path, breaking: Any) -> None:
    breaking(tables=(ReportTable("consumers", "", "", (), Fold),))
    result = CliRunner().invoke(app, ["stats", str(folder / "cards.pcap")])
    assert isinstance(result.exception, UsageError)
    assert "has a table consumers, which another one has, too" in str(result.exception)


@pytest.mark.parametrize(("member", "members"), ON_CONNECTIONS.items(), ids=ON_CONNECTIONS)
def test_the_connection_has_a_finding_that_names_package_and_exception(
    folder: Path, breaking: Any, tmp_path: Path, member: str, members: dict[str, Any]
) -> None:
    breaking(**members)
    made = run("diagnose", str(folder / "cards.pcap"), "--format", "ndjson", out=tmp_path)
    codes = dict.fromkeys(OF_RULES, "rule-failed")
    findings = [json.loads(line) for line in made.splitlines()]
    (finding,) = [row for row in findings if row.get("code") == codes.get(member, "dissector-failed")]
    assert finding["severity"] == "warning"
    assert "of other failed in" in str(finding)
    assert "Error" in str(finding)
    assert member != "a code that is none" or "KeyError: 'none, which `codes` lacks'" in str(finding)


@pytest.mark.parametrize("members", [ON_CONNECTIONS["decode"], ON_CONNECTIONS["session.observe"], ON_CONNECTIONS["decode_partial"]])
def test_every_byte_of_the_connection_is_accounted_for_once(folder: Path, breaking: Any, tmp_path: Path, members: dict[str, Any]) -> None:
    breaking(**members)
    made = run("decode", str(folder / "cards.pcap"), "--format", "ndjson", "--records", "frame,connection", out=tmp_path)
    rows = [json.loads(line) for line in made.splitlines()]
    connection = rows[-1]
    for side in ("client", "server"):
        frames = [row for row in rows[:-1] if row["direction"] == side]
        assert sum(row["size"] for row in frames) == (connection[f"{side}_bytes"] if connection.get("dissector") else 0)
        whole = sum(row["size"] for row in frames if row["status"] in ("ok", "malformed"))
        counted = sum(connection.get(f"{side}_{name}", 0) for name in ("missing", "skipped", "tail"))
        assert whole + counted == connection[f"{side}_bytes"]


@pytest.mark.parametrize(("command", "member"), [("decode", "summary"), ("messages", "message_summary"), ("follow", "summary")])
def test_text_says_once_that_words_are_missing(folder: Path, breaking: Any, tmp_path: Path, command: str, member: str) -> None:
    breaking(**{member: fail})
    options = ("--topic", "aunts") if command == "follow" else ()
    text = run(command, *options, str(folder / "cards.pcap"), out=tmp_path)
    sentence = f"The dissector postcard of other failed in {member}: ZeroDivisionError: by design (test_isolation.py:{FAILING_LINE})."
    assert " ".join(text.split()).count(sentence) == 1


def test_frames_before_the_one_that_cannot_be_decoded_are_given(folder: Path, breaking: Any, tmp_path: Path) -> None:
    def decode(self: PostcardDissector, data: bytes, start: int, end: int) -> Any:
        return fail() if data[start + 10] == 2 else PostcardDissector.decode(self, data, start, end)

    breaking(decode=decode)
    made = run("decode", str(folder / "cards.pcap"), "--format", "ndjson", out=tmp_path)
    rows = [json.loads(line) for line in made.splitlines()]
    assert sorted((row["direction"], row.get("command", ""), row["status"]) for row in rows) == [
        ("client", "", "skipped"),
        ("client", "PUT", "ok"),
        ("server", "", "skipped"),
        ("server", "TAKEN", "ok"),
    ]


def test_cards_are_what_they_are_said_to_be() -> None:
    assert card(2, 7, b"\0") == taken(7)


class TestTexts:
    def test_an_exception_that_cannot_give_its_text_is_named(self) -> None:
        class Silent(Exception):  # noqa: N818 - says nothing
            def __str__(self) -> str:
                raise ValueError

        assert exception_text(Silent()) == "Silent"
        assert exception_text(ValueError("x" * 1000)) == "ValueError: " + "x" * 300

    def test_the_member_that_raised_is_the_first_function_outside_the_room(self) -> None:
        with pytest.raises(ZeroDivisionError) as raised:
            fail()
        assert raising_function(raised.value, "decode") == "test_the_member_that_raised_is_the_first_function_outside_the_room"
        assert raising_function(ValueError(), "decode") == "decode"

    def test_the_line_that_raised_is_the_last_one_of_the_dissectors_own_code(self) -> None:
        def give(text: str) -> Any:
            return json.loads(text)  # it raises in code of others

        with pytest.raises(ValueError, match="Expecting") as raised:
            give("{")
        assert raising_line(raised.value) == f" (test_isolation.py:{give.__code__.co_firstlineno + 1})"
        with pytest.raises(TypeError) as other:
            of_type((str,), int)
        other.value.__traceback__ = other.value.__traceback__ and other.value.__traceback__.tb_next
        assert raising_line(other.value) == ""
        assert raising_line(ValueError()) == ""

    def test_a_failure_is_the_end_of_a_sentence(self) -> None:
        assert Failure("p", "d", "m", "E: t").text == "the dissector d of p failed in m: E: t"


def test_a_column_with_nonsense_is_empty_and_the_others_are_whole(folder: Path, breaking: Any, tmp_path: Path) -> None:
    breaking()
    want = [json.loads(line) for line in run("decode", str(folder / "cards.pcap"), "--format", "ndjson", out=tmp_path).splitlines()]
    breaking(**ON_CONNECTIONS["odd fields"])
    made = [json.loads(line) for line in run("decode", str(folder / "cards.pcap"), "--format", "ndjson", out=tmp_path).splitlines()]
    kept = ("time", "packet", "sub", "direction", "command", "offset", "size", "status")
    assert [{name: row.get(name) for name in kept} for row in made] == [{name: row.get(name) for name in kept} for row in want]
    assert not any("fields" in row for row in made)


@pytest.mark.parametrize("member", ["decode", "session.observe", "handler", "key rule"])
def test_want_of_memory_is_not_contained(folder: Path, breaking: Any, member: str) -> None:
    def exhaust(*_arguments: Any) -> Any:
        raise MemoryError

    members = {
        "decode": {"decode": exhaust},
        "session.observe": with_session(observe=exhaust),
        "handler": with_rules(frames={"PUT": exhaust}),
        "key rule": with_rules(exhaust),
    }
    breaking(**members[member])
    assert isinstance(CliRunner().invoke(app, ["diagnose", str(folder / "cards.pcap")]).exception, MemoryError)


@pytest.mark.parametrize("command", ["stats", "diagnose"])
def test_reports_say_that_something_is_missing(folder: Path, breaking: Any, command: str) -> None:
    breaking(decode=fail)
    result = CliRunner().invoke(app, [command, str(folder / "cards.pcap")])
    missing = "a dissector or a rule failed 1 time" if command == "stats" else "what a dissector or a rule that failed would have reported"
    assert missing in result.output
