"""Lines of journeys: a message, a subscription, and what each step took."""

from __future__ import annotations

from pulsarscope.model.records import JourneyRow
from pulsarscope.model.text import duration, plural
from pulsarscope.output.render.cell_text import cell_width, escape
from pulsarscope.output.render.view import View


def journey_line(view: View, row: JourneyRow, lines: list[str]) -> None:
    """Append the line of a journey. A narrow terminal gets several lines, broken between steps, because each phrase is a step."""
    marks = view.symbols
    mark = marks.answers if row.delivery_frame else marks.to_server
    start = view.start(row, mark, lines)
    batch = "" if row.batch_index is None else f"[{row.batch_index}]"
    topic = "" if row.topic is None else view.short_topic(row.topic)
    writes = row.storage_writes or 0
    parts = [
        f"{row.ledger}:{row.entry}{batch}",
        topic,
        f"sub {row.subscription}" if row.delivery_frame else "",
        _step(view, "stored", row.storage_ns) + (f" by {plural(len(row.storage_bookies or ()), 'bookie')}" if writes else ""),
        _step(view, "receipt", row.receipt_ns),
        _step(view, "delivered", row.delivery_ns) if row.delivery_frame else "not delivered",
        f"{len(row.deliveries)} times" if row.deliveries and len(row.deliveries) > 1 else "",
        _step(view, "acknowledged", row.ack_ns) if row.ack_frame or not row.delivery_frame else "not acknowledged",
        f"from {row.replicated_from} {row.origin or ''}".rstrip() if row.replicated_from else "",
        f"replicated to {', '.join(each['broker'] for each in row.replications)}" if row.replications else "",
        f"trace {row.trace_id}" if row.trace_id else "",
    ]
    indent = view.start_width(mark) + 1
    room = view.room(indent)
    first, *others = _filled([view.clip(escape(part), room) for part in parts if part], room)
    lines += [f"{start} {first}", *(" " * indent + other for other in others)]


def _filled(phrases: list[str], room: int) -> list[str]:
    """Join phrases to lines of at most `room` cells, without breaking any phrase."""
    out = phrases[:1]
    for phrase in phrases[1:]:
        longer = f"{out[-1]}  {phrase}"
        if cell_width(longer) <= room:
            out[-1] = longer
        else:
            out.append(phrase)
    return out


def _step(view: View, name: str, time: int | None) -> str:
    return "" if time is None else f"{name} {duration(time, view.symbols.micro).strip()}"
