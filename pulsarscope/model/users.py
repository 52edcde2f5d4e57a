"""The user of this process."""

from __future__ import annotations

import os


def current_user() -> str:
    """Return in words the user with whose rights this process runs: that of the environment is another one after privileges are dropped."""
    if not hasattr(os, "geteuid"):
        import getpass  # noqa: PLC0415 - as below

        return f"user {getpass.getuser()}"
    import pwd  # noqa: PLC0415 - not on Windows; it is part of the interpreter

    number = os.geteuid()
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:  # a number without a name, as in containers
        return f"user {number}"
