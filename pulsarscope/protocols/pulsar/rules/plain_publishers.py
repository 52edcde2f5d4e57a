"""The facts on ordinary short connections of clients that publish: one producer, a few plain messages, each answered at once.

Some clients make such a connection for each task. Nothing on it needs a finding, and each fact on it follows from a row or two, so that no
rule has to follow it row by row. The facts are those of the rules, byte for byte. At anything unusual, the rules follow the connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.rules import RuleContext, Where, WholeConnections, WholeFact, where_of
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow, Row
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.replication import is_replicator
from pulsarscope.protocols.pulsar.rules.connections import path_ends
from pulsarscope.protocols.pulsar.rules.connections.addresses import URL_FIELDS, advertised_addresses, is_loopback
from pulsarscope.protocols.pulsar.rules.connections.breaches import BreachRule, first_version
from pulsarscope.protocols.pulsar.rules.connections.churn import ChurnRule
from pulsarscope.protocols.pulsar.rules.connections.clock import BROKER_CLOCK, ClockRule
from pulsarscope.protocols.pulsar.rules.connections.closing import ClosingRule
from pulsarscope.protocols.pulsar.rules.connections.idle_redirects import ENDED, RedirectRule
from pulsarscope.protocols.pulsar.rules.connections.reach import ADVERTISED, SPOKEN, ReachRule
from pulsarscope.protocols.pulsar.rules.connections.reconnects import RECONNECTS
from pulsarscope.protocols.pulsar.rules.connections.storms import STORMS, StormRule, is_system_topic
from pulsarscope.protocols.pulsar.rules.connections.tokens import TokenRule
from pulsarscope.protocols.pulsar.rules.consumers.redelivery import RedeliveryRule
from pulsarscope.protocols.pulsar.rules.exchanges.departures import TOPICS, DepartureRule
from pulsarscope.protocols.pulsar.rules.exchanges.holders import PRODUCERS, HolderRule
from pulsarscope.protocols.pulsar.rules.exchanges.lookups import LOOKUPS, LookupRule
from pulsarscope.protocols.pulsar.rules.exchanges.requests import LIMITS as EXCHANGE_LIMITS
from pulsarscope.protocols.pulsar.rules.exchanges.requests import REACH, RequestRule
from pulsarscope.protocols.pulsar.rules.exchanges.schemas import SchemaRule
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import CONNECTIONS, COORDINATORS, TransactionRule
from pulsarscope.protocols.pulsar.rules.journey import JOURNEY, RECEIVED, JourneyRule
from pulsarscope.protocols.pulsar.rules.sends.chunks import ChunkRule
from pulsarscope.protocols.pulsar.rules.sends.publish_legs import PASSED, PUBLISHED, PUBLISHES, WINDOW_NS
from pulsarscope.protocols.pulsar.rules.sends.publishers import LIMITS as SEND_LIMITS
from pulsarscope.protocols.pulsar.rules.sends.publishing import STORAGE, PublishRule
from pulsarscope.protocols.pulsar.rules.sends.resends import ResendRule
from pulsarscope.protocols.pulsar.rules.sends.send_marks import mark_of
from pulsarscope.protocols.pulsar.rules.sends.sequences import SESSIONS, SequenceRule
from pulsarscope.protocols.pulsar.rules.sends.sizes import SizeRule
from pulsarscope.protocols.pulsar.rules.subscriptions.backlog import BACKLOG, EMIT_NS, PublicationRule
from pulsarscope.protocols.pulsar.rules.subscriptions.partitions import SUFFIX
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY
from pulsarscope.protocols.pulsar.text.formatting import host
from pulsarscope.protocols.pulsar.topics import bounded_name, named_topic, topic_of_ledger

_SEQUENCE = {
    name: number for number, name in enumerate(("CONNECT", "PARTITIONED_METADATA", "LOOKUP", "PRODUCER", "SEND", "CLOSE_PRODUCER"))
}
_ANSWERS = {**{name: ANSWERED_BY.get(name, "") for name in _SEQUENCE}, "CONNECT": "CONNECTED", "SEND": "SEND_RECEIPT"}
_VERSION = first_version(_SEQUENCE)
"""Version of the protocol from which on it has all of these commands."""
_MILLISECOND_NS = 1_000_000


class _Limits(NamedTuple):
    """Bounds within which no rule has anything to report."""

    exchange_ns: int
    send_ns: int
    clock_ns: int
    sends: float
    once: float
    """Least number of times that something must happen before a rule may report it."""


@lru_cache(maxsize=16)
def _limits(thresholds: Thresholds) -> _Limits:
    once = min(thresholds[name] for name in ("churn-rate", "churn-least", "churn-few-least", "request-storm-requests"))
    sends = min(thresholds[name] for name in ("producer-behind-sends", "batching-unused-messages"))
    exchange_ns, send_ns = min(map(thresholds.ns, EXCHANGE_LIMITS)), min(map(thresholds.ns, SEND_LIMITS))
    return _Limits(exchange_ns, send_ns, thresholds.ns("clock-skew-seconds"), sends, once)


class _Exchange(NamedTuple):
    """A request of the client, and the broker's answer."""

    at: int
    """Index of the request among the rows; its answer and the exchange follow."""
    name: str
    """Name of the request's frame."""
    asked: FrameRow
    answer: FrameRow
    row: ExchangeRow
    latency: int

    @property
    def answer_name(self) -> str:
        """Name of the answer's frame."""
        row = self.answer
        return f"{row.file}:{row.packet}.{row.sub}"


