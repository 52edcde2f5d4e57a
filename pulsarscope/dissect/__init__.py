"""The dissector contract, and cutting streams into frames: lengths, recognition by content, resync. Knows no one protocol."""

from __future__ import annotations

from pulsarscope.dissect.capabilities import (
    BoundedFold,
    FieldType,
    FollowKinds,
    MessageTest,
    Ranges,
    ReadStored,
    ReportColumn,
    ReportTable,
    Stored,
    TopicNames,
    Vocabulary,
)
from pulsarscope.dissect.contract import Candidate, Dissector, Framing
from pulsarscope.dissect.dissector_rules import Rules
from pulsarscope.dissect.events import Event, Exchange, Remark, SingleMessage, message_row
from pulsarscope.dissect.frame_size import FrameSize
from pulsarscope.dissect.frame_splitter import Frame, FrameSplitter
from pulsarscope.dissect.frames import MALFORMED, OK, TRUNCATED, Decoded
from pulsarscope.dissect.rules import ConnectionRule, Handlers, KeyRule, RuleContext, where_of
from pulsarscope.dissect.session import Session, SessionContext, SessionFrames
from pulsarscope.model.findings import ERROR, NOTE, WARNING, Code
from pulsarscope.model.records import Checksum
from pulsarscope.model.thresholds import Threshold, Thresholds

__all__ = [
    "ERROR",
    "MALFORMED",
    "NOTE",
    "OK",
    "TRUNCATED",
    "WARNING",
    "BoundedFold",
    "Candidate",
    "Checksum",
    "Code",
    "ConnectionRule",
    "Decoded",
    "Dissector",
    "Event",
    "Exchange",
    "FieldType",
    "FollowKinds",
    "Frame",
    "FrameSize",
    "FrameSplitter",
    "Framing",
    "Handlers",
    "KeyRule",
    "MessageTest",
    "Ranges",
    "ReadStored",
    "Remark",
    "ReportColumn",
    "ReportTable",
    "RuleContext",
    "Rules",
    "Session",
    "SessionContext",
    "SessionFrames",
    "SingleMessage",
    "Stored",
    "Threshold",
    "Thresholds",
    "TopicNames",
    "Vocabulary",
    "message_row",
    "where_of",
]
