"""Configuration files set the defaults of options, and nothing more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import CAPTURES
from tests.scenarios.command_line import run

QUICKSTART = str(CAPTURES / "quickstart.pcapng")
Captured = pytest.CaptureFixture[str]


class Setup:
    """A command line with configuration files."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captured: Captured) -> None:
        self.home, self.folder = tmp_path / "home", tmp_path / "work"
        (self.home / "pulsarscope").mkdir(parents=True)
        self.folder.mkdir()
        self._monkeypatch = monkeypatch
        self._captured = captured
        monkeypatch.delenv("PULSARSCOPE_CONFIG", raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(self.home))
        monkeypatch.setenv("APPDATA", str(self.home))
        monkeypatch.chdir(self.folder)

    def user(self, text: str) -> None:
        (self.home / "pulsarscope" / "config.toml").write_text(text)

    def local(self, text: str) -> None:
        (self.folder / ".pulsarscope.toml").write_text(text)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run(self._monkeypatch, *arguments)
        captured = self._captured.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Setup:
    return Setup(tmp_path, monkeypatch, capsys)


def test_a_file_sets_defaults_and_the_command_line_wins(command: Setup) -> None:
    command.user("[decode]\ncolumns = ['packet', 'command']\nlimit = 2\n")
    assert command("decode", QUICKSTART) == (0, "packet  command\n     4  CONNECT\n     6  CONNECTED\n", "")
    assert command(QUICKSTART, "--limit", "1", "--columns", "packet")[1] == "packet\n     4\n"


def test_the_local_file_wins_and_a_profile_wins_over_both(command: Setup) -> None:
    command.user("[decode]\nlimit = 3\ncolumns = 'packet'\n[profile.few.decode]\nlimit = 1\n")
    command.local("[decode]\nlimit = 2\n")
    lines = {profile: len(command("decode", QUICKSTART, *profile)[1].splitlines()) for profile in ((), ("--profile", "few"))}
    assert lines == {(): 3, ("--profile", "few"): 2}


def test_the_environment_chooses_file_and_profile(command: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    command.user("[decode]\ncolumns = 'packet'\n[profile.few.decode]\nlimit = 1\n")
    monkeypatch.setenv("PULSARSCOPE_PROFILE", "few")
    assert command("decode", QUICKSTART)[1] == "packet\n     4\n"
    monkeypatch.delenv("PULSARSCOPE_PROFILE")
    monkeypatch.setenv("PULSARSCOPE_CONFIG", "off")
    assert "CONNECT" in command("decode", QUICKSTART)[1]


def test_options_for_all_commands_are_taken_by_those_that_have_them(command: Setup) -> None:
    command.user("time = 'utc'\nno-color = true\n")
    assert "07:40:43" in command("decode", QUICKSTART, "--limit", "1")[1]
    assert command("selftest", "--help")[0] == 0
    assert command("findings", "idle-cut")[0] == 0


@pytest.mark.parametrize("option", ["-V", "-x"])
def test_views_of_the_command_line_take_the_place_of_configured_columns(command: Setup, option: str) -> None:
    command.user("[decode]\ncolumns = 'packet'\nformat = 'csv'\n")
    code, out, err = command("decode", QUICKSTART, option, "--limit", "1")
    assert (code, err) == (0, "")
    assert "connection #1" in out
    assert command("decode", QUICKSTART, option, "--columns", "packet")[0] == 2


def test_tables_and_lists_stand_for_repeated_options(command: Setup) -> None:
    command.user("threshold = {slow-exchange-seconds = 2}\ndecode-as = {6650 = 'pulsar'}\nport = 6651\n")
    assert command("diagnose", QUICKSTART, "-q")[0] == 0
    assert "threshold" in command("config", "--show")[1]


def test_paths_are_relative_to_their_file(command: Setup) -> None:
    command.user("tls-keylog = 'keys.log'\n")
    (command.home / "pulsarscope" / "keys.log").touch()
    assert command("decode", QUICKSTART, "--limit", "1")[0] == 0
    command.local("private-key = ['gone.pem']\n[decode]\nschema = {orders = '~/gone.avsc'}\n")
    assert command("messages", QUICKSTART)[2].startswith("pulsarscope: the private key gone.pem cannot be read")
    command.local("[decode]\nschema = {orders = '~/gone.avsc'}\n")
    assert str(Path("~/gone.avsc").expanduser()) in command("decode", QUICKSTART)[2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[decode]\ntime = 'noon'", "[decode]: time: 'noon' is not one of"),
        ("[decode]\nlimit = 0", "[decode]: limit: "),
        ("[decode]\nlimit = [[1]]", "limit takes text, a number, or a list"),
        ("[decode]\nquiet = 'yes'", "quiet takes true or false"),
        ("[decode]\ncolumns = true", "columns takes a value"),
        ("[decode]\ncolums = 'a'", 'decode has no option "colums"; did you mean columns?'),
        ("[decode]\noutput = 'x'", "output is for the command line only"),
        ("[decode]\nshow-secrets = true", "show-secrets can be set in your own configuration only"),
        ("show-secrets = true", "show-secrets can be set in your own configuration only"),
        ("[decode", "is not valid TOML"),
    ],
)
def test_a_wrong_setting_is_one_line_with_its_place(command: Setup, text: str, reason: str) -> None:
    command.local(text)
    code, out, err = command("decode", QUICKSTART)
    assert (code, out) == (2, "")
    assert reason in err
    assert ".pulsarscope.toml" in err
    assert err.count("\n") == 1


