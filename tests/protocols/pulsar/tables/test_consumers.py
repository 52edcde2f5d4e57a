from __future__ import annotations

import sys
from typing import Any

import pytest

from pulsarscope.dissect.contract.capabilities import CourseFold
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.tables.consumers import COURSE_POINTS, TABLE
from tests.protocols.pulsar.tables.rows import ENDPOINTS, MILLISECOND, TOPIC, Frames, message_id, records


def subscribed(frame: Frames, number: int = 3, name: str = "c") -> FrameRow:
    fields = {"topic": TOPIC, "subscription": "s", "subType": "Shared", "consumer_id": number, "request_id": 1, "consumer_name": name}
    return frame("SUBSCRIBE", fields)


def flow(frame: Frames, permits: int, number: int = 3) -> FrameRow:
    return frame("FLOW", {"consumer_id": number, "messagePermits": permits})


def delivery(frame: Frames, entry: int, messages: int = 1, **more: Any) -> FrameRow:
    metadata = {"num_messages_in_batch": messages} if messages > 1 else {}
    return frame("MESSAGE", {"consumer_id": 3, "message_id": message_id(entry), **more}, messages=messages, metadata=metadata)


def ack(frame: Frames, *ids: dict[str, Any], cumulative: bool = False) -> FrameRow:
    return frame("ACK", {"consumer_id": 3, "ack_type": "Cumulative" if cumulative else "Individual", "message_id": list(ids)})


def only(*rows: Any) -> dict[str, Any]:
    (record,) = records(TABLE, *rows)
    return record


def test_what_is_delivered_and_not_acknowledged_is_said_with_the_oldest_and_its_age() -> None:
    frame = Frames()
    record = only(
        subscribed(frame),
        flow(frame, 10),
        *(delivery(frame, entry) for entry in range(4)),
        ack(frame, message_id(0)),
        ack(frame, message_id(2)),
    )
    assert {key: record[key] for key in ("consumer", "subscription", "topic", "type", "state", "granted", "delivered", "permits_left")} == {
        "consumer": "c",
        "subscription": "s",
        "topic": TOPIC,
        "type": "Shared",
        "state": "open",
        "granted": 10,
        "delivered": 4,
        "permits_left": 6,
    }
    assert (record["acknowledged"], record["unacknowledged"], record["oldest_unacknowledged"]) == (2, 2, "7:1")
    assert (record["oldest_since"], record["oldest_age_ns"]) == (4 * MILLISECOND, 4 * MILLISECOND)
    assert (record["last_flow_frame"], record["last_ack_frame"], record["last_ack_age_ns"]) == ("0:2.1", "0:8.1", 0)


def test_a_cumulative_acknowledgment_takes_all_before_it() -> None:
    frame = Frames()
    record = only(
        subscribed(frame), flow(frame, 0), *(delivery(frame, entry, 5) for entry in range(4)), ack(frame, message_id(2), cumulative=True)
    )
    assert (record["delivered"], record["acknowledged"], record["unacknowledged"], record["permits_left"]) == (20, 15, 5, -20)


@pytest.mark.parametrize(("ack_sets", "left"), [([0b1110], 3), ([0b1110, 0b0111], 2), ([0b0011, 0b1100], 0), ([], 4)])
def test_messages_of_a_batch_are_acknowledged_one_by_one(ack_sets: list[int], left: int) -> None:
    frame = Frames()
    acks = [ack(frame, message_id(1, ack_set=[bits])) for bits in ack_sets]
    record = only(subscribed(frame), delivery(frame, 1, 4), *acks)
    assert (record["acknowledged"], record["unacknowledged"]) == (4 - left, left)


@pytest.mark.parametrize(("ack_set", "left"), [(0b1101101, 0), (0b1101111, 1), (0b11111111, 3)])
def test_of_a_batch_that_comes_in_part_only_that_part_waits(ack_set: int, left: int) -> None:
    frame = Frames()
    again = delivery(frame, 1, 3, ack_set=[0b10010010])
    record = only(subscribed(frame), again, ack(frame, message_id(1, ack_set=[ack_set])))
    assert (record["acknowledged"], record["unacknowledged"]) == (3 - left, left)


