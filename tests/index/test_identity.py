"""The identity of an index: what its captures are, how they are read, and by which modules."""

from __future__ import annotations

import pytest

from pulsarscope.index import identity
from pulsarscope.index.identity import identity_of
from tests.places import CAPTURES
from tests.scenarios.indexes import INDEX_OPTIONS


def test_an_index_of_other_modules_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(CAPTURES / "quickstart.pcapng")]
    before = identity_of(paths, INDEX_OPTIONS)
    monkeypatch.setattr(identity, "modules_mark", lambda: "0123")
    after = identity_of(paths, INDEX_OPTIONS)
    assert before is not None
    assert after is not None
    assert after.difference(before) == "was made with other options, or by another version"
