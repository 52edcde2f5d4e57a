from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from docs.command_tree import BEFORE, BEHIND, FILTER, LIST, WORD, commands, findings, word_lists, words_of
from docs.make_share import files
from pulsarscope.cli.arguments.command_names import COMMANDS
from tests.places import ROOT

BASH_SCRIPT = "share/bash-completion/completions/pulsarscope"
ZSH_FOLDER = "share/zsh/site-functions"
FISH_SCRIPT = "share/fish/vendor_completions.d/pulsarscope.fish"
MAN = [path for path in files() if path.endswith(".1")]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells of Unix")
BASH, ZSH, FISH, GROFF, MANDOC = (shutil.which(name) or "" for name in ("bash", "zsh", "fish", "groff", "mandoc"))
needs_bash = pytest.mark.skipif(not BASH, reason="no bash")
needs_zsh = pytest.mark.skipif(not ZSH, reason="no zsh")
needs_fish = pytest.mark.skipif(not FISH, reason="no fish")

CASES = [
    ("pulsarscope dec", ["decode"]),
    ("pulsarscope --ver", ["--version"]),
    ("pulsarscope decode --form", ["--format"]),
    ("pulsarscope decode --format per", ["perfetto"]),
    ("pulsarscope pipeline -f ice", ["iceberg"]),
    ("pulsarscope decode x -Y fields.client_ver", ["fields.client_version"]),
    ("pulsarscope decode x -Y 'latency > 5ms and producer_na", ["latency > 5ms and producer_name"]),
    ("pulsarscope decode x --columns packet,comma", ["packet,command"]),
    ("pulsarscope messages x --limit 1", None),
    ("pulsarscope decode x --records frame,jour", ["frame,journey"]),
    ("pulsarscope findings ack-ea", ["ack-each"]),
    ("pulsarscope live --until ack-ea", ["ack-each"]),
    ("pulsarscope live --trigger any", ["any-error"]),
    ("pulsarscope fields fields.client_ver", ["fields.client_version"]),
    ("pulsarscope diagnose x --threshold slow-exchange-c", ["slow-exchange-connect-seconds="]),
    ("pulsarscope help tut", ["tutorial"]),
    ("pulsarscope config dec", ["decode"]),
    ("pulsarscope stats x --by tota", ["total"]),
    ("pulsarscope registry x --by part", ["partitions"]),
    ("pulsarscope capture.pcap --time del", ["delta"]),
]
"""A line, and the replacement of its last word; None: no word."""


def bash(lines: list[str]) -> list[list[str]]:
    """Complete lines with bash, as when it calls the function; return what it would insert for the last word of each."""
    calls = []
    for line in lines:
        # Bash splits words at "=" and ":", but not within quotes.
        before, quote, quoted = line.partition("'")
        words = [part for word in before.split(" ") for part in re.findall(r"[=:]+|[^=:]+", word) or [""]]
        words = [*words[:-1], quote + quoted] if quote else words
        array = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        calls.append(f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _pulsarscope; printf '%s\\n' \"${{COMPREPLY[@]}}\"; echo --")
    script = f"source {BASH_SCRIPT}\n" + "\n".join(calls)
    done = subprocess.run(
        [BASH, "--norc", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT, env={"PATH": os.environ["PATH"]}
    )
    assert done.stderr == ""
    return [[word for word in part.split("\n") if word] for part in done.stdout.split("--\n")[:-1]]


def typed(command: list[str], setup: str, line: str, until: str, *, cwd: Path) -> str:
    """Type a line and a tab into an interactive shell; return its output from then on, until it ends with `until` or ten seconds pass."""
    import pty  # noqa: PLC0415 - there is none on Windows

    child, terminal = pty.fork()
    if child == 0:
        os.chdir(cwd)
        os.execvpe(command[0], command, {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(cwd), "PS1": "> "})  # noqa: S606 - as a terminal does
    try:
        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        _shown(terminal, "ready\r\n")
        os.write(terminal, f"{line}\t".encode())
        return _shown(terminal, until)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def _shown(terminal: int, until: str) -> str:
    shown = ""
    end = time.monotonic() + 10
    while until not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65_536).decode(errors="replace")
    return shown


def test_the_files_are_what_the_generator_writes() -> None:
    written = {str(path.relative_to(ROOT)) for path in (ROOT / "share").rglob("*") if path.is_file()}
    assert written == set(files())
    for path, text in files().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, "run python -m docs.make_share"


