"""Masks of the same length for names, addresses and texts. Under one key, equal names have equal masks; without it, a mask reveals nothing.

Lengths, punctuation and the words of the protocol stay, so that nothing around a masked name has to move.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import shake_256
from hmac import digest
from ipaddress import IPv4Address, IPv6Address
from random import Random

_CACHED = 65_536
"""Masks that are cached: a name occurs in many frames."""

_SHUFFLED_MAX = 256

_ALPHABET = b"abcdefghijklmnopqrstuvwxyz234567"
_SHORT = 5
"""Words shorter than this are masked byte by byte, so that no two of them share a mask."""

_KEPT = frozenset(
    b"persistent non-persistent non public default pulsar pulsar+ssl http https localhost system functions partition dlq retry standalone "
    b"transaction_coordinator_assign transaction coordinator assign __change_events __transaction_buffer_snapshot __consumer_offsets "
    b"ssl reader repl ecies".split()
)
"""Words of the protocol itself, in lower case."""

_SENTENCE = frozenset(
    b"a active after again all allowed already an and any are argument as at attempt auth authenticate authenticated authentication "
    b"authorization authorize authorized backlog batch be because been being broker brokers bundle but by can cannot caught change "
    b"changed checksum client close closed closing cluster command compatible connect connected connection consumer consumers corrupted "
    b"could cursor data delete deleted denied did different disabled disconnected do does don duplicate during empty enabled error "
    b"exceed exceeded exception exceptions exclusive exist existing exists expected expired failed failover fenced field for format "
    b"found from future get has have id if illegal in incompatible initialized internal invalid io is it java javax lang ledger length "
    b"limit loaded lookup managed marked max maximum message messages metadata method migrated missing must name namespace no not null "
    b"number of on only op open operation or org our out over owned ownership packet partitioned partitions permission permissions "
    b"please position producer producers provided publish quota rate reached read ready redirect refresh refused remove request "
    b"requested requests required retrieve role same schema seek send server service set shared should size smaller snapshot subscribe "
    b"subscription subscriptions such support supported t temporarily than that the there this throttled time timed timeout to token too "
    b"topic topics transaction transactions try txn type unable unauthorized under unknown unload unloaded unsupported until url use "
    b"user using util validation value version was when while will with without write wrong you".split()
)
"""Words of sentences by brokers and clients, which may quote names between them."""

_WORD = re.compile(rb"[A-Za-z0-9\x80-\xff]+")
_EXCEPTION = re.compile(
    rb"(?<![\w./-])(?:(?:org\.apache\.(?:pulsar|bookkeeper)|javax?\.(?:io|lang|net|nio|security|util))(?:\.[a-z]+)*\.)?"
    rb"[A-Z][A-Za-z]*(?:Exception|Error)\b"
)
"""An exception with its package, only of Pulsar, BookKeeper and Java: pulsar.example.com is a host."""

_EXCEPTION_WORDS = _SENTENCE | frozenset(
    b"access acknowledge add assign bad blocked bounds buffer busy cast channel cipher class component concurrent conflict coordinator "
    b"crypto decoding entries entry execution expression feature find full getting host index init interrupted invocation jwt keeper "
    b"lookup malformed many memory meta migration more multi naming non nonexistent out persistence persistent pointer policy pulsar "
    b"queue resource rest running runtime security serialization service signature socket ssl state status store storage stream tls txn "
    b"unit unloading uri validating zoo".split()
)
"""Words that occur in names of Pulsar and Java exceptions; a name with another word may come from a plug-in, and reveal its owner."""

_CAMEL_WORD = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_ADDRESS = re.compile(rb"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]")
_BETWEEN_SPACES = re.compile(rb"\S+")
_PLAIN = re.compile(rb"[(\[]?[A-Za-z]+(?:'[a-z]{1,2})?[.,:;!?)\]]*")
"""A word of a sentence: not in quotation marks, and not part of a name with hyphens or dots."""

_PARTITION = re.compile(rb"-partition-\d+")

_PORT = re.compile(rb":\d{1,5}(?=[/,:\s]|$)")

_PARTITION_OR_PORT = re.compile(_PARTITION.pattern + rb"|" + _PORT.pattern)

_URL = re.compile(rb"(?:pulsar(?:\+ssl)?|https?)://", re.IGNORECASE)
"""Beginning of a URL with a host, in which the number after a colon is a port. That of `order:4711` may belong to a customer."""

_VERSION = re.compile(
    rb"(?:[Pp]ulsar[ -]?(?:Server|Proxy|Broker|Client)?[ -]?(?:(?:Java|CPP|Go|Python|Nodejs|DotNet|CSharp|Rust|rs)-)?)?"
    rb"(?:[vV]?\d+(?:\.\d+){0,3}(?:-(?:SNAPSHOT|rc|candidate)(?:[.-]?\d+)*)?)?"
)
"""Name and version number of a known client, proxy or server."""

_BROADCAST = IPv4Address("255.255.255.255")
_TELLING = frozenset({b"\xa9\xfe", b"\xac\x11"})
"""Networks whose addresses are meaningful in themselves: link-local, and the bridge of containers on one host."""

_DOCUMENTATION = b"\x3f\xff"
"""First group of IPv6 addresses for examples (RFC 9637)."""

_UNIQUE_LOCAL = 0xFD
"""First octet of addresses with 40 random bits that name a site (RFC 4193)."""

_RARE = (7, 28, 215)
"""First octets with one, two and three digits that hardly any capture contains, so that a mask is not another host's address."""

