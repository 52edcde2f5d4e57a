"""Layers of configuration files, and invalid content in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.inputs.config_files import ConfigFile, read_config_file, settings
from pulsarscope.model.errors import UsageError

COMMANDS = ("decode", "stats")


def read(tmp_path: Path, text: str, name: str = "config.toml", *, local: bool = False) -> ConfigFile:
    path = tmp_path / name
    path.write_text(text)
    return read_config_file(path, local=local)


def values(*files: ConfigFile, command: str = "decode", profile: str | None = None) -> dict[str, object]:
    return {name: setting.value for name, setting in settings(files, command, COMMANDS, profile).items()}


def test_the_section_of_a_command_wins_over_the_part_for_all(tmp_path: Path) -> None:
    file = read(tmp_path, "time = 'utc'\nlimit = 1\n[decode]\ntime = 'local'\n[stats]\nlimit = 9\n")
    assert values(file) == {"time": "local", "limit": 1}
    assert values(file, command="stats") == {"time": "utc", "limit": 9}


def test_the_folder_wins_over_the_user_and_a_profile_over_both(tmp_path: Path) -> None:
    user = read(tmp_path, "time = 'utc'\nlimit = 1\n[profile.p]\ntime = 'epoch'\n[profile.p.stats]\nlimit = 3\n")
    local = read(tmp_path, "[decode]\ntime = 'local'\n", ".pulsarscope.toml", local=True)
    assert values(user, local) == {"time": "local", "limit": 1}
    assert values(user, local, profile="p") == {"time": "epoch", "limit": 1}
    assert values(user, local, command="stats", profile="p") == {"time": "epoch", "limit": 3}


def test_a_setting_names_its_file_and_section(tmp_path: Path) -> None:
    file = read(tmp_path, "limit = 1\n[decode]\ntime = 'utc'\n[profile.p.decode]\ncolumns = 'a'\n")
    found = settings([file], "decode", COMMANDS, "p")
    path = str(tmp_path / "config.toml")
    origins = {"limit": path, "time": f"{path} [decode]", "columns": f"{path} [profile.p.decode]"}
    assert {name: setting.origin for name, setting in found.items()} == origins
    assert {name: setting.own for name, setting in found.items()} == {"limit": False, "time": True, "columns": True}


def test_names_are_those_of_the_command_line_however_they_are_written(tmp_path: Path) -> None:
    assert values(read(tmp_path, "tls_keylog = 'a'\n'--no-color' = true\n")) == {"tls-keylog": "a", "no-color": True}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = ", "is not valid TOML"),
        ("a = '\x00'", "is not valid TOML"),
        ("x = " + "[" * 5000, "is not valid TOML"),
        ("a = 1\n" * 200_000, "longer than"),
        ("decode = 1", r"decode is a section of options: write \[decode\]"),
        ("[decod]\nlimit = 1", r"no command is named decod; did you mean \[decode\]\?"),
        ("[profiles.p]\nlimit = 1", r"did you mean \[profile\]\?"),
        ("profile = 1", "profile is a section"),
        ("[profile]\np = 1", "profile.p is a section"),
    ],
    ids=["unfinished", "control", "deep", "long", "command", "misspelt", "profiles", "profile", "named-profile"],
)
def test_what_is_no_configuration_is_refused_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        values(read(tmp_path, text), profile="p" if "profile" in text else None)
    assert "\n" not in str(refused.value)
    assert "\x00" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("profile = 'p'", "no profile is chosen in a file: give --profile"),
        ("[profile]\np = 1", "profile.p is a section"),
    ],
)
def test_a_profile_that_is_none_is_refused_when_none_is_chosen(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        values(read(tmp_path, text))


def test_bytes_that_are_no_text_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("binary", "missing", "."):
        with pytest.raises(UsageError):
            read_config_file(tmp_path / name, local=False)


def test_an_unknown_profile_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='unknown profile "produktion"; did you mean production'):
        values(read(tmp_path, "[profile.production]\nlimit = 1\n"), profile="produktion")
    with pytest.raises(UsageError, match="no configuration file has profiles"):
        values(profile="prod")
