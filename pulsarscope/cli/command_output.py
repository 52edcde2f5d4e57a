"""The output of a command, opened when there is something to write. However the command ends, the output is complete or absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps

from pulsarscope.cli.arguments.options import AnyRequest, CommandRequest
from pulsarscope.cli.exit_codes import EXIT_DONE, EXIT_INCOMPLETE
from pulsarscope.cli.signals import Interrupts
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import INTERRUPTED, OutputError, internal_error
from pulsarscope.output.export.sink import FileIdentity, FileSink, FolderSink, Sink, identity, open_sink


class CommandOutput:
    """The place that -o names, or standard output."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self._sink: Sink | None = None
        self._protected: frozenset[FileIdentity] = frozenset()

    def open(self, request: CommandRequest, paths: Iterable[str], *, folder: bool = False) -> Sink:
        """Open the output. Raises UsageError when the request reads this file, such as those at `paths`, or OutputError."""
        self._sink = open_sink(request.out, folder=folder, inputs=inputs_of(request, paths) | self._protected)
        return self._sink

    def write(self, request: CommandRequest, data: bytes, paths: Iterable[str] = ()) -> None:
        """Write a complete output. Raises the same errors as `open`."""
        sink = self.open(request, paths)
        sink.write(data)
        sink.finish()

    def protect(self, request: CommandRequest, paths: Iterable[str]) -> None:
        """Refuse to write to files that the request reads, such as the captures at `paths`, even if the command then reads copies."""
        self._protected = inputs_of(request, paths)

    def adopt(self, sink: Sink) -> None:
        """Take an output that was opened elsewhere."""
        self._sink = sink

    def keep(self) -> str | None:
        """Keep the incomplete output if the command cannot be repeated, and return its name."""
        sink, self._sink = self._sink, None
        if sink is None:
            return None
        with suppress(OutputError):
            sink.keep()
        return sink.unfinished

    def abandon(self) -> bool:
        """Remove the incomplete output. Return False if a part of it has left: through standard output, or to a device."""
        if self._sink is not None:
            self._sink.abandon()
        return self._sink is None or isinstance(self._sink, (FileSink, FolderSink))


def with_output(command: Callable[[AnyRequest, CommandOutput], int]) -> Callable[[AnyRequest], int]:
    """Return a command that runs with an output, and its exit code. A closed pipe ends it quietly, a signal with a warning."""

    @wraps(command)
    def run(request: AnyRequest) -> int:
        from pulsarscope.engine.stall_warnings import stall_warnings

        with Interrupts() as interrupts:
            output = CommandOutput(interrupts)
            try:
                with stall_warnings():
                    return command(request, output)
            except BrokenPipeError:
                output.abandon()
                return EXIT_DONE
            except KeyboardInterrupt:
                return interrupted(is_absent=output.abandon())
            except SystemExit as error:  # raised by other packages: our own exit codes are return values
                output.abandon()
                raise internal_error(error) from error
            except BaseException:
                output.abandon()
                raise

    return run


def interrupted(*, is_absent: bool = False) -> int:
    """Warn that the output is incomplete, or absent, and return the exit code for that."""
    warn(INTERRUPTED if is_absent else "interrupted; the output is not complete")
    return EXIT_INCOMPLETE


def inputs_of(request: CommandRequest, paths: Iterable[str]) -> frozenset[FileIdentity]:
    """Return the identities of all files that a command reads: the captures at `paths`, key logs, keys, passwords, schemas, names."""
    reading = request.reading
    schemas = [given.partition("=")[2].partition("#")[0] for given in reading.schema or ()]
    secrets = *(reading.tls_keylog or ()), *(reading.private_key or ()), *(reading.ledger_password or ())
    others = [name for name in (request.mask_key, request.baseline) if name is not None]
    names = *paths, *request.files, *secrets, *schemas, *others, *(reading.names or ())
    found = {identity(0 if name == "-" else name) for name in names}
    return frozenset(each for each in found if each is not None)
