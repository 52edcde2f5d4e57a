"""The payloads of messages as files of a folder, and a list of the messages."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import MessageRow
from pulsarscope.output.export.sink import Sink, write_errors
from pulsarscope.output.registry import OutputOptions, column_names, encoder

INDEX = "index.ndjson"
"""The messages as NDJSON, each with the name of its file."""

_END = b"}\n"


class PayloadFiles:
    """The output `payload_files`, for message rows whose payloads are base64. A message names its file: packet, sub, batch index."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        """Write into the folder of the sink. Raises UsageError when it is not empty."""
        self._folder = Path(sink.name)
        if any(self._folder.iterdir()):
            raise UsageError(f"{sink.name} is not empty: name a new folder with --export")
        self._index = sink.child(INDEX)
        self._lines = encoder("ndjson", options.kinds, [name for name in column_names(MessageRow.kind) if name != "payload"])

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        for row in rows:
            if not isinstance(row, MessageRow):
                continue
            content = None if row.payload is None else b64decode(row.payload)
            line = self._lines.encode([row])
            if content is not None:
                name = f"{row.file}-{row.packet}.{row.sub}{'' if row.batch_index is None else f'-{row.batch_index}'}{_suffix(content)}"
                with write_errors(str(self._folder / name)):
                    (self._folder / name).write_bytes(content)
                line = line.removesuffix(_END) + b',"payload_file":' + msgspec.json.encode(name) + _END
            self._index.write(line)

    def close(self) -> None:
        """Do nothing: the sink is finished by its owner."""


def _suffix(content: bytes) -> str:
    """Return the file suffix for a payload: JSON, text, or other."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ".bin"
    if text[:1] in {"{", "["}:
        try:
            msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            return ".json"
    return ".txt" if text and all(character.isprintable() or character in "\t\r\n" for character in text) else ".bin"
