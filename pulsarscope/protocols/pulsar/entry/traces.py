"""The trace and span named in the properties of a message, in the forms of known tracers.

W3C Trace Context (`traceparent`), B3 (https://github.com/openzipkin/b3-propagation: one header, or several), Jaeger (`uber-trace-id`),
SkyWalking (`sw8`), Datadog (`x-datadog-trace-id` and `x-datadog-parent-id`), and each of the first three, or the plain ids, under
`messaging.`. The first one counts, in this order. A property that does not have exactly the form names nothing.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping

Trace = tuple[str, str]
"""Trace id and span id: 32 and 16 hex digits, padded with leading zeros; SkyWalking's are text."""

_HEX = "[0-9a-fA-F]"
_COLON = "(?::|%3[aA])"

# Compiled on first use by `re` itself: most captures have no traces, and compiling takes a hundredth of every start.
_TRACEPARENT = "(?!ff|00.{54})[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-[!-~]{0,256})?"
_B3 = f"({_HEX}{{16}}|{_HEX}{{32}})-({_HEX}{{16}})(?:-[01d](?:-{_HEX}{{16}})?)?"
_B3_ID = f"{_HEX}{{16}}(?:{_HEX}{{16}})?"
_UBER = f"({_HEX}{{1,32}}){_COLON}({_HEX}{{1,16}}){_COLON}{_HEX}{{1,16}}{_COLON}{_HEX}{{1,2}}"
_SW8 = "[01]-([A-Za-z0-9+/]{1,344}={0,2})-([A-Za-z0-9+/]{1,344}={0,2})-([0-9]{1,10})-[A-Za-z0-9+/=-]{1,2048}"


def trace_of(properties: Mapping[str, str]) -> Trace | None:
    """Return the trace and span; None if there are none."""
    if _NAMES.isdisjoint(properties):
        return None
    return next((trace for read in _READERS if (trace := read(properties)) is not None), None)


def names_trace(names: Iterable[str] | None) -> bool:
    """Return True when properties of these names may name a trace."""
    return names is not None and not _NAMES.isdisjoint(names)


def _ids(name: str, form: str) -> Callable[[Mapping[str, str]], Trace | None]:
    """Return the reader of a property with this form, whose groups are the ids."""

    def read(named: Mapping[str, str]) -> Trace | None:
        match = re.fullmatch(form, named.get(name, ""))
        return None if match is None else _hex(*match.groups())

    return read


def _hex(trace: str, span: str) -> Trace | None:
    """Return ids in W3C length; None if one is zero, which means none."""
    return (trace.lower().zfill(32), span.lower().zfill(16)) if trace.strip("0") and span.strip("0") else None


def _b3_headers(named: Mapping[str, str]) -> Trace | None:
    for names in _B3_HEADERS:
        trace, span = [named.get(name, "") for name in names]
        if re.fullmatch(_B3_ID, trace) and re.fullmatch(_B3_ID, span) and len(span) == 16:
            return _hex(trace, span)
    return None


def _skywalking(named: Mapping[str, str]) -> Trace | None:
    """Return the ids from SkyWalking's header 8: the trace, and the segment with the number of its span."""
    match = re.fullmatch(_SW8, named.get("sw8", ""))
    try:
        trace, segment = (b64decode(part, validate=True).decode("ascii") for part in match.groups()[:2]) if match else ("", "")
    except ValueError:
        return None
    return (trace, f"{segment}-{match[3]}") if match and trace.isprintable() and segment.isprintable() else None


def _datadog(named: Mapping[str, str]) -> Trace | None:
    """Return the ids of Datadog: 64-bit decimal numbers; the upper half of a longer trace id is among the tags, in hex."""
    trace, span = (named.get(f"x-datadog-{name}-id", "") for name in ("trace", "parent"))
    if not (re.fullmatch(_DECIMAL, trace) and re.fullmatch(_DECIMAL, span) and max(int(trace), int(span)) < 1 << 64):
        return None
    upper = re.search(_UPPER_HALF, named.get("x-datadog-tags", "")[:_TAGS_MAX])
    return _hex(f"{upper[1] if upper else ''}{int(trace):016x}", f"{int(span):016x}")


_DECIMAL = "[0-9]{1,20}"
_UPPER_HALF = f"(?:^|,)_dd\\.p\\.tid=({_HEX}{{16}})(?:,|$)"
_TAGS_MAX = 512
"""Maximum characters of tags, as in tracers."""

_B3_HEADERS = (("X-B3-TraceId", "X-B3-SpanId"), ("x-b3-traceid", "x-b3-spanid"), ("messaging.trace_id", "messaging.span_id"))
_FORMS = {"traceparent": _TRACEPARENT, "b3": _B3, "uber-trace-id": _UBER}
_PREFIX = "messaging."
_READERS = (
    _ids("traceparent", _TRACEPARENT),
    _ids("b3", _B3),
    _b3_headers,
    _ids("uber-trace-id", _UBER),
    _skywalking,
    _datadog,
    *(_ids(f"{_PREFIX}{name}", form) for name, form in _FORMS.items()),
)
_NAMES = frozenset({*_FORMS, *(f"{_PREFIX}{name}" for name in _FORMS), "sw8", "x-datadog-trace-id", *(trace for trace, _ in _B3_HEADERS)})
