from __future__ import annotations

import pytest

from pulsarscope.protocols.bookkeeper.vocabulary import VOCABULARY
from tests.protocols.bookkeeper.cases import ANSWERS, FRAMES, decoded


@pytest.mark.parametrize("data", FRAMES + ANSWERS)
def test_every_field_of_a_frame_can_be_asked_for(data: bytes) -> None:
    command, fields = decoded(data)
    named = VOCABULARY.commands[command or ""]
    assert fields.keys() <= {field.name for field in named}
    assert fields.get("status", "EOK") in next((field.values for field in named if field.name == "status"), ("EOK",))
