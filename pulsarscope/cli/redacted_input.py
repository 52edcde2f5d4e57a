"""The inputs of a command as redacted copies (--redact): the command then shows what a reader of the copies sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic

import msgspec

from pulsarscope.cli.arguments.options import AnyRequest, CommandRequest, ReadOptions
from pulsarscope.cli.command_output import CommandOutput
from pulsarscope.cli.encoded_rows import damage, warn_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE, EXIT_FINDING
from pulsarscope.cli.progress import reading_progress, with_progress
from pulsarscope.cli.rereadable import rereadable
from pulsarscope.cli.standard_error import warn
from pulsarscope.engine.row_batch import RowBatch
from pulsarscope.model.errors import OutputError, UsageError, system_reason

if TYPE_CHECKING:
    from pulsarscope.engine.local import PacketBatch
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import ChosenRows, RowFilter, UserFilter


class SharedInput(msgspec.Struct, Generic[AnyRequest]):
    """The input of a command."""

    request: AnyRequest
    """The request, with the copies as its files."""
    row_filter: RowFilter | None
    """Filter for the rows of the copies. It passes the rows that the user's filter passes in the captures."""
    damaged: bool = False
    """True if an input is damaged, which its copy is not."""

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that read the copies."""
        return EXIT_DAMAGED if self.damaged and code in (EXIT_DONE, EXIT_FINDING) else code


@contextmanager
def shared_input(
    request: AnyRequest, output: CommandOutput, row_filter: UserFilter | None, options: Callable[[AnyRequest], Options]
) -> Iterator[SharedInput[AnyRequest]]:
    """Yield the input of a command: redacted copies with --redact, otherwise its files.

    `options`: options of the run whose rows are filtered. Raises UsageError, CaptureError or OutputError.
    """
    if not (request.redact or request.mask_key is not None):
        yield SharedInput(request, row_filter)
        return
    if request.show_secrets:
        raise UsageError("--redact and --show-secrets contradict each other: give one")
    from tempfile import TemporaryDirectory  # most runs show captures as they are

    from pulsarscope.inputs.mask_keys import mask_key

    key = mask_key("--redact-key", request.mask_key)
    with ExitStack() as stack:
        files = stack.enter_context(rereadable(request.files, output.interrupts))
        try:
            with output.interrupts.deferred():  # an interrupt before the folder is registered would leave the folder behind
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="pulsarscope-")))
        except OSError as error:
            raise OutputError(f"cannot keep redacted copies: {system_reason(error)}") from error
        chosen = None if row_filter is None else _choose(request, files, row_filter, options(request))
        run, paths = _copy(request, files, key, folder)
        output.protect(request, run.inputs.paths)
        reading = ReadOptions(port=request.reading.port, decode_as=request.reading.decode_as, threshold=request.reading.threshold)
        yield SharedInput(msgspec.structs.replace(request, files=paths, reading=reading, redacted=True), chosen, run.damaged)


def _choose(request: CommandRequest, files: list[str], row_filter: UserFilter, options: Options) -> ChosenRows:
    """Read the captures for the places of the rows that a filter passes."""
    from pulsarscope.filter import ChosenRows  # most runs have no filter

    chosen = ChosenRows(row_filter, row_filter.seen)
    options = msgspec.structs.replace(options, message_columns=None, columns=False, together=False, anchors=False)
    for learning in (True, False) if row_filter.learn is not None else (False,):
        run = start_run(files, options, request.jobs)
        row_filter.begin(run)
        for batch in with_progress(run.inputs, run, quiet=request.quiet):
            if learning and row_filter.learn is not None:
                row_filter.learn(batch.rows)
            else:
                chosen.choose(batch.rows, run.endpoints)
    return chosen


def _copy(request: CommandRequest, files: list[str], key: bytes, folder: Path) -> tuple[AnyRun, list[str]]:
    """Write redacted copies into a folder; return the run that read the originals, and the paths of the copies."""
    from pulsarscope.cli.arguments.read_options import engine_options
    from pulsarscope.redaction.copies import options_to_copy, write_copies

    run = start_run(files, options_to_copy(engine_options(request.reading)), request.jobs)
    with reading_progress(run.inputs, quiet=request.quiet) as progress:

        def watch(batch: RowBatch | PacketBatch) -> None:
            if isinstance(batch, RowBatch):
                warn_of(damage(batch.rows), run.inputs.paths)
            progress.advance(batch.file, batch.bytes_read)

        copies = write_copies(run, key, folder, watch)
    for note in () if request.quiet else copies.notes:
        warn(note)
    return run, copies.paths
