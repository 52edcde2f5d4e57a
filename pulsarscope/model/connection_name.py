"""The name of a connection: its first packet. Rows include the file; screens omit it when there is only one.

Names of frames work the same way.
"""

from __future__ import annotations

import re

# Compiled on first use: most runs write no name of a connection into a text.
_NAME = r"#?(?:(\d{1,9}):)?(\d{1,11})"
_IN_TEXT = r"\b([Cc]onnection )(\d{1,9}:\d{1,11})\b(?![.:]\d)"
_FRAME_IN_TEXT = r"(?<![\w.:])0:(\d{1,11}\.\d{1,9})\b(?![.:]\w)"


def connection_label(name: str | None, *, several_files: bool) -> str:
    """Return a name as screens show it: "0:17" is #17, and #0:17 among several files; "" for None."""
    if name is None:
        return ""
    return f"#{name if several_files else name.rpartition(':')[2]}"


def connection_name(text: str) -> str | None:
    """Return the name that a user's text stands for (#17, 17, #0:17, 0:17), in file 0 unless it gives one; None when it is not a name."""
    match = re.fullmatch(_NAME, text, re.ASCII)
    return None if match is None else f"{int(match[1] or 0)}:{int(match[2])}"


def first_packet(name: str) -> int:
    """Return the packet number in a name, 0 when it has none."""
    packet = name.rpartition(":")[2]
    return int(packet) if packet.isdecimal() else 0


def with_labels(text: str, *, several_files: bool) -> str:
    """Return the text of a finding with connections and frames named as screens show them."""
    text = re.sub(_IN_TEXT, lambda match: match[1] + connection_label(match[2], several_files=several_files), text, flags=re.ASCII)
    return text if several_files else re.sub(_FRAME_IN_TEXT, r"\1", text, flags=re.ASCII)
