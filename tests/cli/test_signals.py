from __future__ import annotations

import os
import signal

import pytest

from pulsarscope.cli.signals import SIGNALS, Interrupts


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_a_signal_waits_for_the_end_of_a_write() -> None:
    written = []
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.deferred():  # noqa: PT012 - what is done before counts
        os.kill(os.getpid(), signal.SIGINT)
        written.append("whole")
    assert written == ["whole"]


def test_a_second_signal_gets_through() -> None:
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.deferred():  # noqa: PT012 - the second raises
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("not reached")


def test_a_signal_that_the_caller_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
