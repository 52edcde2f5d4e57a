"""All rules together: hostile dialogues, and requirements of all findings."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.contract.rules import ConnectionRule
from pulsarscope.model.findings import Code
from pulsarscope.protocols.pulsar.rules import RULES
from tests.architecture.modules import name_of
from tests.places import PACKAGE
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import assert_well_formed, findings_of
from tests.scenarios.frames import message_metadata, sized
from tests.scenarios.samples import VARIANTS, fill

ROOM = PACKAGE / "protocols" / "pulsar" / "rules"
SOURCES = "\n".join(path.read_text() for path in sorted(ROOM.rglob("*.py")))
BODIES = {field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields}
NUMBERS = sorted(value.number for value in pb.BaseCommand.Type.DESCRIPTOR.values if value.number in BODIES)


def frame_of(number: int, variant: int, *, required_only: bool) -> bytes:
    command = pb.BaseCommand(type=number)
    body = getattr(command, BODIES[number])
    body.SetInParent()
    fill(body, variant, required_only=required_only)
    has_payload = pb.BaseCommand.Type.Name(number) in ("SEND", "MESSAGE")
    rest = sized(message_metadata(sequence_id=variant)) + b"x" if has_payload else b""
    return sized(sized(command.SerializeToString()) + rest)


STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(NUMBERS), st.integers(0, VARIANTS - 1), st.booleans(), st.sampled_from([0, 1, 40])),
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(dialogues=st.lists(STEPS, min_size=1, max_size=3), ending=st.sampled_from(["open", "close", "reset"]))
def test_nothing_that_is_said_makes_them_fail(
    dialogues: list[list[tuple[bool, int, int, bool, int]]], ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    talk = []
    for port, steps in enumerate(dialogues):
        item = connected(40000 + port)
        for by_client, number, variant, required_only, pause in steps:
            frame = frame_of(number, variant, required_only=required_only)
            (item.client if by_client else item.server)(frame).wait(pause * SECOND)
        if ending != "open":
            (item.close if ending == "close" else item.reset)("server")
        talk.append(item)
    for row in findings_of(tmp_path_factory.getbasetemp(), *talk):
        assert row.text
        assert row.text.endswith(".")
        assert all(re.fullmatch(r"0:\d+\.\d+", name) for name in (row.evidence or {}).get("frames", ()))


def test_all_rules_and_codes_of_the_room_are_listed() -> None:
    modules = [import_module(name_of(path)) for path in ROOM.rglob("[!_]*.py")]
    codes = {code for module in modules for code in getattr(module, "CODES", ())}
    rules = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ConnectionRule)
        and value.__module__ == module.__name__
        and not value.__subclasses__()
    }
    assert codes == set(RULES.codes)
    assert rules == {*RULES.connection, *RULES.journeys}


@pytest.mark.parametrize("code", RULES.codes.values(), ids=lambda code: code.code)
def test_each_code_says_what_it_is_and_is_given_somewhere(code: Code) -> None:
    assert_well_formed(code)
    assert code.layer in ("session", "tuning")
    assert len(re.findall(rf'"{code.code}"', SOURCES)) > 1
    assert code.to_act or code.severity == "note"


def test_key_rules_are_distinguished_by_their_names() -> None:
    names = [rule.name for rule in RULES.keys]
    assert len(names) == len(set(names))
