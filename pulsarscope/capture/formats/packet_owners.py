"""The process and the pod that a packet comment names, as ptcpdump writes them: lines of a name, a colon and a value."""

from __future__ import annotations

import re
from functools import lru_cache

from pulsarscope.capture.block import Owner
from pulsarscope.capture.formats.interface import options

NAMING_PROGRAM = b"ptcpdump"
"""Name in the section header of files with such comments: of the application, or in a comment that programs keep which write anew."""

_COMMENT = 1
"""Code of the option that is a comment (section 3.5 of the pcapng draft)."""

_CACHED = 4_096
"""Different comments that are remembered: a connection has one or two."""

NAME_MAX_CHARACTERS = 256
"""Longest part of a name that is kept: a name of Kubernetes has 253 characters, a command of ptcpdump no more."""

_LINE = re.compile(r"\s*(\w+)\s*:\s*(\S.*?)\s*")


def owner_in(body: bytes, start: int, byte_order: str) -> Owner | None:
    """Return what the comments among the options of a packet, from `start` on, say of its owner; None when they say nothing."""
    comments = [value for code, value in options(body, start, byte_order) if code == _COMMENT]
    return _owner(b"\n".join(comments)) if comments else None


@lru_cache(_CACHED)
def _owner(comment: bytes) -> Owner | None:
    said: dict[str, str] = {}
    for line in comment.decode("utf-8", "backslashreplace").splitlines():
        if (match := _LINE.fullmatch(line)) is not None:
            said.setdefault(match[1], match[2][:NAME_MAX_CHARACTERS])
    number = said.get("PID", "")
    command = (said.get("Command") or said.get("Cmd") or "").rpartition("/")[2]
    process = f"{command} ({number})" if command and number.isdecimal() else None
    pod = said.get("PodName")
    if pod is not None and "PodNamespace" in said:
        pod = f"{said['PodNamespace']}/{pod}"
    return None if process is pod is None else Owner(process, pod)
