"""Draws the pictures of the README: what pulsarscope shows of captures, when it runs in a terminal of its own.

python docs/make_picture.py
"""

from __future__ import annotations

import fcntl
import html
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {
    "timeline": ("decode", "captures/quickstart.pcapng", "--limit", "30"),
    "follow": ("follow", "captures/stuck-consumer.pcap", "--message", "96:2"),
}
"""Command line by the name of the picture."""
COLUMNS, LINES = 108, 40

THEME = TerminalTheme(
    (24, 26, 31),
    (215, 218, 224),
    [(40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194), (215, 218, 224)],
    [(92, 99, 112), (240, 113, 120), (165, 214, 132), (245, 215, 140), (110, 190, 255), (215, 140, 235), (100, 205, 215), (255, 255, 255)],
)


def screen_of(arguments: tuple[str, ...]) -> str:
    """Return the output of the program in a terminal, with colours."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    hidden = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | {"TERM": "xterm-256color"}
    command = [sys.executable, "-m", "pulsarscope", *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, cwd=ROOT, env=environment) as process:  # noqa: S603
        os.close(its)
        parts = []
        try:
            while part := os.read(ours, 1 << 16):
                parts.append(part)
        except OSError:  # a terminal signals in this way that its last writer has gone
            pass
    if process.returncode:
        sys.exit(process.returncode)
    return b"".join(parts).decode().replace("\r\n", "\n").rstrip()


SPACES = re.compile(r'x="(?P<x>[\d.]+)" (?P<y>y="[\d.]+") textLength="(?P<length>[\d.]+)"(?P<rest>[^>]*)>(?P<text>[^<]*)</text>')


def place(match: re.Match[str]) -> str:
    """Return a piece of text at its position, without surrounding spaces, which some viewers drop."""
    text = html.unescape(match["text"])
    cell = float(match["length"]) / max(len(text), 1)
    kept = text.strip()
    x = float(match["x"]) + cell * (len(text) - len(text.lstrip()))
    shown = html.escape(kept, quote=False).replace("\xa0", "&#160;")
    return f'x="{x:.1f}" {match["y"]} textLength="{cell * len(kept):.1f}"{match["rest"]}>{shown}</text>'


def main() -> None:
    """Write the pictures."""
    for name, arguments in PICTURES.items():
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(screen_of(arguments)), soft_wrap=True)
        picture = console.export_svg(title=" ".join(("pulsarscope", *arguments)), theme=THEME, unique_id=name)
        (ROOT / "docs" / f"{name}.svg").write_text(SPACES.sub(place, picture), encoding="utf-8")


if __name__ == "__main__":
    main()
