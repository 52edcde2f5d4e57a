"""The public exceptions and their exit codes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

import pulsarscope as ps
from pulsarscope.model import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.UsageError, 2), (errors.CaptureError, 3), (errors.OutputError, 5), (errors.InternalError, 6), (errors.PulsarscopeError, 2)],
)
def test_each_has_the_exit_code_of_the_design(error: type[errors.PulsarscopeError], code: int) -> None:
    assert error.exit_code == code
    assert error("what to do").exit_code == code
    assert str(error("what to do")) == "what to do"


def test_one_root_catches_them_all() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(error, errors.PulsarscopeError) for error in classes)
    assert len(classes) == 5


def test_all_are_public() -> None:
    assert {ps.PulsarscopeError, ps.UsageError, ps.CaptureError, ps.OutputError, ps.InternalError} == {
        errors.PulsarscopeError,
        errors.UsageError,
        errors.CaptureError,
        errors.OutputError,
        errors.InternalError,
    }


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("user", "name"), [(0, "root"), (54_321, "54321")])
def test_who_may_not_is_the_user_of_the_process_and_not_of_the_environment(user: int, name: str) -> None:
    program = f"""
import os
from pulsarscope.model.errors import output_error
os.setuid({user})
print(output_error("a.pcapng", PermissionError({errno.EACCES}, os.strerror({errno.EACCES})), has_folder=True))
"""
    environment = {**os.environ, "USER": "someone", "LOGNAME": "someone"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment).stdout
    assert said == f"cannot write a.pcapng: Permission denied for user {name}\n"


def test_a_refused_thread_is_no_fault_of_pulsarscope() -> None:
    error = errors.internal_error(RuntimeError(errors.NO_THREAD))
    assert str(error).startswith("no thread can be started: ")
