"""The user of this process."""

from __future__ import annotations

import os


def current_user() -> str:
    """Return a description of the user whose rights this process has. The environment may name another one after privileges are dropped."""
    if not hasattr(os, "geteuid"):
        return f"user {os.environ.get('USERNAME', 'unknown')}"
    import pwd  # noqa: PLC0415 - not on Windows; it is part of the interpreter

    number = os.geteuid()
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:  # a number without a name, as in containers
        return f"user {number}"
