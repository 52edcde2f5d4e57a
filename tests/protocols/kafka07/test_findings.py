from __future__ import annotations

import re

import pytest

from pulsarscope.dissect.contract.frames import SPLITTER_CODES
from pulsarscope.model.findings import LAYERS, SEVERITIES, Code
from pulsarscope.protocols.kafka07.findings import CODES
from pulsarscope.protocols.kafka07.rules import RULES


@pytest.mark.parametrize("code", [*CODES.values(), *RULES.codes.values()], ids=lambda code: code.code)
def test_each_says_what_it_is_and_what_to_do(code: Code) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.code)
    assert code.severity in SEVERITIES
    assert code.layer in LAYERS
    assert code.meaning.endswith(".")
    assert code.hint.endswith(".")


def test_what_the_splitter_says_is_among_them() -> None:
    assert CODES.keys() >= SPLITTER_CODES
    assert not CODES.keys() & RULES.codes.keys()