class _Publisher(NamedTuple):
    """The exchanges of an ordinary connection."""

    connected: _Exchange
    lookup: _Exchange | None
    opened: _Exchange
    sends: list[_Exchange]
    closed: _Exchange


def _exchanges(rows: Sequence[Row], limits: _Limits) -> _Publisher | None:
    """Return the exchanges if each request follows the answer to the one before, in the order of `_SEQUENCE`, and all was well."""
    found: dict[str, _Exchange] = {}
    sends: list[_Exchange] = []
    step = -1
    for at in range(0, len(rows) - 2, 3):
        asked, answer, row = rows[at], rows[at + 1], rows[at + 2]
        if type(asked) is not FrameRow or type(answer) is not FrameRow or type(row) is not ExchangeRow:
            return None
        command, latency = asked.command or "", row.latency_ns
        before, step = step, _SEQUENCE.get(command, -1)
        if step < before or (step == before and command != "SEND") or answer.command != _ANSWERS[command]:
            return None
        name = f"{asked.file}:{asked.packet}.{asked.sub}"
        if not (
            asked.direction == CLIENT
            and answer.direction == SERVER
            and asked.status == answer.status == row.status == "ok"
            and answer.request == name
            and latency is not None
            and 0 <= latency < (limits.send_ns if command == "SEND" else limits.exchange_ns)
            and (row.packet == asked.packet and row.sub == asked.sub and row.file == asked.file and row.request == command)
            and (row.response_packet == answer.packet and row.response_sub == answer.sub and row.response_file == answer.file)
            and (row.time == asked.time and answer.time == asked.time + latency)
            and asked.fields is not None
            and answer.fields is not None
            and asked.fields.get("request_id") == answer.fields.get("request_id")
        ):
            return None
        found[command] = exchange = _Exchange(at, name, asked, answer, row, latency)
        if command == "SEND":
            sends.append(exchange)
    if len(rows) % 3 or not sends or len(sends) >= limits.sends or not {"CONNECT", "PRODUCER", "CLOSE_PRODUCER"} <= found.keys():
        return None
    return _Publisher(found["CONNECT"], found.get("LOOKUP"), found["PRODUCER"], sends, found["CLOSE_PRODUCER"])


def _is_plain_session(of: _Publisher) -> bool:
    """Return True if the frames before the first SEND, and the last one, tell no rule anything to report or to follow up."""
    connect, connected = of.connected.asked.fields or {}, of.connected.answer.fields or {}
    opened, success, closed = of.opened.asked.fields or {}, of.opened.answer.fields or {}, of.closed.asked.fields or {}
    version, agreed = connect.get("protocol_version"), connected.get("protocol_version")
    topic = of.opened.asked.topic
    if not (
        type(version) is int
        and type(agreed) is int
        and min(version, agreed) >= _VERSION
        and "auth_data" not in connect
        and not connect.get("proxy_to_broker_url")
        and "schema" not in opened
        and opened.get("producer_access_mode") != "WaitForExclusive"
        and success.get("producer_ready") is not False
        and success.get("producer_name")
        and opened.get("producer_name", success["producer_name"]) == success["producer_name"] == of.opened.answer.producer_name
        and not is_replicator(success["producer_name"])
        and of.opened.asked.producer_name in (None, success["producer_name"])
        and opened.get("producer_id", -1) == closed.get("producer_id", -1)
        and topic is not None
        and topic == bounded_name(topic) == named_topic(topic) == of.opened.row.topic == of.closed.asked.topic
        and topic.startswith("persistent://")
        and topic != COORDINATORS
        and not topic.endswith("-DLQ")
        and SUFFIX not in topic
        and not is_system_topic(topic)
        and of.opened.row.subscription is None
        and of.opened.asked.subscription is None
    ):
        return False
    if of.lookup is None:
        return True
    fields = of.lookup.answer.fields or {}
    return (
        fields.get("response", "Connect") == "Connect"
        and not fields.get("proxy_through_service_url")
        and of.lookup.answer.topic == of.lookup.asked.topic == topic
        and of.lookup.row.topic == topic
    )


