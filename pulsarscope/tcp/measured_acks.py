"""What acknowledgments say, see `ack_times` and `losses`, in the packets of a connection: one by one, or many in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pulsarscope.tcp.ack_times import ACK_PAUSE_NANOSECONDS, AckTimes
from pulsarscope.tcp.sequence import UNKNOWN

if TYPE_CHECKING:
    from pulsarscope.capture import Segment
    from pulsarscope.tcp.connection import Connection
    from pulsarscope.tcp.stream import Stream


def note_packet(connection: Connection, index: int, segment: Segment, file: int) -> None:
    """Take any packet of a connection, before its data are in the stream of its sender."""
    if connection.ended:
        return
    stream, peer = connection.streams[index], connection.streams[1 - index]
    if peer.resending is not None and (losses := peer.resending.losses).doubtful:
        losses.answer(segment, peer.sequence, peer.length)
    if (times := peer.ack_times) is not None and times.end != UNKNOWN and (late := times.answer(segment)) is not None:
        times.add(late, file)
    if segment[6] or segment[7]:
        stream.ack_times = stream.ack_times or AckTimes()
        stream.ack_times.send(segment, peer.acknowledges, in_order=stream.buffer is None and segment[2] == stream.sequence)


def note_in_order(
    connection: Connection, flows: Sequence[tuple[Stream, Sequence[Segment], int]], acknowledges: Sequence[int], file: int
) -> None:
    """Take segments of one or both streams of a connection, all in order; each flow is (stream, segments, latest time).

    `acknowledges`: number that the sender of each stream acknowledged before them.
    """
    both = [*flows, (connection.streams[1 - flows[0][0].index], (), 0)] if len(flows) == 1 else flows
    for (stream, segments, latest), (_, answers, _) in zip(both, reversed(both), strict=True):
        if stream.resending is not None and stream.resending.losses.doubtful:
            _answer_doubtful(stream, answers)
        if (times := stream.ack_times) is None:
            if not (segments and stream.segments):
                continue
            times = stream.ack_times = AckTimes()
        if times.end != UNKNOWN or latest >= times.sent + ACK_PAUSE_NANOSECONDS:
            for late in times.follow(segments, answers, acknowledges[1 - stream.index]):
                times.add(late, file)


def _answer_doubtful(stream: Stream, answers: Sequence[Segment]) -> None:
    """Take acknowledgments of a stream with segments that may have arrived twice."""
    assert stream.resending is not None  # noqa: S101 - it has such segments
    losses = stream.resending.losses
    for answer in answers:
        if not losses.doubtful:
            break
        losses.answer(answer, stream.sequence, stream.length)
