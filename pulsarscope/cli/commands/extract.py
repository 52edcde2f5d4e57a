"""The command `extract`."""

from __future__ import annotations

from pulsarscope.cli.arguments.extract_request import ExtractRequest


def extract(request: ExtractRequest) -> int:
    """Copy the packets of matching records to a pcapng file.

    All packets that carried bytes of the matching frames, with the names of the frames in packet comments, and what is wrong with their
    bytes. Without a filter, all packets of recognised connections. The copy holds payloads and credentials; with --redact it can be shared.
    """
    from pulsarscope.cli.packet_copy import write_packets

    return write_packets(request)
