"""One connection: requests and responses, producers and consumers, and a bound on everything that waits."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from pulsarscope.dissect.contract import pairing as pairing_module
from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow, MessageRow
from pulsarscope.protocols.pulsar.session import mixed_keys as keys_module
from pulsarscope.protocols.pulsar.session import open_requests as requests_module
from pulsarscope.protocols.pulsar.session import sends as sends_module
from pulsarscope.protocols.pulsar.session import session as session_module
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY
from pulsarscope.protocols.pulsar.session.sends import REFUSED_MAX
from tests.scenarios import Single, batch, command_frame
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.commands import ack, close_producer, created, error, flow, message, producer, receipt, send, send_error
from tests.scenarios.dialogue import STEP_NS, Dialogue
from tests.scenarios.frames import sized
from tests.scenarios.samples import command

NUMBERS = {value.name: value.number for value in pb.BaseCommand.Type.DESCRIPTOR.values}


def built(name: str, **fields: Any) -> bytes:
    """A command with its required fields, and these."""
    base, body = command(NUMBERS[name], 1, required_only=True)
    for field, value in fields.items():
        setattr(body, field, value)
    return sized(sized(base.SerializeToString()))


def outcome(row: ExchangeRow) -> tuple[str | None, str | None, str | None, str | None, int | None]:
    return row.request, row.response, row.key, row.status, row.latency_ns


class TestRequestsById:
    @pytest.mark.parametrize("request_name", ANSWERED_BY)
    def test_each_is_closed_by_its_own_response(self, request_name: str) -> None:
        response = built(ANSWERED_BY[request_name], request_id=41)
        dialogue = Dialogue().client(built(request_name, request_id=41)).server(response)
        (row,) = dialogue.exchanges
        assert outcome(row)[:3] == (request_name, ANSWERED_BY[request_name], "41")
        assert row.status in ("ok", "error")
        assert (row.packet, row.response_packet, row.latency_ns) == (1, 2, STEP_NS)
        answer = dialogue.frames[1]
        assert (answer.request, answer.latency_ns) == ("0:1.1", STEP_NS)
        assert dialogue.frames[0].request is None

    @pytest.mark.parametrize("request_name", sorted(set(ANSWERED_BY) - {"ACK"}))
    def test_each_is_closed_by_an_error(self, request_name: str) -> None:
        error = command_frame("ERROR", request_id=41, error="TooManyRequests", message="slow down")
        (row,) = Dialogue().client(built(request_name, request_id=41)).server(error).end().exchanges
        assert outcome(row) == (request_name, "ERROR", "41", "error", STEP_NS)
        assert (row.error, row.error_message) == ("TooManyRequests", "slow down")

    @pytest.mark.parametrize("request_name", sorted(set(ANSWERED_BY) - {"ACK"}))
    @pytest.mark.parametrize("lookup_name", ["LOOKUP", "PARTITIONED_METADATA", "GET_SCHEMA"])
    def test_an_error_is_of_a_lookup_only_if_nothing_else_has_its_id(self, lookup_name: str, request_name: str) -> None:
        """The C++ client numbers lookups separately, and brokers refuse these with their own response."""
        error = command_frame("ERROR", request_id=41, error="TopicNotFound", message="none")
        asked = [built(name, request_id=41) for name in (lookup_name, request_name)]
        rows = Dialogue().client(*asked).server(error).end().exchanges
        refused = lookup_name if request_name in ("LOOKUP", "PARTITIONED_METADATA", "GET_SCHEMA") else request_name
        assert [row.request for row in rows if row.status == "error"] == [refused]

    @pytest.mark.parametrize("request_name", ANSWERED_BY)
    def test_each_without_a_response_is_unanswered_at_the_end(self, request_name: str) -> None:
        dialogue = Dialogue().client(built(request_name, request_id=41))
        assert dialogue.exchanges == []
        (row,) = dialogue.end().exchanges
        assert outcome(row) == (request_name, None, "41", "unanswered", None)
        assert row.response_packet is None

    @pytest.mark.parametrize("response_name", sorted({*ANSWERED_BY.values(), "ERROR"}))
    def test_each_response_without_a_request_is_unrequested(self, response_name: str) -> None:
        (row,) = Dialogue().server(built(response_name, request_id=41)).end().exchanges
        assert outcome(row) == (None, response_name, "41", "unrequested", None)
        assert (row.packet, row.response_packet) == (1, 1)

    def test_a_response_of_another_family_is_not_the_answer(self) -> None:
        dialogue = Dialogue().client(built("LOOKUP", request_id=3)).server(built("SUCCESS", request_id=3)).end()
        assert sorted(str(row.status) for row in dialogue.exchanges) == ["unanswered", "unrequested"]

    @pytest.mark.parametrize(
        ("one", "two"),
        [("LOOKUP", "PRODUCER"), ("LOOKUP", "CLOSE_CONSUMER"), ("PARTITIONED_METADATA", "CLOSE_PRODUCER"), ("GET_SCHEMA", "SUBSCRIBE")],
    )
    @pytest.mark.parametrize("swapped", [False, True])
    def test_one_id_serves_two_families_at_once(self, one: str, two: str, swapped: bool) -> None:
        answers = [built(ANSWERED_BY[one], request_id=3), built(ANSWERED_BY[two], request_id=3)]
        dialogue = (
            Dialogue().client(built(one, request_id=3), built(two, request_id=3)).server(*(answers[::-1] if swapped else answers)).end()
        )
        assert {(row.request, row.response) for row in dialogue.exchanges} == {(one, ANSWERED_BY[one]), (two, ANSWERED_BY[two])}

    def test_of_two_requests_that_a_response_can_mean_the_older_one_is_answered_first(self) -> None:
        dialogue = Dialogue().client(built("SUBSCRIBE", request_id=3), built("CLOSE_CONSUMER", request_id=3))
        dialogue.server(built("SUCCESS", request_id=3), built("SUCCESS", request_id=3))
        assert [(row.request, row.packet, row.response_packet) for row in dialogue.exchanges] == [
            ("SUBSCRIBE", 1, 3),
            ("CLOSE_CONSUMER", 2, 4),
        ]

    def test_an_id_used_again_while_it_waits_is_first_in_first_out(self) -> None:
        dialogue = Dialogue().client(built("LOOKUP", request_id=3), built("LOOKUP", request_id=3))
        dialogue.server(built("LOOKUP_RESPONSE", request_id=3), built("LOOKUP_RESPONSE", request_id=3))
        assert [(row.packet, row.response_packet) for row in dialogue.exchanges] == [(1, 3), (2, 4)]

    def test_the_largest_id_is_one(self) -> None:
        biggest = (1 << 64) - 1
        (row,) = Dialogue().client(built("LOOKUP", request_id=biggest)).server(built("LOOKUP_RESPONSE", request_id=biggest)).exchanges
        assert outcome(row)[2:4] == ("-1", "ok")

    def test_an_acknowledgement_without_an_id_has_no_exchange(self) -> None:
        assert Dialogue().client(command_frame("ACK", consumer_id=1, ack_type="Individual")).end().exchanges == []

    def test_a_failed_lookup_is_an_error(self) -> None:
        response = command_frame("LOOKUP_RESPONSE", request_id=1, response="Failed", error="ServiceNotReady", message="wait")
        (row,) = Dialogue().client(built("LOOKUP", request_id=1)).server(response).exchanges
        assert (row.status, row.error, row.error_message) == ("error", "ServiceNotReady", "wait")

    def test_a_row_is_written_when_it_is_complete(self) -> None:
        dialogue = (
            Dialogue().client(built("LOOKUP", request_id=1), built("LOOKUP", request_id=2)).server(built("LOOKUP_RESPONSE", request_id=2))
        )
        assert [row.key for row in dialogue.exchanges] == ["2"]
        assert isinstance(dialogue.rows[-1], ExchangeRow)
        assert isinstance(dialogue.rows[-2], FrameRow)


class TestInOrder:
    def test_connect_is_answered_by_connected(self) -> None:
        dialogue = Dialogue().client(command_frame("CONNECT", client_version="c", protocol_version=19, auth_method_name="token"))
        dialogue.server(command_frame("CONNECTED", server_version="s", protocol_version=19))
        (row,) = dialogue.exchanges
        assert outcome(row) == ("CONNECT", "CONNECTED", None, "ok", STEP_NS)
        described = dialogue.described()
        assert (described.client_version, described.server_version) == ("c", "s")
        assert (described.protocol_version, described.auth_method) == (19, "token")

    def test_a_refused_connect_has_the_id_minus_one(self) -> None:
        error = command_frame("ERROR", request_id=(1 << 64) - 1, error="AuthenticationError", message="no")
        dialogue = Dialogue().client(command_frame("CONNECT", client_version="c")).server(error).end()
        assert [outcome(row) for row in dialogue.exchanges] == [("CONNECT", "ERROR", None, "error", STEP_NS)]

    def test_each_challenge_is_an_exchange_of_its_own(self) -> None:
        challenge = command_frame("AUTH_CHALLENGE", server_version="s")
        response = command_frame("AUTH_RESPONSE", client_version="c")
        dialogue = Dialogue().client(command_frame("CONNECT", client_version="c")).server(challenge).client(response).server(challenge)
        dialogue.client(response).server(command_frame("CONNECTED", server_version="s")).end()
        assert [(row.request, row.response, row.packet, row.response_packet) for row in dialogue.exchanges] == [
            ("AUTH_CHALLENGE", "AUTH_RESPONSE", 2, 3),
            ("AUTH_CHALLENGE", "AUTH_RESPONSE", 4, 5),
            ("CONNECT", "CONNECTED", 1, 6),
        ]

    def test_pings_are_paired_for_each_direction(self) -> None:
        ping, pong = command_frame("PING"), command_frame("PONG")
        dialogue = Dialogue().client(ping).server(ping).client(pong).server(pong).client(ping, ping).server(pong, pong).end()
        assert [(row.packet, row.response_packet) for row in dialogue.exchanges] == [(2, 3), (1, 4), (5, 7), (6, 8)]
        assert {row.status for row in dialogue.exchanges} == {"ok"}

    def test_a_pong_without_a_ping_is_unrequested(self) -> None:
        (row,) = Dialogue().server(command_frame("PONG")).end().exchanges
        assert outcome(row) == (None, "PONG", None, "unrequested", None)

    @pytest.mark.parametrize("interval", [500_000_000, 30_000_000_000])
    @pytest.mark.parametrize("asking", ["client", "server"])
    def test_a_first_ping_captured_behind_its_pong_shifts_no_later_ones(self, interval: int, asking: str) -> None:
        ping, pong = command_frame("PING"), command_frame("PONG")
        dialogue = Dialogue()
        asks, answers = (dialogue.client, dialogue.server) if asking == "client" else (dialogue.server, dialogue.client)
        answers(pong)
        asks(ping)
        for _ in range(3):
            dialogue.wait(interval)
            asks(ping)
            answers(pong)
        rows = dialogue.end().exchanges
        assert [(row.packet, row.response_packet, row.latency_ns) for row in rows] == [
            (2, 1, None),
            *[(packet, packet + 1, STEP_NS) for packet in (3, 5, 7)],
        ]

    def test_a_pong_of_before_the_capture_answers_no_later_ping(self) -> None:
        ping, pong = command_frame("PING"), command_frame("PONG")
        rows = Dialogue().server(pong).wait(30_000_000_000).client(ping).server(pong).end().exchanges
        assert sorted((row.status, row.latency_ns) for row in rows if row.request) == [("ok", STEP_NS)]
        assert [row.response_packet for row in rows if not row.request] == [1]

    def test_a_pong_that_the_capture_lacks_shifts_no_later_ones(self) -> None:
        ping, pong = command_frame("PING"), command_frame("PONG")
        dialogue = Dialogue().client(ping)
        for _ in range(2):
            dialogue.wait(30_000_000_000).client(ping).server(pong)
        rows = dialogue.end().exchanges
        assert [(row.status, row.packet, row.latency_ns) for row in rows] == [
            ("unanswered", 1, None),
            ("ok", 2, STEP_NS),
            ("ok", 4, STEP_NS),
        ]

    def test_connected_without_connect_is_unrequested(self) -> None:
        dialogue = Dialogue().server(command_frame("CONNECTED", server_version="s", protocol_version=5)).end()
        assert [outcome(row)[3] for row in dialogue.exchanges] == ["unrequested"]
        assert (dialogue.described().server_version, dialogue.described().protocol_version) == ("s", 5)


class TestProducers:
    PRODUCER = command_frame("PRODUCER", topic="t", producer_id=1, request_id=5)

    def test_a_producer_that_waits_for_its_turn_is_answered_by_the_second_success(self) -> None:
        waits = command_frame("PRODUCER_SUCCESS", request_id=5, producer_name="n", producer_ready=False)
        ready = command_frame("PRODUCER_SUCCESS", request_id=5, producer_name="n", producer_ready=True)
        dialogue = Dialogue().client(self.PRODUCER).server(waits)
        assert dialogue.exchanges == []
        assert (dialogue.frames[1].request, dialogue.frames[1].latency_ns) == ("0:1.1", STEP_NS)
        dialogue.server(ready).end()
        (row,) = dialogue.exchanges
        assert outcome(row) == ("PRODUCER", "PRODUCER_SUCCESS", "5", "ok", 2 * STEP_NS)
        assert row.response_packet == 3

    def test_one_that_waits_in_vain_is_unanswered(self) -> None:
        waits = command_frame("PRODUCER_SUCCESS", request_id=5, producer_name="n", producer_ready=False)
        (row,) = Dialogue().client(self.PRODUCER).server(waits).end().exchanges
        assert (row.status, row.response) == ("unanswered", None)

    def test_its_topic_and_name_are_known_from_then_on(self) -> None:
        dialogue = Dialogue().client(self.PRODUCER).server(command_frame("PRODUCER_SUCCESS", request_id=5, producer_name="broker-1"))
        dialogue.client(send(metadata={"producer_name": "broker-1"})).server(receipt()).client(
            command_frame("CLOSE_PRODUCER", producer_id=1, request_id=6)
        )
        for frame in dialogue.frames[2:]:
            assert (frame.topic, frame.producer_name) == ("t", "broker-1"), frame.command
        assert [(row.topic, row.producer_name) for row in dialogue.messages] == [("t", "broker-1")]
        sent = next(row for row in dialogue.exchanges if row.request == "SEND")
        assert (sent.topic, sent.producer_name) == ("t", "broker-1")

    def test_without_its_producer_command_a_ledger_stands_for_the_topic_from_the_first_receipt_on(self) -> None:
        dialogue = Dialogue().client(send()).server(receipt()).client(send(1, 1)).server(receipt(1, 1, ledger=9))
        assert [frame.topic for frame in dialogue.frames] == [None, *["topic of ledger 7"] * 3]
        assert {frame.producer_name for frame in dialogue.frames} == {"producer-1"}
        assert [row.topic for row in dialogue.messages] == ["topic of ledger 7"] * 2
        assert [(row.status, row.topic) for row in dialogue.exchanges] == [("ok", "topic of ledger 7")] * 2

    def test_a_producer_command_ends_that(self) -> None:
        dialogue = Dialogue().client(send()).server(receipt()).client(producer(topic="t")).server(created()).client(send(1, 1))
        assert dialogue.frames[-1].topic == "t"

    @pytest.mark.parametrize("ledger", [0, (1 << 64) - 1, 1 << 63])
    def test_a_message_that_is_not_stored_has_no_ledger(self, ledger: int) -> None:
        dialogue = Dialogue().client(send()).server(receipt(ledger=ledger), message(consumer_id=4, ledger=ledger))
        assert {frame.topic for frame in dialogue.frames} == {None}

    def test_the_number_of_messages_is_the_batch_s(self) -> None:
        data = batch([Single(b"a"), Single(b"b")])
        dialogue = Dialogue().client(send(payload=data, metadata={"num_messages_in_batch": 2}), send())
        assert [frame.num_messages for frame in dialogue.frames] == [2, 1]


class TestSends:
    def test_a_receipt_gives_the_messages_their_id(self) -> None:
        dialogue = Dialogue().client(
            send(sequence_id=4, payload=batch([Single(b"a"), Single(b"b")]), metadata={"num_messages_in_batch": 2})
        )
        assert dialogue.messages == []
        dialogue.server(receipt(sequence_id=4, ledger=7, entry=9, partition=3))
        assert [(row.ledger, row.entry, row.partition, row.batch_index, row.packet) for row in dialogue.messages] == [
            (7, 9, 3, 0, 1),
            (7, 9, 3, 1, 1),
        ]
        (row,) = dialogue.exchanges
        assert outcome(row) == ("SEND", "SEND_RECEIPT", "1:4", "ok", STEP_NS)
        assert (dialogue.frames[1].request, dialogue.frames[1].latency_ns) == ("0:1.1", STEP_NS)

    def test_no_partition_is_null(self) -> None:
        for ident in ({}, {"partition": -1}):
            dialogue = Dialogue().client(send()).server(receipt(**ident))
            assert dialogue.messages[0].partition is None

    def test_a_message_dropped_as_a_duplicate_has_the_id_minus_one(self) -> None:
        biggest = (1 << 64) - 1
        dialogue = Dialogue().client(send()).server(receipt(ledger=biggest, entry=biggest))
        assert [(row.ledger, row.entry) for row in dialogue.messages] == [(-1, -1)]

    def test_a_refused_send_is_an_error_and_its_message_has_no_id(self) -> None:
        error = command_frame("SEND_ERROR", producer_id=1, sequence_id=0, error="ChecksumError", message="bad")
        dialogue = Dialogue().client(send()).server(error)
        assert outcome(dialogue.exchanges[0]) == ("SEND", "SEND_ERROR", "1:0", "error", STEP_NS)
        assert dialogue.exchanges[0].error == "ChecksumError"
        assert [(row.ledger, row.entry, row.status) for row in dialogue.messages] == [(None, None, "ok")]

    @pytest.mark.parametrize(("count", "refused"), [(2, [1]), (5, [4]), (5, [2, 3, 4]), (6, [1, 4]), (40, [38, 39])])
    def test_a_send_may_be_refused_before_earlier_ones_are_stored(self, count: int, refused: list[int]) -> None:
        """The broker refuses at once what comes for a topic that it unloads; the receipts of what it is storing follow."""
        dialogue = Dialogue().client(*(send(sequence_id=number) for number in range(count)))
        dialogue.server(*(send_error("NotAllowedError", "closed", 1, number) for number in refused))
        dialogue.server(*(receipt(sequence_id=number) for number in range(count) if number not in refused)).end()
        answers = {row.key: (row.response, row.status) for row in dialogue.exchanges}
        assert len(dialogue.exchanges) == count
        for number in range(count):
            assert answers[f"1:{number}"] == (("SEND_ERROR", "error") if number in refused else ("SEND_RECEIPT", "ok"))

    @pytest.mark.parametrize("waiting", [REFUSED_MAX, REFUSED_MAX + 1])
    def test_a_refused_send_is_looked_for_among_the_latest(self, waiting: int) -> None:
        dialogue = Dialogue().client(*(send(sequence_id=number) for number in range(waiting + 1)))
        dialogue.server(send_error("NotAllowedError", "closed", 1, 1), receipt(sequence_id=0))
        assert [row.status for row in dialogue.exchanges] == (["error", "ok"] if waiting == REFUSED_MAX else ["unanswered", "error"])

    def test_sends_with_one_sequence_id_are_first_in_first_out(self) -> None:
        """The chunks of a message have the same one."""
        dialogue = Dialogue().client(send(sequence_id=5), send(sequence_id=5), send(sequence_id=5))
        dialogue.server(receipt(sequence_id=5, entry=1), receipt(sequence_id=5, entry=2), receipt(sequence_id=5, entry=3)).end()
        assert [(row.packet, row.response_packet, row.latency_ns) for row in dialogue.exchanges] == [
            (1, 4, 3 * STEP_NS),
            (2, 5, 3 * STEP_NS),
            (3, 6, 3 * STEP_NS),
        ]
        assert [row.entry for row in dialogue.messages] == [1, 2, 3]

    def test_producers_do_not_share_their_order(self) -> None:
        dialogue = Dialogue().client(send(1, 0), send(2, 0)).server(receipt(2, 0), receipt(1, 0)).end()
        assert [(row.key, row.packet, row.response_packet, row.status) for row in dialogue.exchanges] == [
            ("2:0", 2, 3, "ok"),
            ("1:0", 1, 4, "ok"),
        ]

    def test_behind_a_missing_receipt_the_order_is_found_again(self) -> None:
        dialogue = Dialogue().client(*[send(sequence_id=number) for number in range(4)])
        dialogue.server(receipt(sequence_id=0), receipt(sequence_id=3)).end()
        assert [(row.key, row.status) for row in dialogue.exchanges] == [
            ("1:0", "ok"),
            ("1:1", "unanswered"),
            ("1:2", "unanswered"),
            ("1:3", "ok"),
        ]
        assert [(row.sequence_id, row.ledger) for row in dialogue.messages] == [(0, 7), (1, None), (2, None), (3, 7)]

    def test_a_receipt_out_of_order_gives_up_what_was_before_it(self) -> None:
        dialogue = Dialogue().client(send(sequence_id=0), send(sequence_id=1)).server(receipt(sequence_id=1), receipt(sequence_id=0)).end()
        assert sorted((str(row.key), str(row.status)) for row in dialogue.exchanges) == [
            ("1:0", "unanswered"),
            ("1:0", "unrequested"),
            ("1:1", "ok"),
        ]

    def test_a_receipt_of_nothing_is_unrequested(self) -> None:
        dialogue = Dialogue().client(send(sequence_id=0)).server(receipt(sequence_id=9)).end()
        assert {(row.key, row.status) for row in dialogue.exchanges} == {("1:0", "unanswered"), ("1:9", "unrequested")}
        assert dialogue.frames[1].request is None

    def test_after_a_middle_start_receipts_are_aligned_by_their_sequence_ids(self) -> None:
        dialogue = (
            Dialogue()
            .server(receipt(sequence_id=7), receipt(sequence_id=8))
            .client(send(sequence_id=9))
            .server(receipt(sequence_id=9))
            .end()
        )
        assert sorted((str(row.key), str(row.status)) for row in dialogue.exchanges) == [
            ("1:7", "unrequested"),
            ("1:8", "unrequested"),
            ("1:9", "ok"),
        ]

    def test_a_new_producer_of_the_id_begins_anew(self) -> None:
        producer = command_frame("PRODUCER", topic="t2", producer_id=1, request_id=5)
        dialogue = Dialogue().client(send(sequence_id=0), producer, send(sequence_id=0)).server(receipt(sequence_id=0, entry=5)).end()
        sends = [row for row in dialogue.exchanges if row.request == "SEND"]
        assert sorted((row.packet or 0, row.status or "", row.response_packet or 0) for row in sends) == [
            (1, "unanswered", 0),
            (3, "ok", 4),
        ]
        assert [(row.packet, row.entry, row.topic) for row in dialogue.messages] == [(1, None, None), (3, 5, "t2")]

    def test_a_receipt_from_before_it_is_not_the_new_producer_s(self) -> None:
        """Midstream: the receipt answers a SEND that is not in the capture."""
        producer = command_frame("PRODUCER", topic="t2", producer_id=1, request_id=5)
        dialogue = (
            Dialogue()
            .server(receipt(sequence_id=0, entry=1))
            .client(producer, send(sequence_id=0))
            .server(receipt(sequence_id=0, entry=5))
            .end()
        )
        assert [(row.packet, row.entry) for row in dialogue.messages] == [(3, 5)]
        assert "capture-order" not in dialogue.codes

    def test_every_send_has_one_exchange_and_every_message_one_row(self) -> None:
        for seed in range(60):
            random = Random(seed)  # noqa: S311 - for a test
            dialogue = Dialogue()
            sends = receipts = 0
            for _ in range(60):
                producer, sequence = random.randrange(3), random.randrange(6)
                kind = random.randrange(10)
                if kind < 5:
                    dialogue.client(send(producer, sequence))
                    sends += 1
                elif kind < 9:
                    dialogue.server(receipt(producer, sequence))
                    receipts += 1
                else:
                    dialogue.client(command_frame("PRODUCER", topic="t", producer_id=producer, request_id=99))
            dialogue.end()
            rows = [row for row in dialogue.exchanges if row.request == "SEND" or row.response == "SEND_RECEIPT"]
            assert sum(row.request == "SEND" for row in rows) == sends == len(dialogue.messages)
            assert sum(row.response == "SEND_RECEIPT" for row in rows) == receipts
            assert all(row.latency_ns is None or row.latency_ns >= 0 for row in rows)


class TestCaptureOrder:
    def test_a_response_captured_before_its_request_has_no_latency_and_says_so(self) -> None:
        dialogue = Dialogue().server(built("LOOKUP_RESPONSE", request_id=3), packet=5).client(built("LOOKUP", request_id=3), packet=6).end()
        (row,) = dialogue.exchanges
        assert (row.request, row.response, row.packet, row.response_packet, row.latency_ns) == ("LOOKUP", "LOOKUP_RESPONSE", 6, 5, None)
        assert row.status in ("ok", "error")
        assert dialogue.codes == ["capture-order"]
        (finding,) = dialogue.of(FindingRow)
        assert (finding.packet, finding.severity) == (5, "note")

    def test_so_has_a_receipt_before_its_send(self) -> None:
        dialogue = Dialogue().server(receipt(sequence_id=3, entry=4), packet=5).client(send(sequence_id=3), packet=6).end()
        (row,) = dialogue.exchanges
        assert outcome(row) == ("SEND", "SEND_RECEIPT", "1:3", "ok", None)
        assert [(row.packet, row.entry) for row in dialogue.messages] == [(6, 4)]
        assert dialogue.codes == ["capture-order"]

    def test_a_clock_that_goes_back_gives_no_latency(self) -> None:
        dialogue = Dialogue().client(send(), time=5000).server(receipt(), time=4999).end()
        assert [row.latency_ns for row in dialogue.exchanges] == [None]
        assert dialogue.frames[1].latency_ns is None
        assert dialogue.codes == ["capture-order"]

    def test_the_same_moment_is_a_latency_of_zero(self) -> None:
        dialogue = Dialogue().client(send(), time=5000).server(receipt(), time=5000).end()
        assert [row.latency_ns for row in dialogue.exchanges] == [0]

    def test_a_response_of_an_earlier_request_does_not_wait_for_a_later_one(self) -> None:
        """Midstream, and a client that reuses an id: the response belongs to a request that is not in the capture."""
        dialogue = Dialogue().server(built("SUCCESS", request_id=3), packet=1)
        dialogue.client(built("CLOSE_PRODUCER", request_id=3), packet=50_000).server(built("SUCCESS", request_id=3), packet=50_001).end()
        assert sorted(str(row.status) for row in dialogue.exchanges) == ["ok", "unrequested"]
        assert "capture-order" not in dialogue.codes


class TestUnasked:
    @pytest.mark.parametrize("name", ["CLOSE_PRODUCER", "CLOSE_CONSUMER"])
    def test_a_broker_that_closes_is_neither_request_nor_unrequested(self, name: str) -> None:
        dialogue = Dialogue().server(built(name, request_id=(1 << 64) - 1)).end()
        assert dialogue.exchanges == []
        assert len(dialogue.frames) == 1

    @pytest.mark.parametrize(
        "name",
        [
            "WATCH_TOPIC_UPDATE",
            "TOPIC_MIGRATED",
            "ACTIVE_CONSUMER_CHANGE",
            "REACHED_END_OF_TOPIC",
            "FLOW",
            "REDELIVER_UNACKNOWLEDGED_MESSAGES",
        ],
    )
    def test_commands_that_neither_ask_nor_answer_have_no_exchange(self, name: str) -> None:
        assert Dialogue().server(built(name)).client(built(name)).end().exchanges == []

    def test_frames_that_are_no_commands_have_none(self) -> None:
        odd = [sized(sized(b"\x08\xc8\x01")), sized(sized(b"")), sized(sized(b"\x08\x06"))]
        dialogue = Dialogue().client(*odd).end()
        assert dialogue.exchanges == []
        assert len(dialogue.frames) == 3


class TestConsumers:
    SUBSCRIBE = command_frame("SUBSCRIBE", topic="t", subscription="s", subType="Shared", consumer_id=1, request_id=5)

    def test_a_delivery_has_topic_and_subscription(self) -> None:
        dialogue = Dialogue().client(self.SUBSCRIBE).server(message(entry=3, redelivery_count=2))
        (row,) = dialogue.messages
        assert (row.direction, row.topic, row.subscription, row.consumer_id, row.redelivery_count) == ("deliver", "t", "s", 1, 2)
        assert (row.ledger, row.entry) == (7, 3)
        frame = dialogue.frames[1]
        assert (frame.topic, frame.subscription, frame.producer_name, frame.num_messages) == ("t", "s", "producer-1", 1)

    def test_commands_of_a_consumer_have_them_too(self) -> None:
        dialogue = Dialogue().client(self.SUBSCRIBE, command_frame("FLOW", consumer_id=1, messagePermits=5))
        dialogue.client(command_frame("UNSUBSCRIBE", consumer_id=1, request_id=8)).server(command_frame("SUCCESS", request_id=8))
        assert [(frame.topic, frame.subscription) for frame in dialogue.frames] == [("t", "s")] * 4
        assert [(row.topic, row.subscription) for row in dialogue.exchanges] == [("t", "s")]

    def test_the_ledger_stands_for_the_topic_of_an_unknown_consumer(self) -> None:
        dialogue = Dialogue().server(message(consumer_id=9), message(9, 1, ledger=8)).client(ack(1, number=9), flow(5, 9))
        assert [(row.topic, row.subscription, row.consumer_id) for row in dialogue.messages] == [("topic of ledger 7", None, 9)] * 2
        assert [frame.topic for frame in dialogue.frames] == ["topic of ledger 7"] * 4

    def test_an_acknowledgment_that_comes_first_has_a_ledger_as_well(self) -> None:
        dialogue = Dialogue().client(flow(5, 9), ack(1, number=9)).server(message(9, ledger=8))
        assert [frame.topic for frame in dialogue.frames] == [None, *["topic of ledger 7"] * 2]

    def test_files_of_the_user_name_what_a_ledger_stands_for(self) -> None:
        dialogue = Dialogue(names={"topic of ledger 7": "persistent://a/b/c"}).server(message(), message(2, ledger=8))
        assert [row.topic for row in dialogue.messages] == ["persistent://a/b/c", "topic of ledger 8"]

    def test_a_consumer_id_used_again_means_the_new_subscription(self) -> None:
        again = command_frame("SUBSCRIBE", topic="t2", subscription="s2", subType="Shared", consumer_id=1, request_id=6)
        dialogue = Dialogue().client(self.SUBSCRIBE).server(message()).client(again).server(message())
        assert [(row.topic, row.subscription) for row in dialogue.messages] == [("t", "s"), ("t2", "s2")]


class TestRows:
    @pytest.mark.parametrize("kind", ["frame", "message", "exchange"])
    def test_only_the_kinds_wanted_are_made(self, kind: str) -> None:
        dialogue = Dialogue(kind).client(send(), built("LOOKUP", request_id=1)).server(receipt(), message()).end()
        assert {row.kind for row in dialogue.rows} == {kind}

    def test_a_frame_comes_before_what_it_completes(self) -> None:
        dialogue = Dialogue().client(send()).server(receipt())
        assert [type(row) for row in dialogue.rows] == [FrameRow, FrameRow, ExchangeRow, MessageRow]

    def test_what_is_odd_about_a_frame_is_a_finding_and_in_its_row(self) -> None:
        dialogue = Dialogue().client(send(checksum=False))
        (finding,) = dialogue.of(FindingRow)
        assert (finding.code, finding.severity, finding.layer, finding.packet, finding.sub) == ("checksum-absent", "note", "frame", 1, 1)
        assert finding.text == "SEND 0:1.1: the frame carries no CRC32-C."
        assert finding.evidence == {"frame": "0:1.1", "offset": 0, "size": dialogue.frames[0].size}
        assert finding.hint
        assert dialogue.frames[0].findings == ["checksum-absent"]


def bound(monkeypatch: pytest.MonkeyPatch, **bounds: int) -> None:
    for module in (session_module, sends_module, requests_module, keys_module):
        for name, value in bounds.items():
            monkeypatch.setattr(module, name, value, raising=False)


def held(dialogue: Dialogue) -> dict[str, int]:
    """Sizes of everything that a session remembers."""
    session = dialogue.state
    parts = (session, session._sends, session._requests)
    return {
        name: len(value)
        for part in parts
        for name, value in [(name, getattr(part, name)) for name in getattr(part, "__slots__", ()) or vars(part)]
        if isinstance(value, (dict, list)) or hasattr(value, "popleft")
    }


class TestBounds:
    def test_requests_beyond_the_bound_are_given_up_oldest_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pairing_module, "PENDING_REQUESTS_MAX", 10)
        dialogue = Dialogue().client(*[built("LOOKUP", request_id=number) for number in range(14)])
        assert [row.key for row in dialogue.exchanges] == ["0", "1", "2", "3"]
        assert {row.status for row in dialogue.exchanges} == {"unanswered"}
        assert dialogue.codes == ["session-cap"] * 4
        assert len(dialogue.end().exchanges) == 14

    def test_requests_with_long_names_are_given_up_oldest_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pairing_module, "PENDING_NAMES_MAX_BYTES", 10_000)
        dialogue = Dialogue().client(*[built("LOOKUP", topic="t" * 3_000, request_id=number) for number in range(4)])
        assert [row.key for row in dialogue.exchanges] == ["0"]
        assert dialogue.codes == ["session-cap"]

    @pytest.mark.parametrize("characters", [NAME_MAX_CHARACTERS, NAME_MAX_CHARACTERS + 1, 1_000_000])
    def test_a_name_as_long_as_a_frame_is_cut(self, characters: int) -> None:
        name = "t" * characters
        dialogue = Dialogue().client(command_frame("PRODUCER", topic=name, producer_id=1, request_id=1), send())
        topics = {frame.topic for frame in dialogue.frames}
        assert topics == {name if characters <= NAME_MAX_CHARACTERS else f"{name[: NAME_MAX_CHARACTERS - 1]}…"}
        assert (dialogue.frames[0].fields or {})["topic"] == name

    def test_the_older_half_of_producers_and_consumers_with_long_names_is_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bound(monkeypatch, PENDING_NAMES_MAX_BYTES=10_000)
        dialogue = Dialogue()
        for number in range(8):
            producer = command_frame("PRODUCER", topic=f"{number}" * 2_000, producer_id=number, request_id=number)
            dialogue.client(producer, send(number, 0))
        assert held(dialogue)["producers"] < 8
        dialogue.client(send(7, 1), send(0, 1))
        assert [frame.topic for frame in dialogue.frames[-2:]] == ["7" * 2_000, None]
        assert dialogue.end().exchanges[0].topic == "0" * 2_000

    @pytest.mark.parametrize("size", [10, 5_000])
    def test_large_early_responses_make_room_for_each_other(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        bound(monkeypatch, EARLY_MAX_BYTES=10_000)
        errors = [command_frame("ERROR", request_id=number, error="UnknownError", message="m" * size) for number in range(8)]
        dialogue = Dialogue().server(*errors)
        assert len(dialogue.exchanges) == (0 if size == 10 else 7)

    def test_sends_beyond_the_bound_are_given_up_oldest_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bound(monkeypatch, PENDING_REQUESTS_MAX=10)
        dialogue = Dialogue().client(*[send(number % 3, number) for number in range(14)])
        assert [row.key for row in dialogue.exchanges] == ["0:0", "1:1", "2:2", "0:3"]
        dialogue.server(receipt(1, 4)).end()
        assert sum(row.status == "ok" for row in dialogue.exchanges) == 1
        assert (len(dialogue.exchanges), len(dialogue.messages)) == (14, 14)

    def test_messages_beyond_the_bound_are_given_without_their_id(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bound(monkeypatch, PENDING_MESSAGES_MAX=5)
        dialogue = Dialogue().client(*[send(sequence_id=number) for number in range(8)])
        assert [row.sequence_id for row in dialogue.messages] == [0, 1, 2]
        dialogue.server(*[receipt(sequence_id=number, entry=number) for number in range(8)]).end()
        assert [(row.sequence_id, row.entry) for row in dialogue.messages] == [
            (0, None),
            (1, None),
            (2, None),
            *[(number, number) for number in range(3, 8)],
        ]
        assert [row.status for row in dialogue.exchanges] == ["ok"] * 8

    def test_the_bytes_of_their_payloads_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bound(monkeypatch, PENDING_MESSAGES_MAX_BYTES=10_000)
        dialogue = Dialogue("message", payload="text").client(*[send(sequence_id=number, payload=b"x" * 3000) for number in range(6)])
        assert len(dialogue.messages) == 3

    def test_no_send_is_lost_among_more_producers_than_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bound(monkeypatch, IDS_MAX=4)
        bound(monkeypatch, PENDING_REQUESTS_MAX=6)
        dialogue = Dialogue()
        sends = 0
        for turn in range(12):
            for number in range(3):
                dialogue.client(send(turn * 100 + number, 0))
                sends += 1
            dialogue.client(*[command_frame("PRODUCER", topic="t", producer_id=turn * 100 + 50 + at, request_id=at) for at in range(8)])
        dialogue.end()
        assert sum(row.request == "SEND" for row in dialogue.exchanges) == sends == len(dialogue.messages)

    @pytest.mark.parametrize("what", ["producers", "receipts", "sends", "consumers", "responses"])
    def test_ids_without_number_are_not_all_remembered(self, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
        bound(monkeypatch, IDS_MAX=16)
        bound(monkeypatch, EARLY_RESPONSES_MAX=16)
        bound(monkeypatch, PENDING_REQUESTS_MAX=16)
        monkeypatch.setattr(pairing_module, "PENDING_REQUESTS_MAX", 16)
        dialogue = Dialogue("exchange")
        for number in range(200):
            if what == "producers":
                dialogue.client(command_frame("PRODUCER", topic="t", producer_id=number, request_id=number))
            elif what == "receipts":
                dialogue.server(receipt(number, 0))
            elif what == "sends":
                dialogue.client(send(number, 0))
            elif what == "consumers":
                dialogue.client(
                    command_frame("SUBSCRIBE", topic="t", subscription="s", subType="Shared", consumer_id=number, request_id=number)
                )
            else:
                dialogue.server(built("SUCCESS", request_id=number))
        assert max(held(dialogue).values()) <= 17, held(dialogue)
        dialogue.end()
        assert len(dialogue.exchanges) == 200

    def test_a_send_without_its_receipt_holds_no_others(self) -> None:
        dialogue = Dialogue("message").client(send(9, 0))
        for number in range(500):
            dialogue.client(send(1, number)).server(receipt(1, number))
        assert max(held(dialogue).values()) < 50, held(dialogue)
        assert len(dialogue.messages) == 500

    def test_a_receipt_of_nothing_makes_no_producer_remember_more(self) -> None:
        dialogue = Dialogue("exchange").server(receipt(1, 99_999))
        dialogue.client(send(1, 0)).server(receipt(1, 88_888))
        for number in range(1, 500):
            dialogue.client(send(1, number)).server(receipt(1, number))
        (producer,) = dialogue.state._sends.producers.values()
        sizes = {name: len(value) for name in producer.__struct_fields__ if hasattr(value := getattr(producer, name), "__len__")}
        assert max(sizes.values()) < 300, sizes


@pytest.mark.slow
@given(randoms)
@settings(max_examples=120)
def test_any_frames_in_any_order_give_rows_and_no_error(random: Random) -> None:
    dialogue = Dialogue(payload=random.choice((None, "text")))
    for _ in range(25):
        base, body = command(random.choice(list(NUMBERS.values())), random.randrange(5), required_only=random.random() < 0.7)
        for name in ("request_id", "producer_id", "consumer_id", "sequence_id"):
            if name in body.DESCRIPTOR.fields_by_name and random.random() < 0.7:
                setattr(body, name, random.randrange(3))
        frame = sized(sized(base.SerializePartialToString()))
        if random.random() < 0.4:
            frame = random.choice(
                (send(random.randrange(3), random.randrange(3)), receipt(random.randrange(3), random.randrange(3)), message())
            )
        if random.random() < 0.3:
            frame = sized(damaged(frame[4:], random))
        if len(frame) >= 8:
            (dialogue.client if random.random() < 0.5 else dialogue.server)(frame)
    dialogue.end()
    assert len(dialogue.frames) == dialogue.packet
    for row in dialogue.exchanges:
        assert row.request is not None or row.response is not None
        assert row.latency_ns is None or row.latency_ns >= 0
        assert row.status in ("ok", "error", "unanswered", "unrequested")


class TestAProducerIdThatIsOpen:
    """The broker answers a second PRODUCER with the same id, and keeps the first."""

    @staticmethod
    def topics(*between: tuple[str, bytes]) -> list[str | None]:
        dialogue = Dialogue().client(producer(topic="a")).server(created())
        for side, frame in between:
            getattr(dialogue, side)(frame)
        dialogue.client(producer(request=2, topic="b")).server(created(request=2)).client(send()).server(receipt())
        return [row.topic for row in dialogue.end().frames][-2:]

    def test_its_messages_go_to_the_first_topic(self) -> None:
        assert self.topics() == ["a", "a"]

    @pytest.mark.parametrize("side", ["client", "server"])
    def test_unless_either_side_has_closed_it(self, side: str) -> None:
        assert self.topics((side, close_producer(request=7))) == ["b", "b"]

    def test_unless_the_first_was_refused(self) -> None:
        dialogue = Dialogue().client(producer(topic="a")).server(error(1, "ProducerBusy")).client(producer(request=2, topic="b"))
        assert dialogue.server(created(request=2)).client(send()).end().frames[-1].topic == "b"

    def test_nor_does_a_refused_second_one_close_it(self) -> None:
        dialogue = Dialogue().client(producer(topic="a")).server(created()).client(producer(request=2, topic="b"))
        assert (
            dialogue.server(error(2, "ServiceNotReady")).client(producer(request=3, topic="b")).client(send()).end().frames[-1].topic == "a"
        )
