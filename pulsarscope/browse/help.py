"""The keys, as the screen lists them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

HELP = """\
Move           ↑ ↓ j k   PageUp PageDown Space   Home End g G
Filter         f   as -Y of the other commands; Enter applies, → completes,
                   ↑ ↓ show those given before
               c   this connection      t   this topic      Esc   all
Search         /   text in lines and fields      n   next
Go to          :   12.1 or 12 (frame, packet), 3.5s (seconds)
Marks          m   mark      '   next mark
Frame          x   bytes     l   follow its connection as a diagram
Copy           y   as filter      Y   as JSON      C   as command line
Write          w   the packets of what is shown, to a capture
Times          T   relative, delta, utc, epoch
Pages          1 frames   2 findings   3 connections   4 consumers   5 follow
               Enter on a finding goes to its frame, on a connection to its
               frames
Colours        D   light, dark; NO_COLOR=1 for none
Quit           q
"""


class Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield VerticalScroll(Static(HELP, markup=False))
