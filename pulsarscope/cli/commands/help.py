"""The command `help`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.arguments.declarations import argument
from pulsarscope.cli.arguments.options import CommandRequest, NoColorOption
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import escape, hint_for
from pulsarscope.output.render.style import encoded, is_terminal, text_encoding, wants_color

FOLDERS = (Path(__file__).parents[2] / "help", Path(__file__).parents[3] / "docs")
"""Folder of the pages in the wheel, and in a clone."""

TOPICS = (
    "tutorial",
    "on-the-wire",
    "questions",
    "filter",
    "reports",
    "browse",
    "live",
    "journeys",
    "schemas",
    "sql",
    "spark",
    "configuration",
    "errors",
    "tshark",
    "records",
    "findings",
    "library",
    "adding-a-protocol",
)
"""Pages for users, in reading order."""

WIDTH_MAX = 110
"""Widest line of a page in a terminal: longer lines are hard to read."""


class HelpRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `help`."""

    topic: Annotated[str | None, argument(metavar="TOPIC", help="A topic, or a command.", show_default=False)] = None
    no_color: NoColorOption = False


@with_output
def help(request: HelpRequest, output: CommandOutput) -> int:  # noqa: A001 - the name of the command
    """Show a page of the documentation.

    Without a topic, list them all. Into a pipe, pages are written as Markdown.
    """
    topic = request.topic
    if topic is not None and topic not in TOPICS and topic not in COMMANDS:
        raise UsageError(f'no topic "{escape(topic)}"{_elsewhere(topic)}')
    folder = next((folder for folder in FOLDERS if (folder / f"{TOPICS[0]}.md").is_file()), None)
    if topic not in TOPICS and topic is not None:
        text = _help_of(topic)
    elif folder is None:
        raise UsageError("the pages are missing; install pulsarscope from its wheel, or run this in a clone")
    elif topic is None:
        text = _list(folder)
    else:
        text = _page(request, (folder / f"{topic}.md").read_text(encoding="utf-8"))
    output.write(request, encoded(text, text_encoding(None)))
    return EXIT_DONE


def _elsewhere(topic: str) -> str:
    from pulsarscope.dissect.plugins.finding_catalogue import finding_entries
    from pulsarscope.protocols import make_dissectors

    if topic in finding_entries(make_dissectors()):
        return f", but a finding: pulsarscope findings {topic}"
    return hint_for(topic, [*TOPICS, *COMMANDS], "pulsarscope help lists them")


def _list(folder: Path) -> str:
    width = max(map(len, TOPICS))
    titles = {topic: (folder / f"{topic}.md").read_text(encoding="utf-8").partition("\n")[0].strip("# ") for topic in TOPICS}
    return "".join(f"{topic:{width}}  {title}\n" for topic, title in titles.items())


def _help_of(command: str) -> str:
    from pulsarscope.cli.arguments.application import app

    group: Any = typer.main.get_command(app)
    _, found, _ = group.resolve_command(group.make_context("pulsarscope", [command], resilient_parsing=True), [command])
    return f"{found.get_help(found.make_context(f'pulsarscope {command}', [], resilient_parsing=True))}\n"


def _page(request: HelpRequest, text: str) -> str:
    if not is_terminal(sys.stdout):
        return text
    from rich.console import Console  # for terminals only
    from rich.markdown import Markdown

    color = wants_color(sys.stdout, os.environ, request.no_color)
    width = min(shutil.get_terminal_size().columns, WIDTH_MAX)
    console = Console(width=width, force_terminal=color, no_color=not color, color_system="standard" if color else None)
    with console.capture() as capture:
        console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
    return capture.get()
