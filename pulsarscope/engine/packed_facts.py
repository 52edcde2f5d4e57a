"""The facts of one key: packed while they wait to be evaluated, in order, and in stretches, of which each is evaluated on its own.

A stretch is what no silence of its rule parts on the axis of time. So it depends on the facts of the key alone, not on those that were
there when another one came, nor on how many runs they were divided among.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol, cast, overload

import msgspec

from pulsarscope.dissect.contract.rules import OUTER, Fact, UndecidedFacts, Where
from pulsarscope.model.limits import FACTS_PER_KEY_MAX
from pulsarscope.model.platform import load_native

PENDING_BYTES = 280
"""Bytes that pending facts take without their packed form: the object itself, its key, and its place in a dictionary."""

TRIM_FACTOR = 2
"""Facts of a key are trimmed when there are so many times those that are kept: that unpacks them."""

GROWING = 4
"""Number of facts of a key from which on they are kept in bytes that grow: most keys have two or three, which are joined sooner."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Fact]).decode
_LIST = b"\xdd"
"""Begins a list in MessagePack, with its length in four bytes behind it: packed facts that stand together need no more to be one."""

_PICKLED = "\0pickled"
"""Stands for the word of a fact that MessagePack cannot hold: times off the wire, multiplied, may take more than 64 bits,
and a path that is no UTF-8 has surrogates."""

_DROPPED = "\0dropped"
"""Stands for the word of a fact in the place of those that were dropped of a stretch: that goes from its time to the one in its values."""


def pack(fact: Fact) -> bytes:
    """Return a fact as bytes, a quarter of its objects. Its values come out plain: tuples as lists, enumerations as their values."""
    try:
        return _encode(fact)
    except (OverflowError, TypeError, UnicodeEncodeError):
        import pickle  # noqa: PLC0415 - facts are rarely so

        return _encode(Fact(Where(None, 0, 0, 0, 0, ""), _PICKLED, {"": pickle.dumps(fact, pickle.HIGHEST_PROTOCOL)}))


def unpack(packs: bytes | bytearray, count: int = 1) -> list[Fact]:
    """Return so many facts that stand together, packed. Only of bytes that a process of ours has made."""
    facts = _decode(_LIST + count.to_bytes(4, "big") + packs)
    return [_unpickled(fact) if fact.what == _PICKLED else fact for fact in facts]


def _unpickled(fact: Fact) -> Fact:
    import pickle  # noqa: PLC0415 - as above

    unpickled: Fact = pickle.loads(fact.values[""])  # noqa: S301 - as said
    return unpickled


class _FactInPlace(NamedTuple):
    """A fact whose values stay packed: it takes a third of the time to read, and can be packed again."""

    where: Where
    what: str
    values: msgspec.Raw


_decode_places = msgspec.msgpack.Decoder(list[_FactInPlace]).decode


def _in_place(packs: bytes | bytearray, count: int) -> list[Fact]:
    """Return facts as `unpack` does, in the order of their places, for who reads no values but those of dropped ones."""
    facts = cast("list[Fact]", _decode_places(_LIST + count.to_bytes(4, "big") + packs))
    words = {fact.what for fact in facts}
    if _PICKLED in words or _DROPPED in words:
        return sorted((unpack(pack(fact))[0] if fact.what in (_PICKLED, _DROPPED) else fact for fact in facts), key=place_of)
    facts.sort(key=place_of)
    return facts


class PendingFacts(msgspec.Struct, gc=False):
    """Facts of one key, packed, in the order in which they were emitted."""

    packs: bytes | bytearray
    time: int
    """Latest of all facts."""
    count: int = 1
    deciding: int = 1
    """Number of facts that can bring a finding."""
    trimmed: int = 0
    """Number of those that were left when there had been too many."""

    @property
    def size(self) -> int:
        """Bytes in memory, without the characters of the key."""
        return PENDING_BYTES + len(self.packs)

    def add(self, packed: bytes, time: int, idle_ns: int, deciding: int = 1) -> int:
        """Add a fact of this time, of a rule with such silences; `deciding` is 0 for one that can bring no finding.

        Return how many bytes that takes.
        """
        if deciding:
            self.deciding += deciding
        self.count = count = self.count + 1
        packs = self.packs
        if count >= GROWING and type(packs) is bytes:
            packs = bytearray(packs)
        packs += packed
        self.packs = packs
        if time > self.time:  # noqa: PLR1730 - half the time of a call of max
            self.time = time
        added = len(packed)
        if count >= TRIM_FACTOR * FACTS_PER_KEY_MAX and are_many(count, self.trimmed):
            before = len(self.packs)
            kept = trimmed(_in_place(self.packs, count), idle_ns)
            self.packs, self.count = bytearray().join(map(pack, kept)), len(kept)
            self.trimmed = len(kept)
            added += len(self.packs) - before
        return added

    def facts(self) -> list[Fact]:
        """Return them in the order of their places."""
        facts = unpack(self.packs, self.count)
        if self.count > 1:
            facts.sort(key=place_of)
        return facts


class KeySet(Protocol):
    """A set of the keys of rules: `EvaluatedKeys`, or that of the compiled reader."""

    def count(self, rule: str, keys: Iterable[str]) -> int:
        """See `EvaluatedKeys.count`."""

    def add(self, rule: str, keys: Iterable[str]) -> int:
        """See `EvaluatedKeys.add`."""


