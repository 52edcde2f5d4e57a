"""An inspector for the Apache Pulsar binary protocol.

import pulsarscope as ps
for frame in ps.open("capture.pcap").frames():
    print(frame.packet, frame.command, frame.fields)

splitter = ps.wire.FrameSplitter()  # no capture: bytes of one stream in, frames out
for frame in splitter.feed(data):
    print(frame.command)
"""

from __future__ import annotations

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


def _pulsar() -> wire.Dissector:
    from pulsarscope.protocols import DISSECTORS  # noqa: PLC0415 - importing the package must stay cheap

    return DISSECTORS[0]()


wire.FrameSplitter.default_dissector = staticmethod(_pulsar)
