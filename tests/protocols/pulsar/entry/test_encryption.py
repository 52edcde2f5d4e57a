"""End-to-end encryption: whatever a private key fits is opened, with any content; the rest stays encrypted with a note, at little cost."""

from __future__ import annotations

import tracemalloc
from functools import cache
from hashlib import sha256
from itertools import product
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from hypothesis import given, settings

from pulsarscope.inputs.private_keys import KeyFile, rsa_keys
from pulsarscope.model.limits import DATA_KEYS_FAILED_MAX, DATA_KEYS_MAX
from pulsarscope.model.records import FindingRow
from pulsarscope.protocols.pulsar.entry import encryption
from pulsarscope.protocols.pulsar.entry.encryption import TAG_BYTES, Decryption
from tests.scenarios import Single, batch, compress
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.commands import message, send
from tests.scenarios.dialogue import Dialogue
from tests.scenarios.encryption import KEY_FORMS, Encryptor, key_file, rsa_key, wrap

KEYS = [*product((1024, 2048, 3072, 4096), KEY_FORMS)]
CONTENTS = [*product(("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"), ("single", "batch", "chunks"))]
WRAPPED = [
    pytest.param(bits, form, *CONTENTS[number % len(CONTENTS)], marks=[pytest.mark.slow] * (bits > 2048))
    for number, (bits, form) in enumerate(3 * KEYS)
]
"""Each key with three contents, each content with three keys: after decryption, the key does not matter."""

TEXT = b"some text that repeats itself, some text that repeats itself" * 9
MINE, OTHER, THIRD = (rsa_key(1024, number) for number in range(3))
PRODUCER = Encryptor({"mine": MINE.public_key()})


@cache
def key_read(bits: int, form: str) -> RSAPrivateKey:
    (key,) = rsa_keys([KeyFile("k", key_file(rsa_key(bits), form))])
    return key


def sent(payload: bytes, *keys: RSAPrivateKey, **metadata: Any) -> Dialogue:
    return Dialogue(private_keys=keys, payload="text").client(send(payload=payload, metadata=metadata)).end()


def texts(dialogue: Dialogue) -> list[str]:
    return [str(row.text) for row in dialogue.of(FindingRow)]


def digests(dialogue: Dialogue) -> list[str | None]:
    return [row.payload_sha256 for row in dialogue.messages]


