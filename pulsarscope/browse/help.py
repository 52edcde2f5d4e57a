"""The keys, as listed on the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

KEYS: list[BindingType] = [
    Binding("q", "quit", "Quit"),
    Binding("ctrl+c", "quit", "Quit", show=False),  # textual would only say that it is another key
    Binding("question_mark", "help", "Keys"),
    Binding("f", "prompt('filter')", "Filter"),
    Binding("slash", "prompt('search')", "Search"),
    Binding("s", "prompt('payloads')", "Search payloads", show=False),
    Binding("n", "search_on", "Next", show=False),
    Binding("colon", "prompt('go')", "Go to"),
    Binding("x", "bytes", "Bytes"),
    Binding("l", "lanes", "Follow"),
    Binding("c", "narrow('connection')", "Connection", show=False),
    Binding("t", "narrow('topic')", "Topic", show=False),
    Binding("escape", "leave", "All", show=False),
    Binding("m", "mark", "Mark", show=False),
    Binding("apostrophe", "next_mark", "Next mark", show=False),
    Binding("T", "time", "Times", show=False),
    Binding("y", "copy('filter')", "Copy", show=False),
    Binding("Y", "copy('json')", "Copy JSON", show=False),
    Binding("C", "copy('command')", "Copy command", show=False),
    Binding("w", "prompt('write')", "Write", show=False),
    Binding("o", "prompt('columns')", "Columns", show=False),
    Binding("p", "pause", "Pause", show=False),
    Binding("D", "theme", "Light or dark", show=False),
    Binding("1", "page('frames')", show=False),
    Binding("2", "page('findings')", show=False),
    Binding("3", "page('messages')", show=False),
    Binding("4", "page('connections')", show=False),
    Binding("5", "page('consumers')", show=False),
    Binding("6", "page('follow')", show=False),
]
"""Key bindings of the screen."""

HELP = """\
Move       ↑ ↓ j k   PageUp PageDown Space   Home End g G
Filter     f   as -Y of the other commands; Enter applies, → completes,
               ↑ ↓ show those given before
           c   this connection      t   this topic      Esc   all
Search     /   text in lines and fields      n   next
           s   text in payloads, decompressed, and in values
Go to      :   12.1 or 12 (frame, packet), 3.5s (seconds)
Marks      m   mark      '   next mark
Frame      x   fields and bytes: the selected field lights its bytes, and
               Tab and ← → ↑ ↓, or the pointer, select a byte's field
           l   follow its connection as a diagram, in which Enter or a
               click on an arrow goes to its frame
Copy       y   as filter      Y   as JSON      C   as command line
Write      w   the packets of what is shown, to a capture
Times      T   relative, delta, utc, epoch
Columns    o   fields with a column, as in topic, send.sequence_id; kept
Live       p   pause: the list stops growing; End follows the newest again
Pages      1 frames   2 findings   3 messages   4 connections
           5 consumers   6 follow
           Enter on a finding or message goes to its frame, on a
           connection to its frames
Colours    D   light, dark; NO_COLOR=1 for none
Quit       q, Ctrl-C
"""


class Help(ModalScreen[None]):
    """The screen that lists the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield VerticalScroll(Static(HELP, markup=False))