_OCTETS = ((0, 10), (10, 100), (100, 256))
"""Octets with one, two and three digits."""


class MaskedNames:
    """Masks under a key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._word: Callable[[bytes], bytes] = lru_cache(_CACHED)(self._mask)
        self.address: Callable[[bytes], bytes] = lru_cache(_CACHED)(self._address)
        """Mask of an IPv4 or IPv6 address of 4 or 16 bytes: of the same kind (private, loopback), and of the same length as text."""

    def name(self, name: bytes) -> bytes:
        """Return the mask of a topic or any other name."""
        return self._parts(name, lambda word: word.lower() in _KEPT)

    def endpoint(self, endpoint: bytes) -> bytes:
        """Return the mask of a URL, or of a host with a port; the port stays."""
        return self._parts(endpoint, lambda word: word.lower() in _KEPT, _PARTITION_OR_PORT)

    def text(self, text: bytes) -> bytes:
        """Return a sentence of a broker or client in which everything but its usual words is masked."""
        exceptions = [name for name in _EXCEPTION.findall(text) if _is_usual(name)]
        words = {word for exception in exceptions for word in _WORD.findall(exception)}
        usual = partial(self._parts, keeps=lambda word: word.lower() in _SENTENCE or word in words)
        other = partial(self._parts, keeps=lambda word: word.lower() in _KEPT or word in words)
        return _BETWEEN_SPACES.sub(lambda match: (usual if _PLAIN.fullmatch(match[0]) else other)(match[0]), text)

    def version(self, version: bytes) -> bytes:
        """Return the name and version number of a client or server; anything that its user appended is masked."""
        match = _VERSION.match(version)
        end = match.end() if match else 0
        return version[:end] + self._parts(version[end:], lambda _: False)

    def opaque(self, value: bytes) -> bytes:
        """Return the mask of bytes of any kind."""
        return self._word(value) if value else value

    def noise(self, content: bytes, size: int) -> bytes:
        """Return `size` incompressible bytes, always the same for the same content."""
        return shake_256(digest(self._key, content, "sha256")).digest(size)

    def _parts(self, text: bytes, keeps: Callable[[bytes], bool], fixed: re.Pattern[bytes] | None = None) -> bytes:
        """Mask the words of a text except `fixed` parts: partition numbers, and ports in the URL of a host. Addresses become addresses."""
        fixed = fixed or (_PARTITION_OR_PORT if _URL.search(text) else _PARTITION)
        out, position = [], 0
        for match in _ADDRESS.finditer(text):
            masked = self._written_address(match[0])
            if masked is not None:
                port = _PORT.match(text, match.end())
                out += [self._words(text[position : match.start()], keeps, fixed), masked, b"" if port is None else port[0]]
                position = match.end() if port is None else port.end()
        return b"".join([*out, self._words(text[position:], keeps, fixed)])

    def _words(self, text: bytes, keeps: Callable[[bytes], bool], fixed: re.Pattern[bytes]) -> bytes:
        if keeps(text):
            return text
        out, position = [], 0
        for match in fixed.finditer(text):
            out += [self._each_word(text[position : match.start()], keeps), match[0]]
            position = match.end()
        return b"".join([*out, self._each_word(text[position:], keeps)])

    def _each_word(self, text: bytes, keeps: Callable[[bytes], bool]) -> bytes:
        return _WORD.sub(lambda match: match[0] if keeps(match[0]) else self._word(match[0]), text)

    def _mask(self, word: bytes) -> bytes:
        if len(word) < _SHORT:
            return bytes(self._permuted(byte, word[:index]) for index, byte in enumerate(word))
        stream = shake_256(digest(self._key, word, "sha256")).digest(len(word))
        return bytes(_ALPHABET[byte & 31] for byte in stream)

    def _permuted(self, byte: int, before: bytes) -> int:
        """Return the mask of a byte that follows `before`: each letter and digit gets a different one."""
        characters = list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
        masks = characters.copy()
        self._random(b"character", before).shuffle(masks)
        return masks[characters.index(byte)] if byte in characters else masks[byte % len(masks)]

    def _random(self, what: bytes, before: bytes) -> Random:
        return Random(digest(self._key, what + b"\0" + before, "sha256"))  # noqa: S311 - seeded by a keyed digest

    def _written_address(self, text: bytes) -> bytes | None:
        bare = text.strip(b"[]").decode()
        try:
            address = IPv4Address(bare) if text[:1] != b"[" else IPv6Address(bare)
        except ValueError:
            return None
        masked = self.address(address.packed)
        written = str(IPv4Address(masked) if len(masked) == 4 else IPv6Address(masked))
        if text[:1] == b"[":
            written = f"[{written}]"
        return written.encode() if len(written) == len(text) else None

    def _address(self, packed: bytes) -> bytes:
        return self._ipv4(packed) if len(packed) == 4 else self._ipv6(packed)

    def _ipv4(self, packed: bytes) -> bytes:
        address = IPv4Address(packed)
        if address.is_loopback or address.is_unspecified or address.is_multicast or address == _BROADCAST:
            return packed
        if packed[:2] in _TELLING:
            out = bytearray(packed[:2])
        else:
            out = bytearray([next(rare for (_, end), rare in zip(_OCTETS, _RARE, strict=True) if packed[0] < end)])
        for octet in packed[len(out) :]:
            start, end = next(each for each in _OCTETS if octet < each[1])
            out.append(start + self._other(octet - start, end - start, packed[:1] + bytes(out)))
        return bytes(out)

    def _other(self, number: int, size: int, before: bytes) -> int:
        """Return the mask of a number below `size`: a different number, and no two have the same mask."""
        random = self._random(b"number", before)
        if size > _SHUFFLED_MAX:
            return (number + random.randrange(1, size)) % size
        masks = list(range(size))
        while any(index == mask for index, mask in enumerate(masks)):
            random.shuffle(masks)
        return masks[number]

    def _ipv6(self, packed: bytes) -> bytes:
        address = IPv6Address(packed)
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return packed
        if (inner := address.ipv4_mapped) is not None:
            return packed[:12] + self._ipv4(inner.packed)
        out = bytearray(packed[:2] if address.is_private or address.is_link_local else _DOCUMENTATION)
        if packed[0] == _UNIQUE_LOCAL:
            out[1] = self._other(packed[1], 256, packed[:1])
        for index in range(2, 16, 2):
            group = int.from_bytes(packed[index : index + 2], "big")
            if group:
                start = 16 ** (len(f"{group:x}") - 1)
                group = start + self._other(group - start, start * 15, packed[:2] + bytes(out))
            out += group.to_bytes(2, "big")
        return bytes(out)


def _is_usual(exception: bytes) -> bool:
    """Tell whether the name of an exception reveals nothing about its author: it has a package, or consists of usual words."""
    return b"." in exception or all(word.lower() in _EXCEPTION_WORDS for word in _CAMEL_WORD.findall(exception))
