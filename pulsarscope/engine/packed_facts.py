"""The facts of one key: packed while they wait to be evaluated, in order, and in stretches, each of which is evaluated on its own.

A stretch is a run of facts that no silence of the rule's length interrupts. It depends only on the facts of the key, not on those present
when another one came, nor on how they were divided among runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol, cast, overload

import msgspec

from pulsarscope.dissect.contract.rules import OUTER, Fact, Where
from pulsarscope.model.limits import FACTS_PER_KEY_MAX
from pulsarscope.model.platform import load_native

PENDING_BYTES = 280
"""Bytes of pending facts in addition to their packed form: the object itself, its key, and its place in a dictionary."""

TRIM_FACTOR = 2
"""Facts of a key are trimmed when they exceed the kept ones by this factor: trimming unpacks them."""

GROWING = 4
"""Number of facts of a key from which they are kept in a growing buffer: most keys have two or three, which are joined faster."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Fact]).decode
_LIST = b"\xdd"
"""Begins a list in MessagePack, followed by its length in four bytes: consecutive packed facts need nothing else to become a list."""

_PICKLED = "\0pickled"
"""Replaces the word of a fact that MessagePack cannot hold: products of times off the wire may exceed 64 bits, and a path that is not UTF-8
has surrogates."""

_DROPPED = "\0dropped"
"""Word of a fact that replaces the dropped ones of a stretch: they extend from its time to the time in its values."""


def pack(fact: Fact) -> bytes:
    """Return a fact as bytes, in a quarter of the memory of its objects. Values become plain: tuples lists, enumerations their values."""
    try:
        return _encode(fact)
    except (OverflowError, TypeError, UnicodeEncodeError):
        import pickle  # noqa: PLC0415 - facts are rarely so

        return _encode(Fact(Where(None, 0, 0, 0, 0, ""), _PICKLED, {"": pickle.dumps(fact, pickle.HIGHEST_PROTOCOL)}))


def unpack(packs: bytes | bytearray, count: int = 1) -> list[Fact]:
    """Return `count` consecutive packed facts. Accept only bytes that our own processes have made."""
    facts = _decode(_LIST + count.to_bytes(4, "big") + packs)
    return [_unpickled(fact) if fact.what == _PICKLED else fact for fact in facts]


def _unpickled(fact: Fact) -> Fact:
    import pickle  # noqa: PLC0415 - as above

    unpickled: Fact = pickle.loads(fact.values[""])  # noqa: S301 - as said
    return unpickled


class _FactInPlace(NamedTuple):
    """A fact whose values stay packed: it is read in a third of the time, and can be packed again."""

    where: Where
    what: str
    values: msgspec.Raw


_decode_places = msgspec.msgpack.Decoder(list[_FactInPlace]).decode


def _in_place(packs: bytes | bytearray, count: int) -> list[Fact]:
    """Return facts like `unpack`, ordered by place, for callers that read no values except those of dropped facts."""
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
    """Latest time of all facts."""
    count: int = 1
    deciding: int = 1
    """Number of facts that can cause a finding."""
    trimmed: int = 0
    """Number of facts left after the last trimming."""

    @property
    def size(self) -> int:
        """Bytes in memory, without the characters of the key."""
        return PENDING_BYTES + len(self.packs)

    def add(self, packed: bytes, time: int, idle_ns: int, deciding: int = 1) -> int:
        """Add a fact of this time, of a rule with silences `idle_ns`; `deciding` is 0 if it cannot cause a finding.

        Return the additional bytes.
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
        """Return the facts, ordered by place."""
        facts = unpack(self.packs, self.count)
        if self.count > 1:
            facts.sort(key=place_of)
        return facts


class KeySet(Protocol):
    """A set of the keys of rules: `EvaluatedKeys`, or the compiled reader's."""

    def count(self, rule: str, keys: Iterable[str]) -> int:
        """See `EvaluatedKeys.count`."""

    def add(self, rule: str, keys: Iterable[str]) -> int:
        """See `EvaluatedKeys.add`."""


class KeyTable(Protocol):
    """Pending facts by key, the one silent for longest first: `PendingKeys`, or the table of the compiled reader."""

    size: int
    """Bytes of all facts."""

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


class PendingKeys(dict[str, PendingFacts]):
    """Pending facts by key, the one silent for longest first."""

    size = 0

    def forget(self, count: int, size: int, quiet: bool, rule: str, evaluated: KeySet) -> tuple[int, list[str], int]:
        """Drop those of the first `count` keys that cause no finding, if the rule is `quiet` about these; remember all as `evaluated`.

        Return the room freed (`size` each, plus their bytes), the keys that are left to evaluate, and the number of keys that could not be
        remembered for lack of room.
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


def compiled_keys() -> KeyTable:
    """Return an empty table of the compiled reader."""
    native, _ = load_native()
    made: KeyTable = native.PendingKeys(PendingFacts)
    return made


def least_kept() -> int:
    """Return the minimum number of facts of a key that are kept."""
    return FACTS_PER_KEY_MAX


def are_many(count: int, left: int) -> bool:
    """Return True when a key has so many facts that they are to be trimmed; `left` is the number left the last time."""
    return count >= TRIM_FACTOR * max(FACTS_PER_KEY_MAX, left)


def collected(facts: Iterable[Fact], idle_ns: int) -> list[Fact]:
    """Return facts of one key, ordered by place, without those that make no difference to a rule with these silences."""
    kept: list[Fact] = []
    left = 0
    for fact in facts:
        kept.append(fact)
        if are_many(len(kept), left):
            kept = trimmed(kept, idle_ns)
            left = len(kept)
    return kept


def stretches(facts: list[Fact], idle_ns: int) -> list[list[Fact]]:
    """Return the facts of a key in parts, the earliest first, separated by more than `idle_ns` without a fact."""
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
    """Return the time of a fact, or the latest time of the facts that it replaces."""
    end: int = fact.values[""] if fact.what == _DROPPED else fact.where.time
    return end


def first_and_last(stretch: list[Fact]) -> list[Fact]:
    """Return those facts of a stretch, ordered by place, that are evaluated: if there are too many, the first and the last ones."""
    extra = len(stretch) - FACTS_PER_KEY_MAX
    if extra <= 0:
        return stretch
    facts = [fact for fact in stretch if fact.what != _DROPPED]
    half = FACTS_PER_KEY_MAX // 2
    return facts[:half] + facts[len(facts) - FACTS_PER_KEY_MAX + half :]


def trimmed(facts: list[Fact], idle_ns: int) -> list[Fact]:
    """Return facts of a key, ordered by place, without those that will not be evaluated, whatever facts follow."""
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
    """Return a fact of an inner leg of a path, with the name of the outer leg."""
    return fact._replace(values={**fact.values, OUTER: outer})


def place_of(fact: Fact) -> tuple[str, int, int, int, str]:
    """Return the place by which facts are sorted; facts of one place stay in the order in which their connection emitted them."""
    where = fact.where
    return where.source or "", where.file, where.packet, where.sub, where.connection
