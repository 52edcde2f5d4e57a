"""A terminal that shows pictures and reads keys. It is always restored."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

from pulsarscope.output.render.style import encoded, is_terminal, text_encoding
from pulsarscope.output.render.top import Top
from pulsarscope.output.render.top_state import Action

REFRESH_SECONDS = 0.5

ESCAPE_SECONDS = 0.05
"""Time after which an escape character counts as the key itself, not as the beginning of a sequence."""

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[?25h\x1b[?1049l"
"""Sequences that switch to the alternate screen without a cursor, and back."""

_BEGIN, _END = "\x1b[?2026h\x1b[H", "\x1b[?2026l"
"""Sequences around a picture (synchronized output), so that a terminal shows it at once; other terminals ignore them."""

_ERASE = "\x1b[K"
"""Sequence before each line: after a line as wide as the terminal, it would erase the last character."""

_FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NUMBERS = {"1": "home", "4": "end", "5": "page-up", "6": "page-down", "7": "home", "8": "end"}
_CONTROLS = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\b": "backspace", "\x15": "ctrl-u"}


def keys_in(text: str) -> Iterator[str]:
    """Yield the keys that a terminal has sent as this text: characters, and names such as up. Unknown keys are left out."""
    at = 0
    while at < len(text):
        if text[at] != "\x1b":
            key = _CONTROLS.get(text[at], text[at])
            at += 1
            if key.isprintable():
                yield key
        elif text[at + 1 : at + 2] not in ("[", "O"):
            at += 1
            yield "escape"
        else:
            end = at + 2
            while end < len(text) and not "@" <= text[end] <= "~":
                end += 1
            final, parameter = text[end : end + 1], text[at + 2 : end].partition(";")[0]
            at = end + 1
            if key := _NUMBERS.get(parameter, "") if final == "~" else _FINALS.get(final, ""):
                yield key


class Screen:
    """The terminal during a context. On exit, it raises the exceptions of drawing."""

    def __init__(self, top: Top, quit_run: Callable[[], object], *, keyboard: bool = True) -> None:
        """Show pictures of `top`; `quit_run` ends the run. `keyboard`: standard input has keys, not packets."""
        self._top = top
        self._quit = quit_run
        self._keys = _keyboard(standard_input=keyboard)
        self._ours = self._keys if self._keys not in (None, 0) else None
        """Descriptor to close."""
        top.keyboard = self._keys is not None
        self._before: list[Any] | None = None
        """Original attributes of the terminal."""
        self._wake_reader, self._wake_writer = os.pipe()
        self._ended = False
        self._failure: Exception | None = None
        self._drawing = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Screen:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        os.set_blocking(self._wake_writer, False)
        for name, handler in (("SIGWINCH", self._resized), ("SIGTSTP", self._suspended)):
            with suppress(AttributeError, ValueError):  # not on this system, or not in the main thread
                number = getattr(signal, name)
                self._handlers[number] = signal.signal(number, handler)
        self._acquire()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._wake()
        self._thread.join()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        with suppress(OSError):  # the terminal may have gone
            self._release()
            self._write(self._top.summary(_size()[0]))
        for descriptor in (self._wake_reader, self._wake_writer, self._ours):
            if descriptor is not None:
                os.close(descriptor)
        if self._failure is not None:
            raise self._failure

    def _acquire(self) -> None:
        """Take the terminal: keys come one by one and are not shown. Ctrl-C and Ctrl-Z stay signals."""
        if self._keys is not None:
            import termios  # not on every system

            self._before = termios.tcgetattr(self._keys)
            attributes = termios.tcgetattr(self._keys)
            attributes[3] &= ~(termios.ICANON | termios.ECHO)
            attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._keys, termios.TCSADRAIN, attributes)
        self._write(_ENTER)

    def _release(self) -> None:
        """Restore the terminal."""
        self._write(_LEAVE)
        if self._before is not None and self._keys is not None:
            import termios

            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _write(self, text: str) -> None:
        view = memoryview(encoded(text, text_encoding(None)))
        while view:
            view = view[os.write(sys.stdout.fileno(), view) :]

    def _wake(self) -> None:
        with suppress(OSError):  # the pipe is full: its reader wakes up anyway
            os.write(self._wake_writer, b"\0")

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._wake()

    def _suspended(self, number: int, _frame: FrameType | None) -> None:
        """Return the terminal while the process is stopped (Ctrl-Z), and take it again afterwards."""
        with self._drawing:
            self._release()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # the process stops here
            signal.signal(number, self._suspended)
            self._acquire()
        self._wake()

    def _run(self) -> None:
        try:
            while not self._ended:
                self._draw()
                self._wait()
        except OSError:  # the terminal is gone: the run continues until SIGHUP ends it
            pass
        except Exception as error:  # noqa: BLE001 - raised when the context ends
            self._failure = error
            self._quit()

    def _draw(self) -> None:
        width, height = _size()
        lines = self._top.picture(width, height).split("\n")
        with self._drawing:
            if not self._ended:
                self._write(_BEGIN + "\r\n".join(f"{_ERASE}{line}" for line in lines) + _END)

    def _wait(self) -> None:
        """Handle keys until the next picture."""
        keys = self._keys if self._top.keyboard else None
        ready, _, _ = select.select([self._wake_reader, *([] if keys is None else [keys])], [], [], REFRESH_SECONDS)
        if self._wake_reader in ready:
            os.read(self._wake_reader, 1_024)
        if keys is None or keys not in ready:
            return
        data = os.read(keys, 1_024)
        if not data:  # the terminal gives no more keys
            self._top.keyboard = False
        if data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([keys], [], [], ESCAPE_SECONDS)[0]:
            data += os.read(keys, 1_024)
        for key in keys_in(data.decode("utf-8", "ignore")):
            if self._top.press(key) is Action.QUIT:
                self._quit()


def _keyboard(*, standard_input: bool) -> int | None:
    """Return a descriptor for keys: standard input or, if that has packets, the controlling terminal; None without either."""
    try:
        import termios  # noqa: F401 - other systems than Unix have none
    except ImportError:
        return None
    if standard_input and is_terminal(sys.stdin):
        return sys.stdin.fileno()
    with suppress(OSError):
        return os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    return None


def _size() -> tuple[int, int]:
    """Return the current columns and lines of the terminal."""
    try:
        width, height = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return width or 80, height or 24
