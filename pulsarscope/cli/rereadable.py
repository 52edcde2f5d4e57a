"""Inputs that a command reads twice: pipes are copied to temporary files."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from pulsarscope.cli.signals import Interrupts
from pulsarscope.model.errors import CaptureError, system_reason
from pulsarscope.model.text import STANDARD_INPUT, input_name, printable


@contextmanager
def rereadable(files: Sequence[str], interrupts: Interrupts) -> Iterator[list[str]]:
    """Yield the files, with temporary copies of those that can be read only once: standard input and pipes."""
    with ExitStack() as stack:
        copies = {file: _copy_of(file, stack, interrupts) for file in dict.fromkeys(files) if _reads_once(file)}
        try:
            yield [copies.get(file, file) for file in files]
        except CaptureError as error:  # about the input that the user named, not its copy
            text = str(error)
            for file, copy in copies.items():
                text = text.replace(printable(copy), input_name(file))
            raise CaptureError(text) from error


def _reads_once(file: str) -> bool:
    try:
        return file == STANDARD_INPUT or stat.S_ISFIFO(Path(file).stat().st_mode)
    except (OSError, ValueError):
        return False  # the reader of the file raises the error


def _copy_of(file: str, stack: ExitStack, interrupts: Interrupts) -> str:
    """Return the path of a copy that lives as long as the stack. Raises CaptureError when the file cannot be copied."""
    from tempfile import TemporaryDirectory  # most inputs are read once

    standard = file == STANDARD_INPUT
    try:
        with interrupts.deferred():  # an interrupt before the folder is registered would leave the folder behind
            folder = stack.enter_context(TemporaryDirectory(prefix="pulsarscope-"))
        place = Path(folder) / "input"
        with place.open("wb") as copy, nullcontext(sys.stdin.buffer) if standard else Path(file).open("rb") as stream:
            shutil.copyfileobj(stream, copy)
    except OSError as error:
        raise CaptureError(
            f"{input_name(file)} must be read twice, and a temporary copy of it cannot be made: {system_reason(error)}"
        ) from error
    return str(place)
