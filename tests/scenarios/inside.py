"""A stand-in for a process of a parallel run, for tests that do not depend on processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest


class Inside:
    """A stand-in for a process, with the same pickled tasks and answers."""

    def __init__(self) -> None:
        self._answers: list[Iterator[Any]] = []

    def __enter__(self) -> Inside:  # noqa: PYI034 - as Process
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, task: Any) -> None:
        self._answers.append(pickle.loads(pickle.dumps(task))())  # noqa: S301 - our own

    def answer(self) -> Any:
        for answers in self._answers:
            for answer in answers:
                return pickle.loads(pickle.dumps(answer))  # noqa: S301 - our own
        pytest.fail("asked for more than was answered")
