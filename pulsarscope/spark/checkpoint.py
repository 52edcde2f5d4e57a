"""What a stream knows of itself, in a folder: which captures it takes, and how far it has come with them.

```
run.json                what it was asked for
list/000000012.json     captures in the order in which they are taken, from this position on
batches/000003/         what is open behind this batch: flows and facts
secrets/000003.json     TLS key logs in the captures of this batch
commits/000003.json     this batch is done, its files only need their names; only that of the last one is kept
query/                  what Spark keeps of its query
```

Each file appears whole: it is written under a name that nobody looks at, and then gets its own.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from pyarrow.fs import FileSelector, LocalFileSystem

from pulsarscope.capture import Inputs
from pulsarscope.model.errors import UsageError
from pulsarscope.output.export.sink import write_errors
from pulsarscope.spark.scan import PortionSummary
from pulsarscope.spark.table_files import UNFINISHED, Names, locate, sync

_FOLDERS = ("list", "batches", "secrets", "commits")

Secret = tuple[tuple[int, int], bytes]
"""A TLS key log in a capture, and the place from which it holds."""


class LandedCapture(msgspec.Struct, frozen=True):
    """A capture that is taken."""

    position: int
    """In the list: `file` of its rows."""
    path: str
    source: str | None
    size: int
    """In bytes, when it was taken."""
    modified: int
    """Then, nanoseconds since the epoch."""
    first_time: int | None
    """Of its first packet; None: it has none."""

    def is_unchanged(self) -> bool:
        """Whether it still is what it was then."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.modified)


class Commit(msgspec.Struct, frozen=True):
    """How far a stream has come with a batch."""

    batch: int = -1
    """Its number."""
    files: int = 0
    """So many captures of the list are decoded."""
    newest: list[tuple[str | None, int]] = []
    """How far each source has come: the latest of the times at which its captures in the last batch with such ended."""
    lossy: int | None = None
    """The first capture that says that it lacks packets."""
    names: Names = []
    """The files of the batch."""

    def after(self, inputs: Inputs, seen: Iterable[PortionSummary]) -> Commit:
        """One batch later, with what its captures hold."""
        ended: dict[str | None, int] = {}  # not what came before, too: one clock that was wrong once would end all connections ever after
        lossy = [] if self.lossy is None else [self.lossy]
        for file in seen:
            source = inputs.source(file.portion.file)
            if file.packets:
                ended[source] = max(ended.get(source, file.ended), file.ended)
            lossy += [file.portion.file] if file.lossy else []
        return Commit(self.batch + 1, len(inputs.paths), [*{**dict(self.newest), **ended}.items()], min(lossy, default=None))


