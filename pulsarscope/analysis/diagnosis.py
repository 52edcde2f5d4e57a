"""The diagnosis of a run: findings grouped by code, the worst first, and the completeness of the capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pulsarscope.analysis.coverage import Coverage, Unjudged
from pulsarscope.analysis.known_issues import AffectedConnections, IssueMatch, Suspects
from pulsarscope.analysis.tally import ReportRecord, cut, shorten
from pulsarscope.dissect.contract.known_issues import KnownIssues
from pulsarscope.model.findings import BY_CAPTURING, ERROR, LAYERS, SEVERITIES, WARNING, Code
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX, DIAGNOSIS_SAMPLES_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow
from pulsarscope.model.thresholds import VERDICT_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.dissector import Dissector

_NONE_KNOWN = KnownIssues()

PLACES_MAX = 20
"""Frame names kept for findings with the same text."""

_PLACE_NOUNS = ("Bytes", "Connection")
"""First words of texts that contain nothing but the following place."""

DELAYS_MAX = 4
"""Delays of a path that an answer may take for the path to be the reason: a request and its answer each wait, and queues grow."""

_ANSWERED_AFTER = ("latency_ns", "p99_ns", "silent_ns", "took_ns", "waited_ns")
"""Names in evidence of the time that an answer took, or did not come."""

TROUBLED_CONNECTIONS_MAX = 100_000
"""Names of connections with an error or a warning in a diagnosis, about 12 MB; beyond that, their number is a lower bound."""


class Symptom:
    """The findings of one code, with the wording of one protocol."""

    def __init__(self, row: FindingRow, code: Code | None, known: KnownIssues) -> None:
        self.code = row.code
        self.explains = () if code is None else code.explains
        """Codes with the same cause on the same connections."""
        self.delay_ns = 0
        """Longest delay of a path in its findings, if it is about one."""
        self.answered_after_ns = 0
        """Longest time that an answer took, or did not come, in its findings, if it is about answers."""
        self.severity = row.severity or WARNING
        self.layer = row.layer
        self.meaning = "" if code is None else code.meaning
        self.to_act = None if code is None else code.who_acts(row.evidence)
        """Who has to act on the first finding, whose text the verdict has."""
        self.hint = row.hint
        self.text = cut(row.text)
        """Text of the first finding, including its place."""
        self.count = 0
        self.first: int | None = None
        """Time of the first finding, nanoseconds since the epoch; None if no finding has a time."""
        self.last: int | None = None
        self.connections: dict[str, None] = {}
        """Names of connections, in the order of the findings."""
        self.topics: dict[str, None] = {}
        self.samples: list[ReportRecord] = []
        self.known = known
        self.suspects = Suspects(known)

    def add(self, row: FindingRow) -> list[str]:
        """Add a finding, and return the names of its connections."""
        self.count += 1
        if row.time is not None:
            self.first = row.time if self.first is None else min(self.first, row.time)
            self.last = row.time if self.last is None else max(self.last, row.time)
        evidence = row.evidence or {}
        self.delay_ns = max(self.delay_ns, evidence.get("delay_max_ns", 0))
        self.answered_after_ns = max(self.answered_after_ns, *(evidence.get(name) or 0 for name in _ANSWERED_AFTER))
        others = evidence.get("connections")
        names = [name for name in (row.connection, *(others if isinstance(others, list) else ())) if name is not None]
        for name in names:
            _remember(self.connections, name)
        self.suspects.add(row, names)
        topic = evidence.get("topic")
        _remember(self.topics, cut(topic) if isinstance(topic, str) else None)
        self._sample(row)
        return names

    @property
    def is_of_capture(self) -> bool:
        """True when nothing but the capture is at fault."""
        return self.to_act == BY_CAPTURING

    def may_explain(self, other: Symptom) -> bool:
        """Return True when the other symptom may have the same cause, on some of the same connections."""
        return other.code in self.explains and not (self.ends_before(other) or self.connections.keys().isdisjoint(other.connections))

    def ends_before(self, other: Symptom) -> bool:
        """Return True for a path whose delays are much shorter than the other symptom."""
        return 0 < DELAYS_MAX * self.delay_ns < other.answered_after_ns

    def _sample(self, row: FindingRow) -> None:
        """Keep one finding of each text, with the places of all findings that have it."""
        places = places_of(row)
        text = cut(_without_place(row.text, places[:1]))
        for sample in self.samples:
            if sample["text"] == text:
                sample["count"] += 1
                sample["places"] = list(dict.fromkeys([*sample["places"], *places]))[:PLACES_MAX]
                return
        if len(self.samples) < DIAGNOSIS_SAMPLES_MAX:
            sample = {"time": row.time, "connection": row.connection, "places": places, "text": text}
            self.samples.append({"count": 1, **sample, "evidence": shorten(row.evidence or {})})


def _without_place(text: str | None, names: Sequence[str]) -> str | None:
    """Return the text of a finding without its initial place ("SEND 0:22.1: …"), which is shown next to it."""
    for name in names:
        noun, is_named, rest = (text or "").partition(f" {name}: ")
        if is_named and " " not in noun:
            return f"{rest[:1].upper()}{rest[1:]}" if noun in _PLACE_NOUNS else f"{noun}: {rest}"
    return text


def _remember(names: dict[str, None], name: str | None) -> None:
    if name is not None and (name in names or len(names) < DIAGNOSIS_NAMES_MAX):
        names[name] = None


def places_of(row: FindingRow) -> list[str]:
    """Return the frame names of a finding (0:30.2): those in its evidence, or else its own frame or packet (0:30)."""
    named = (row.evidence or {}).get("frames")
    if isinstance(named, list) and named:
        return [str(cut(str(name))) for name in named[:PLACES_MAX]]
    if row.packet is None:
        return []
    return [f"{row.file or 0}:{row.packet}.{row.sub}" if row.sub else f"{row.file or 0}:{row.packet}"]


class Diagnosis:
    """A fold over the finding and connection rows of a run."""

    def __init__(
        self,
        codes: Mapping[str, Code],
        coverage: Coverage | None = None,
        own_codes: Mapping[str, Mapping[str, Code]] | None = None,
        known_issues: Mapping[str, KnownIssues] | None = None,
    ) -> None:
        """Explain findings by `codes`, or by the codes of the connection's dissector, if `own_codes` has them under its name.

        The same applies to `known_issues` that fit its findings.
        """
        self._codes = codes
        self._own_codes = own_codes or {}
        self._known_issues = known_issues or {}
        self._affected = AffectedConnections()
        self.coverage = coverage or Coverage()
        self._symptoms: dict[tuple[str, Code | None], Symptom] = {}  # as many as there are codes, for each protocol
        self._troubled: set[str] = set()
        self.troubled_is_least = False
        """True when more connections are in trouble than are known by name."""
        self.connections = 0
        """Number of connections of a known protocol."""
        self.unknown_connections = 0
        self.midstream = 0
        """Number of connections that began before the capture."""
        self.missing_bytes = 0
        self.start: int | None = None
        """Reference for relative times, nanoseconds since the epoch: the first packet, or the first one of a connection."""

    @classmethod
    def of(cls, dissectors: Iterable[Dissector], ports: frozenset[int], thresholds: Mapping[str, float]) -> Diagnosis:
        """Return an empty diagnosis with the wording of dissectors; `ports` are those of known protocols, in addition to their own."""
        from pulsarscope.dissect.plugins.finding_catalogue import codes_of  # noqa: PLC0415 - most runs diagnose nothing
        from pulsarscope.dissect.plugins.registry import finding_codes, known_issues_of  # noqa: PLC0415 - as above

        dissectors = tuple(dissectors)
        coverage = Coverage(ports.union(*(dissector.ports for dissector in dissectors)), Thresholds(VERDICT_THRESHOLDS, thresholds))
        own_codes = {dissector.name: codes_of(dissector) for dissector in dissectors}
        return cls(finding_codes(dissectors), coverage, own_codes, {dissector.name: known_issues_of(dissector) for dissector in dissectors})

    def feed(self, rows: Iterable[Any]) -> None:
        """Count rows."""
        for row in rows:
            if isinstance(row, FindingRow):
                code = self._own_codes.get(row.dissector or "", {}).get(row.code) or self._codes.get(row.code)
                symptom = self._symptoms.get((row.code, code))
                if symptom is None:
                    known = self._known_issues.get(row.dissector or "", _NONE_KNOWN)
                    symptom = self._symptoms[row.code, code] = Symptom(row, code, known)
                self._add_troubled(symptom, symptom.add(row))
                self.coverage.add_finding(row)
            elif isinstance(row, ConnectionRow):
                self.coverage.add(row)
                if self.start is None or row.start < self.start:
                    self.start = row.start
                if row.dissector is None:
                    self.unknown_connections += 1
                    continue
                self.connections += 1
                self._affected.add(row, self._known_issues.get(row.dissector, _NONE_KNOWN))
                self.midstream += row.opened == "midstream"
                self.missing_bytes += (row.client_missing or 0) + (row.server_missing or 0)

    def _add_troubled(self, symptom: Symptom, names: list[str]) -> None:
        if symptom.severity not in (ERROR, WARNING):
            return
        self.troubled_is_least |= len(names) >= DIAGNOSIS_NAMES_MAX  # rules truncate them
        for name in names:
            if len(self._troubled) < TROUBLED_CONNECTIONS_MAX:
                self._troubled.add(name)
            elif name not in self._troubled:
                self.troubled_is_least = True

    @property
    def severities(self) -> dict[str, int]:
        """Number of findings by severity, the worst first."""
        counts = Counter[str]()
        for symptom in self._symptoms.values():
            counts[symptom.severity] += symptom.count
        return {severity: counts[severity] for severity in SEVERITIES}

    @property
    def troubled(self) -> int:
        """Number of connections with an error or a warning; see `troubled_is_least`."""
        return len(self._troubled)

    def symptoms(self) -> list[Symptom]:
        """Return the groups of findings, the worst first: by severity, then number, then the layer nearest to the wire.

        What only the capture is to blame for comes after all other errors and warnings, with consequences that have no other connections.
        Any other cause is placed where the worst of its consequences would be, before these, even if it is less severe or has other
        connections as well.
        """
        some = [*self._symptoms.values()]
        consequences = {cause: [other for other in some if cause.may_explain(other)] for cause in some if cause.explains}
        of_capture = {cause for cause in some if cause.is_of_capture}
        waiting = [*of_capture]
        while waiting:
            cause = waiting.pop()
            for other in consequences.get(cause, ()):
                if other not in of_capture and other.connections.keys() <= cause.connections.keys():
                    of_capture.add(other)
                    waiting.append(other)
        ranks = {symptom: _rank(symptom, of_capture=symptom in of_capture) for symptom in some}
        places = {symptom: (rank, 0, rank) for symptom, rank in ranks.items()}
        for _ in consequences:  # a chain is no longer than the number of causes
            for cause, of_cause in consequences.items():
                for other in of_cause:
                    if cause in of_capture and other not in of_capture:
                        continue
                    worst, steps, _ = places[other]
                    place, before, own = places[cause]
                    places[cause] = min(place, worst), min(before, steps - 1), own
        return sorted(some, key=places.__getitem__)

    def explanations(self) -> dict[Symptom, Symptom]:
        """Return, for each explained group, the one that explains it: on the same connections, and not less severe."""
        symptoms = self.symptoms()
        found: dict[Symptom, Symptom] = {}
        for symptom in symptoms:
            for cause in symptoms:
                if (
                    cause.may_explain(symptom)
                    and 0 < len(symptom.connections) < DIAGNOSIS_NAMES_MAX
                    and symptom.connections.keys() <= cause.connections.keys()
                    and SEVERITIES.index(cause.severity) <= SEVERITIES.index(symptom.severity)
                ):
                    found[symptom] = cause
                    break
        roots = {symptom: _root(cause, found) for symptom, cause in found.items()}
        return {symptom: root for symptom, root in roots.items() if not root.ends_before(symptom)}

    def cause(self) -> Symptom | None:
        """Return the worst group of errors or warnings that no other group explains."""
        explained = self.explanations()
        return next((symptom for symptom in self.symptoms() if symptom.severity in (ERROR, WARNING) and symptom not in explained), None)

    def not_judged(self) -> list[Unjudged]:
        """Return the parts of the capture that could not be judged, without connections for which a finding gives the reason."""
        explained: dict[str, set[str]] = {}
        for symptom in self._symptoms.values():
            for code in symptom.explains:
                explained.setdefault(code, set()).update(symptom.connections)
        return self.coverage.not_judged(explained)

    def known_issues(self, symptom: Symptom) -> list[IssueMatch]:
        """Return the known issues that fit findings of a group and a version at either end of their connections."""
        return symptom.suspects.matches(self._affected, symptom.known.products)

    def by_code(self) -> Counter[str]:
        """Return the number of findings by code, the worst first."""
        counts = Counter[str]()
        for symptom in self.symptoms():
            counts[symptom.code] += symptom.count
        return counts

    def summary(self) -> ReportRecord:
        """Return the counts behind the verdict, for programs."""
        return {
            **{f"{severity}s": count for severity, count in self.severities.items()},
            "connections": self.connections,
            "unknown_connections": self.unknown_connections,
            "troubled_connections": self.troubled,
            "midstream_connections": self.midstream,
            "missing_bytes": self.missing_bytes,
        }

    def records(self) -> list[ReportRecord]:
        """Return the groups, for programs."""
        explanations = self.explanations()
        return [
            {
                "code": symptom.code,
                "explained_by": explanations[symptom].code if symptom in explanations else None,
                "severity": symptom.severity,
                "layer": symptom.layer,
                "count": symptom.count,
                "first": symptom.first,
                "last": symptom.last,
                "meaning": symptom.meaning,
                "hint": symptom.hint,
                "to_act": symptom.to_act,
                "connections": list(symptom.connections),
                "topics": list(symptom.topics),
                "samples": symptom.samples,
                "known_issues": [match.record() for match in self.known_issues(symptom)],
            }
            for symptom in self.symptoms()
        ]


def _root(cause: Symptom, found: Mapping[Symptom, Symptom]) -> Symptom:
    """Return the ultimate cause of a cause; codes do not explain each other in a circle."""
    while (further := found.get(cause)) is not None:
        cause = further
    return cause


def _rank(symptom: Symptom, *, of_capture: bool) -> tuple[int, bool, int, int, int, str]:
    layer = LAYERS.index(symptom.layer) if symptom.layer in LAYERS else len(LAYERS)
    severity = SEVERITIES.index(symptom.severity)
    place = max(severity, SEVERITIES.index(WARNING)) if of_capture else severity
    return place, of_capture, severity, -symptom.count, layer, symptom.code
