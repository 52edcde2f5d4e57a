"""Pseudonyms for addresses and topics: the same name always has the same one under a key, and it tells nothing without the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hmac import digest
from ipaddress import ip_address

DIGITS = 6
"""Hexadecimal digits of a pseudonym: of a thousand names in a report, some two agree in 3 % of all reports."""

_TOKEN = re.compile(r"""[^\s,;'"()<>{}]+""")
_TOPIC = re.compile(r"(?:non-)?persistent://.+", re.DOTALL)
_URL = re.compile(r"(?P<scheme>[a-z+]{2,20}://)(?P<host>\[[^\]]*\]|[^/:\s]+)(?P<rest>.*)", re.DOTALL)
_IPV4, _IPV6 = r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])", r"(?<![\w:.])[0-9a-fA-F:]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*"
_ADDRESS = re.compile(rf"\[[0-9a-fA-F:.%]+\]|{_IPV4}|{_IPV6}")
_HOST = re.compile(r"(?<![\w./@-])(?:[a-z0-9-]{1,63}\.)+[a-z]{2,63}(?![\w./-])")
_ENDS = ".,:;!?"


class Pseudonyms:
    """Pseudonyms under a key."""

    def __init__(self, key: bytes, topics: Iterable[str], short: Callable[[str], str] = str, base: Callable[[str], str] = str) -> None:
        """Know the `topics` of a run; `short` and `base` give the short name of one, and the partitioned topic of a partition."""
        self._key = key
        self._base = base
        self._known: dict[str, str] = {}
        for topic in topics:
            name = self.topic(topic)
            for form in (topic, short(topic), base(topic), short(base(topic))):
                self._known.setdefault(form, name if form in (topic, short(topic)) else self.topic(base(topic)))
        odd = sorted((name for name in self._known if not _TOKEN.fullmatch(name) or name[-1:] in _ENDS), key=len, reverse=True)
        self._odd = re.compile("|".join(map(re.escape, odd))) if odd else None

    def topic(self, name: str) -> str:
        """Return the pseudonym of a topic. A partition has that of its topic, with its own ending."""
        base = self._base(name)
        ending = name[len(base) :] if name.startswith(base) else ""
        return f"topic-{self._digits(base)}{ending}"

    def host(self, name: str) -> str:
        """Return the pseudonym of an address or host name."""
        return f"host-{self._digits(name.lower())}"

    def text(self, text: str) -> str:
        """Return a text with the pseudonyms of all topics and addresses in it."""
        if (known := self._known.get(text)) is not None:
            return known
        if self._odd is not None:
            text = self._odd.sub(lambda match: self._known[match[0]], text)
        return _TOKEN.sub(lambda match: self._token(match[0]), text)

    def _token(self, token: str) -> str:
        bare = token.rstrip(_ENDS)
        ending = token[len(bare) :]
        if (known := self._known.get(bare)) is not None:
            return known + ending
        if _TOPIC.fullmatch(bare):
            return self.topic(bare) + ending
        if (url := _URL.fullmatch(token)) is not None:
            return f"{url['scheme']}{self.host(url['host'])}{url['rest']}"
        return _HOST.sub(lambda match: self.host(match[0]), _ADDRESS.sub(self._address, token))

    def _address(self, match: re.Match[str]) -> str:
        address = match[0].strip("[]")
        try:
            ip_address(address.partition("%")[0])
        except ValueError:
            return match[0]
        return self.host(address)

    def _digits(self, name: str) -> str:
        return digest(self._key, name.encode(errors="surrogatepass"), "sha256").hex()[:DIGITS]
