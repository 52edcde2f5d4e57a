"""Networks that lose much or are slow: bytes resent again and again without success, constant loss, and late acknowledgments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.model.limits import RESET_WINDOW_BYTES
from pulsarscope.model.text import duration, plural
from pulsarscope.tcp.losses import longest
from pulsarscope.tcp.sequence import UNKNOWN
from pulsarscope.tcp.stream_findings import STALL_NANOSECONDS_MIN, Where, finding

if TYPE_CHECKING:
    from pulsarscope.tcp.ack_times import LateAcks
    from pulsarscope.tcp.losses import Losses
    from pulsarscope.tcp.stream import Stream

LATE_ACKS_MIN = 3
"""Number of late acknowledgments: a machine that stood still once is not a path."""


def report_stalls(stream: Stream, peer: Stream, acknowledged: int | None, end: Where) -> None:
    """Report what did not get through in a stream that is about to end; `acknowledged` is the offset acknowledged last."""
    run = None if stream.resending is None else stream.resending.longest()
    losses = None if stream.resending is None else stream.resending.losses
    stream.resending = None
    if losses is not None:
        losses.settle()
    if run is not None and 2 * _closed_for(peer, end) < run.took:
        reached = None if acknowledged is None else acknowledged > run.offset
        outcome = {None: "", True: "; then it was acknowledged", False: f"; {peer.source} never acknowledged it"}[reached]
        text = (
            f"{stream.source} sent a segment of {run.size:,} bytes at offset {run.offset} of its stream again {plural(run.count, 'time')} "
            f"in {duration(run.took)}{outcome}."
        )
        evidence = {"direction": stream.index, "offset": run.offset, "size": run.size, "count": run.count, "took_ns": run.took}
        stream.log.append((end[1], finding("network-stall", text, evidence | {"acknowledged": reached}, run.first)))
    _report_hole(stream, peer, acknowledged, end)
    _report_lost_end(stream, peer, acknowledged, end)
    late, is_known, is_unsure = _late_acks(stream, peer, end)
    held_up, on_way = [] if losses is None else losses.held_up, late.times if late is not None and is_known else []
    is_slow = late is not None and is_known and late.count >= LATE_ACKS_MIN
    if late is not None:  # those that are reported explain what waits for them
        held_up = longest([*held_up, *late.held_up, *([] if is_slow else on_way)])
    if held_up or on_way or is_unsure:
        known = finding("network-loss", "", {"held_up": held_up, "on_way": on_way, "unsure": is_unsure}, end, stream.source)
        known.counted = True
        stream.log.append((end[1], known))
    if losses is not None and losses.is_heavy and 2 * _closed_for(peer, end) <= losses.waited:
        _report_losses(stream, losses, end)
    if late is not None and is_slow:
        _report_late_acks(stream, peer, late, end)


def _closed_for(stream: Stream, end: Where) -> int:
    """Return the ns for which the sender of a stream announced a window of 0: its peer may not send then, and the network is fine."""
    if stream.window is None:
        return 0
    return stream.window.closed + (max(0, end[2] - stream.window.since) if stream.window_closed else 0)


def _report_losses(stream: Stream, losses: Losses, end: Where) -> None:
    """Report that the network lost many segments of a stream."""
    segments, span = losses.segments - losses.before, losses.latest - losses.began
    text = (
        f"The network lost about {losses.count:,} of {segments:,} segments from {stream.source} in {duration(span)} "
        f"({losses.count / segments:.0%})"
    )
    if losses.waits:
        text += f": the stream stood still {plural(losses.waits, 'time')}, for {duration(losses.waited)} in all, "
        text += f"{duration(losses.longest)} at most"
    evidence = {
        "direction": stream.index,
        "count": losses.count,
        "resent": losses.resent,
        "segments": segments,
        "span_ns": span,
        "waits": losses.waits,
        "waited_ns": losses.waited,
        "longest_ns": losses.longest,
    }
    stream.log.append((end[1], finding("network-loss", f"{text}.", evidence, losses.first)))


def _report_hole(stream: Stream, peer: Stream, acknowledged: int | None, end: Where) -> None:
    """Report bytes that neither the capture nor the peer received, although those after them came long ago."""
    behind = None if stream.buffer is None else stream.buffer.first
    if behind is None or acknowledged != stream.length or end[2] - behind.time < STALL_NANOSECONDS_MIN:
        return
    size, waited = behind.start - stream.length, end[2] - behind.time
    text = (
        f"{peer.source} never acknowledged the {size:,} bytes at offset {stream.length} of the stream from {stream.source}, "
        f"though those behind them came {duration(waited)} before the end: the network lost them, not the capture."
    )
    evidence = {"direction": stream.index, "offset": stream.length, "size": size, "waited_ns": waited, "acknowledged": False}
    place = (behind.file, behind.packet, behind.time)
    stream.log.append((end[1], finding("network-stall", text, evidence, place)))


def _report_lost_end(stream: Stream, peer: Stream, acknowledged: int | None, end: Where) -> None:
    """Report bytes that neither the capture nor the peer received, when packets without data show that they were sent long ago."""
    size, since = (stream.ack_times and stream.ack_times.ahead) or (0, end[2])
    is_alone = stream.buffer is None and stream.fin == UNKNOWN and acknowledged == stream.length
    if not is_alone or size > RESET_WINDOW_BYTES or end[2] - since < STALL_NANOSECONDS_MIN:
        return
    text = (
        f"{stream.source} sent {plural(size, 'byte')} behind offset {stream.length} of its stream that never came, according to its "
        f"acknowledgments of the last {duration(end[2] - since)}, and {peer.source} never acknowledged them: the network lost them, not "
        f"the capture. If smaller segments got through before, a hop has a smaller MTU."
    )
    evidence = {"direction": stream.index, "offset": stream.length, "size": size, "waited_ns": end[2] - since}
    stream.log.append((end[1], finding("network-stall", text, evidence | {"acknowledged": False}, end)))


def _late_acks(stream: Stream, peer: Stream, end: Where) -> tuple[LateAcks | None, bool, bool]:
    """Return the late acknowledgments of a stream that is about to end, and whether nothing but the path explains those in order.

    The third value is True if they came with data only: whether the path or the other program took so long cannot be told.
    """
    times, stream.ack_times = stream.ack_times, None
    if times is None:
        return None, False, False
    if peer.ack_times is not None:
        times.bare = peer.ack_times.bare = times.bare or peer.ack_times.bare
    if times.late is None or not times.bare:  # the capture has only packets with data
        return None, False, times.late is not None
    # Where it has holes, it may also lack acknowledgments.
    is_complete = all(each.missing == each.snaplen_gaps[1] and each.buffer is None for each in (stream, peer))
    return times.late, is_complete and 2 * _closed_for(peer, end) <= times.late.took, False


def _report_late_acks(stream: Stream, peer: Stream, late: LateAcks, end: Where) -> None:
    """Report that a stream which is about to end was acknowledged late again and again."""
    text = (
        f"{peer.source} acknowledged what {stream.source} sent only after {duration(late.took // late.count)} on average, "
        f"{duration(late.longest)} at most, {plural(late.count, 'time')}: a round trip takes so long."
    )
    evidence = {"direction": stream.index, "count": late.count, "took_ns": late.took, "delay_max_ns": late.longest}
    stream.log.append((end[1], finding("path-delay", text, evidence, late.first, stream.source)))
