"""Copies of a process; each test runs its own program, as there may be threads here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc tells the number of threads")

BEGINNING = """
import os, signal, socket, sys, threading
from pulsarscope.engine.parallel.fork import Fork, may_fork

def echo():
    for line in sys.stdin:
        print(line.strip() + "!", flush=True)

def asked(copy, line):
    copy.stdin.write(line + b"\\n")
    copy.stdin.flush()
    return copy.stdout.readline()

"""


def run(program: str) -> list[str]:
    command = [sys.executable, "-c", BEGINNING + dedent(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_a_process_with_one_thread_may_be_copied() -> None:
    program = """
        print(may_fork())
        event = threading.Event()
        threading.Thread(target=event.wait).start()
        print(may_fork())
        event.set()
    """
    assert run(program) == ["True", "False"]


def test_one_without_a_standard_stream_may_not() -> None:
    assert run("os.close(0); print(may_fork())") == ["False"]


def test_a_copy_serves_between_its_pipes_until_nobody_asks() -> None:
    program = """
        copy = Fork(echo)
        print(asked(copy, b"a"), asked(copy, b"b"), os.getsid(copy.pid) == copy.pid)
        copy.stdin.close()
        print(copy.wait(), copy.wait())
    """
    assert run(program) == ["b'a!\\n' b'b!\\n' True", "0 0"]


def test_one_that_fails_has_an_exit_code_and_a_killed_one_its_signal() -> None:
    program = """
        failed = Fork(lambda: sys.exit("no") if sys.stdin.read() else 1 / 0)
        failed.stdin.close()
        killed = Fork(echo)
        killed.kill()
        print(failed.wait(), killed.wait())
        failed.kill()
    """
    assert run(program) == ["1 -9"]


def test_what_the_other_process_has_not_written_yet_is_written_once() -> None:
    program = """
        sys.stdout.write("once ")
        copy = Fork(echo)
        print(asked(copy, b"a"))
        copy.stdin.close()
        copy.wait()
    """
    assert run(program) == ["once b'a!\\n'"]


def test_what_the_other_process_closes_is_closed() -> None:
    program = """
        ours, theirs = socket.socketpair()
        copy = Fork(echo)
        asked(copy, b"a")
        theirs.close()
        print(ours.recv(1))
        copy.kill()
        copy.wait()
    """
    assert run(program) == ["b''"]


def test_signals_are_handled_as_in_a_new_process() -> None:
    program = """
        signal.signal(signal.SIGTERM, lambda *_: print("ended"))
        signal.signal(signal.SIGINT, lambda *_: print("interrupted"))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        def report():
            print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.pthread_sigmask(0, ()), flush=True)
            echo()
        copy = Fork(report)
        print(copy.stdout.readline())
        os.kill(copy.pid, signal.SIGHUP)
        print(asked(copy, b"a"))
        os.kill(copy.pid, signal.SIGTERM)
        print(copy.wait())
        os.kill(os.getpid(), signal.SIGTERM)
    """
    assert run(program) == ["b'True set()\\n'", "b'a!\\n'", "-15", "ended"]


def test_when_somebody_else_has_waited_for_it_there_is_no_code() -> None:
    program = """
        copy = Fork(lambda: 1 / 0)
        os.waitpid(copy.pid, 0)
        copy.kill()
        print(copy.wait())
    """
    assert run(program) == ["0"]


def test_files_with_numbers_beyond_a_lowered_limit_are_closed() -> None:
    program = """
        import resource
        ours, theirs = socket.socketpair()
        high = os.dup2(theirs.fileno(), 200)
        theirs.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        copy = Fork(echo)
        print(asked(copy, b"a"))
        os.close(high)
        print(ours.recv(1))
        copy.stdin.close()
        print(copy.wait())
    """
    assert run(program) == ["b'a!\\n'", "b''", "0"]


def test_a_copy_needs_no_more_files_than_its_pipes() -> None:
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        kept = []
        try:
            while True:
                kept.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            for number in [kept.pop() for _ in range(4)]:
                os.close(number)
        copy = Fork(echo)
        print(asked(copy, b"a"))
        copy.stdin.close()
        print(copy.wait())
    """
    assert run(program) == ["b'a!\\n'", "0"]


def test_without_room_for_both_pipes_none_is_left_open() -> None:
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        kept = []
        try:
            while True:
                kept.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            for number in [kept.pop() for _ in range(3)]:
                os.close(number)
        for _ in range(2):
            try:
                Fork(echo)
            except OSError as error:
                print(error.strerror)
        os.pipe()
    """
    assert run(program) == ["Too many open files"] * 2
