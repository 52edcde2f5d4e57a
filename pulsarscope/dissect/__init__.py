"""The contract of dissectors, and the cutting of streams into frames: lengths, recognition by content, resync.

Knows no particular protocol.
"""

from __future__ import annotations

from pulsarscope.dissect.capabilities import (
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
from pulsarscope.dissect.contract import Candidate, Dissector, Framing
from pulsarscope.dissect.dissector_rules import Rules
from pulsarscope.dissect.events import Event, Exchange, LaterMessages, MessageEntry, Remark, SingleMessage, message_row
from pulsarscope.dissect.exchange import Request, Response, request_of, response_of
from pulsarscope.dissect.frame_size import FrameSize
from pulsarscope.dissect.frame_splitter import Frame, FrameSplitter
from pulsarscope.dissect.frames import MALFORMED, OK, TRUNCATED, Decoded
from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.dissect.session import Session, SessionContext, SessionFrames
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