def test_cumulative_acknowledgments_look_at_each_entry_once() -> None:
    frame, steps = Frames(), 0
    rows: list[Any] = [subscribed(frame)]
    for entry in range(3_000):
        rows += [delivery(frame, entry), *([ack(frame, message_id(entry // 2), cumulative=True)] if entry % 2 else [])]
    fold = TABLE.make()

    def count(*_: object) -> Any:
        nonlocal steps
        steps += 1
        return count

    sys.settrace(lambda _frame, event, _argument: count() if event == "call" else None)
    try:
        fold.feed(rows, {})
    finally:
        sys.settrace(None)
    (record,) = fold.records()
    assert (record["acknowledged"], record["unacknowledged"]) == (1_500, 1_500)
    assert steps < 100 * len(rows)


def test_what_comes_again_waits_once() -> None:
    frame = Frames()
    again = frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", {"consumer_id": 3, "message_ids": [message_id(1)]})
    rows = [subscribed(frame), delivery(frame, 1), delivery(frame, 2), again, delivery(frame, 1, redelivery_count=1)]
    record = only(*rows)
    assert (record["delivered"], record["redelivered"], record["unacknowledged"]) == (3, 1, 2)


@pytest.mark.parametrize(
    ("command", "fields", "left"),
    [("REDELIVER_UNACKNOWLEDGED_MESSAGES", {}, 0), ("SEEK", {"message_id": message_id(0)}, 0), ("FLOW", {"messagePermits": 1}, 2)],
)
def test_nothing_waits_after_a_seek_or_when_all_is_asked_for_again(command: str, fields: dict[str, Any], left: int) -> None:
    frame = Frames()
    record = only(subscribed(frame), delivery(frame, 1), delivery(frame, 2), frame(command, {"consumer_id": 3, **fields}))
    assert record["unacknowledged"] == left


def test_a_consumer_of_before_the_capture_has_no_known_permits() -> None:
    frame = Frames()
    record = only(delivery(frame, 1), flow(frame, 10))
    assert (record["consumer"], record["whole"], record["permits_left"], record["unacknowledged"]) == ("0:1/3", False, None, 1)


@pytest.mark.parametrize(("rows", "permits"), [((), 0), ((1,), None), ((1, 2), None)])
def test_permits_are_not_known_of_a_consumer_that_got_messages_without_any_flow(rows: tuple[int, ...], permits: int | None) -> None:
    frame = Frames()
    deliveries = [delivery(frame, entry) for entry in rows]
    assert only(subscribed(frame), *deliveries)["permits_left"] == permits
    assert only(subscribed(frame), flow(frame, 10), *deliveries)["permits_left"] == 10 - len(rows)


@pytest.mark.parametrize(("position", "waiting"), [((-1, -1), 0), ((0, 0), 0), ((0, 1), 3), ((7, 0), 3)])
def test_only_stored_entries_wait(position: tuple[int, int], waiting: int) -> None:
    frame = Frames()
    fields = {"consumer_id": 3, "message_id": {"ledgerId": position[0], "entryId": position[1]}}
    record = only(subscribed(frame), *(frame("MESSAGE", fields, messages=3) for _ in range(2)))
    assert (record["delivered"], record["unacknowledged"]) == (6, waiting)


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([("CLOSE_CONSUMER", "client")], "closed"),
        ([("CLOSE_CONSUMER", "server")], "closed by broker"),
        ([("UNSUBSCRIBE", "client")], "closed"),
        ([], "disconnected"),
    ],
)
def test_how_a_consumer_ended_is_said(rows: list[tuple[str, str]], state: str) -> None:
    frame = Frames()
    ends = [frame(command, {"consumer_id": 3}, direction=direction) for command, direction in rows]
    assert only(subscribed(frame), *ends, ConnectionRow(connection="0:1", closed="rst"))["state"] == state
    assert only(subscribed(frame), ConnectionRow(connection="0:1", closed="open"))["state"] == "open"


def answer(frame: Frames, command: str, request: FrameRow | None = None) -> FrameRow:
    name = request and f"{request.file}:{request.packet}.{request.sub}"
    return frame(command, {"request_id": 1}, request=name)


def test_one_that_is_refused_again_and_again_is_never_open() -> None:
    frame = Frames()
    asked = [subscribed(frame) for _ in range(4)]
    refusals = [row for each in asked[:3] for row in (each, answer(frame, "ERROR", each))]
    found = records(TABLE, *refusals, asked[3], answer(frame, "SUCCESS", asked[3]), answer(frame, "ERROR", asked[3]))
    assert sorted(record["state"] for record in found) == ["open", "refused", "refused", "refused"]


def test_the_refusal_of_a_lookup_with_the_same_id_refuses_no_consumer() -> None:
    frame = Frames()
    asked = subscribed(frame)
    record = only(asked, answer(frame, "ERROR"), answer(frame, "SUCCESS", asked), delivery(frame, 1))
    assert (record["state"], record["delivered"]) == ("open", 1)


def test_a_refused_one_does_not_take_the_id_of_an_open_one() -> None:
    frame = Frames()
    first, second = subscribed(frame, name="first"), subscribed(frame, name="second")
    found = records(TABLE, first, answer(frame, "SUCCESS", first), second, answer(frame, "ERROR", second), delivery(frame, 1))
    assert [(record["consumer"], record["state"], record["delivered"]) for record in found] == [
        ("first", "open", 1),
        ("second", "refused", 0),
    ]


def test_an_id_used_again_is_another_consumer() -> None:
    frame = Frames()
    found = records(TABLE, subscribed(frame, name="first"), delivery(frame, 1), subscribed(frame, name="second"), delivery(frame, 2))
    assert [(record["consumer"], record["delivered"]) for record in found] == [("first", 1), ("second", 1)]


def test_an_id_used_again_in_a_full_table_is_not_the_consumer_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.protocols.pulsar.tables.consumers.STATISTICS_NAMES_MAX", 1)
    frame, fold = Frames(), TABLE.make()
    fold.feed([subscribed(frame, name="first"), delivery(frame, 1), subscribed(frame, name="second"), delivery(frame, 2)], {})
    assert [(record["consumer"], record["delivered"]) for record in fold.records()] == [("first", 1)]
    assert fold.left_out == 2


def test_consumers_and_what_waits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.protocols.pulsar.tables.consumers.STATISTICS_NAMES_MAX", 2)
    monkeypatch.setattr("pulsarscope.protocols.pulsar.tables.consumers.TABLE_ENTRIES_MAX", 3)
    frame = Frames()
    rows = [subscribed(frame, number) for number in (3, 4, 5)] + [delivery(frame, entry) for entry in range(10)]
    found = records(TABLE, *rows)
    assert [(record["consumer_id"], record["unacknowledged"]) for record in found] == [(3, 10), (4, 0)]


def test_the_course_of_a_consumer_shows_its_permits_run_out_while_messages_wait() -> None:
    frame = Frames()
    fold = TABLE.make()
    assert isinstance(fold, CourseFold)
    fold.keep_courses()
    rows = [subscribed(frame), flow(frame, 3), *(delivery(frame, entry) for entry in range(3)), ack(frame, message_id(0), message_id(1))]
    fold.feed(rows, ENDPOINTS)
    (course,) = fold.courses()
    assert course.lines == ("permits_left", "unacknowledged", "delivered", "acknowledged")
    assert [values for _, values in course.points] == [(0, 0, 0, 0), (3, 0, 0, 0), (2, 1, 1, 0), (1, 2, 2, 0), (0, 3, 3, 0), (0, 1, 3, 2)]
    assert [time for time, _ in course.points] == [row.time for row in rows]
    assert course.record == fold.records()[0]


def test_courses_keep_their_last_state_however_long_they_are() -> None:
    frame = Frames()
    fold = TABLE.make()
    assert isinstance(fold, CourseFold)
    fold.keep_courses()
    fold.feed([subscribed(frame), flow(frame, 5_000), *(delivery(frame, entry) for entry in range(3_000))], ENDPOINTS)
    (course,) = fold.courses()
    assert len(course.points) <= COURSE_POINTS
    assert course.points[-1][1] == (2_000, 3_000, 3_000, 0)


def test_there_are_no_courses_unless_they_are_asked_for() -> None:
    frame = Frames()
    fold = TABLE.make()
    assert isinstance(fold, CourseFold)
    fold.feed([subscribed(frame)], ENDPOINTS)
    assert fold.courses() == []


def test_a_consumer_that_takes_the_id_of_another_has_its_own_course() -> None:
    frame = Frames()
    fold = TABLE.make()
    assert isinstance(fold, CourseFold)
    fold.keep_courses()
    closed = frame("CLOSE_CONSUMER", {"consumer_id": 3})
    fold.feed([subscribed(frame), flow(frame, 1), delivery(frame, 1), closed, subscribed(frame, name="d"), flow(frame, 9)], ENDPOINTS)
    assert {course.record["consumer"]: course.points[-1][1][0] for course in fold.courses()} == {"c": 0, "d": 9}


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_that_was_read_before_its_messages_counts(cumulative: bool) -> None:
    """They follow lost bytes, but came before the ACK."""
    frame = Frames()
    first, messages = subscribed(frame), [delivery(frame, entry) for entry in range(4)]
    acked = ack(frame, *([message_id(3)] if cumulative else map(message_id, range(4))), cumulative=cumulative)
    record = only(first, messages[0], acked, *messages[1:], delivery(frame, 4))
    assert (record["acknowledged"], record["unacknowledged"]) == (4, 1)


@pytest.mark.parametrize(("pause", "unacknowledged"), [(0, 1), (80, 1), (150, 2)])
def test_a_message_that_comes_again_after_its_ack_is_not_acknowledged(pause: int, unacknowledged: int) -> None:
    """The exception is such a recent ACK of a later message that a tap may have held back the message."""
    frame = Frames()
    before = [subscribed(frame), delivery(frame, 0), ack(frame, message_id(0), message_id(1))]
    frame.number += pause
    assert only(*before, delivery(frame, 0), delivery(frame, 1))["unacknowledged"] == unacknowledged