class TestOpening:
    @pytest.mark.parametrize(("bits", "form", "codec", "shape"), WRAPPED)
    def test_what_a_producer_wrapped_comes_out(self, bits: int, form: str, codec: str, shape: str) -> None:
        """Wrapped in this order: messages, batch, codec, chunks, encryption."""
        producer = Encryptor({"k": rsa_key(bits).public_key()})
        singles = [Single(TEXT), Single(b"")] if shape == "batch" else [Single(TEXT)]
        inner = batch(singles) if shape == "batch" else TEXT
        packed = compress(codec, inner)
        cuts = [packed[:20], packed[20:50], packed[50:]] if shape == "chunks" else [packed]
        dialogue = Dialogue(private_keys=(key_read(bits, form),))
        for number, part in enumerate(cuts):
            ciphertext, metadata = producer.encrypt(part)
            assert len(ciphertext) == len(part) + TAG_BYTES
            metadata |= {"compression": codec, "uncompressed_size": len(inner)}
            if shape == "batch":
                metadata["num_messages_in_batch"] = len(singles)
            elif shape == "chunks":
                metadata |= {"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 3, "total_chunk_msg_size": len(packed)}
            dialogue.client(send(payload=ciphertext, metadata=metadata)).server(message(payload=ciphertext, metadata=metadata))
        rows = dialogue.end().messages
        assert len(rows) == 2 * len(singles)
        assert {(row.status, row.encrypted, row.compression) for row in rows} == {("ok", True, codec)}
        assert {row.payload_sha256 for row in rows} == {sha256(one.payload).hexdigest() for one in singles}
        assert dialogue.codes == []

    @pytest.mark.parametrize("size", [16, 24, 32])
    def test_data_keys_of_all_sizes_of_aes_open(self, size: int) -> None:
        payload, metadata = Encryptor({"k": MINE.public_key()}, data_key_bytes=size).encrypt(TEXT)
        assert digests(sent(payload, MINE, **metadata)) == [sha256(TEXT).hexdigest()]

    @pytest.mark.parametrize("keys", [(MINE,), (OTHER,), (THIRD, OTHER), (THIRD, MINE, OTHER)])
    def test_one_of_several_keys_is_enough_whatever_its_name(self, keys: tuple[RSAPrivateKey, ...]) -> None:
        payload, metadata = Encryptor({"": MINE.public_key(), "\x1b[2J": OTHER.public_key()}).encrypt(TEXT)
        dialogue = sent(payload, *keys, **metadata)
        assert digests(dialogue) == [sha256(TEXT).hexdigest()]
        assert dialogue.codes == []

    def test_an_empty_payload_is_only_a_tag(self) -> None:
        payload, metadata = PRODUCER.encrypt(b"")
        (row,) = sent(payload, MINE, **metadata).messages
        assert (len(payload), row.status, row.payload_size, row.payload) == (TAG_BYTES, "ok", 0, "")


class TestStayingEncrypted:
    def test_without_a_key_the_names_of_those_that_open_it_are_said(self) -> None:
        payload, metadata = Encryptor({"one": MINE.public_key(), "two": OTHER.public_key()}).encrypt(TEXT)
        dialogue = sent(payload, **metadata)
        (row,) = dialogue.messages
        assert (row.status, row.encrypted, row.payload_size, row.payload_sha256, row.payload) == ("encrypted", True, None, None, None)
        assert texts(dialogue) == [f"SEND 0:1.1: {len(payload)} bytes are encrypted for one, two: any of their private keys opens them."]
        assert dialogue.codes == ["encrypted-payload"]
        (text,) = texts(sent(b"x", **metadata))
        assert text.startswith("SEND 0:1.1: 1 byte is encrypted for one, two: ")

    @pytest.mark.parametrize(("keys", "tried"), [((OTHER,), "the one given does not"), ((OTHER, THIRD), "none of the 2 given does")])
    def test_keys_that_open_nothing_are_said_to_do_so(self, keys: tuple[RSAPrivateKey, ...], tried: str) -> None:
        payload, metadata = PRODUCER.encrypt(TEXT)
        dialogue = sent(payload, *keys, **metadata)
        assert [row.status for row in dialogue.messages] == ["encrypted"]
        said = f"SEND 0:1.1: {len(payload)} bytes are encrypted for mine: the private key opens them, {tried}."
        assert texts(dialogue) == [said]

    def test_many_and_long_names_are_said_in_part(self) -> None:
        keys = [{"key": str(number) * 200, "value": b"v"} for number in range(9)]
        (text,) = texts(sent(b"x", encryption_keys=keys, encryption_param=b"n" * 12))
        assert len(text) < 800
        assert "4… (200 characters) and 4 more: any of their private keys opens them" in text

    def test_the_rest_is_decoded(self) -> None:
        payload, metadata = PRODUCER.encrypt(batch([Single(b"a"), Single(b"b")]))
        dialogue = Dialogue().client(send(payload=b"before"), send(payload=payload, metadata={**metadata, "num_messages_in_batch": 2}))
        dialogue.client(send(payload=b"behind")).end()
        assert [(row.status, row.payload_size, row.batch_size) for row in dialogue.messages] == [
            ("ok", 6, None),
            ("encrypted", None, 2),
            ("ok", 6, None),
        ]

    @pytest.mark.parametrize("broken", [{0}, {1}, {2}, {0, 1, 2}])
    def test_a_message_of_which_a_chunk_does_not_open_is_encrypted(self, broken: set[int]) -> None:
        dialogue = Dialogue(private_keys=(MINE,))
        for number in range(3):
            payload, metadata = PRODUCER.encrypt(b"x" * 50)
            if number in broken:
                payload = bytes(len(payload))
            chunk = {"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 3}
            dialogue.client(send(payload=payload, metadata=metadata | chunk))
        (row,) = dialogue.end().messages
        assert (row.status, row.encrypted, row.chunks) == ("encrypted", True, 3)
        assert dialogue.codes == ["decrypt-failed"] * len(broken)


class TestDamage:
    @pytest.mark.slow
    @given(randoms)
    @settings(max_examples=300)
    def test_whatever_is_damaged_nothing_wrong_comes_out(self, random: Random) -> None:
        payload, metadata = PRODUCER.encrypt(TEXT)
        what = random.choice(("payload", "nonce", "value"))
        if what == "payload":
            payload = damaged(payload, random)
        elif what == "nonce":
            metadata = metadata | {"encryption_param": damaged(metadata["encryption_param"], random)}
        else:
            metadata = metadata | {"encryption_keys": [{"key": "mine", "value": damaged(metadata["encryption_keys"][0]["value"], random)}]}
        dialogue = sent(payload, MINE, **metadata)
        (row,) = dialogue.messages
        if row.status == "ok":  # the damage changed nothing
            assert row.payload_sha256 == sha256(TEXT).hexdigest()
            assert dialogue.codes == []
        else:
            assert (row.status, row.payload) == ("encrypted", None)
            assert dialogue.codes == ["encrypted-payload" if what == "value" else "decrypt-failed"]

    @pytest.mark.parametrize("size", [0, 1, 11, 13, 128, 129, 100_000])
    def test_a_nonce_of_any_other_size_is_damage(self, size: int) -> None:
        payload, metadata = PRODUCER.encrypt(TEXT)
        dialogue = sent(payload, MINE, **metadata | {"encryption_param": bytes(size)})
        assert [row.status for row in dialogue.messages] == ["encrypted"]
        assert dialogue.codes == ["decrypt-failed"]
        assert f"{len(payload)} bytes do not decrypt, though a private key opens their data key: " in texts(dialogue)[0]

    @pytest.mark.parametrize("size", range(TAG_BYTES))
    def test_fewer_bytes_than_a_tag_are_damage(self, size: int) -> None:
        payload, metadata = PRODUCER.encrypt(b"")
        dialogue = sent(payload[:size], MINE, **metadata)
        assert [row.status for row in dialogue.messages] == ["encrypted"]
        assert dialogue.codes == ["decrypt-failed"]

    @pytest.mark.parametrize("size", [0, 1, 15, 33, 64])
    def test_a_data_key_that_aes_does_not_have_is_damage(self, size: int) -> None:
        value = wrap(bytes(size), MINE.public_key(), Random(1))  # noqa: S311 - for a test
        dialogue = sent(b"x" * 40, MINE, encryption_keys=[{"key": "k", "value": value}], encryption_param=b"n" * 12)
        assert [row.status for row in dialogue.messages] == ["encrypted"]
        assert dialogue.codes == ["decrypt-failed"]

    def test_a_payload_that_does_not_decompress_is_reported_as_any_other(self) -> None:
        payload, metadata = PRODUCER.encrypt(b"\xff" * 20)
        dialogue = sent(payload, MINE, **metadata, compression="LZ4", uncompressed_size=99)
        assert [(row.status, row.encrypted) for row in dialogue.messages] == [("undecodable", True)]
        assert dialogue.codes == ["decompress-failed"]


class Counting:
    """A private key that counts its uses, and opens what ends in its number."""

    key_size = 1024

    def __init__(self) -> None:
        self.asked = 0

    def decrypt(self, value: bytes, padding: Any) -> bytes:
        del padding
        self.asked += 1
        if value[-1]:
            raise ValueError
        return bytes(32)


def metadata_of(*values: bytes) -> dict[str, Any]:
    return {"encryption_keys": [{"key": "k", "value": value} for value in values], "encryption_param": bytes(12)}


def value_of(number: int, *, opens: bool) -> bytes:
    return number.to_bytes(127, "big") + (b"\x00" if opens else b"\x01")


class TestCost:
    @pytest.mark.parametrize("opens", [True, False])
    def test_a_data_key_is_asked_for_once_whether_it_opens_or_not(self, opens: bool) -> None:
        key: Any = Counting()
        decryption = Decryption([key])
        for _ in range(50):
            decryption.open(metadata_of(value_of(1, opens=opens)), b"x" * 30)
        assert key.asked == 1

    @pytest.mark.parametrize("value", [b"", b"\x00", bytes(127), bytes(129), bytes(5_000_000)])
    def test_what_cannot_be_for_this_key_is_not_asked_for(self, value: bytes) -> None:
        key: Any = Counting()
        opened = Decryption([key]).open(metadata_of(value), b"x" * 30)
        assert (opened.data, key.asked) == (None, 0)

    def test_what_is_remembered_is_bounded_and_the_longest_unused_is_forgotten(self) -> None:
        key: Any = Counting()
        decryption = Decryption([key])
        tracemalloc.start()
        for number in range(2 * DATA_KEYS_MAX):
            decryption.open(metadata_of(value_of(0, opens=True)), b"x" * 30)
            decryption.open(metadata_of(value_of(number + 1, opens=True)), b"x" * 30)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(decryption._data_keys) == DATA_KEYS_MAX
        assert key.asked == 2 * DATA_KEYS_MAX + 1, "one that is in use is not forgotten"
        assert held < 2 << 20

    def test_keys_that_fail_are_not_tried_for_ever(self) -> None:
        key: Any = Counting()
        decryption = Decryption([key])
        decryption.open(metadata_of(value_of(0, opens=True)), b"x" * 30)
        for number in range(DATA_KEYS_FAILED_MAX + 100):
            decryption.open(metadata_of(value_of(number, opens=False), value_of(0, opens=True)), b"x" * 30)
        assert key.asked == 1 + DATA_KEYS_FAILED_MAX

    def test_a_hundred_thousand_keys_on_one_message_cost_what_their_bytes_cost(self) -> None:
        key: Any = Counting()
        opened = Decryption([key]).open(metadata_of(*[b"v"] * 100_000), b"x" * 30)
        assert opened.note is not None
        assert len(opened.note[1]) < 200

    def test_nothing_is_asked_for_a_plain_message(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(encryption.Decryption, "open", lambda *_: pytest.fail("asked"))
        assert [row.status for row in sent(b"plain", MINE).messages] == ["ok"]
