from __future__ import annotations

import pytest

from pulsarscope.protocols import DISSECTORS
from pulsarscope.protocols.bookkeeper.dissector import BookkeeperDissector
from pulsarscope.testing import check_account, check_splitting, fuzz
from tests.protocols.bookkeeper.cases import ANSWERS, DISSECTOR, FRAMES


def test_it_is_one_of_the_package() -> None:
    assert BookkeeperDissector in DISSECTORS
    assert DISSECTOR.name == "bookkeeper"
    assert DISSECTOR.ports == {3181}


@pytest.mark.parametrize("frames", [FRAMES, ANSWERS], ids=["frames", "answers"])
def test_it_keeps_the_contract(frames: list[bytes]) -> None:
    fuzz(DISSECTOR, frames, rounds=40)


@pytest.mark.parametrize("synced", [True, False])
def test_frames_do_not_depend_on_the_pieces_that_they_come_in(synced: bool) -> None:
    data = b"".join(FRAMES)
    check_account(DISSECTOR, data, synced=synced)
    check_splitting(DISSECTOR, [data[at : at + 1] for at in range(len(data))], synced=synced)


def test_senders_are_told_by_command_but_that_of_an_auth() -> None:
    assert [DISSECTOR.sender(name) for name in ("ADD", "READ_RESPONSE", "AUTH", "")] == ["client", "server", None, None]
