"""The state of a stream in a folder: the captures that it reads, and its progress.

```
run.json                   options of the command or query, and the version that made it
shares.json                number of tasks of a batch
list/000000012.json        captures in reading order, from this position on
states/000000012-001-5.bin open connections of share 1 after 12 captures of the list, with 5 bytes of payload in the last batch
facts/000000012-001        facts of task 1 in the batch after which there are 12 captures of the list (`waiting_facts`)
facts/000000012-left-000   facts that an evaluation with that batch has left
commits/000003.json        of tables: this batch is decoded, its files may still need their final names; only the last commit is kept
query/                     of tables: state of Spark's query
```

Each file appears complete: it is written under a temporary name and then renamed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from pyarrow.fs import FileSelector, LocalFileSystem

from pulsarscope import __version__
from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import modules_mark
from pulsarscope.output.export.sink import write_errors
from pulsarscope.spark.checkpoints.waiting_facts import WaitingFacts, batch_of
from pulsarscope.spark.files.remote_files import size_and_change
from pulsarscope.spark.files.table_files import UNFINISHED, Names, locate, locked, sync

_FOLDERS = ("list", "commits", "facts", "states")

_OF_A_BATCH = re.compile(rf"(?:{UNFINISHED}(?:[0-9a-f]{{32}}-)?)?\d{{6,}}(?:\.json|-.+)")
"""Name of a commit, or of facts, finished or not. File systems may keep other files beside them."""


class LandedCapture(msgspec.Struct, frozen=True):
    """A finished capture in the list of a stream, or an entry that closes all connections (`closing`)."""

    position: int
    """Position in the list, which is the `file` of its rows."""
    path: str
    source: str | None
    size: int
    """Size in bytes when it was listed."""
    modified: int
    """Time of its latest change when it was listed, in nanoseconds since the epoch."""
    first_time: int | None
    """Time of its first packet; None if it has no packets."""
    content: str | None = None
    """Hash of its size and both ends (`remote_files.content_mark`), which does not depend on its name."""

    @property
    def closes(self) -> bool:
        """True for an entry that closes all connections and is not a capture."""
        return not self.path

    def is_unchanged(self) -> bool:
        """Return True if the file has not changed since it was listed."""
        try:
            return size_and_change(self.path) == (self.size, self.modified)
        except OSError:
            return False


def closing(position: int) -> LandedCapture:
    """Return a list entry that closes all connections."""
    return LandedCapture(position, "", None, 0, 0, None)


class Commit(msgspec.Struct, frozen=True):
    """Progress of the tables of a stream after a batch."""

    batch: int = -1
    """Number of the batch."""
    files: int = 0
    """Number of list entries that are decoded."""
    facts: WaitingFacts | None = None
    """Files with the waiting facts; None if there are none."""
    names: Names = []
    """Files written by the batch."""


class Checkpoint:
    """The folder of one stream, for one process at a time (`lock`)."""

    def __init__(self, path: str) -> None:
        """Open the folder at an absolute path or a URI. Raises OutputError when the URI has no known file system."""
        self.path = path
        self._system, self._root = locate(self.path)
        self._is_local = isinstance(self._system, LocalFileSystem)
        # Spark would look for a plain path in the file system of the cluster.
        self.query_folder = f"{path}/query" if "://" in path else f"file://{path}/query"
        """URI of the folder for the state of Spark's query."""

    def resumes(self, options: Mapping[str, Any]) -> bool:
        """Return False if the folder is new, True if a run of this version with these options made it.

        Raises:
            UsageError: another run or version made the folder, it has other contents, or others can write to it.
        """
        self._refuse_written_by_others()
        if (before := self._read("run.json", dict[str, Any])) is None:
            if set(self._names("")) - set(_FOLDERS):
                raise UsageError(f"{self.path} is not empty and not a checkpoint")
            return False
        if (made_by := before.get("version")) != (here := _version()):
            message = f"{self.path} was made by pulsarscope {made_by}, whose open connections may be unreadable to this one, {here}"
            raise UsageError(f"{message}: end the run with that version, or name another checkpoint and output")
        name = next((name for name, value in options.items() if before.get(name) != value), None)
        if name is not None:
            difference = f"{name} was {_option_text(before.get(name))}, not {_option_text(options[name])}"
            raise UsageError(f"{self.path} is the checkpoint of another run ({difference}): name another checkpoint and output")
        return True

    def _refuse_written_by_others(self) -> None:
        """Raise UsageError when others can write the data that is unpickled here: unpickling would run their code."""
        for folder in ("", *_FOLDERS) if self._is_local else ():
            with suppress(FileNotFoundError):
                status = Path(self._root, folder).stat()
                if status.st_uid not in (os.getuid(), 0) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    message = f"others can write the checkpoint {self.path}, whose state could run their code: name a folder of your own"
                    raise UsageError(message)

    @contextmanager
    def lock(self, options: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Lock the folder, if its file system has locks. Create it for a run with these options, if they are given.

        Raises UsageError when another process of this machine has locked it.
        """
        if options is not None:
            self.create(options)
        if not self._is_local:
            yield
            return
        with locked(self._root):
            yield

    def create(self, options: Mapping[str, Any]) -> None:
        """Create the folder for a run with these options."""
        with write_errors(self.path):
            for folder in ("", *_FOLDERS):
                self._system.create_dir(f"{self._root}/{folder}")
                if self._is_local:  # it holds secrets and payloads
                    Path(self._root, folder).chmod(0o700)
        self._write("run.json", {"version": _version(), **options})

    def last_commit(self) -> Commit:
        """Return the last commit, and remove the remains of other commits."""
        names = [name for name in self._names("commits") if _OF_A_BATCH.fullmatch(name)]
        last = Commit() if not names else self._read(f"commits/{names[-1]}", Commit) or Commit()
        self._keep_only(last)
        return last

    def _keep_only(self, last: Commit) -> None:
        """Remove the remains of other commits."""
        kept = {f"{_number(last.batch)}.json"} | (set() if last.facts is None else last.facts.names())
        for folder in ("commits", "facts"):
            for name in self._names(folder, unfinished=True):
                if _OF_A_BATCH.fullmatch(name) is not None and name not in kept:
                    self._remove(f"{folder}/{name}")

    def commit(self, done: Commit) -> None:
        """Commit a batch, and remove the data that it replaces."""
        self._write(f"commits/{_number(done.batch)}.json", done)
        self._keep_only(done)

    def shares(self, default: int) -> int:
        """Return the number of tasks of a batch: the default for a new stream, then always the same number."""
        if (count := self._read("shares.json", int)) is None:
            self._write("shares.json", count := default)
        return int(count)

    def captures(self, first: int = 0) -> list[LandedCapture]:
        """Return the part of the list from a position on, at which an earlier `append` started."""
        captures: list[LandedCapture] = []
        while more := self._read(f"list/{first + len(captures):09}.json", list[LandedCapture]):
            captures += more
        return captures

    def append(self, landed: Sequence[LandedCapture]) -> None:
        """Append captures to the list."""
        self._write(f"list/{landed[0].position:09}.json", landed)

    def read_state(self, name: str, kind: Any) -> Any:
        """Return the state of a share; None if there is none. Raises UsageError when others can write the state, which is unpickled."""
        self._refuse_written_by_others()
        return self._read(f"states/{name}", kind, msgspec.msgpack.decode)

    def write_state(self, name: str, state: Any) -> None:
        """Store the state of a share. Several attempts at the same time store the same state."""
        self._write(f"states/{name}", state, msgspec.msgpack.encode, f"{uuid4().hex}-")

    def state_names(self) -> list[str]:
        """Return the names of the states."""
        return self._names("states")

    def remove_states(self, is_old: Callable[[str], bool]) -> None:
        """Remove the states whose names `is_old` accepts, including unfinished ones."""
        for name in self._names("states", unfinished=True):
            if is_old(name):
                self._remove(f"states/{name}")

    def remove_facts(self, kept: Collection[str], last: int) -> None:
        """Remove the facts of the batches up to `last`, except for files that still wait. Also remove unfinished files."""
        for name in self._names("facts", unfinished=True):
            if _OF_A_BATCH.fullmatch(name) is not None and name not in kept and (name.startswith(UNFINISHED) or batch_of(name) <= last):
                self._remove(f"facts/{name}")

    def _read(self, name: str, kind: Any, decode: Callable[..., Any] = msgspec.json.decode) -> Any:
        """Return the contents of a file; None if there is no file."""
        try:
            with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                return decode(stream.read(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.MsgspecError) as error:  # pyarrow raises ValueError for invalid paths
            raise UsageError(f"{self.path}/{name} cannot be read ({error}): use another checkpoint and output") from None

    def _write(self, name: str, content: Any, encode: Callable[[Any], bytes] = msgspec.json.encode, attempt: str = "") -> None:
        with self.writing(name, attempt) as stream, write_errors(f"{self.path}/{name}"):
            stream.write(encode(content))

    @contextmanager
    def writing(self, name: str, attempt: str = "") -> Iterator[Any]:
        """Yield a stream for the contents of a file, which appears complete at the end."""
        place, (folder, _, base) = f"{self.path}/{name}", f"{self._root}/{name}".rpartition("/")
        unfinished = f"{folder}/{UNFINISHED}{attempt}{base}"
        with write_errors(place):
            stream = self._system.open_output_stream(unfinished)
        with stream:
            yield stream
            with write_errors(place):
                stream.close()
        with write_errors(place):
            sync(self._system, unfinished)
            self._system.move(unfinished, f"{folder}/{base}")
            sync(self._system, folder)

    def opened(self, name: str) -> Any:
        """Return an open file with random access. Raises OSError."""
        return self._system.open_input_file(f"{self._root}/{name}")

    def _names(self, folder: str, *, unfinished: bool = False) -> list[str]:
        entries = self._system.get_file_info(FileSelector(f"{self._root}/{folder}", allow_not_found=True))
        return sorted(entry.base_name for entry in entries if unfinished or not entry.base_name.startswith((UNFINISHED, ".")))

    def _remove(self, name: str) -> None:
        with write_errors(self.path):
            self._system.delete_file(f"{self._root}/{name}")


def _version() -> str:
    """Return the version of the package, with the mark of its modules."""
    return f"{__version__} ({modules_mark()})"


def _number(batch: int) -> str:
    return f"{batch:06}"


def _option_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
