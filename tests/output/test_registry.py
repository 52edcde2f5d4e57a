from __future__ import annotations

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.output.registry import CHECKSUM_COLUMNS, OUTPUTS, choose_columns, column_names, output


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_row_of_the_table_leads_to_an_output(name: str) -> None:
    factory = output(name)
    assert callable(getattr(factory, "write", None))
    assert callable(getattr(factory, "close", None))


def test_without_a_choice_all_columns_are_put_out() -> None:
    assert choose_columns(None, ("frame",)) == {"frame": column_names("frame")}
    assert "checksum" in column_names("frame")
    assert set(CHECKSUM_COLUMNS) < set(column_names("frame", flat=True))


def test_columns_keep_the_order_asked_for() -> None:
    assert choose_columns(("topic", "packet", "topic"), ("frame",)) == {"frame": ("topic", "packet")}


def test_each_kind_gets_the_columns_it_has() -> None:
    chosen = choose_columns(("packet", "command", "key"), ("frame", "message"))
    assert chosen == {"frame": ("packet", "command"), "message": ("packet", "key")}


def test_where_cells_are_single_values_checksum_is_three_columns() -> None:
    assert choose_columns(("checksum", "packet"), ("frame",), flat=True) == {"frame": (*CHECKSUM_COLUMNS, "packet")}
    assert choose_columns(("checksum_status",), ("frame",), flat=True) == {"frame": ("checksum_status",)}


@pytest.mark.parametrize(
    ("names", "kinds", "message"),
    [
        (("topik",), ("frame",), 'unknown column "topik" in frame records; did you mean topic'),
        (("fields.producer_id",), ("frame",), 'complete columns: "fields" instead of "fields.producer_id"'),
        (("payload_sha256",), ("frame",), "message records have it: --records message"),
        (("record", "packet"), ("frame",), '"record" is no column: every row of JSON begins with its kind'),
        (("zzzzzz",), ("frame",), 'unknown column "zzzzzz" in frame records; known: source, '),
        (("command",), ("frame", "message"), "no column of message records"),
    ],
)
def test_a_choice_that_cannot_be_met_is_refused_with_what_to_do(names: tuple[str, ...], kinds: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_columns(names, kinds)
