"""What is kept of deliveries, to recognise copies."""

from __future__ import annotations

from unittest.mock import Mock

from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.sends.stored_twice import CopyRule

LONG = "p" * (2 * NAME_MAX_CHARACTERS)


def delivery(packet: int, entry: int, name: str) -> FrameRow:
    fields = {"consumer_id": 1, "message_id": {"ledgerId": 7, "entryId": entry}}
    metadata = {"producer_name": name, "sequence_id": 3, "publish_time": 9}
    return FrameRow(connection="0:1", file=0, packet=packet, sub=1, time=packet, command="MESSAGE", fields=fields, metadata=metadata)


def test_the_name_of_a_producer_is_cut_and_its_copies_are_recognised_in_rows_and_columns() -> None:
    context, frames, again = Mock(), Mock(), Mock()
    rule = CopyRule(context)
    key = 1, None, LONG, 3, 9
    frames.idents.return_value = [(0, key, "7:1 None 0:1.1")]
    rule.deliveries(frames, again)
    again.assert_not_called()
    assert all(len(str(each)) < NAME_MAX_CHARACTERS + 100 for each in rule._seen)
    rule.deliveries(frames, again)
    again.assert_called_once_with(0)
    rule.frames["MESSAGE"](rule, delivery(2, 2, LONG))
    context.emit_fact.assert_called_once()
    assert len(rule._seen) == 1