def _are_plain_sends(of: _Publisher, limits: _Limits) -> bool:
    """Return True if the SENDs are single messages in the order of their sequence ids, and the broker stored each."""
    opened, largest = of.opened.asked.fields or {}, (of.connected.answer.fields or {}).get("max_message_size")
    number, topic, name = opened.get("producer_id"), of.opened.asked.topic, (of.opened.answer.fields or {}).get("producer_name")
    before, offset = -1, None
    for each in of.sends:
        sent, receipt, metadata = each.asked.fields or {}, each.answer.fields or {}, each.asked.metadata or {}
        sequence, published, stored = sent.get("sequence_id", -1), metadata.get("publish_time"), receipt.get("message_id")
        if not (
            len(sent) == len(("producer_id", "sequence_id"))
            and len(metadata) == len(("producer_name", "sequence_id", "publish_time"))
            and number == sent.get("producer_id") == receipt.get("producer_id")
            and metadata.get("producer_name") == name
            and type(sequence) is int
            and sequence > before
            and receipt.get("sequence_id") == sequence
            and type(published) is int
            and published > 0
            and type(stored) is dict
            and stored.get("ledgerId", -1) > 0
            and stored.get("entryId", -1) >= 0
            and topic == each.asked.topic == each.answer.topic == each.row.topic
            and name == each.answer.producer_name
            and (each.asked.checksum is None or each.asked.checksum.status != "bad")
            and (type(largest) is not int or largest <= 0 or (each.asked.payload_size or 0) <= largest)
            and each.row.key == f"{number}:{sequence}"
            and each.answer.time // WINDOW_NS == of.sends[0].answer.time // WINDOW_NS
        ):
            return False
        early = published * _MILLISECOND_NS - each.asked.time
        before, offset = sequence, early if offset is None else max(offset, early)
    return offset is not None and abs(offset) <= limits.clock_ns


def _facts(context: RuleContext, rows: Sequence[Row], row: ConnectionRow) -> Sequence[WholeFact] | None:
    """Return the facts on a connection; see `WholeConnections.facts`."""
    limits = _limits(context.thresholds)
    if not (row.opened == "syn" and row.closed == "fin" and row.closed_by == CLIENT and limits.once > 1):
        return None
    of = _exchanges(rows, limits)
    if of is None or not _is_plain_session(of) or not _are_plain_sends(of, limits):
        return None
    client, server, last = host(context.client), host(context.server), where_of(of.closed.answer)
    lookups: list[WholeFact] = []
    addresses: Sequence[str] = ()
    if of.lookup is not None:
        fields = of.lookup.answer.fields or {}
        addresses, loopback = _advertised(*map(fields.get, URL_FIELDS))
        if loopback:
            return None
        lookups = _of_lookup(context, of.lookup, client, addresses)
    return [
        *lookups,
        *_of_sends(context, of, server, len(rows), row.end),
        *_of_producer(context, of),
        *_of_end(context, row, len(rows), (client, server), last, int(bool(addresses))),
        _attempt(context, of, row, len(rows), last),
    ]


@lru_cache(maxsize=64)
def _advertised(*urls: str | None) -> tuple[Sequence[str], bool]:
    """Return the addresses in the `URL_FIELDS`, and whether any of them leads only to its own host."""
    addresses = advertised_addresses(dict(zip(URL_FIELDS, urls, strict=True)))
    return addresses, any(is_loopback(host(address)) for address in addresses)


