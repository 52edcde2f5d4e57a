"""Frames about a message, a consumer, a transaction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.protocols.pulsar.session.follow import FOLLOW_KINDS, consumer_test, message_test, txn_test
from tests.scenarios.rows import frame


def ident(entry: int = 12, ledger: int = 5, **more: Any) -> dict[str, Any]:
    return {"ledgerId": ledger, "entryId": entry, **more}


def ack(*ids: dict[str, Any], cumulative: bool = False, consumer: int = 1) -> FrameRow:
    kind = "Cumulative" if cumulative else "Individual"
    return frame(9, "ACK", fields={"consumer_id": consumer, "ack_type": kind, "message_id": list(ids)})


def delivery(entry: int = 12, consumer: int = 1, connection: str = "0:1") -> FrameRow:
    return frame(8, "MESSAGE", fields={"consumer_id": consumer, "message_id": ident(entry)}, connection=connection)


def redeliver(*ids: dict[str, Any]) -> FrameRow:
    fields = {"consumer_id": 1} | ({"message_ids": list(ids)} if ids else {})
    return frame(9, "REDELIVER_UNACKNOWLEDGED_MESSAGES", fields=fields)


def test_the_dissector_gives_them() -> None:
    assert PulsarDissector().follow_kinds is FOLLOW_KINDS


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (frame(command="SEND_RECEIPT", fields={"message_id": ident()}), True),
        (frame(command="SEND_RECEIPT", fields={"message_id": ident(13)}), False),
        (frame(command="SEND_RECEIPT", fields={"message_id": ident(12, 6)}), False),
        (delivery(), True),
        (frame(command="SEEK", fields={"message_id": ident()}), True),
        (ack(ident(13), ident(12)), True),
        (ack(ident(13)), False),
        (ack(), False),
        (redeliver(ident(13), ident()), True),
        (redeliver(ident(13)), False),
        (redeliver(), False),
        (frame(command="SEND"), False),
        (frame(command=None, fields=None), False),
    ],
)
def test_a_message_by_its_entry(row: FrameRow, expected: bool) -> None:
    assert message_test("5:12")(row) is expected


@pytest.mark.parametrize(
    ("message_id", "expected"),
    [
        (ident(), True),
        (ident(batch_index=-1), True),
        (ident(batch_index=3), True),
        (ident(batch_index=2), False),
        (ident(ack_set=[0b0111]), True),  # the bit of index 3 is cleared: acknowledged
        (ident(ack_set=[0b1111]), False),
        (ident(ack_set=[-1]), False),
        (ident(ack_set=[]), True),
    ],
)
def test_one_message_of_a_batch(message_id: dict[str, Any], expected: bool) -> None:
    assert message_test("5:12:3")(ack(message_id)) is expected


def test_an_index_beyond_the_words_of_an_ack_set_is_acknowledged() -> None:
    assert message_test("5:12:64")(ack(ident(ack_set=[-1])))


@pytest.mark.parametrize(
    ("ack_set", "index", "is_held"), [([0b0110], None, True), ([], None, False), ([0], None, False), ([0b0110], 0, False)]
)
def test_an_ack_of_a_part_of_a_batch_leaves_the_rest_to_later_ones(ack_set: list[int], index: int | None, is_held: bool) -> None:
    about = message_test("5:12" if index is None else f"5:12:{index}")
    assert about(delivery())
    assert about(ack(ident(ack_set=ack_set)))
    assert about(ack(ident(20), cumulative=True)) == is_held


def test_the_first_cumulative_ack_behind_a_delivery_is_about_it() -> None:
    about = message_test("5:12")
    assert not about(ack(ident(20), cumulative=True))
    assert about(delivery())
    assert not about(ack(ident(11), cumulative=True))
    assert not about(ack(ident(20)))
    assert not about(ack(ident(20), cumulative=True, consumer=2))
    assert about(ack(ident(3, 6), cumulative=True))
    assert not about(ack(ident(21), cumulative=True))


def test_asking_for_everything_is_about_what_is_not_acknowledged() -> None:
    about = message_test("5:12")
    about(delivery())
    assert about(redeliver())
    about(ack(ident()))
    assert not about(redeliver())


@pytest.mark.parametrize("name", ["", "5", "5:", "x:1", "-1:-1", "5:12:3:4", "5:12:", " 5:12", "5" * 20 + ":1", "٥:١"])
def test_what_is_no_message_id_is_said(name: str) -> None:
    with pytest.raises(UsageError, match="as in 5:12"):
        message_test(name)


def test_a_consumer_by_its_number() -> None:
    assert consumer_test("1")(delivery(consumer=1))
    assert not consumer_test("1")(delivery(consumer=11))
    assert not consumer_test("billing")(delivery())
    assert not consumer_test("1")(frame(command="PING", fields={}))


@pytest.mark.parametrize("name", ["0:7", "(0,7)", "0,7", "( 0, 7 )"])
def test_a_transaction_by_its_two_numbers(name: str) -> None:
    about = txn_test(name)
    assert about(frame(command="END_TXN", fields={"txnid_most_bits": 0, "txnid_least_bits": 7}))
    assert about(frame(command="END_TXN", fields={"txnid_least_bits": 7}))
    assert about(frame(command="MESSAGE", fields={}, metadata={"txnid_most_bits": 0, "txnid_least_bits": 7}))
    assert not about(frame(command="END_TXN", fields={"txnid_most_bits": 1, "txnid_least_bits": 7}))
    assert not about(frame(command="SEND", fields={}, metadata={}))


@pytest.mark.parametrize("name", ["7", "", "a:b", "1:2:3"])
def test_what_is_no_transaction_id_is_said(name: str) -> None:
    with pytest.raises(UsageError, match="as in 0:7"):
        txn_test(name)


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["ledgerId", "entryId", "ack_set"]), inner, max_size=2),
    max_leaves=4,
)


@given(
    st.sampled_from(["ACK", "MESSAGE", "SEEK", "REDELIVER_UNACKNOWLEDGED_MESSAGES"]),
    st.dictionaries(st.sampled_from(["message_id", "message_ids", "consumer_id", "ack_type"]), ANYTHING),
)
def test_nothing_that_fields_may_lack_makes_them_fail(command: str, fields: dict[str, Any]) -> None:
    fields["consumer_id"] = 1
    for name, text in (("message", "5:12:3"), ("consumer", "1"), ("txn", "0:7")):
        FOLLOW_KINDS[name](text)(frame(command=command, fields=fields))
