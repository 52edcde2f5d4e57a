"""The finding codes of Pulsar."""

from __future__ import annotations

import re

import pytest

from pulsarscope.model.findings import CAPTURE_CODES, LAYERS, TCP_CODES, TLS_CODES, Code, join_codes
from pulsarscope.protocols.pulsar.findings import CODES
from tests.places import PACKAGE
from tests.scenarios.evaluation import assert_well_formed

SOURCES = "\n".join(
    path.read_text() for path in sorted((PACKAGE / "protocols" / "pulsar").rglob("*.py")) + sorted((PACKAGE / "dissect").rglob("*.py"))
)


def test_they_join_with_those_of_the_layers_below() -> None:
    assert len(join_codes((CAPTURE_CODES, TCP_CODES, TLS_CODES, CODES))) == sum(map(len, (CAPTURE_CODES, TCP_CODES, TLS_CODES, CODES)))


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.code)
def test_each_says_what_it_is_and_what_to_do(code: Code) -> None:
    assert_well_formed(code)
    assert code.layer in LAYERS[3:]


@pytest.mark.parametrize("code", CODES)
def test_each_is_given_somewhere(code: str) -> None:
    assert len(re.findall(rf'"{code}"', SOURCES)) > 1
