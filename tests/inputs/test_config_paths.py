from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.inputs.config_paths import config_paths, existing_paths


@pytest.mark.parametrize(
    ("platform", "environment", "paths"),
    [
        ("linux", {"HOME": "/home/me"}, ["/home/me/.config/pulsarscope/config.toml", ".pulsarscope.toml"]),
        ("darwin", {"HOME": "/home/me", "XDG_CONFIG_HOME": "/xdg"}, ["/xdg/pulsarscope/config.toml", ".pulsarscope.toml"]),
        ("win32", {"APPDATA": "/roaming", "HOME": "/home/me"}, ["/roaming/pulsarscope/config.toml", ".pulsarscope.toml"]),
        ("linux", {}, [".pulsarscope.toml"]),
        ("linux", {"HOME": "/home/me", "PULSARSCOPE_CONFIG": "off"}, []),
        ("linux", {"HOME": "/home/me", "PULSARSCOPE_CONFIG": ""}, []),
        ("linux", {"HOME": "/home/me", "PULSARSCOPE_CONFIG": "my.toml"}, ["my.toml"]),
    ],
)
def test_where_files_are_looked_for(monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], paths: list[str]) -> None:
    monkeypatch.setattr("sys.platform", platform)
    assert [path.as_posix() for path, _ in config_paths(environment)] == paths
    assert [local for path, local in config_paths(environment)] == [path == ".pulsarscope.toml" for path in paths]


def test_only_the_named_file_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert existing_paths({"HOME": str(tmp_path)}) == []
    assert existing_paths({"PULSARSCOPE_CONFIG": "missing.toml"}) == [(Path("missing.toml"), False)]
    (tmp_path / ".pulsarscope.toml").touch()
    assert existing_paths({"HOME": str(tmp_path)}) == [(Path(".pulsarscope.toml"), True)]
