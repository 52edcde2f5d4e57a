"""Connections that the broker's host does not know: it answers a client only with a RST."""

from __future__ import annotations

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ConnectionRow
from pulsarscope.model.thresholds import in_seconds

CODES = table(
    SESSION.warning(
        "connection-unknown",
        "A client keeps using a connection that the broker's host does not know, and gets a RST.",
        "A NAT or firewall forgot the connection during a silence and gave it another port, or let only one side pass; or the broker's "
        "host restarted. Compare the longest silence that works with the time-outs on the way, and let clients and brokers send PING more "
        "often (keepAliveIntervalSeconds).",
        ("data-after-close", "keepalive-lost", "network-stall"),
        to_act="the network's operators",
    ),
)

THRESHOLDS = (
    in_seconds(
        "connection-unknown-seconds",
        1,
        "Time from the latest frame of the client to the RST: a host that does not know a connection answers at once.",
        "connection-unknown",
    ),
)


def report_unknown(context: RuleContext, row: ConnectionRow, last: Where) -> bool:
    """Report a connection from before the capture on which the server sends only a RST; return True for such a connection."""
    is_answer = row.opened == "midstream" and row.closed == "rst" and row.closed_by == SERVER and row.client_bytes > row.server_bytes == 0
    if not is_answer or row.end - last.time > context.thresholds.ns("connection-unknown-seconds"):
        return False
    text = (
        f"{context.server} answered what {context.client} sent on a connection from before the capture with a RST, and sent nothing else: "
    )
    evidence = {"frames": [last.name], "client_bytes": row.client_bytes, **context.thresholds.evidence("connection-unknown-seconds")}
    context.report("connection-unknown", last, f"{text}its host does not know the connection, or not any more.", evidence)
    return True
