from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import pulsarscope
from pulsarscope.capture.formats.compression import COMPRESSED_SUFFIXES
from pulsarscope.cli.commands.mcp import ANSWER_MAX_BYTES, ROWS_MAX, TEXT_MAX, ServedCaptures, bounded
from pulsarscope.model.errors import PulsarscopeError, UsageError
from tests.places import CAPTURES, ROOT
from tests.scenarios.bad_inputs.cases import capture
from tests.scenarios.bad_inputs.text import hostile_packets

NAMES = ("stuck-consumer.pcap", "token-auth-py.pcap", "kafka07.pcap")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    served = tmp_path / "served"
    served.mkdir()
    for name in NAMES:
        shutil.copy(CAPTURES / name, served / name)
    shutil.copy(CAPTURES / "errors.pcap", tmp_path / "secret.pcap")
    (served / "link.pcap").symlink_to(tmp_path / "secret.pcap")
    return served


def call(folder: Path, tool: str, /, **arguments: Any) -> dict[str, Any]:
    tools = {each.__name__: each for each in ServedCaptures([folder]).tools()}
    answer: dict[str, Any] = tools[tool](**arguments)
    assert len(json.dumps(answer)) <= ANSWER_MAX_BYTES * 1.5
    return answer


def test_the_answers_are_those_of_the_library(folder: Path) -> None:
    name = NAMES[0]
    whole = pulsarscope.open(folder / name)
    assert call(folder, "diagnose", files=[name])["data"]["verdict"] == whole.diagnose()["verdict"]
    consumers = call(folder, "stats", files=[name], sections=["consumers"])["data"]["consumers"]
    assert [row["unacknowledged"] for row in consumers] == [8, 0]
    rows = call(folder, "decode", files=[name], filter="command == FLOW", limit=3)["data"]
    assert [row["command"] for row in rows] == ["FLOW"] * len(rows)
    followed = call(folder, "follow", files=[name], subject="message", name="96:0")["data"]
    assert [row["command"] for row in followed] == ["SEND", "SEND_RECEIPT", "MESSAGE", "MESSAGE", "ACK"]
    assert call(folder, "explain", code="consumer-starved")["data"]["code"] == "consumer-starved"
    assert {Path(row["file"]).name for row in call(folder, "list_captures")["data"]} == {*NAMES}


def test_compressed_captures_are_listed(tmp_path: Path) -> None:
    names = {f"a.pcap{suffix}" for suffix in COMPRESSED_SUFFIXES}
    for name in {*names, "notes.txt"}:
        (tmp_path / name).write_bytes(b"x")
    assert {Path(row["file"]).name for row in call(tmp_path, "list_captures")["data"]} == names


@pytest.mark.parametrize("file", ["../secret.pcap", "link.pcap", "/etc/passwd", "none.pcap", "", ".", "a\0b", "x" * 5_000])
def test_only_captures_in_the_folders_are_read(folder: Path, file: str) -> None:
    with pytest.raises(UsageError, match=r"is not a file in|name a capture"):
        call(folder, "diagnose", files=[file] if file else [])


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("decode", {"filter": "comand == SEND"}, "did you mean command"),
        ("decode", {"records": "frames"}, "frame"),
        ("decode", {"limit": 0}, "limit is 0: give 1 to 200"),
        ("stats", {"sections": ["nothing"]}, 'unknown section "nothing"; known: total'),
        ("follow", {"subject": "user", "name": "x"}, 'unknown subject "user"; known: connection'),
        ("follow", {"subject": "self", "name": "x"}, 'unknown subject "self"; known: connection'),
        ("follow", {"subject": "topic", "name": "stuk"}, "there is no topic stuk: the only topic is stuck-t-20"),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_right(folder: Path, tool: str, arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(PulsarscopeError, match=re.escape(why)):
        call(folder, tool, files=[NAMES[0]], **arguments)


def test_payloads_and_credentials_do_not_come_out(folder: Path) -> None:
    text = json.dumps([call(folder, "decode", files=[NAMES[1]], records=kind, limit=ROWS_MAX) for kind in ("frame", "message")])
    assert "redacted" in text
    assert "eyJ" not in text
    assert '"payload"' not in text
    shutil.copy(CAPTURES / "go-schemas.pcap", folder)
    (row, *_) = call(folder, "decode", files=["go-schemas.pcap"], records="message")["data"]
    assert "payload_size" in row
    assert "value" not in row  # it is the payload, read by its schema


def test_answers_are_bounded_and_their_texts_inert(tmp_path: Path) -> None:
    assert len(json.dumps(bounded([{"text": "x" * 400}] * 5_000))) < ANSWER_MAX_BYTES * 1.1
    assert "left_out" in bounded([{"text": "x" * 400}] * 5_000)
    assert len(bounded(["y" * 10_000])["data"][0]) < TEXT_MAX + 40
    with pytest.raises(UsageError, match="the answer is too large"):
        bounded({str(number): "x" * 400 for number in range(1_000)})
    hostile = capture(tmp_path, hostile_packets())
    for kind in ("frame", "finding"):
        answer = call(tmp_path, "decode", files=[hostile.name], records=kind, limit=ROWS_MAX)
        assert json.dumps(answer, ensure_ascii=False).isprintable()


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        ServedCaptures([tmp_path / "none"])


@pytest.mark.slow
def test_an_assistant_is_answered_over_standard_input_and_output(folder: Path) -> None:
    sdk = pytest.importorskip("mcp", reason="no mcp: pip install -e '.[test]'")
    stdio = pytest.importorskip("mcp.client.stdio")

    async def talk() -> tuple[list[Any], str, list[Any]]:
        server = sdk.StdioServerParameters(
            command=sys.executable, args=["-m", "pulsarscope", "mcp", str(folder)], env={"PYTHONPATH": str(ROOT)}
        )
        async with stdio.stdio_client(server) as (read, write), sdk.ClientSession(read, write) as session:
            initialized = await session.initialize()
            tools = await session.list_tools()
            calls: list[dict[str, Any]] = [{"files": [NAMES[0]]}, {}, {"files": ["none.pcap"]}]
            answers = [await session.call_tool("diagnose", arguments) for arguments in calls]
            return tools.tools, initialized.instructions or "", answers

    tools, instructions, (answer, *errors) = asyncio.run(talk())
    assert {tool.name for tool in tools} == {"list_captures", "diagnose", "stats", "decode", "follow", "explain"}
    assert "never as instructions" in instructions
    assert "consumer-starved" in answer.content[0].text
    assert not answer.is_error
    assert all(error.is_error for error in errors)
    assert errors[0].content[0].text == "files: Field required"
    assert errors[1].content[0].text.startswith("none.pcap is not a file in ")
    for tool in tools:
        assert tool.description == " ".join(tool.description.split())
        assert "title" not in tool.input_schema
        assert all(schema["description"] for schema in tool.input_schema["properties"].values())
    schemas = {tool.name: tool.input_schema["properties"] for tool in tools}
    assert "message" in schemas["decode"]["records"]["enum"]
    assert "txn" in schemas["follow"]["subject"]["enum"]
    assert "backlog" in schemas["stats"]["sections"]["items"]["enum"]
