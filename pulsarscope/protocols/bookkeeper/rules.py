"""Rules about bookies: slow ones, silent ones, entries with too few copies, and reads that the broker's cache did not serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.rules import OUTER, ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import ONE_SIDED, SESSION, table
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import PENDING_REQUESTS_MAX
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.model.units import SECOND
from pulsarscope.protocols.bookkeeper.commands import ADD, AUTH, EOK, READ, response
from pulsarscope.protocols.bookkeeper.findings import CODES as OF_FRAMES
from pulsarscope.protocols.bookkeeper.session import FENCED
from pulsarscope.protocols.bookkeeper.stored import JOURNEY, MESSAGE, StoredRule

CODES = table(
    SESSION.warning(
        "slow-bookie",
        "A bookie answers ADDs much later than the others that the same host writes to.",
        "Look at its journal disk, its garbage collection and its load. Entries wait for it whenever the ack quorum needs its answer.",
        to_act="the bookie's operators",
    ),
    SESSION.warning(
        "slow-broker",
        "A broker answers publishers late, though its bookies answered it at once.",
        "The time went by in the broker, or on the way to it: look at its garbage collection, its load and publish limits, and the link.",
        to_act="the broker's operators",
    ),
    SESSION.error(
        "bookie-silent",
        "A bookie answers nothing, although its connection is open.",
        "It hangs, or is cut off. After AUTH, it has refused the credentials: bookies do that without an answer.",
        to_act="the bookie's operators",
    ),
    SESSION.error(
        "quorum-lost",
        "Two bookies or more refused or did not answer an ADD of an entry, and its writer did not continue without them.",
        "The broker fails its clients' SENDs, or closes the ledger: see why each of the bookies failed.",
        to_act="the bookies' operators",
    ),
    SESSION.note(
        "read-from-storage",
        "A broker reads messages from bookies: its cache does not have them.",
        "Normal for a backlog, a seek, and after the topic moved. Else the cache is too small, or a consumer is far behind.",
    ),
)

THRESHOLDS = (
    in_seconds("slow-bookie-seconds", 0.2, "Latency of three ADDs within ten seconds; journals sync in milliseconds.", "slow-bookie"),
    in_seconds(
        "slow-bookie-longest-seconds", 1, "Latency of a single ADD, or of three when the capture has no other bookie.", "slow-bookie"
    ),
    counted(
        "slow-bookie-times",
        5,
        "times the others'",
        "Latency compared with that of the other bookies; what slows all alike is not the bookie.",
        "slow-bookie",
        least=0,
    ),
    in_seconds("slow-broker-seconds", 1, "Latency of a publish; brokers pass entries on in milliseconds.", "slow-broker"),
    counted(
        "slow-broker-times",
        5,
        "times the others'",
        "Latency of a publish compared with its slowest ADD, and with the fastest publish.",
        "slow-broker",
        least=0,
    ),
    in_seconds(
        "bookie-silent-seconds",
        1,
        "Time without an answer up to the end of the capture; an answer may still be on its way before that.",
        "bookie-silent",
        "quorum-lost",
    ),
    counted(
        "read-from-storage-entries",
        10,
        "entries",
        "Entries read from storage; a few are read whenever a topic is loaded.",
        "read-from-storage",
    ),
)

WINDOW_NS = 10 * SECOND
"""Length of the windows in which bookies are compared: a stall of seconds must not disappear among hours."""

SLOWEST_KEPT = 3
"""Number of slowest ADDs of a window: the fastest of them shows that the slowest is not a single case."""

FAILED_MAX = 100
"""Most failed entries remembered for one connection."""

ADDS, CONNECTIONS, LEDGER = "adds", "bookies", "ledger"
"""Key rules: by client host and window; by client host; by ledger."""

PUBLISHES = "publishes"
"""Key rule, by window, of the protocol whose servers use this one for storage; it also gets the facts for `ADDS`."""

NO_ANSWER = "no answer"

IDLE_NS = 600 * SECOND

FAILED, STORED, TAKES, LOSES = "failed", "stored", "takes", "loses"
"""Facts for `LEDGER`: a bookie fails a write; it stores one; a host fences the ledger; a host is refused because of that."""

PUBLISHED, EARLIER = "published", "earlier"
"""Facts for `ADDS`: the slowest publish of a broker within a window, and the ADDs of the previous window."""

_FENCING = frozenset({"DO_FENCING", "FENCE_LEDGER"})
"""Flags of a READ with which a new writer takes over a ledger, in versions up to 2 and in version 3."""

_ASKED = frozenset({ADD, READ, AUTH})
"""Requests that a bookie answers at once; it may delay requests for the last add confirmed."""


class BookieRule(ConnectionRule):
    """The source of the facts about one connection to a bookie."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._host = context.client.rpartition(":")[0]
        self._window = -1
        self._latencies: Counter[int] = Counter()
        """ADDs of the window by latency, in nanoseconds rounded to three bits."""
        self._slowest: list[tuple[int, Where, str, str]] = []
        """(latency, ADD, its answer, entry) in the window, slowest first."""
        self._latest = "", ""
        """Name of the latest answer to an ADD, and the entry."""
        self._answered = 0
        """Time of the latest answer, or of its request if the capture has the two in the wrong order."""
        self._silent: list[tuple[Where, str]] = []
        """First requests without an answer, with their commands."""
        self._unanswered = 0
        self._asked: dict[str, tuple[int, int]] = {}
        """Ledger and entry of ADDs without an answer, by frame name."""
        self._failed: dict[str, tuple[int, Where, str]] = {}
        """Ledger, place and status by entry."""
        self._owners: dict[tuple[int, str], None] = {}
        """Ledgers that the client fences, or that another client has fenced against it."""
        self._stored: dict[int, tuple[Where, int]] = {}
        """Place of the answer to the latest stored ADD, and the time of the ADD, by ledger."""
        self._read: list[Where] = []
        self._reads = self._read_bytes = 0

    def _exchange(self, row: ExchangeRow) -> None:
        if row.status == "unanswered":
            if row.request in _ASKED and not (row.request == READ and (row.key or "").startswith("txn")):
                self._unanswered += 1
                if len(self._silent) < FAILED_MAX:
                    self._silent.append((where_of(row), row.key or row.request or ""))
            return
        answered = row.time + (row.latency_ns or 0)
        self._answered = max(self._answered, answered)
        if row.request != ADD or row.latency_ns is None:
            return
        window = answered // WINDOW_NS
        if window > self._window:
            self._end_window()
            self._window = window
        rest = max(row.latency_ns.bit_length() - 3, 0)
        self._latencies[row.latency_ns >> rest << rest] += 1
        slowest = self._slowest
        if len(slowest) < SLOWEST_KEPT or row.latency_ns > slowest[-1][0]:
            answer = frame_name(row.response_file, row.response_packet, row.response_sub)
            entry = self._latest[1] if self._latest[0] == answer else ""
            slowest.append((row.latency_ns, where_of(row), answer, entry))
            slowest.sort(key=lambda slow: -slow[0])
            del slowest[SLOWEST_KEPT:]

    def _end_window(self) -> None:
        """Emit the fact about the ADDs answered in the window."""
        if self._slowest:
            _, where, answer, _ = self._slowest[0]
            values = {
                "bookie": self._context.server,
                "host": self._host,
                "adds": self._latencies.total(),
                "latencies": [*self._latencies.items()],
                "slowest": [latency for latency, *_ in self._slowest],
                "entries": [[entry, asked.time, asked.name, name] for _, asked, name, entry in self._slowest],
                "frames": [where.name, answer],
            }
            for window, what in ((self._window, ADDS), (self._window + 1, EARLIER)):
                self._context.emit_fact(ADDS, f"{self._host} {window}", where, what, values)
                self._context.emit_fact(PUBLISHES, str(window), where, what, values)
        self._slowest, self._latencies = [], Counter()

    def _add(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if {"ledger", "entry"} <= fields.keys():
            remember(self._asked, frame_name(row.file, row.packet, row.sub), (fields["ledger"], fields["entry"]), PENDING_REQUESTS_MAX)

    def _added(self, row: FrameRow) -> None:
        self._asked.pop(row.request or "", None)
        fields = row.fields or {}
        status = fields.get("status", EOK)
        if row.latency_ns is not None:
            self._latest = frame_name(row.file, row.packet, row.sub), f"{fields.get('ledger')}:{fields.get('entry')}"
        if status == FENCED:
            self._own(row, LOSES)
        if status == EOK and "ledger" in fields and row.latency_ns is not None:
            self._stored.pop(fields["ledger"], None)  # so that the first one dropped is the one not stored to for longest
            remember(self._stored, fields["ledger"], (where_of(row), row.time - row.latency_ns), FAILED_MAX)
        if status not in (EOK, FENCED) and {"ledger", "entry"} <= fields.keys() and len(self._failed) < FAILED_MAX:
            self._failed.setdefault(f"{fields['ledger']}:{fields['entry']}", (fields["ledger"], where_of(row), status))

    def _load(self, row: FrameRow) -> None:
        if not _FENCING.isdisjoint((row.fields or {}).get("flags") or ()):
            self._own(row, TAKES)

    def _own(self, row: FrameRow, what: str) -> None:
        """Emit once that the client takes a ledger from its writer, or loses it to another."""
        ledger = (row.fields or {}).get("ledger")
        if ledger is not None and (ledger, what) not in self._owners and len(self._owners) < FAILED_MAX:
            self._owners[ledger, what] = None
            self._context.emit_fact(LEDGER, str(ledger), where_of(row), what, {"host": self._host, "bookie": self._context.server})

    def _loaded(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (fields.get("data") or {}).get("kind") == MESSAGE:
            self._reads += 1
            self._read_bytes += fields.get("data_size") or 0
            if len(self._read) < SLOWEST_KEPT:
                self._read.append(where_of(row))

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the remaining facts of the connection."""
        self._end_window()
        self._report_reads()
        context = self._context
        if row.server_missing or context.reported(ONE_SIDED):  # the missing bytes may have had answers
            self._silent, self._unanswered = [], 0
        since = max(self._answered, self._silent[0][0].time if self._silent else 0)
        values = {
            "bookie": context.server,
            "end": row.end,
            "open": context.closing is None,
            "since": since,
            "unanswered": self._unanswered,
            "first": self._silent[0][1] if self._silent else "",
        }
        context.emit_fact(CONNECTIONS, self._host, self._silent[0][0] if self._silent else last, CONNECTIONS, values)
        for where, _ in self._silent:
            asked = self._asked.get(where.name)
            if asked is not None and row.end - where.time >= context.thresholds.ns("bookie-silent-seconds"):
                self._failed.setdefault(f"{asked[0]}:{asked[1]}", (asked[0], where, NO_ANSWER))
        for name, (ledger_id, where, status) in self._failed.items():
            context.emit_fact(LEDGER, str(ledger_id), where, FAILED, {"entry": name, "bookie": context.server, "status": status})
        for ledger_id, (where, asked_at) in self._stored.items():
            context.emit_fact(LEDGER, str(ledger_id), where, STORED, {"asked": asked_at})

    def _report_reads(self) -> None:
        if self._reads < self._context.thresholds["read-from-storage-entries"]:
            return
        text = f"{self._host} reads {self._reads:,} entries with messages, {self._read_bytes:,} bytes, from {self._context.server}."
        evidence = {"frames": [where.name for where in self._read], "entries": self._reads, "bytes": self._read_bytes}
        self._context.report("read-from-storage", self._read[0], text, evidence)

    frames: ClassVar[Handlers] = {ADD: _add, response(ADD): _added, READ: _load, response(READ): _loaded}
    exchanges: ClassVar[Handlers] = {"*": _exchange}


def _evaluate_adds(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Compare the bookies to which one host wrote within a window."""
    _evaluate_publishes(key, facts, report, thresholds)
    bookies: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.what == ADDS:
            bookies.setdefault(fact.values["bookie"], []).append(fact)
    slowest = {name: _slowest(each) for name, each in bookies.items()}
    usual = {name: _percentile_95(each) for name, each in bookies.items()}
    times = thresholds["slow-bookie-times"]
    for name, latencies in slowest.items():
        others = {other: slow for other, slow in slowest.items() if other != name}
        longest = max((slow[0] for slow in others.values()), default=0)
        several = max((slow[-1] for slow in others.values()), default=0)
        alone_ns = thresholds.ns("slow-bookie-longest-seconds")
        least_ns = thresholds.ns("slow-bookie-seconds") if others else alone_ns
        often_ns = max(least_ns, times * max((usual[other] for other in others), default=0))
        is_often = bool(others) and usual[name] >= often_ns and latencies[-1] >= several  # the others are slow only occasionally
        is_slow = len(latencies) == SLOWEST_KEPT and latencies[-1] >= least_ns and (is_often or latencies[-1] >= times * several)
        if not is_slow and not (others and latencies[0] >= max(alone_ns, times * longest)):
            continue
        worst = max(bookies[name], key=lambda fact: fact.values["slowest"][0])
        adds = sum(fact.values["adds"] for fact in bookies[name])
        host = key.rpartition(" ")[0]
        rest = f"; the slowest of {len(others)} others took {duration(longest)}" if others else "; no other bookie to compare it with"
        text = f"Bookie {name} answers {host} late: {adds:,} ADDs within ten seconds, the slowest after {duration(latencies[0])}{rest}."
        evidence = {
            "frames": worst.values["frames"],
            "bookie": name,
            "client": host,
            "adds": adds,
            "slowest_ns": latencies,
            "others_slowest_ns": {other: slow[0] for other, slow in sorted(others.items())},
        }
        report("slow-bookie", worst.where, text, evidence)


def _evaluate_publishes(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the slowest publish of a window, unless an ADD took long or all publishes on its connection did."""
    through_proxies = {fact.values.get(OUTER) for fact in facts}
    sends = [fact for fact in facts if fact.what == PUBLISHED and fact.where.connection not in through_proxies]
    published = max(sends, key=lambda fact: fact.values["latency"], default=None)
    added = max((fact.values["slowest"][0] for fact in facts if fact.what in (ADDS, EARLIER)), default=None)
    if published is None or added is None:
        return
    latency, fastest = published.values["latency"], published.values["fastest"]
    if latency < max(thresholds.ns("slow-broker-seconds"), thresholds["slow-broker-times"] * max(added, fastest)):
        return
    host, topic = key.rpartition(" ")[0], published.values["topic"]
    text = (
        f"Broker {host} answers a publish{f' to {topic}' if topic else ''} after {duration(latency)}, though no bookie took longer than "
        f"{duration(added)} for an ADD in that time."
    )
    evidence = {
        "frames": published.values["frames"],
        "broker": host,
        "topic": topic,
        "latency_ns": latency,
        "fastest_ns": fastest,
        "slowest_add_ns": added,
    }
    report("slow-broker", published.where, text, evidence)


def _slowest(facts: Iterable[Fact]) -> list[int]:
    """Return the latencies of the slowest ADDs over all connections to a bookie."""
    return sorted((latency for fact in facts for latency in fact.values["slowest"]), reverse=True)[:SLOWEST_KEPT]


def _percentile_95(facts: Iterable[Fact]) -> int:
    """Return the 95th percentile of the latencies of ADDs over all connections to a bookie."""
    counts = sorted(pair for fact in facts for pair in fact.values["latencies"])
    left = sum(count for _, count in counts) * 95 / 100
    for latency, count in counts:
        left -= count
        if left <= 0:
            return int(latency)
    return 0


def _evaluate_connections(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report connections on which a bookie fell silent while the host's other connections went on."""
    latest = max(fact.values["end"] for fact in facts)
    for where, _, values in facts:
        waited = (latest if values["open"] else values["end"]) - values["since"]
        if not values["unanswered"] or waited < thresholds.ns("bookie-silent-seconds"):
            continue
        first = values["first"]
        hint = " It may refuse the credentials: that goes unanswered." if first == AUTH else ""
        waiting = "1 request waits: " if values["unanswered"] == 1 else f"{values['unanswered']:,} requests wait, the first is "
        text = f"Bookie {values['bookie']} answers {key} nothing for {duration(waited)}: {waiting}{first} in {where.name}.{hint}"
        evidence = {
            "frames": [where.name],
            "bookie": values["bookie"],
            "client": key,
            "unanswered": values["unanswered"],
            "waited_ns": waited,
        }
        report("bookie-silent", where, text, evidence)


def _evaluate_owners(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """Report who took a ledger from whom, if both are in the capture and on different hosts."""
    takes = next((fact for fact in facts if fact.what == TAKES), None)
    loses = next((fact for fact in facts if fact.what == LOSES), None)
    if takes is None or loses is None or takes.values["host"] == loses.values["host"]:
        return
    old, new = loses.values["host"], takes.values["host"]
    bookies = sorted({fact.values["bookie"] for fact in facts if fact.what in (TAKES, LOSES)})
    text = f"Ledger {key} has two owners: {new} fenced it in READ {takes.where.name}, and {old}, which keeps writing, is refused."
    evidence = {"frames": [takes.where.name, loses.where.name], "ledger": int(key), "fenced_by": new, "fenced": old, "bookies": bookies}
    report("ledger-fenced", loses.where, text, evidence)


def _evaluate_ledger(key: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report the entries of a ledger that failed at two bookies, unless its writer went on: a single bookie may be replaced."""
    _evaluate_owners(key, facts, report)
    failed: dict[str, dict[str, Fact]] = {}
    for fact in facts:
        if fact.what == FAILED:
            failed.setdefault(fact.values["entry"], {})[fact.values["bookie"]] = fact
    went_on = max((fact.values["asked"] for fact in facts if fact.what == STORED), default=0)
    lost = {
        entry: bookies
        for entry, bookies in failed.items()
        if len(bookies) > 1 and any(fact.values["status"] == NO_ANSWER or fact.where.time >= went_on for fact in bookies.values())
    }
    if not lost:
        return
    entry, bookies = next(iter(lost.items()))
    places = [fact.where for fact in bookies.values()]
    reasons = ", ".join(f"{name} {fact.values['status']}" for name, fact in bookies.items())
    more = f", and {len(lost) - 1:,} more entries of ledger {key}" if len(lost) > 1 else ""
    text = f"Entry {entry} failed at {len(bookies)} bookies ({reasons}){more}."
    evidence = {
        "frames": [where.name for where in places],
        "ledger": int(key),
        "entry": entry,
        "entries": len(lost),
        "bookies": {name: fact.values["status"] for name, fact in bookies.items()},
        "threshold": {},
    }
    report("quorum-lost", places[-1], text, evidence)


RULES = Rules(
    {**CODES, "ledger-fenced": OF_FRAMES["ledger-fenced"]},
    (BookieRule, StoredRule),
    (
        KeyRule(ADDS, IDLE_NS, _evaluate_adds, public=True, all_legs=True),
        KeyRule(CONNECTIONS, IDLE_NS, _evaluate_connections),
        KeyRule(LEDGER, IDLE_NS, _evaluate_ledger),
    ),
    thresholds=THRESHOLDS,
    other_keys=frozenset({JOURNEY, PUBLISHES}),
    journeys=(StoredRule,),
    needs_both=frozenset({"bookie-silent", "quorum-lost"}),
)
