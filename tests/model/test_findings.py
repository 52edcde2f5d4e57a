"""Finding codes of the layers below the protocols, and merging of tables."""

from __future__ import annotations

import pytest

from pulsarscope.model.findings import (
    CAPTURE_CODES,
    ERROR,
    LAYERS,
    NOTE,
    TCP_CODES,
    TLS_CODES,
    Code,
    Finding,
    join_codes,
    table,
)
from tests.architecture.modules import SOURCES, name_of
from tests.scenarios.evaluation import assert_well_formed

ALL = [*CAPTURE_CODES.values(), *TCP_CODES.values(), *TLS_CODES.values()]
USERS = "\n".join(path.read_text() for path in SOURCES if name_of(path) != "pulsarscope.model.findings")


def code(name: str) -> Code:
    return Code(name, ERROR, "frame", "It is so.", "Do this.")


def test_a_table_is_by_name() -> None:
    assert table(code("a"), code("b")) == {"a": code("a"), "b": code("b")}


def test_a_name_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        table(code("a"), code("a"))


def test_protocols_share_a_code_in_their_own_words_but_not_with_another_severity_or_layer() -> None:
    own = Code("a", ERROR, "frame", "So it is.", "Do that.")
    assert join_codes([table(code("a")), table(own)]) == {"a": code("a")}
    for other in (Code("a", NOTE, "frame", "", ""), Code("a", ERROR, "payload", "", "")):
        with pytest.raises(ValueError, match="finding code a"):
            join_codes([table(code("a")), table(code("b"), other)])


def test_tables_join() -> None:
    assert list(join_codes([table(code("a")), {}, table(code("b"))])) == ["a", "b"]
    assert join_codes([]) == {}


@pytest.mark.parametrize("code", ALL, ids=lambda code: code.code)
def test_each_says_what_it_is_and_what_to_do(code: Code) -> None:
    assert_well_formed(code)
    assert code.layer in LAYERS


@pytest.mark.parametrize("rows", [(CAPTURE_CODES, "capture"), (TCP_CODES, "tcp"), (TLS_CODES, "tls")], ids=["capture", "tcp", "tls"])
def test_each_table_is_of_one_layer(rows: tuple[dict[str, Code], str]) -> None:
    codes, layer = rows
    assert {code.layer for code in codes.values()} == {layer}
    assert all(name == code.code for name, code in codes.items())


@pytest.mark.parametrize("name", [code.code for code in ALL])
def test_each_is_given_somewhere(name: str) -> None:
    assert f'"{name}"' in USERS


def test_a_finding_may_be_of_no_place() -> None:
    finding = Finding("not-a-capture", ERROR, "capture", "x is none.")
    assert (finding.file, finding.packet, finding.sub, finding.time, finding.connection, finding.hint) == (None,) * 6
    assert finding.evidence == {}
    finding.evidence["path"] = "x"
    assert Finding("a", NOTE, "tcp", "b").evidence == {}


def test_what_to_do_about_a_bound_of_memory_holds_for_files_and_live() -> None:
    hint = CAPTURE_CODES["memory-cap"].hint
    assert "live -f" in hint
    assert "file" in hint
