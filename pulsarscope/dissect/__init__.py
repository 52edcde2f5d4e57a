"""The contract of dissectors, and the cutting of streams into frames: lengths, recognition by content, resync.

This room knows no particular protocol.
"""

from __future__ import annotations

from pulsarscope.dissect.contract.capabilities import (
    BoundedFold,
    Course,
    CourseFold,
    FieldType,
    FollowKinds,
    IntervalFold,
    Lane,
    LaneFold,
    LegFold,
    MessageTest,
    Ranges,
    ReadStored,
    ReportColumn,
    ReportTable,
    Step,
    Stored,
    TopicNames,
    Vocabulary,
)
from pulsarscope.dissect.contract.dissector import Candidate, Dissector, Framing
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.events import Event, Exchange, LaterMessages, MessageEntry, Remark, SingleMessage, message_row
from pulsarscope.dissect.contract.exchange import Request, Response, request_of, response_of
from pulsarscope.dissect.contract.frame_size import FrameSize
from pulsarscope.dissect.contract.frames import MALFORMED, OK, TRUNCATED, Decoded
from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionFrames
from pulsarscope.dissect.framing.frame_splitter import Frame, FrameSplitter
from pulsarscope.model.errors import UsageError
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
    "Course",
    "CourseFold",
    "Decoded",
    "Dissector",
    "Event",
    "Exchange",
    "Fact",
    "FieldType",
    "FollowKinds",
    "Frame",
    "FrameSize",
    "FrameSplitter",
    "Framing",
    "Handlers",
    "IntervalFold",
    "KeyRule",
    "Lane",
    "LaneFold",
    "LaterMessages",
    "LegFold",
    "MessageEntry",
    "MessageTest",
    "Ranges",
    "ReadStored",
    "Remark",
    "ReportColumn",
    "ReportFinding",
    "ReportTable",
    "Request",
    "Response",
    "RuleContext",
    "Rules",
    "Session",
    "SessionContext",
    "SessionFrames",
    "SingleMessage",
    "Step",
    "Stored",
    "Threshold",
    "Thresholds",
    "TopicNames",
    "UsageError",
    "Vocabulary",
    "Where",
    "message_row",
    "request_of",
    "response_of",
    "where_of",
]
