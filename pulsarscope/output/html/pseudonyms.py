"""Pseudonyms for addresses, topics, and names of producers, consumers and subscriptions.

Under one key, a name always has the same pseudonym, which reveals nothing without the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hmac import digest
from ipaddress import ip_address

DIGITS = 6
"""Hexadecimal digits of a pseudonym. In a report of a thousand names, two names share one with a probability of 3 %."""

_TOKEN = re.compile(r"""[^\s,;'"()<>{}]+""")
_IPV4, _IPV6 = r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])", r"(?<![\w:.])[0-9a-fA-F:]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*"
_LABEL = "[a-zA-Z0-9_-]{1,63}"
_NAME = re.compile(
    r"(?P<topic>(?:non-)?persistent://[^\]]+)"
    r"|(?P<scheme>[a-z+]{2,20}://)(?:[^@/]*@)?(?P<authority>\[[^\]]*\]|[^/:\]]+)"
    rf"|(?P<address>\[[0-9a-fA-F:.%]+\]|{_IPV4}|{_IPV6})"
    r"|(?<![\w./-])(?P<host>(?:[a-z0-9_-]{1,63}\.)+[a-z]{2,63}(?![\w.-])"
    # A name without a dot, or with capitals, is only taken for a host before a port or before the address that Java writes after it.
    rf"|(?:{_LABEL}\.)*[a-zA-Z]{_LABEL}(?=:\d{{4,5}}(?![\w.])|/\d+\.\d+\.))"
)
"""Names within a token."""

_ENDS = ".,:;!?"

_WORD_CHARACTERS = 3
"""Least characters of a name that is recognised anywhere in a sentence. Shorter names are only recognised by the word before them."""


class Pseudonyms:
    """Pseudonyms under a key."""

    def __init__(
        self,
        key: bytes,
        topics: Iterable[str],
        short: Callable[[str], str] = str,
        base: Callable[[str], str] = str,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Take the `topics` of a run; `short` gives the short name of a topic, `base` the partitioned topic of a partition.

        `names`: other names to replace, each with its kind, such as "subscription".
        """
        self._key = key
        self._base = base
        self._known: dict[str, str] = {}
        for topic in topics:
            for form in (topic, base(topic)):
                for text in filter(None, (form, short(form), form.rpartition("://")[2])):  # Kafka 0.7 has a topic without a name
                    self._known.setdefault(text, self.topic(form))
        self._short: dict[str, str] = {}
        for name, kind in (names or {}).items():
            if name and not name.isdecimal():  # a number in a sentence can mean anything
                known = self._known if len(name) >= _WORD_CHARACTERS else self._short
                known.setdefault(name, self.named(kind, name))
        words = "|".join(map(re.escape, sorted(self._short, key=len, reverse=True)))
        self._behind_its_word = (
            re.compile(rf"(\b(?:subscription|consumer|producer|of) |\()({words})(?![\w-])", re.IGNORECASE) if words else None
        )
        odd = [name for name in self._known if not _TOKEN.fullmatch(name) or (name[-1:] in _ENDS and len(name) >= _WORD_CHARACTERS)]
        odd.sort(key=len, reverse=True)
        self._odd = re.compile("|".join(map(re.escape, odd))) if odd else None

    def topic(self, name: str) -> str:
        """Return the pseudonym of a topic. A partition gets the pseudonym of its topic, with its own ending."""
        base = self._base(name)
        ending = name[len(base) :] if name.startswith(base) else ""
        return f"topic-{self._digits(base)}{ending}"

    def host(self, name: str) -> str:
        """Return the pseudonym of an address or host name."""
        return f"host-{self._digits(name.lower())}"

    def named(self, kind: str, name: str) -> str:
        """Return the pseudonym of a producer, consumer or subscription, as `kind` says."""
        return f"{kind}-{self._digits(name)}"

    def text(self, text: str) -> str:
        """Return a text with the pseudonyms of all topics, addresses and names in it."""
        if (known := self._known.get(text)) is not None:
            return known
        if self._odd is not None:
            text = self._odd.sub(lambda match: self._known[match[0]], text)
        if self._behind_its_word is not None:
            text = self._behind_its_word.sub(lambda match: match[1] + self._short.get(match[2], match[2]), text)
        return _TOKEN.sub(lambda match: self._token(match[0]), text)

    def _token(self, token: str) -> str:
        bare = token.rstrip(_ENDS)
        ending = token[len(bare) :]
        if (known := self._known.get(bare)) is not None:
            return known + ending
        return _NAME.sub(self._name, bare) + ending

    def _name(self, match: re.Match[str]) -> str:
        if match["topic"] is not None:
            return self.topic(match["topic"])
        if match["scheme"] is not None:
            return f"{match['scheme']}{self.host(match['authority'])}"
        if match["host"] is not None:
            return self.host(match["host"])
        address = match[0].strip("[]")
        try:
            ip_address(address.partition("%")[0])
        except ValueError:
            return match[0]
        return self.host(address)

    def _digits(self, name: str) -> str:
        return digest(self._key, name.encode(errors="surrogatepass"), "sha256").hex()[:DIGITS]
