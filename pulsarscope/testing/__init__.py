"""Help for authors of dissectors: scripted connections as captures, the properties of the contract, and a fuzz driver."""

from __future__ import annotations

from pulsarscope.testing.fuzzing import damaged, fuzz, streams
from pulsarscope.testing.properties import (
    check_account,
    check_candidates,
    check_decoding,
    check_frame,
    check_names,
    check_sizes,
    check_splitting,
)
from pulsarscope.testing.scripted_connection import ScriptedConnection, pcap_bytes

__all__ = [
    "ScriptedConnection",
    "check_account",
    "check_candidates",
    "check_decoding",
    "check_frame",
    "check_names",
    "check_sizes",
    "check_splitting",
    "damaged",
    "fuzz",
    "pcap_bytes",
    "streams",
]
