"""The completion script for zsh."""

from __future__ import annotations

from textwrap import fill

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
    Command,
    Parameter,
    Value,
    commands,
    word_lists,
)

_HEAD = r"""#compdef pulsarscope
# Completion of pulsarscope for zsh. Made of its commands by docs/make_share.py: not to be edited.

# Set `names` to the words of a list.
(( $+functions[_pulsarscope_list] )) || _pulsarscope_list() {
  case $1 in
@LISTS@
  esac
}

# A word of a list.
(( $+functions[_pulsarscope_word] )) || _pulsarscope_word() {
  local -a names
  _pulsarscope_list $@[-1]
  compadd "${@[1,-2]}" -a names
}

# Words of a list, separated by commas.
(( $+functions[_pulsarscope_words] )) || _pulsarscope_words() {
  local -a names
  _pulsarscope_list $@[-1]
  compset -P '*,'
  compset -S ',*'
  compadd "${@[1,-2]}" -qS , -a names
}

# The last word of an expression, part by part.
(( $+functions[_pulsarscope_filter] )) || _pulsarscope_filter() {
  local -a names
  _pulsarscope_list $@[-1]
  compset -P '*[^A-Za-z0-9_.]'
  _multi_parts "${@[1,-2]}" . names
}

# NAME=.
(( $+functions[_pulsarscope_before] )) || _pulsarscope_before() {
  local -a names
  _pulsarscope_list $@[-1]
  if ! compset -P '*='; then compadd "${@[1,-2]}" -S = -a names; fi
}

# A word, or a file, behind an equals sign.
(( $+functions[_pulsarscope_behind] )) || _pulsarscope_behind() {
  if compset -P '*='; then _pulsarscope_word "$@"; fi
}
(( $+functions[_pulsarscope_file_behind] )) || _pulsarscope_file_behind() {
  if compset -P '*='; then _files "$@"; fi
}

(( $+functions[_pulsarscope_interface] )) || _pulsarscope_interface() {
  local -a names
  names=(any -)
  if [[ -d /sys/class/net ]]; then names+=(/sys/class/net/*(N:t)); else names+=(${=$(ifconfig -l 2> /dev/null)}); fi
  compadd "$@" -a names
}

(( $+functions[_pulsarscope_commands] )) || _pulsarscope_commands() {
  local -a names
  names=(
@COMMANDS@
  )
  _describe -t commands command names
}

(( $+functions[_pulsarscope_options] )) || _pulsarscope_options() {
  case $1 in
@OPTIONS@
  esac
}

_pulsarscope() {
  local command=decode
  if (( CURRENT == 2 )); then
    if [[ $PREFIX == -* ]]; then
      _arguments '--version[Show the version.]' '(-h --help)'{-h,--help}'[Show this message and exit.]'
    else
      _alternative 'commands:command:_pulsarscope_commands' 'files:capture:_files'
    fi
    return
  fi
  case $words[2] in
  @NAMES@)
    command=$words[2]
    shift words
    (( CURRENT-- )) ;;
  esac
  _pulsarscope_options $command
}

_pulsarscope "$@"
"""


def script() -> str:
    """Return the script."""
    lists = "\n".join(f"  {name}) names=(\n{_filled(words)}\n  ) ;;" for name, words in word_lists().items())
    listed = "\n".join(f"    {_quoted(f'{command.name}:{command.summary}')}" for command in commands())
    options = "\n".join(f"  {command.name}) _arguments -S \\\n{_specifications(command)} ;;" for command in commands())
    names = " | ".join(command.name for command in commands())
    parts = {"@LISTS@": lists, "@COMMANDS@": listed, "@OPTIONS@": options, "@NAMES@": names}
    text = _HEAD
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def _filled(words: tuple[str, ...]) -> str:
    return fill(" ".join(words), 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)


def _specifications(command: Command) -> str:
    lines = [_option(option) for option in command.options]
    for argument in command.arguments:
        place = "*" if argument.many else ""
        lines.append(_quoted(f"{place}:{_plain(argument.metavar)}:{_action(argument.value)}"))
    return " \\\n".join(f"    {line}" for line in lines)


def _option(option: Parameter) -> str:
    plus = "" if option.value.form == FLAG else "="
    forms = [name + (plus if name.startswith("--") else plus and "+") for name in option.names]
    rest = f"[{option.help.translate(_BRACKETS)}]"
    if option.value.form != FLAG:
        rest += f":{_plain(option.metavar)}:{_action(option.value)}"
    if option.many:
        return " ".join(_quoted(f"*{form}{rest}") for form in forms)
    return " ".join(_quoted(f"({' '.join(option.names)}){form}{rest}") for form in forms)


_BRACKETS = str.maketrans({"[": r"\[", "]": r"\]", ":": r"\:", "\\": r"\\"})


def _plain(metavar: str) -> str:
    return metavar.replace(":", r"\:")


def _action(value: Value) -> str:
    if value.form in {FILE, FOLDER}:
        return "_files" if value.form == FILE else "_files -/"
    if value.form == WORD and not value.named:
        return f"({' '.join(value.words)})"
    functions = {WORD: "word", LIST: "words", FILTER: "filter", BEFORE: "before", BEHIND: "behind"}
    if value.form in functions:
        function = "filter" if value.named == "fields" else functions[value.form]
        return f"_pulsarscope_{function} {value.named}"
    return {FILE_BEHIND: "_pulsarscope_file_behind", INTERFACE: "_pulsarscope_interface"}.get(value.form, " ")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
