"""What capturing needs of the system, and letting go of it."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

_NO_NEW_PRIVILEGES = 38
_CAPABILITY_VERSION_3 = 0x2008_0522


def drop_privileges() -> None:
    """Keep only what an ordinary user has: under sudo become who called it, and in any case give all capabilities up.

    Files that are opened afterwards belong to that user. Errors are passed over: whoever may not drop has nothing to lose.
    """
    if not hasattr(os, "geteuid"):
        return
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and user.isdigit() and group.isdigit() and int(user):
        with suppress(OSError):
            os.setgroups([])
            os.setgid(int(group))
            os.setuid(int(user))
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())  # effective, permitted and inheritable, each in two halves: none
