"""The completion script for fish, 3.0 and later."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from docs.command_tree import (
    BEFORE,
    BEHIND,
    FILE,
    FILE_BEHIND,
    FILTER,
    FLAG,
    FOLDER,
    INTERFACE,
    LIST,
    WORD,
    Value,
    commands,
    word_lists,
)

_HEAD = r"""# Completion of pulsarscope for fish. Made of its commands by docs/make_share.py: not to be edited.

# Print the words of a list.
function __pulsarscope_list
    switch $argv[1]
@LISTS@
    end
end

# True before any command.
function __pulsarscope_first
    test (count (commandline -opc)) -eq 1
end

# True for one of these commands; decode is understood where none is given.
function __pulsarscope_of
    set -l line (commandline -opc)
    set -e line[1]
    test (count $line) -gt 0; or return 1
    contains -- $line[1] @NAMES@; or set line decode
    contains -- $line[1] $argv
end

# Print what is behind commas, or the words of an expression, with what is before the last word.
function __pulsarscope_several
    set -l before (string match -r -- $argv[2] (commandline -ct | string trim -l -c '\'"'))
    printf "%s\n" "$before"(__pulsarscope_list $argv[1])
end

# Print words behind the equals sign that is there.
function __pulsarscope_behind
    set -l before (string match -r -- '^[^=]*=' (commandline -ct)); or return
    printf "%s\n" $before(__pulsarscope_list $argv[1])
end

function __pulsarscope_file_behind
    set -l before (string match -r -- '^[^=]*=' (commandline -ct)); or return
    printf "%s\n" $before(__fish_complete_path (string replace -- $before '' (commandline -ct)) | string replace -r '\t.*' '')
end

complete -c pulsarscope -n __pulsarscope_first -l version -d 'Show the version.'
complete -c pulsarscope -n __pulsarscope_first -s h -l help -d 'Show this message and exit.'
"""


def script() -> str:
    """Return the script."""
    lists = "\n".join(f"        case {name}\n            printf '%s\\n' {_filled(words)}" for name, words in word_lists().items())
    names = " ".join(command.name for command in commands())
    head = _HEAD.replace("@LISTS@", lists).replace("@NAMES@", names)
    return head + "".join(f"complete -c pulsarscope {line}\n" for line in (*_commands(), *_options(), *_arguments()))


def _filled(words: tuple[str, ...]) -> str:
    return " \\\n                ".join(wrap(" ".join(words), 120, break_on_hyphens=False, break_long_words=False))


def _commands() -> Iterator[str]:
    for command in commands():
        yield f"-n __pulsarscope_first -a {command.name} -d {_quoted(command.summary)}"


def _options() -> Iterator[str]:
    """Yield a line for each option, or a single line for all commands in which it is the same."""
    lines: dict[str, list[str]] = {}
    for command in commands():
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = _value(option.value)
            lines.setdefault(f"{names} -d {_quoted(option.help)}{value and f' {value}'}", []).append(command.name)
    for line, names_of_commands in lines.items():
        yield f"-n '__pulsarscope_of {' '.join(names_of_commands)}' {line}"


def _arguments() -> Iterator[str]:
    for command in commands():
        first = command.arguments[0].value if command.arguments else None
        if first is None:
            yield f"-n '__pulsarscope_of {command.name}' -f"
        elif first.form != FILE:
            yield f"-n '__pulsarscope_of {command.name}' -f -a '(__pulsarscope_list {first.named})'"


def _value(value: Value) -> str:
    if value.form == FLAG:
        return ""
    if value.form == FILE:
        return "-r -F"
    if value.form == WORD and not value.named:
        return f"-x -a {_quoted(' '.join(value.words))}"
    several = r"^.*[^A-Za-z0-9_.]" if value.form == FILTER else "^.*,"
    functions = {
        WORD: f"__pulsarscope_list {value.named}",
        LIST: f'__pulsarscope_several {value.named} "{several}"',
        FILTER: f'__pulsarscope_several {value.named} "{several}"',
        BEFORE: f"__pulsarscope_list {value.named} | string replace -r \\$ =",
        BEHIND: f"__pulsarscope_behind {value.named}",
        FILE_BEHIND: "__pulsarscope_file_behind",
        FOLDER: "__fish_complete_directories (commandline -ct)",
        INTERFACE: "echo any; echo -; __fish_print_interfaces",
    }
    return f"-x -a {_quoted(f'({functions[value.form]})')}" if value.form in functions else "-x"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
