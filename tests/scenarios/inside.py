"""A process of a parallel run that is none, for tests of which a process is not the point."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest


class Inside:
    """A process that is none: the same tasks and answers, pickled."""

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
