"""Dropping the privileges that capturing needs."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

_NO_NEW_PRIVILEGES = 38
_CAPABILITY_VERSION_3 = 0x2008_0522


def drop_privileges(prepare: Callable[[], object] = bool) -> None:
    """Under sudo, call `prepare` and become the calling user. Give up all capabilities.

    Files created afterwards belong to that user. Errors are ignored: a process that may not drop privileges has none.
    """
    if not hasattr(os, "geteuid"):
        return
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and user.isdigit() and group.isdigit() and int(user):
        prepare()
        for become in (partial(os.setgroups, []), partial(os.setgid, int(group)), partial(os.setuid, int(user))):
            with suppress(OSError):  # one by one: a refused call must not prevent the next
                become()
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())  # effective, permitted and inheritable, two words each