class Checkpoint:
    """The folder of one stream. Whoever has it open must be the only one (`alone`)."""

    def __init__(self, path: str) -> None:
        """`path`: of a folder, absolute, or its URI. Raises OutputError: no file system is known for that."""
        self.path = path
        self._system, self._root = locate(self.path)
        self._is_here = isinstance(self._system, LocalFileSystem)
        # Spark takes a path for one of the cluster's file system.
        self._uri = f"file://{path}" if "://" not in path else path

    def resumes(self, asked: Mapping[str, Any]) -> bool:
        """Whether it is the one of a run that was asked for this; false when it is new.

        Raises:
            UsageError: it is that of another run, or something else.
        """
        before = self._read("run.json", dict[str, Any])
        if before is None:
            if set(self._names("")) - set(_FOLDERS):
                message = f"{self.path} is not empty and no checkpoint"
                raise UsageError(message)
            return False
        other = next((name for name, value in asked.items() if before.get(name) != value), None)
        if other is not None:
            was = f"{other} was {_shown(before.get(other))} and not {_shown(asked[other])}"
            message = f"{self.path} is the checkpoint of another run, whose {was}: name another checkpoint and output"
            raise UsageError(message)
        return True

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Meanwhile no other process of this machine enters it; where files cannot be locked, who starts them has to see to that.

        Raises:
            UsageError: another one has entered it.
        """
        if not self._is_here:
            yield
            return
        descriptor = os.open(self._root, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"{self.path} is the checkpoint of a run that has not ended"
                raise UsageError(message) from None
            except OSError:
                pass  # there are no locks in this file system
            yield
        finally:
            os.close(descriptor)

    def create(self, asked: Mapping[str, Any]) -> None:
        """Make it the one of a run that is asked for this."""
        with write_errors(self.path):
            for folder in ("", *_FOLDERS):
                self._system.create_dir(f"{self._root}/{folder}")
            if self._is_here:  # there are secrets and payload in it
                Path(self._root).chmod(0o700)
        self._write("run.json", asked)

    def last_commit(self) -> Commit:
        """The last batch that is done; what is left of others is removed."""
        names = self._names("commits")
        last = Commit() if not names else self._read(f"commits/{names[-1]}", Commit) or Commit()
        for folder in ("commits", "batches"):
            for name in self._names(folder, unfinished=True):
                if name.partition(".")[0] != _number(last.batch):
                    self._remove(f"{folder}/{name}")
        return last

    def commit(self, done: Commit, before: Commit) -> None:
        """A batch is done; what was open before it is of no use any more."""
        if self._is_here:  # Spark leaves it to the machine when to write
            with write_errors(self.path):
                left = Path(self._root) / "batches" / _number(done.batch)
                for path in (*left.iterdir(), left, left.parent):
                    sync(self._system, str(path))
        self._write(f"commits/{_number(done.batch)}.json", done)
        if before.batch >= 0:
            self._remove(f"commits/{_number(before.batch)}.json")
            self._remove(f"batches/{_number(before.batch)}")

    def open_state(self, batch: int) -> str:
        """Where the table of what is open behind a batch is, for Spark."""
        return f"{self._uri}/batches/{_number(batch)}"

    @property
    def query_folder(self) -> str:
        """The folder for what Spark keeps."""
        return f"{self._uri}/query"

    @property
    def list_folder(self) -> str:
        """The folder of lists, for Spark."""
        return f"{self._uri}/list"

    def captures(self) -> list[LandedCapture]:
        """The list."""
        return [landed for name in self._names("list") for landed in self._read(f"list/{name}", list[LandedCapture]) or ()]

    def append(self, landed: Sequence[LandedCapture]) -> None:
        """More of the list."""
        self._write(f"list/{landed[0].position:09}.json", landed)

    def secrets(self, last: Commit) -> list[Secret]:
        """Those of all batches up to the last that is done."""
        names = [name for name in self._names("secrets") if name <= f"{_number(last.batch)}.json"]
        return [secret for name in names for secret in self._read(f"secrets/{name}", list[Secret]) or ()]

    def add_secrets(self, batch: int, found: Sequence[Secret]) -> None:
        """Those of a batch that is about to be done."""
        self._write(f"secrets/{_number(batch)}.json", found)

    # ---- files

    def _read(self, name: str, kind: Any) -> Any:
        """What is in a file; None when there is none."""
        try:
            with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                return msgspec.json.decode(stream.read(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.MsgspecError) as error:  # ValueError: of pyarrow, no path
            message = f"{self.path}/{name} cannot be read ({error}): begin with another checkpoint and output"
            raise UsageError(message) from None

    def _write(self, name: str, content: Any) -> None:
        folder, _, base = f"{self._root}/{name}".rpartition("/")
        unfinished = f"{folder}/{UNFINISHED}{base}"
        with write_errors(f"{self.path}/{name}"):
            with self._system.open_output_stream(unfinished) as stream:
                stream.write(msgspec.json.encode(content))
            sync(self._system, unfinished)
            self._system.move(unfinished, f"{folder}/{base}")
            sync(self._system, folder)

    def _names(self, folder: str, *, unfinished: bool = False) -> list[str]:
        """What is in a folder, sorted."""
        found = self._system.get_file_info(FileSelector(f"{self._root}/{folder}", allow_not_found=True))
        return sorted(one.base_name for one in found if unfinished or not one.base_name.startswith((UNFINISHED, ".")))

    def _remove(self, name: str) -> None:
        path = f"{self._root}/{name}"
        with write_errors(self.path):
            if self._system.get_file_info(path).is_file:
                self._system.delete_file(path)
            else:
                self._system.delete_dir(path)


def _number(batch: int) -> str:
    return f"{batch:06}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
