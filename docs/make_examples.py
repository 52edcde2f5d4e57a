"""Writes the output of commands into the pages: each block of a page that begins with `$ pulsarscope` gets the output of that command.

    python docs/make_examples.py

Commands run in the root of a clone, in bash, in a terminal of 100 columns; tests/docs checks that the pages show their output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PAGES = ("tutorial.md", "on-the-wire.md", "questions.md", "errors.md")

BLOCK = re.compile(r"^```console\n\$ (pulsarscope .*)\n(?:(?!```$).*\n)*```$", re.MULTILINE)


def output_of(command: str) -> str:
    """Return what a command shows: its output, then its errors."""
    shown = f'pulsarscope() {{ {sys.executable} -m pulsarscope "$@"; }}; {command}'
    environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(["/bin/bash", "-c", shown], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)  # noqa: S603
    return f"{result.stdout}{result.stderr}".strip("\n")


def filled(page: str) -> str:
    """Return a page with the output of its commands."""
    return BLOCK.sub(lambda block: f"```console\n$ {block[1]}\n{output_of(block[1])}\n```", page)


def pages() -> list[Path]:
    """Return the pages with such blocks."""
    return [Path(__file__).with_name(name) for name in PAGES]


if __name__ == "__main__":
    for path in pages():
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
