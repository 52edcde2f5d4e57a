"""Payload decoders of other packages: found by entry point, for the topics that each names."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import cache

from pulsarscope.dissect.contract import PayloadDecoder
from pulsarscope.dissect.plugins import PluginWarning, entry_points

PAYLOAD_DECODER_GROUP = "pulsarscope.payload_decoders"
"""Entry point group: each names an object that is a `pulsarscope.dissect.contract.PayloadDecoder`, or a class that makes one."""


def payload_decoders() -> tuple[tuple[str, PayloadDecoder], ...]:
    """Those that work, with the names of their entry points, in the order of these. Of each other one a PluginWarning tells, once."""
    return _payload_decoders(tuple(sys.path))


@cache
def _payload_decoders(_path: Sequence[str]) -> tuple[tuple[str, PayloadDecoder], ...]:
    found: list[tuple[str, PayloadDecoder]] = []
    for point in entry_points(PAYLOAD_DECODER_GROUP):
        try:
            made = point.load()
            decoder = made() if isinstance(made, type) else made
            if not (isinstance(decoder.topics, str) and callable(decoder.decode)):
                message = "topics must be text, and decode callable"
                raise TypeError(message)  # noqa: TRY301 - as what it may raise itself
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever someone else's code does when it is imported
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            warnings.warn(f"the payload decoder {point.name} is left out: {reason}", PluginWarning, stacklevel=2)
            continue
        found.append((point.name, decoder))
    return tuple(found)
