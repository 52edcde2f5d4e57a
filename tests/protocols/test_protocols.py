from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from pulsarscope.dissect.contract.capabilities import Stored
from pulsarscope.dissect.plugins.registry import finding_codes, read_registries
from pulsarscope.inputs.zookeeper import Node
from pulsarscope.model.errors import UsageError
from pulsarscope.protocols import make_dissectors


def test_the_first_dissector_is_that_of_pulsar() -> None:
    assert [dissector.name for dissector in make_dissectors()][:3] == ["pulsar", "kafka07", "bookkeeper"]


def test_the_dissector_of_a_storage_is_given_the_readers_of_what_others_store() -> None:
    made = make_dissectors()
    cursor = b"\x08\x0e\x10\x03"
    (read,) = made[-1].stored_readers
    assert read(b"." + cursor + b".", 1, 5) == Stored("cursor", {"ledger": 14, "entry": 3})


def test_codes_are_those_of_all_layers_and_of_all_rules() -> None:
    made = make_dissectors()
    codes = finding_codes(made)
    assert {"stream-gap", "checksum-mismatch", "ack-hole"} <= codes.keys()
    assert "ack-hole" not in finding_codes(made, rules=False)


def test_a_code_that_two_define_in_two_ways_is_refused() -> None:
    code = replace(make_dissectors()[0].codes["checksum-mismatch"], severity="note")
    made: list[Any] = [*make_dissectors(), SimpleNamespace(name="other", codes={code.code: code})]
    with pytest.raises(UsageError, match=r"the dissectors are pulsar, .*other"):
        finding_codes(made, rules=False)


def test_what_no_dissector_knows_of_a_registry_is_left() -> None:
    node = Node("/nobody", "", "line 1")
    found = read_registries([node], make_dissectors())
    assert found.unknown == [node]
    assert not any(section.records for section in found.sections.values())