def _of_lookup(context: RuleContext, lookup: _Exchange, client: str, addresses: Sequence[str]) -> list[WholeFact]:
    row, fields = lookup.answer, lookup.answer.fields or {}
    where, at = where_of(row), lookup.at + 1
    hop = {
        "asked": context.server,
        "authoritative": bool((lookup.asked.fields or {}).get("authoritative")),
        "response": fields.get("response", "Connect"),
        "answered_authoritative": bool(fields.get("authoritative")),
        "url": fields.get("brokerServiceUrl") or fields.get("brokerServiceUrlTls"),
        "error": fields.get("error"),
        "answered": row.time,
        "frame": where.name,
        "missed": -1,
    }
    facts: list[WholeFact] = [(LookupRule, at, LOOKUPS, f"{client}\n{row.topic}", where_of(lookup.asked), "hop", hop)]
    if addresses:
        values = {"addresses": [*addresses], "asked": context.server, "client": client, "topic": row.topic, "command": row.command}
        facts.append((ReachRule, at, REACH, client, where, ADVERTISED, values))
    return facts


def _of_sends(context: RuleContext, of: _Publisher, server: str, end: int, seen: int) -> list[WholeFact]:
    facts: list[WholeFact] = []
    emitted, slowest = -EMIT_NS, of.sends[0]
    for each in of.sends:
        sent, receipt = where_of(each.asked), where_of(each.answer)
        stored, checksum = (each.answer.fields or {})["message_id"], each.asked.checksum
        entry, at = f"{stored['ledgerId']}:{stored['entryId']}", each.at + 1
        if receipt.time - emitted >= EMIT_NS:
            emitted = receipt.time
            facts.append((PublicationRule, at, BACKLOG, *_backlog(each, receipt, server, receipt.time)))
        status = "unverified" if checksum is None else checksum.status
        received = {"topic": each.answer.topic, "producer_name": each.answer.producer_name, "sent": [*sent], "checksum": status}
        facts.append((JourneyRule, at, JOURNEY, entry, receipt, RECEIVED, received))
        facts.append((ClockRule, at, BROKER_CLOCK, context.server, sent, "sent", {"entry": entry}))
        if each.latency > slowest.latency:
            slowest = each
    facts.append((PublicationRule, end, BACKLOG, *_backlog(of.sends[-1], where_of(of.sends[-1].answer), server, seen or receipt.time)))
    stored, where = (slowest.answer.fields or {})["message_id"], where_of(slowest.asked)
    values = {
        "latency": slowest.latency,
        "fastest": min(each.latency for each in of.sends),
        "topic": slowest.row.topic,
        "frames": [slowest.name, slowest.answer_name],
        "entry": f"{stored['ledgerId']}:{stored['entryId']}",
        "host": server,
    }
    first = slowest.answer.time // WINDOW_NS
    for window, what in ((first, PUBLISHED), (first + 1, PASSED)):
        facts.append((PublishRule, end, STORAGE, f"{server} {window}", where, what, values))
        facts.append((PublishRule, end, PUBLISHES, str(window), where, what, values))
    return facts


def _backlog(send: _Exchange, where: Where, server: str, seen: int) -> tuple[str, Where, str, dict[str, Any]]:
    stored = (send.answer.fields or {})["message_id"]
    return (
        send.answer.topic or "",
        where,
        "published",
        {"position": (stored["ledgerId"], stored["entryId"]), "server": server, "seen": seen},
    )


def _of_producer(context: RuleContext, of: _Publisher) -> list[WholeFact]:
    asked, answer, closed = of.opened.asked, of.opened.answer, of.closed.asked
    fields, topic, client = asked.fields or {}, asked.topic or "", context.client
    where, left = where_of(asked), where_of(closed)
    number, named = fields.get("producer_id", -1), fields.get("producer_name")
    back = {"name": f"producer {answer.producer_name}", "client": client, "frame": of.opened.answer_name, "back": answer.time}
    back["subscription"] = None
    if not named:
        back["asked"] = number
    held = {
        "id": number,
        "name": asked.producer_name or answer.producer_name,
        "mode": fields.get("producer_access_mode", "Shared"),
        "epoch": fields.get("epoch", 0),
        "had_topic": "topic_epoch" in fields,
        "client": client,
        "response": of.opened.answer_name,
        "answered": answer.time,
    }
    granted, end = of.opened.at + 2, of.closed.at
    facts: list[WholeFact] = [
        (HolderRule, granted, PRODUCERS, topic, where, "held", held),
        (DepartureRule, granted, TOPICS, topic, where, "back", back),
        (HolderRule, end, PRODUCERS, topic, left, "closed", {"id": number, "until": closed.time}),
        (DepartureRule, end, TOPICS, topic, left, "left", {"name": back["name"], "client": client}),
    ]
    of_ledger = topic_of_ledger((of.sends[0].answer.fields or {})["message_id"]) if named else None
    values = _session(context, of)
    for name in (topic, of_ledger):
        if name is not None:
            key = f"{name}\n{answer.producer_name}"
            facts.append((SequenceRule, end, SESSIONS, key, _then(where, closed.time), "session", values))
    return facts


