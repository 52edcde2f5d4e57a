"""Finding codes of faults that every protocol can have."""

from __future__ import annotations

from pulsarscope.model.findings import FRAME, SESSION, table

DISSECTOR_FAILED, RULE_FAILED = "dissector-failed", "rule-failed"
"""Codes of an exception that a dissector, or a rule, raised."""

FAILED_CODES = frozenset({DISSECTOR_FAILED, RULE_FAILED})
"""Codes of findings that mean that the verdict lacks the contribution of a dissector or a rule."""

GENERIC_CODES = table(
    FRAME.error("frame-malformed", "A frame does not decode, or has an impossible size.", "Look at it with decode -x."),
    FRAME.error(
        "frame-too-large",
        "A frame announces more bytes than one may have.",
        "Servers close such a connection: compare the size with the largest one that they take.",
    ),
    FRAME.warning("frame-truncated", "A frame's end is not in the stream.", "The connection ended within it, or packets are missing."),
    FRAME.note(
        "frame-unfinished",
        "The capture ended, or the receiver closed, within a frame.",
        "Nothing is wrong with its sender: a longer capture has the rest, or the receiver had gone before it came.",
    ),
    FRAME.note("bytes-skipped", "Bytes of a stream are not in any frame.", "They follow a gap, or are of another protocol."),
    SESSION.warning("foreign-protocol", "Another protocol is spoken on a port of this one.", "Check who uses the port."),
    SESSION.warning(
        DISSECTOR_FAILED,
        "A dissector raised an exception: the rest of the connection is not decoded, or lacks what the dissector adds.",
        "Report it to the authors of the package that the finding names, with the capture.",
        to_act="the authors of the package",
    ),
    SESSION.warning(
        RULE_FAILED,
        "A rule raised an exception: it no longer evaluates the connection or key.",
        "Report it to the authors of the package that the finding names, with the capture.",
        to_act="the authors of the package",
    ),
)
"""Finding codes that every dissector has, in plain words; `Dissector.codes` may define them in the words of its protocol."""