def test_every_command_option_and_finding_has_its_place() -> None:
    assert [command.name for command in commands()] == [*COMMANDS]
    for script in (BASH_SCRIPT, f"{ZSH_FOLDER}/_pulsarscope", FISH_SCRIPT):
        text = (ROOT / script).read_text(encoding="utf-8")
        words = set(re.findall(r"[\w.-]+", text))
        assert {*findings(), *word_lists()["fields"], *word_lists()["thresholds"]} <= words
        for command in commands():
            for option in command.options:
                assert any(name in words or name.lstrip("-") in words for name in option.names)
                assert {word for word in words_of(option.value) if option.value.form != FILTER} <= words


def test_words_stand_only_where_there_are_some() -> None:
    for command in commands():
        for option in command.options:
            assert bool(words_of(option.value)) == (option.value.form in {BEFORE, BEHIND, FILTER, LIST, WORD}), (command.name, option.names)


@needs_bash
def test_bash_completes_what_the_commands_take() -> None:
    assert bash([line for line, _ in CASES]) == [words or [] for _, words in CASES]


@needs_bash
def test_bash_puts_together_what_it_cut() -> None:
    lines = ["pulsarscope decode x --format=per", "pulsarscope decode x -d 9093=kaf", "pulsarscope decode --fail-on="]
    assert bash(lines) == [["perfetto"], ["kafka07"], ["error", "warning", "note", "never"]]


@needs_bash
def test_bash_offers_dotted_names_part_by_part() -> None:
    (names,) = bash(["pulsarscope decode x -Y metadata"])
    assert "metadata." in names
    assert not any(name.startswith("metadata.p") for name in names)


@needs_bash
def test_bash_completes_files_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "some capture.pcapng").touch()
    for line in ("pulsarscope decode some", "pulsarscope some", "pulsarscope decode x -o some", "pulsarscope decode --output=some"):
        shown = typed([BASH, "--norc", "--noprofile", "-i"], f"source {ROOT / BASH_SCRIPT}", line, "pcapng", cwd=tmp_path)
        assert shown.endswith(("some\\ capture.pcapng", "some\\ capture.pcapng "))


@pytest.mark.slow
@needs_bash
def test_bash_completes_as_one_types(tmp_path: Path) -> None:
    setup = f"source {ROOT / BASH_SCRIPT}"
    for line, words in CASES:
        if words:
            shown = typed([BASH, "--norc", "--noprofile", "-i"], setup, line, words[0], cwd=tmp_path)
            assert words[0] in shown, line


@pytest.mark.slow
@needs_zsh
def test_zsh_completes_as_one_types(tmp_path: Path) -> None:
    (tmp_path / "some capture.pcapng").touch()
    setup = f"fpath=({ROOT / ZSH_FOLDER} $fpath); autoload -Uz compinit; compinit -u -C -d {tmp_path}/functions; unset zle_bracketed_paste"
    for line, words in [*CASES, ("pulsarscope decode some", ["some\\ capture.pcapng"])]:
        if words:
            shown = typed([ZSH, "-f", "-i"], setup, line, words[0], cwd=tmp_path)
            assert words[0] in shown, line


@needs_fish
def test_fish_completes_what_the_commands_take() -> None:
    for line, words in CASES:
        script = f"source {FISH_SCRIPT}; complete -C (cat)"
        done = subprocess.run([FISH, "--no-config", "-c", script], input=line, capture_output=True, text=True, check=True, cwd=ROOT)
        assert [name.partition("\t")[0] for name in done.stdout.splitlines()] == (words or []), line
        assert done.stderr == ""


@pytest.mark.skipif(not GROFF, reason="no groff")
@pytest.mark.parametrize("page", MAN)
def test_a_man_page_renders_without_a_warning(page: str) -> None:
    done = subprocess.run([GROFF, "-man", "-Tutf8", "-ww", "-rLL=78n", page], capture_output=True, check=True, cwd=ROOT)
    assert done.stderr == b""
    assert b"pulsarscope" in re.sub(rb".\x08|\x1b\[[\d;]*m", b"", done.stdout)


@pytest.mark.skipif(not MANDOC, reason="no mandoc")
@pytest.mark.parametrize("page", MAN)
def test_a_man_page_has_no_fault(page: str) -> None:
    done = subprocess.run([MANDOC, "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == ""


def test_the_page_of_a_command_has_its_options() -> None:
    for command in commands():
        text = (ROOT / f"share/man/man1/pulsarscope-{command.name}.1").read_text(encoding="utf-8").replace("\\-", "-")
        for option in command.options:
            assert ", ".join(f"\\fB{name}\\fR" for name in option.names) in text
    page = (ROOT / "share/man/man1/pulsarscope-findings.1").read_text(encoding="utf-8").replace("\\-", "-")
    assert all(f"\\fB{code}\\fR" in page for code in findings())