class KeyTable(Protocol):
    """Pending facts by key, the one silent longest first: `PendingKeys`, or `CompiledKeys`."""

    size: int
    """Bytes that they take."""

    def __getitem__(self, key: str, /) -> PendingFacts: ...

    def __setitem__(self, key: str, facts: PendingFacts, /) -> None: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    @overload
    def pop(self, key: str, /) -> PendingFacts: ...

    @overload
    def pop(self, key: str, default: None, /) -> PendingFacts | None: ...

    def forget(self, count: int, size: int, quiet: bool, rule: str, evaluated: KeySet, /) -> tuple[int, list[str], int]:
        """See `PendingKeys.forget`."""


class CompiledKeys(KeyTable, Protocol):
    """The table of the compiled reader."""

    def begin(
        self, facts: UndecidedFacts, start: int, size: int, room: int, rule: str, evaluated: KeySet | None, /
    ) -> tuple[int, int, int]:
        """Take facts from a position on while each begins a key, and finds room.

        Return how many those are, the room that they take, `size` for each besides its bytes, and how many keys were evaluated before.
        """


class PendingKeys(dict[str, PendingFacts]):
    """Pending facts by key, the one silent longest first."""

    size = 0

    def forget(self, count: int, size: int, quiet: bool, rule: str, evaluated: KeySet) -> tuple[int, list[str], int]:
        """Drop those of the first keys that bring no finding, if the rule is `quiet` about these, and remember all as `evaluated`.

        Return how much room that frees, `size` for each besides its bytes, the keys that are left to evaluate, and how many there was no
        room to remember.
        """
        freed, left, silent = 0, [], [*islice(self, count)]
        for key in silent:
            facts = self[key]
            if quiet and not facts.deciding:
                del self[key]
                freed += size + len(facts.packs) + len(key)
            else:
                left.append(key)
        self.size -= freed
        return freed, left, evaluated.add(rule, silent)


def compiled_keys() -> CompiledKeys:
    """Return an empty table of the compiled reader."""
    native, _ = load_native()
    made: CompiledKeys = native.PendingKeys(PendingFacts)
    return made


def least_kept() -> int:
    """Return how many facts of a key are kept at least."""
    return FACTS_PER_KEY_MAX


def are_many(count: int, left: int) -> bool:
    """Return True for a number of facts of a key that is to be trimmed; so many were left the last time."""
    return count >= TRIM_FACTOR * max(FACTS_PER_KEY_MAX, left)


def collected(facts: Iterable[Fact], idle_ns: int) -> list[Fact]:
    """Return facts of one key, in the order of their places, without those that make no difference to a rule with such silences."""
    kept: list[Fact] = []
    left = 0
    for fact in facts:
        kept.append(fact)
        if are_many(len(kept), left):
            kept = trimmed(kept, idle_ns)
            left = len(kept)
    return kept


def stretches(facts: list[Fact], idle_ns: int) -> list[list[Fact]]:
    """Return the facts of a key in parts, the earliest one first: for longer than `idle_ns` no fact is between them."""
    times = [fact.where.time for fact in facts]
    if max(times) - min(times) <= idle_ns:
        return [facts]
    spans = sorted(zip(times, map(end_of, facts), strict=True))
    latest, begins = spans[0][1], []
    for time, end in spans:
        if time - latest > idle_ns:
            begins.append(time)
        latest = max(latest, end)
    parts: list[list[Fact]] = [[] for _ in range(len(begins) + 1)]
    for fact in facts:
        parts[bisect_right(begins, fact.where.time)].append(fact)
    return parts


def end_of(fact: Fact) -> int:
    """Return the time of a fact, or the latest one of those in the place of which it is."""
    end: int = fact.values[""] if fact.what == _DROPPED else fact.where.time
    return end


def first_and_last(stretch: list[Fact]) -> list[Fact]:
    """Return those facts of a stretch, in the order of their places, that are evaluated: of too many the first and the last ones."""
    extra = len(stretch) - FACTS_PER_KEY_MAX
    if extra <= 0:
        return stretch
    facts = [fact for fact in stretch if fact.what != _DROPPED]
    half = FACTS_PER_KEY_MAX // 2
    return facts[:half] + facts[len(facts) - FACTS_PER_KEY_MAX + half :]


def trimmed(facts: list[Fact], idle_ns: int) -> list[Fact]:
    """Return facts of a key, in the order of their places, without those that are not evaluated, whatever facts follow."""
    kept = []
    for stretch in stretches(facts, idle_ns):
        needed = first_and_last(stretch)
        kept += needed
        if len(needed) < len(stretch):
            place = stretch[len(stretch) // 2].where._replace(time=min(fact.where.time for fact in stretch))
            kept.append(Fact(place, _DROPPED, {"": max(map(end_of, stretch))}))
    kept.sort(key=place_of)
    return kept


def of_leg(fact: Fact, outer: str) -> Fact:
    """Return a fact of an inner leg of a path, with the name of the outer one."""
    return fact._replace(values={**fact.values, OUTER: outer})


def place_of(fact: Fact) -> tuple[str, int, int, int, str]:
    """Return the place by which facts are sorted; those of one place stay in the order in which their connection emitted them."""
    where = fact.where
    return where.source or "", where.file, where.packet, where.sub, where.connection
