from __future__ import annotations

import re
from typing import Any

import pytest

from pulsarscope.dissect.contract.capabilities import FieldType, Vocabulary
from pulsarscope.dissect.plugins.isolation import PluginWarning
from pulsarscope.dissect.plugins.registry import vocabularies
from pulsarscope.dissect.plugins.vocabulary_check import check_vocabulary
from pulsarscope.protocols import DISSECTORS
from tests.dissect.third_protocol.pulsarscope_postcard import PostcardDissector

QOS = FieldType("qos", "int", "")
TYPES = "'int', which is none of int64, double, bool, string, bytes, object"

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"commands": {"PUBLISH": (QOS,)}}, f"the field PUBLISH.qos has the type {TYPES}"),
    "type in an object": (
        {"objects": {"message.extra": (FieldType("will", "object", "", fields=(QOS,)),)}},
        f"the field message.extra.will.qos has the type {TYPES}",
    ),
    "command": ({"commands": {"basic.publish": ()}}, "the command 'basic.publish' is not one word of A-Z, 0-9 and _"),
    "empty command": ({"commands": {"": ()}}, "the command '' is not one word"),
    "column of objects": ({"objects": {"extra": ()}}, "there is no column 'extra': write kind.column, as in 'frame.extra'"),
    "column of values": ({"values": {"frame.command.name": ("a",)}}, "there is no column 'frame.command.name'"),
}


@pytest.mark.parametrize(("members", "words"), MISTAKES.values(), ids=MISTAKES)
def test_what_no_filter_could_use_is_named(members: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        check_vocabulary(Vocabulary(**members))


def test_the_protocols_of_the_package_can_be_filtered() -> None:
    for make in (*DISSECTORS, PostcardDissector):
        check_vocabulary(make().vocabulary)
    check_vocabulary(Vocabulary({"publish-ok": ()}))


def test_a_wrong_vocabulary_is_left_out_and_names_its_dissector() -> None:
    odd = type("Odd", (PostcardDissector,), {"package": "other", "vocabulary": Vocabulary({"PUBLISH": (QOS,)})})
    with pytest.warns(
        PluginWarning, match=f"the dissector postcard of other failed in vocabulary: ValueError: the field PUBLISH.qos .*{TYPES}"
    ):
        assert vocabularies([odd()]) == [Vocabulary()]
