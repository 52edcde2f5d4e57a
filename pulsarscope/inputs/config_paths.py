"""Places of configuration files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

CONFIG = "PULSARSCOPE_CONFIG"
"""Environment variable: the only configuration file to read, or `off` for none."""

PROFILE = "PULSARSCOPE_PROFILE"
"""Environment variable: the profile of the configuration that provides defaults."""

LOCAL_NAME = ".pulsarscope.toml"


def config_paths(environment: Mapping[str, str]) -> list[tuple[Path, bool]]:
    """Return the places of configuration files, each with True if it is in the working directory; the user's file comes first."""
    chosen = environment.get(CONFIG)
    if chosen is not None:
        return [] if chosen in {"", "off"} else [(Path(chosen), False)]
    if sys.platform == "win32":
        folder = environment.get("APPDATA", "")
    else:
        home = environment.get("HOME", "")
        folder = environment.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    user = [(Path(folder) / "pulsarscope" / "config.toml", False)] if folder else []
    return [*user, (Path(LOCAL_NAME), True)]


def existing_paths(environment: Mapping[str, str]) -> list[tuple[Path, bool]]:
    """Return the places that have a file; the one that the environment names is always included."""
    return [(path, local) for path, local in config_paths(environment) if environment.get(CONFIG) or os.path.lexists(path)]