def _session(context: RuleContext, of: _Publisher) -> dict[str, Any]:
    """Return the values of the fact on the sequence ids of the producer."""
    receipts = []
    for each in of.sends:
        stored, mark = (each.answer.fields or {})["message_id"], mark_of(each.asked, each.asked.metadata or {})
        receipts.append(((each.asked.fields or {})["sequence_id"], f"{stored['ledgerId']}:{stored['entryId']}", each.name, mark))
    return {
        "began": of.opened.asked.time,
        "topic": of.opened.asked.topic,
        "client": context.client,
        "epoch": (of.opened.asked.fields or {}).get("epoch", 0),
        "stored": (of.opened.answer.fields or {}).get("last_sequence_id", -1),
        "first": receipts[0][0],
        "first_frame": of.sends[0].name,
        "highest": receipts[-1][0],
        "confirmed": receipts[-1][0],
        "sent": len(receipts),
        "regressions": [],
        "lower_count": 0,
        "again_count": 0,
        "reused_count": 0,
        "interleaves": False,
        "uncertain": False,
        "repeated_count": 0,
        "dropped": [],
        "dropped_marks": [],
        "dropped_count": 0,
        "dropped_lowest": 0,
        "dropped_highest": ("", -1),
        "head": receipts,
        "tail": receipts,
        "closed": True,
        "twice": [],
        "lost": False,
    }


def _of_end(context: RuleContext, row: ConnectionRow, end: int, hosts: tuple[str, str], last: Where, lookups: int) -> list[WholeFact]:
    (client, server), where = hosts, where_of(row)
    spoken = {"server": context.server, "server_bytes": row.server_bytes, "client_bytes": row.client_bytes, "closed": row.closed}
    spoken |= {"closed_by": row.closed_by, "end": row.end, "used": True, "tls": row.tls, "lookups": lookups}
    ended = {"server": context.server, "end": row.end, "closed": row.closed}
    facts: list[WholeFact] = [
        (ReachRule, end, REACH, client, where, SPOKEN, spoken),
        (RedirectRule, end, CONNECTIONS, client, where, ENDED, ended),
        (StormRule, end, STORMS, client, where, "purposes", {"count": 1}),
    ]
    if client != server:
        facts.append((StormRule, end, STORMS, server, where, "served", {"count": 1}))
    closed, at = context.closing or (row.closed, row.end)
    ends = {"client": context.client, "server": context.server, "closed": closed, "by": row.closed_by, "at": at}
    window = at // path_ends.WINDOW_NS
    facts.append((path_ends.PathRule, end, path_ends.PATHS, str(window), last, path_ends.ENDED, ends))
    facts.append((path_ends.PathRule, end, path_ends.PATHS, str(window + 1), last, path_ends.EARLIER, ends))
    return facts


def _attempt(context: RuleContext, of: _Publisher, row: ConnectionRow, end: int, last: Where) -> WholeFact:
    spoken, answered, closing, idle = of.closed.asked.time, of.closed.answer.time, context.closing, 0
    if closing is not None:
        idle = max(closing[1] - max(spoken, answered), min(spoken, closing[1]) - answered, 0)
    values = {
        "start": row.start,
        "last": last.time,
        "reason": None,
        "frame": last.name,
        "lifetime": row.end - row.start,
        "closed_by": row.closed_by,
        "client_frames": row.client_frames,
        "client_missing": row.client_missing,
        "unheard": not row.server_bytes,
        "refused": False,
        "torn": False,
        "topic": of.opened.asked.topic,
        "idle": idle,
        "cut": False,
    }
    key = f"{host(context.client)}\n{context.server}"
    return ClosingRule, end, RECONNECTS, key, _then(last, row.end), "attempt", values


def _then(where: Where, time: int) -> Where:
    """Return a place with another time."""
    return Where(where.source, where.file, where.packet, where.sub, time, where.connection)


WHOLE = WholeConnections(
    frozenset(
        {
            BreachRule, ChunkRule, ChurnRule, ClockRule, ClosingRule, DepartureRule, HolderRule, JourneyRule, LookupRule, PublicationRule,
            PublishRule, ReachRule, RedeliveryRule, RedirectRule, RequestRule, ResendRule, SchemaRule, SequenceRule, SizeRule, StormRule,
            TokenRule, TransactionRule, path_ends.PathRule,
        }
    ),
    _facts,
)  # fmt: skip