def test_a_command_that_cannot_be_carried_out_says_whose_options_apply(command: Setup) -> None:
    command.user("quiet = true\n")
    command.local("[diagnose.threshold]\nslow-exchange-secnds = 2\n")
    code, _, err = command("diagnose", QUICKSTART)
    assert code == 2
    assert err.count("\n") == 1
    assert 'unknown threshold "slow-exchange-secnds"' in err
    assert err.endswith("config.toml, .pulsarscope.toml [diagnose] apply)\n")


def test_the_place_in_a_filter_is_marked_when_options_of_files_apply(command: Setup) -> None:
    command.local("[decode]\nfilter = 'comand == SEND'\n")
    code, _, err = command("decode", QUICKSTART)
    assert code == 2
    assert err.splitlines()[0].endswith("did you mean command? (options of .pulsarscope.toml [decode] apply)")
    assert err.splitlines()[1:] == ["  comand == SEND", "  ^~~~~~"]


def test_options_that_the_command_line_gives_are_nobody_elses(command: Setup) -> None:
    command.local("[decode]\ncolumns = 'packet'\n")
    assert "apply" not in command("decode", "--columns", "pakcet", QUICKSTART)[2]


@pytest.mark.parametrize(
    ("command_name", "option", "reason"),
    [
        ("live", "metrics = '0.0.0.0:9464'", "metrics can be set in your own"),
        ("extract", "redact-key = 'k'", "redact-key can be set in your own"),
        ("report", "anonymize-key = 'k'", "anonymize-key can be set in your own"),
        ("pipeline", "master = 'x'", "master can be set in your own"),
        ("wireshark", "remove = true", "remove is for the command line only"),
    ],
)
def test_a_strangers_file_neither_listens_nor_undoes_masks_nor_installs(
    command: Setup, command_name: str, option: str, reason: str
) -> None:
    command.local(f"[{command_name}]\n{option}\n")
    code, _, err = command(command_name, *([] if command_name == "wireshark" else [QUICKSTART]))
    assert code == 2
    assert reason in err


def test_ones_own_file_may_show_secrets(command: Setup) -> None:
    command.user("show-secrets = true\n")
    assert command("decode", QUICKSTART, "--limit", "1")[0] == 0


@pytest.mark.slow
def test_files_that_are_not_there_cost_no_import() -> None:
    program = (
        "import sys; from pulsarscope.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "assert 'tomllib' not in sys.modules and 'tomli' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, "decode", QUICKSTART, "--limit", "1"], check=True, capture_output=True)
