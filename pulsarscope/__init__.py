"""An inspector for the Apache Pulsar binary protocol.

import pulsarscope as ps
for frame in ps.open("capture.pcap").frames():
    print(frame.packet, frame.command, frame.fields)

splitter = ps.wire.FrameSplitter()  # no capture: bytes of one stream in, frames out
for frame in splitter.feed(data):
    print(frame.command)
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from pulsarscope import dissect as wire
    from pulsarscope.api.capture import Capture, open  # noqa: A004 - ps.open reads as it should
    from pulsarscope.api.live import listen
    from pulsarscope.model.errors import CaptureError, InternalError, OutputError, PulsarscopeError, UsageError
    from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, JourneyRow, MessageRow, Row

__all__ = [
    "Capture",
    "CaptureError",
    "ConnectionRow",
    "ExchangeRow",
    "FindingRow",
    "FrameRow",
    "InternalError",
    "JourneyRow",
    "MessageRow",
    "OutputError",
    "PulsarscopeError",
    "Row",
    "UsageError",
    "listen",
    "open",
    "wire",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the library when its first name is used (PEP 562), so that the command line handles signals before that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(_library())
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _library() -> dict[str, object]:
    """Return the public names and their objects."""
    from pulsarscope import dissect  # noqa: PLC0415 - see above
    from pulsarscope.api import capture, live  # noqa: PLC0415 - see above
    from pulsarscope.model import errors, records  # noqa: PLC0415 - see above

    dissect.FrameSplitter.default_dissector = staticmethod(_pulsar)
    modules = capture, live, errors, records
    found = {name: getattr(module, name) for module in modules for name in __all__ if getattr(module, name, None) is not None}
    return found | {"wire": dissect}


def _pulsar() -> wire.Dissector:
    from pulsarscope.protocols import DISSECTORS  # noqa: PLC0415 - importing the package must stay cheap

    return DISSECTORS[0]()
