"""The facts of one key, in order; and packed, while they wait to be judged."""

from __future__ import annotations

import marshal
from bisect import insort

import lz4.block
import msgspec

from pulsarscope.dissect.rules import Fact, Where
from pulsarscope.model.limits import FACTS_PER_KEY_MAX

STORY_BYTES = 280
"""What a story takes without its bytes: of itself, of its key, and of its place in a dictionary."""

TRIM_FACTOR = 2
"""A story is trimmed when it has so many times the facts that are kept: that unpacks it."""

MODEL_MAX_BYTES = 4 << 10
"""So much of the first fact is looked at when another one is packed; facts have some hundred bytes."""

_LENGTH_BYTES = 4
_MARSHAL_VERSION = 2
"""The last one that does not look for objects that come twice: half the time, and a fact has few."""

_PICKLED = b"\x80"
"""What is pickled begins with this byte; what is marshalled never does."""


class Story(msgspec.Struct, gc=False):
    """The facts of one key, packed, in the order in which they were told: the first one, of the others what they say otherwise.

    A quarter of what they take as objects.
    """

    first: bytes
    time: int
    """Latest of all facts."""
    count: int = 1
    rest: bytearray | None = None
    """Each with its length before it."""

    @property
    def size(self) -> int:
        """Bytes in memory, without the characters of its key."""
        return STORY_BYTES + len(self.first) + (0 if self.rest is None else len(self.rest))

    def add(self, fact: Fact) -> None:
        """One more fact, which is not the first."""
        self.time = max(self.time, fact.where.time)
        self.count += 1
        if self.rest is None:
            self.rest = bytearray()
        pack = lz4.block.compress(_pack(fact), dict=self.first[:MODEL_MAX_BYTES])
        self.rest += len(pack).to_bytes(_LENGTH_BYTES, "big") + pack
        if self.count >= TRIM_FACTOR * FACTS_PER_KEY_MAX:
            first, *rest = self.facts()
            self.first, self.rest, self.count = _pack(first), None, 1
            for one in rest:
                self.add(one)

    def facts(self) -> list[Fact]:
        """In the order of their places; of too many the first and the last."""
        facts = [_unpack(self.first)]
        rest = self.rest or b""
        model, start = self.first[:MODEL_MAX_BYTES], 0
        while start < len(rest):
            end = start + _LENGTH_BYTES
            start = end + int.from_bytes(rest[start:end], "big")
            keep(facts, _unpack(lz4.block.decompress(rest[end:start], dict=model)))
        return facts


def begin(fact: Fact) -> Story:
    """The story whose first fact this is."""
    return Story(_pack(fact), fact.where.time)


def _pack(fact: Fact) -> bytes:
    parts = (*fact.where, fact.what, fact.values)
    try:
        return marshal.dumps(parts, _MARSHAL_VERSION)
    except ValueError:  # a dissector of another package tells members of an enumeration, or other such that only look plain
        import pickle  # noqa: PLC0415 - takes a millisecond, and is seldom needed

        return pickle.dumps(parts, pickle.HIGHEST_PROTOCOL)


def _unpack(pack: bytes) -> Fact:
    if pack.startswith(_PICKLED):
        import pickle  # noqa: PLC0415 - as above

        parts = pickle.loads(pack)  # noqa: S301 - this process packed it
    else:
        parts = marshal.loads(pack)  # noqa: S302 - as above
    source, file, packet, sub, time, connection, what, values = parts
    return Fact(Where(source, file, packet, sub, time, connection), what, values)


def keep(facts: list[Fact], fact: Fact) -> None:
    """Put a fact among those of its key, in the order of their places. Of too many the first and the last are kept, however they come."""
    if facts and place_of(fact) < place_of(facts[-1]):
        insort(facts, fact, key=place_of)
    else:
        facts.append(fact)
    if len(facts) > FACTS_PER_KEY_MAX:
        del facts[FACTS_PER_KEY_MAX // 2]


def place_of(fact: Fact) -> tuple[str, int, int, int, str]:
    """By what facts are sorted; those of one place in the order in which their connection told them."""
    where = fact.where
    return where.source or "", where.file, where.packet, where.sub, where.connection
