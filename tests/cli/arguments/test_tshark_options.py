"""Options of tshark are understood, or answered with the corresponding option of pulsarscope."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pulsarscope import cli
from pulsarscope.cli.arguments.tshark_options import from_tshark
from pulsarscope.model.errors import UsageError

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("-r a.pcap", "a.pcap"),
        ("-ra.pcap -n", "a.pcap"),
        ("-c 3 -t u", "--limit 3 --time utc"),
        ("-c3 -tad", "--limit 3 --time local"),
        ("-T json", "--format json"),
        ("-T ek", "--format ndjson"),
        ("-T fields -e time -e command", "--columns time,command"),
        ("a.pcap --time utc -Y x --columns a", "a.pcap --time utc -Y x --columns a"),
        ("-- -r", "-- -r"),
    ],
)
def test_options_of_tshark_are_ours(given: str, ours: str) -> None:
    assert from_tshark(given.split()) == ours.split()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("a.pcap -w b.pcap", "-w is an option of tshark; here, pulsarscope extract"),
        ("-i lo", "here, pulsarscope live -i"),
        ("-z io,stat,1", "here, pulsarscope stats"),
        ("-r a.pcap -2 -R x", "-2 is an option of tshark; here, -Y takes the filter"),
        ("-T fields -e topic -Eheader=y", "-E is an option of tshark"),
        ("-r", "-r needs a value"),
        ("-T pdml", "-T pdml: choose fields"),
        ("-t x", "-t x: choose a, ad"),
        ("-T fields", "needs a field"),
    ],
)
def test_what_there_is_no_word_for_is_an_error(given: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        from_tshark(given.split())


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pulsarscope", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("before", [(), ("-r",), ("decode",), ("decode", "-r"), ("-c", "1"), ("-Y", "command == CONNECT")])
def test_a_capture_in_the_place_of_a_command_is_decoded(
    before: tuple[str, ...], captures: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(monkeypatch, *before, str(captures / "quickstart.pcapng")) == 0
    assert "CONNECT  " in capsys.readouterr().out


def test_a_missing_capture_is_no_wrong_command(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "mine.pcap") == 3
    assert "mine.pcap" in capsys.readouterr().err
    assert run(monkeypatch, "decod") == 2
    assert "Did you mean 'decode'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("filter_text", "words"),
    [
        ("tcp.port == 6650", "write port"),
        ("frame.number == 3", "write packet"),
        ("ip.src == 10.9.0.1", "write client.ip or server.ip"),
        ("producer == 'p'", "write producer_name"),
        ("record == 'message'", "write the kind alone, as in message &&"),
    ],
)
def test_fields_of_other_names_have_a_name_here(
    filter_text: str, words: str, captures: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(monkeypatch, str(captures / "quickstart.pcapng"), "-Y", filter_text) == 2
    assert words in capsys.readouterr().err
