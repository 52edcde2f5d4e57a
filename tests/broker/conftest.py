"""One standalone broker for all tests that need no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.standalone import running


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running(tmp_path_factory.mktemp("broker")) as port:
        yield port
