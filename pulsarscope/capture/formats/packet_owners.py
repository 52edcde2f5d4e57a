"""The process and the pod that a packet comment names, as ptcpdump writes them: lines of a name, a colon and a value."""

from __future__ import annotations

from functools import lru_cache

from pulsarscope.capture.block import Owner
from pulsarscope.capture.formats.interface import options

NAMING_PROGRAM = b"ptcpdump"
"""Name in the section header of files with such comments: of the application, or in a comment that programs keep which write anew."""

_COMMENT = 1
"""Code of the option that is a comment (section 3.5 of the pcapng draft)."""

_COMMENTS_MAX_BYTES = 16 << 10
"""Bytes of the comments of a packet that are read: a command line takes most of them."""

_CACHED = 1_024
"""Different comments that are remembered, 16 MiB at most: a connection has one or two."""

NAME_MAX_CHARACTERS = 256
"""Longest part of a name that is kept: a name of Kubernetes has 253 characters, a command of ptcpdump no more."""


def owner_in(body: bytes, start: int, byte_order: str) -> Owner | None:
    """Return what the comments among the options of a packet, from `start` on, say of its owner; None when they say nothing."""
    comments = [value for code, value in options(body, start, byte_order) if code == _COMMENT]
    return _owner(b"\n".join(comments)[:_COMMENTS_MAX_BYTES]) if comments else None


@lru_cache(_CACHED)
def _owner(comment: bytes) -> Owner | None:
    values: dict[str, str] = {}
    for line in comment.decode("utf-8", "backslashreplace").splitlines():
        name, _, value = map(str.strip, line.partition(":"))
        if value:
            values.setdefault(name, value[:NAME_MAX_CHARACTERS].rstrip())
    number = values.get("PID", "")
    command = (values.get("Command") or values.get("Cmd") or "").rpartition("/")[2]
    process = f"{command} ({number})" if command and number.isdecimal() else None
    pod = values.get("PodName")
    if pod is not None and "PodNamespace" in values:
        pod = f"{values['PodNamespace']}/{pod}"
    return None if process is pod is None else Owner(process, pod)
