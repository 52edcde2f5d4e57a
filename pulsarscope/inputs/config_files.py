"""Configuration files: defaults of options, for all commands or one, with profiles.

no-color = true                      for every command that has the option
[decode]                             for one command
columns = "time,command,topic"
[profile.production]                 with --profile production
tls-keylog = ["~/keys/production.log"]
[profile.production.diagnose]
threshold = {slow-exchange-seconds = 2}
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pulsarscope.model.command_limits import CONFIG_MAX_BYTES
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import hint_for, printable

PROFILE = "profile"


class Setting(NamedTuple):
    """Default of an option."""

    value: Any
    origin: str
    """File and section."""
    folder: Path
    """Folder of the file, to which the paths in it are relative."""
    local: bool
    """True for the file of the working directory, which anyone may have written."""
    own: bool
    """True for a value in the command's own section."""


class ConfigFile(NamedTuple):
    """Contents of a configuration file."""

    path: Path
    content: Mapping[str, Any]
    local: bool

    def profiles(self) -> Mapping[str, Any]:
        """Return the sections of the profiles by name. Raises UsageError if they are not sections."""
        return _section(self, self.content.get(PROFILE, {}), PROFILE)

    def check_profiles(self) -> None:
        """Raise UsageError for a profile that is not a section: no command would read its settings."""
        if isinstance(self.content.get(PROFILE), str):
            raise UsageError(f"{printable(str(self.path))}: no profile is chosen in a file: give --profile, or set PULSARSCOPE_PROFILE")
        for name, section in self.profiles().items():
            _section(self, section, f"{PROFILE}.{printable(name)}")


def read_config_file(path: Path, *, local: bool) -> ConfigFile:
    """Return the contents of a configuration file. Raises UsageError when it cannot be read."""
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - imported on use
    else:
        import tomli as tomllib  # noqa: PLC0415 - as above

    name = printable(str(path))
    try:
        with path.open("rb") as stream:
            text = stream.read(CONFIG_MAX_BYTES + 1)
        if len(text) > CONFIG_MAX_BYTES:
            raise UsageError(f"{name} is longer than {CONFIG_MAX_BYTES:,} bytes, not a configuration file")
        return ConfigFile(path, tomllib.loads(text.decode()), local)
    except OSError as error:
        raise UsageError(f"cannot read the configuration {name}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the configuration {name} is not valid TOML: {printable(str(error))}") from None


_SECTION_LIKENESS = 0.85
"""Similarity to a command above which a section name is taken for a misspelling, not for an option with names and values."""


def settings(files: Sequence[ConfigFile], command: str, commands: Collection[str], profile: str | None) -> dict[str, Setting]:
    """Return the defaults of a command's options by name, as written.

    A profile takes precedence over settings outside of it, the file of the working directory over the user's, and the section of the
    command over settings for all commands. Raises UsageError for an unknown profile, and for an invalid section.
    """
    found: dict[str, Setting] = {}
    for file in files:
        file.check_profiles()
        found |= _of_section(file, file.content, "", command, commands)
    if profile is None:
        return found
    known = [name for file in files for name in file.profiles()]
    if profile not in known:
        hint = hint_for(profile, known) if known else "; no configuration file has profiles"
        raise UsageError(f'unknown profile "{printable(profile)}"{hint}')
    for file in files:
        if profile in file.profiles():
            name = f"{PROFILE}.{printable(profile)}"
            found |= _of_section(file, _section(file, file.profiles()[profile], name), name, command, commands)
    return found


def _of_section(file: ConfigFile, section: Mapping[str, Any], name: str, command: str, commands: Collection[str]) -> dict[str, Setting]:
    """Return a section's settings for all commands, overridden by those for this command."""
    own_name = f"{name}.{command}".lstrip(".")
    own = _section(file, section.get(command, {}), own_name)
    general = {key: value for key, value in section.items() if key not in commands and (name or key != PROFILE)}
    for key in [key for key, value in general.items() if isinstance(value, dict)]:
        from difflib import get_close_matches  # noqa: PLC0415 - for tables only

        if near := get_close_matches(key, commands if name else [*commands, PROFILE], 1, _SECTION_LIKENESS):
            raise UsageError(f"{printable(str(file.path))}: no command is named {printable(key)}; did you mean [{near[0]}]?")
    parts = [(name, general, False), (own_name, own, True)]
    return {
        _option(key): Setting(value, f"{printable(str(file.path))}{f' [{part}]' if part else ''}", file.path.parent, file.local, is_own)
        for part, values, is_own in parts
        for key, value in values.items()
    }


def _option(key: str) -> str:
    return key.lstrip("-").replace("_", "-")


def _section(file: ConfigFile, section: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(section, dict):
        raise UsageError(f"{printable(str(file.path))}: {name} is a section of options: write [{name}]")
    return section
