from __future__ import annotations

import pytest

from pulsarscope.protocols.bookkeeper.dissector import BookkeeperDissector
from pulsarscope.protocols.bookkeeper.frame import BookkeeperFrameDecoder
from tests.protocols.bookkeeper.cases import ANSWERS, CURSOR, DISSECTOR, FRAMES, decoded
from tests.scenarios.bookkeeper import MASTER_KEY, add, added, auth, frame, ledger_entry, read, read_back


def test_all_kinds_have_their_names() -> None:
    names = ["ADD", "ADD", "ADD_RESPONSE", "READ", "READ", "READ_RESPONSE", "READ_RESPONSE", "AUTH", "ADD", "ADD_RESPONSE"]
    assert [decoded(data)[0] for data in FRAMES] == names


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_add_has_the_head_of_its_entry(version: int) -> None:
    command, fields = decoded(add(ledger_entry(9, 4, b"12345"), version=version))
    head = {"ledger": 9, "entry": 4, "last_add_confirmed": 3, "length": 25, "digest": "CRC32C", "data_size": 5}
    assert (command, fields) == ("ADD", {"version": version, "master_key": "redacted (20 bytes)", **head})


def test_flags_are_named_bit_by_bit() -> None:
    assert decoded(add(ledger_entry(9, 4), flags=14))[1]["flags"] == ["RECOVERY_ADD", "HIGH_PRIORITY", "Unknown(8)"]
    assert decoded(read(9, -1, fence=True))[1]["flags"] == ["DO_FENCING"]


def test_the_answer_to_a_read_of_the_last_entry_says_which_one_that_is() -> None:
    fields = decoded(read_back(9, -1, ledger_entry(9, 4)))[1]
    assert (fields["entry"], fields["stored_entry"]) == (-1, 4)


@pytest.mark.parametrize(("status", "name"), [(0, "EOK"), (104, "EFENCED"), (107, "EUNKNOWNLEDGERSTATE"), (99, "Unknown(99)")])
def test_statuses_are_named(status: int, name: str) -> None:
    assert decoded(added(1, 2, status=status))[1]["status"] == name


def test_the_data_of_an_entry_are_read_by_the_protocol_that_stores_them() -> None:
    data = add(ledger_entry(9, 4, CURSOR))
    assert decoded(data)[1]["data"]["kind"] == "cursor"
    assert "data" not in (BookkeeperDissector().decode(data, 0, len(data))[1] or {})


@pytest.mark.parametrize("data", [add(ledger_entry(9, 4)), auth(b"credentials")])
def test_credentials_are_masked_unless_they_are_asked_for(data: bytes) -> None:
    secret = b"credentials" if b"credentials" in data else MASTER_KEY
    assert secret.hex() not in str(BookkeeperFrameDecoder(show_secrets=False).decode(data, 0, len(data)))
    assert secret.hex() in str(BookkeeperFrameDecoder(show_secrets=True).decode(data, 0, len(data)))


@pytest.mark.parametrize("data", [frame(b"\x02\x63\x00\x00"), frame(b"\x00\x00\x00\x63")])
def test_an_operation_without_a_name_has_its_number(data: bytes) -> None:
    assert decoded(data)[0] == "UNKNOWN_99"


@pytest.mark.parametrize(
    "data",
    [
        add(bytes(20)),
        frame(b"\x02\x02\x00\x00" + bytes(16 + 20)),
        frame(b"\x02\x07\x00\x00" + bytes(9)),
        frame(b"\x02\x07\x00\x00" + bytes(28) + b"\x00\x00\x00\x09"),
        frame(b"\x0a\x06\x08\x03\x10\x02\x18\x01"),
        frame(b"\x0a\x06\x08\x03\x10\x02\x18\x01\xaa\x06\x7f"),
        frame(b"\x0a\x0b" + b"\xff" * 11),
        auth(b"x")[:-1].replace(b"\x00\x00\x00\x0d", b"\x00\x00\x00\x0c"),
    ],
)
def test_a_frame_whose_contents_do_not_fit_is_malformed(data: bytes) -> None:
    decoded = DISSECTOR.decode(data, 0, len(data))
    assert decoded[6] == "malformed"
    assert [code for code, _ in decoded[7] or ()] == ["frame-malformed"]


@pytest.mark.parametrize("data", [data for data in FRAMES + ANSWERS if len(data) > 20])
def test_the_head_of_a_frame_whose_end_is_lost_is_read(data: bytes) -> None:
    whole = decoded(data)[0]
    assert [DISSECTOR.decode_partial(data, 0, end)[0] for end in range(8)] == [None] * 8
    assert DISSECTOR.decode_partial(data, 0, len(data) - 1)[0] == whole
