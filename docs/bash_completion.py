"""The completion script for bash, 3.2 and later."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from docs.command_tree import (
    ANY,
    FILE,
    FILTER,
    FLAG,
    Value,
    commands,
    every_option,
    word_lists,
)

_HEAD = """# Completion of pulsarscope for bash. Made of its commands by docs/make_share.py: not to be edited.

# Set `words` to the words of a list.
_pulsarscope_list() {
    case $1 in
"""

_ACTIONS = """    *) words= ;;
    esac
}

# Set `form` and `words` to what may stand behind an option of a command.
_pulsarscope_value() {
    form= words=
    case "$1 $2" in
"""

_OPTIONS = """    esac
}

# Set `words` to the options of a command.
_pulsarscope_options() {
    case $1 in
"""

_TAIL = r"""    esac
}

# Add the words that begin with `rest`, behind `prefix` and before $1. Dotted names are offered part by part.
_pulsarscope_reply() {
    local word tail last=
    while IFS= read -r word; do
        tail=${word#"$rest"}
        if [[ $form == filter && $tail == *.* ]]; then
            word=$rest${tail%%.*}.
            if [[ $word == "$last" ]]; then continue; fi
            last=$word
        fi
        COMPREPLY+=("$prefix$word$1")
    done < <(compgen -W "$words" -- "$rest")
}

_pulsarscope() {
    local word words form command option cur rest prefix= last=0 index glued= typed
    local -a line
    line=("${COMP_WORDS[0]}")
    for ((index = 1; index <= COMP_CWORD; index++)); do  # "=" and ":" are words of their own in bash
        word=${COMP_WORDS[index]}
        if [[ $last -gt 0 && ( -n $glued || $word == [=:]* ) ]]; then
            line[last]=${line[last]}$word
        else
            last=$((last + 1))
            line[last]=$word
        fi
        glued=
        if [[ $word == *[=:] && $word != [\'\"]* ]]; then glued=1; fi
    done
    COMPREPLY=()
    cur=${line[last]}
    rest=$cur
    case ${line[1]} in
    @COMMANDS@) command=${line[1]} ;;
    *) command=decode ;;
    esac
    if [[ $last -eq 1 ]]; then
        form=word words="@NAMES@"
        if [[ $cur == -* ]]; then words='--help --version'; fi
        _pulsarscope_reply
        return
    fi
    option=${line[last - 1]}
    if [[ $cur == --*=* ]]; then
        option=${cur%%=*} rest=${cur#*=} prefix=${cur%%=*}=
    elif [[ $cur == [\'\"]* ]]; then
        rest=${cur:1}
    fi
    _pulsarscope_value "$command" "$option"
    if [[ -z $form && $cur == -* ]]; then
        form=word
        _pulsarscope_options "$command"
    elif [[ -z $form ]]; then
        case $command in
@ARGUMENTS@
        *) form=file ;;
        esac
    fi
    if [[ $form == file || $form == file-behind ]]; then return; fi  # bash completes files
    compopt +o default 2> /dev/null
    case $form in
    word)
        _pulsarscope_reply ;;
    list)
        compopt -o nospace 2> /dev/null
        prefix=$prefix${rest%"${rest##*,}"} rest=${rest##*,}
        _pulsarscope_reply ;;
    filter)
        compopt -o nospace 2> /dev/null
        prefix=$prefix${rest%"${rest##*[!A-Za-z0-9_.]}"} rest=${rest##*[!A-Za-z0-9_.]}
        _pulsarscope_reply ;;
    before)
        compopt -o nospace 2> /dev/null
        if [[ $rest != *=* ]]; then _pulsarscope_reply =; fi ;;
    behind)
        if [[ $rest == *=* ]]; then
            prefix=$prefix${rest%%=*}= rest=${rest#*=}
            _pulsarscope_reply
        fi ;;
    folder)
        compopt -o filenames 2> /dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$rest") ;;
    interface)
        if [[ -d /sys/class/net ]]; then words=$(command ls /sys/class/net); else words=$(ifconfig -l 2> /dev/null); fi
        words="any - $words"
        _pulsarscope_reply ;;
    esac
    if [[ $cur == *[=:]* && $cur != [\'\"]* ]]; then  # bash replaces only what is behind them
        typed=${cur%"${cur##*[=:]}"}
        for index in "${!COMPREPLY[@]}"; do COMPREPLY[index]=${COMPREPLY[index]#"$typed"}; done
    fi
}

complete -o default -F _pulsarscope pulsarscope
"""


def script() -> str:
    """Return the script."""
    arguments = "\n".join(f"        {name}) form={form}{words} ;;" for name, form, words in _arguments())
    names = " ".join(command.name for command in commands())
    tail = _TAIL.replace("@COMMANDS@", names.replace(" ", " | ")).replace("@NAMES@", names).replace("@ARGUMENTS@", arguments)
    lists = "".join(f"    {name}) words={_quoted(words)} ;;\n" for name, words in word_lists().items())
    options = "".join(
        f"    {command.name}) words={_quoted(tuple(name for option in command.options for name in option.names))} ;;\n"
        for command in commands()
    )
    return _HEAD + lists + _ACTIONS + "".join(_values()) + _OPTIONS + options + tail


def _quoted(words: tuple[str, ...]) -> str:
    return "'" + fill(" ".join(words), 120, break_on_hyphens=False, break_long_words=False) + "'"


def _values() -> Iterator[str]:
    """Yield a branch for each option, and for each command if an option differs between commands."""
    known: dict[str, dict[str, Value]] = {}
    for command, name, option in every_option():
        known.setdefault(name, {})[command] = option.value
    branches: dict[str, list[str]] = {}
    for name, by_command in known.items():
        same = len(set(by_command.values())) == 1
        for command, value in [("*", next(iter(by_command.values())))] if same else by_command.items():
            if value.form != FLAG:
                branches.setdefault(_setting(value), []).append(f"{command}\\ {name}")
    for setting, patterns in branches.items():
        yield f"    {' | '.join(patterns)}) {setting} ;;\n"


def _setting(value: Value) -> str:
    if value.named:
        return f"form={value.form} && _pulsarscope_list {value.named}"
    return f"form={value.form} words='{' '.join(value.words)}'" if value.words else f"form={value.form}"


def _arguments() -> Iterator[tuple[str, str, str]]:
    """Yield command, form and words for each command whose argument is not a file."""
    for command in commands():
        first = command.arguments[0].value if command.arguments else Value(ANY)
        if first.form != FILE:
            form = FILTER if first.named == "fields" else first.form
            yield command.name, form, f" && _pulsarscope_list {first.named}" if first.named else ""
