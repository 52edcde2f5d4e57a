"""Finding frames by content: strict, decided by the visible bytes, and not misled by bytes that merely look like a head."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.contract.dissector import Candidate
from pulsarscope.protocols.pulsar.frame import boundary
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.frames import base_command, sized
from tests.scenarios.samples import command, delimited, tagged

DECODER = FrameDecoder()
PING = command_frame("PING")
SUCCESS = command_frame("SUCCESS", request_id=7)
CONNECT = command_frame("CONNECT", client_version="x")
SEND = payload_frame("SEND", message_metadata(), b"payload", producer_id=1, sequence_id=2)
NO_CHECKSUM = payload_frame("SEND", message_metadata(), b"payload", checksum=False, producer_id=1, sequence_id=2)
LARGE_SEND = payload_frame("SEND", message_metadata(), bytes(500), producer_id=1, sequence_id=2)
LARGE_BAD_CHECKSUM = payload_frame("SEND", message_metadata(), bytes(500), checksum=1, producer_id=1, sequence_id=2)
BAD_CHECKSUM = payload_frame("SEND", message_metadata(), b"payload", checksum=1, producer_id=1, sequence_id=2)
MESSAGE = payload_frame(
    "MESSAGE", message_metadata(), b"payload", broker_entry={"index": 3}, consumer_id=1, message_id={"ledgerId": 1, "entryId": 2}
)
FRAMES = {"ping": PING, "success": SUCCESS, "connect": CONNECT, "send": SEND, "no checksum": NO_CHECKSUM, "message": MESSAGE}


PLENTY = 1 << 30
"""A budget that nothing here exhausts."""


def candidate(data: bytes, budget: int = PLENTY, *, checksums: bool = True) -> Candidate | None:
    return boundary.candidate(DECODER, data, 0, len(data), budget, checksums=checksums)


def refused(found: Candidate | None) -> bool:
    return found is None or found.proof == "no"


class TestFindCandidate:
    @pytest.mark.parametrize("number", [value.number for value in pb.BaseCommand.Type.DESCRIPTOR.values])
    def test_every_command_is_found_behind_anything(self, number: int) -> None:
        base, _ = command(number, 1, required_only=True)
        data = b"\xff" * 7 + sized(sized(base.SerializeToString())) + bytes(8)
        assert boundary.find_candidate(data, 0, len(data)) == 7

    def test_overlapping_heads_are_all_found(self) -> None:
        data = b"\x00" * 4 + PING
        found = []
        at = boundary.find_candidate(data, 0, len(data))
        while at >= 0:
            found.append(at)
            at = boundary.find_candidate(data, at + 1, len(data))
        assert 4 in found

    def test_a_head_that_ends_behind_the_end_is_not_found(self) -> None:
        assert boundary.find_candidate(PING, 0, boundary.LOOKAHEAD_BYTES) == 0
        assert boundary.find_candidate(PING, 0, boundary.LOOKAHEAD_BYTES - 1) == -1

    def test_nothing_is_found_in_what_holds_no_head(self) -> None:
        for data in (b"", b"\xff" * 1000, b"GET / HTTP/1.1\r\n" * 50, bytes(1000)):
            assert boundary.find_candidate(data, 0, len(data)) == -1


class TestCandidate:
    @pytest.mark.parametrize(
        ("name", "proof"),
        [
            ("ping", "likely"),
            ("success", "likely"),
            ("connect", "likely"),
            ("send", "sure"),
            ("no checksum", "likely"),
            ("message", "sure"),
        ],
    )
    def test_a_whole_frame_is_one(self, name: str, proof: str) -> None:
        frame = FRAMES[name]
        found = candidate(frame)
        assert found is not None
        assert (found.size, found.proof) == (len(frame), proof)
        assert found.seen <= len(frame)

    def test_a_wrong_checksum_disproves_a_frame(self) -> None:
        assert refused(candidate(BAD_CHECKSUM))

    def test_without_checksums_a_payload_frame_is_likely_as_soon_as_its_command_is_there(self) -> None:
        found = candidate(BAD_CHECKSUM, checksums=False)
        assert found is not None
        assert (found.size, found.proof) == (len(BAD_CHECKSUM), "likely")
        assert found.seen == 8 + int.from_bytes(BAD_CHECKSUM[4:8], "big")

    @pytest.mark.parametrize("name", FRAMES)
    def test_a_frame_that_is_not_all_there_waits_or_is_known_already(self, name: str) -> None:
        frame = FRAMES[name]
        whole = candidate(frame)
        for end in range(len(frame)):
            found = candidate(frame[:end])
            assert found is not None
            assert found.proof == "wait" or found == whole

    @pytest.mark.parametrize("checksums", [True, False])
    @given(random=randoms)
    @settings(max_examples=120)
    def test_what_is_decided_depends_only_on_the_bytes_seen(self, checksums: bool, random: Random) -> None:
        data = random.choice(list(FRAMES.values()))
        if random.random() < 0.6:
            data = damaged(data, random)
        data += random.choice((b"", PING, bytes(20), b"\xff" * 20))
        answers = [candidate(data[:end], checksums=checksums) for end in range(len(data) + 1)]
        for end, found in enumerate(answers):
            if found is not None and found.proof == "wait":
                assert found.seen > end  # position to which it must see to decide more
                continue
            # Decided: no further byte changes the result, and it was not decided before its bytes were seen.
            assert found is None or found.seen <= end
            assert answers[end:] == [found] * (len(answers) - end)
            break

    @pytest.mark.parametrize(
        "frame",
        [
            sized(sized(b"\x08\xc8\x01")),  # an unknown type
            sized(sized(b"\x08\x13" + base_command("PING")[2:])),  # another body
            sized(sized(b"\x08\x12")),  # no body
            sized(sized(base_command("SUCCESS", request_id=1) + base_command("PING")[2:])),  # two bodies
            sized(sized(b"\x08\x0d" + delimited(13, b""))),  # a required field missing
            sized(sized(base_command("PING") + tagged(200, 0) + b"\x01")),  # an unknown field next to the body
            sized(sized(b"\x08\x0d" + delimited(13, b"\x08\x01" + tagged(200, 0) + b"\x01"))),  # an unknown field in the body
            sized(sized(b"\x08\x0e" + delimited(14, b"\x08\x01\x10\x63\x1a\x00"))),  # an enum value without a name
            sized(sized(b"\x08\x05" + delimited(5, delimited(1, b"\xff") + b"\x10\x01\x18\x01"))),  # text that is not UTF-8
            sized(sized(base_command("PING")) + b"x"),  # bytes after the command
            sized(struct.pack(">I", 3) + b"\x08\x12\x92"),  # a command of three bytes
            struct.pack(">II", 1 << 31, 5) + base_command("PING"),
            struct.pack(">II", 9, 1 << 31) + base_command("PING"),
            struct.pack(">II", 8, 5) + base_command("PING"),  # the command is larger than the frame
            sized(sized(base_command("PING")[2:] + b"\x08\x12")),  # the type does not come first
        ],
    )
    def test_anything_odd_is_none(self, frame: bytes) -> None:
        assert refused(candidate(frame + bytes(16)))

    def test_a_command_larger_than_the_budget_is_none(self) -> None:
        size = int.from_bytes(CONNECT[4:8], "big") * boundary.WALK_COST
        assert candidate(CONNECT, size - 1) is None
        assert candidate(CONNECT, size) is not None
        assert candidate(CONNECT[:12], size - 1) is None

    def test_a_frame_larger_than_the_budget_is_taken_without_the_proof_of_its_checksum(self) -> None:
        for frame in (LARGE_SEND, LARGE_BAD_CHECKSUM):
            found = candidate(frame, len(frame) - 1)
            assert found is not None
            assert (found.size, found.proof) == (len(frame), "likely")

    @given(st.binary(max_size=60))
    @settings(max_examples=200)
    def test_any_bytes_give_an_answer(self, data: bytes) -> None:
        for checksums in (True, False):
            found = candidate(data, checksums=checksums)
            assert found is None or found.proof in ("wait", "no", "likely", "sure")


class TestOpens:
    def test_connect_and_connected_open_a_connection(self) -> None:
        for frame in (CONNECT, command_frame("CONNECTED", server_version="x")):
            assert boundary.opens(DECODER, frame, 0, len(frame)) is not None
            assert boundary.opens(DECODER, b"xyz" + frame + PING, 3, len(frame) + 3 + len(PING))

    def test_no_other_frame_does(self) -> None:
        for frame in (PING, SUCCESS, SEND, MESSAGE, sized(sized(b"\x08\x02" + delimited(2, b"")))):
            assert not boundary.opens(DECODER, frame, 0, len(frame))

    def test_only_a_whole_one_does(self) -> None:
        for end in range(len(CONNECT)):
            assert not boundary.opens(DECODER, CONNECT[:end], 0, end)

    def test_bytes_behind_the_command_speak_against_it(self) -> None:
        frame = sized(sized(base_command("CONNECT", client_version="x")) + b"x")
        assert not boundary.opens(DECODER, frame, 0, len(frame))
