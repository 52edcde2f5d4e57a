from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.model.findings import BY_CAPTURING, ERROR, NOTE, WARNING, Code, table
from pulsarscope.output.render.diagnosis import state
from tests.scenarios import rows

CODES = table(
    Code("refused", ERROR, "session", "It was refused.", "Ask again."),
    Code("lost", ERROR, "tcp", "It was lost.", "Look for it."),
    Code("slow", WARNING, "session", "It was slow.", "Wait."),
    Code("odd", NOTE, "frame", "It was odd.", "Look."),
)


def finding(code: str, **values: Any) -> Any:
    known = CODES[code]
    given: dict[str, Any] = {"code": code, "severity": known.severity, "layer": known.layer, "hint": known.hint, "text": f"{code}."}
    return rows.finding(**given | values)


def diagnosed(*some: Any) -> Diagnosis:
    diagnosis = Diagnosis(CODES)
    diagnosis.feed(some)
    return diagnosis


def test_the_worst_come_first_then_the_most_then_those_nearest_to_the_wire() -> None:
    some = [finding("odd")] * 9 + [finding("slow")] * 5 + [finding("refused"), finding("lost")]
    assert [symptom.code for symptom in diagnosed(*some).symptoms()] == ["lost", "refused", "slow", "odd"]
    assert [symptom.code for symptom in diagnosed(*some, finding("refused")).symptoms()] == ["refused", "lost", "slow", "odd"]
    assert diagnosed(*some).severities == {"error": 2, "warning": 5, "note": 9}


def test_a_group_has_its_count_times_topics_connections_and_meaning() -> None:
    some = [finding("refused", time=30 - number, connection=f"0:{number}", evidence={"topic": f"t{number % 2}"}) for number in range(1, 4)]
    (record,) = diagnosed(*some).records()
    assert (record["count"], record["first"], record["last"]) == (3, 27, 29)
    assert (record["topics"], record["connections"]) == (["t1", "t0"], ["0:1", "0:2", "0:3"])
    assert (record["meaning"], record["hint"]) == ("It was refused.", "Ask again.")


def test_a_finding_about_several_connections_counts_them_all() -> None:
    diagnosis = diagnosed(
        finding("slow", connection="0:1", evidence={"connections": ["0:1", "0:2", "0:3"]}), finding("slow", connection="0:3")
    )
    assert diagnosis.troubled == 3
    assert diagnosis.records()[0]["connections"] == ["0:1", "0:2", "0:3"]


def test_findings_with_one_text_are_one_sample_with_all_their_places() -> None:
    some = [finding("refused", packet=packet, evidence={"frames": [f"0:{packet}.1", "0:9.1"]}) for packet in (3, 4)]
    (sample,) = diagnosed(*some).records()[0]["samples"]
    assert (sample["count"], sample["places"]) == (2, ["0:3.1", "0:9.1", "0:4.1"])


def test_a_place_is_the_frame_or_packet_where_a_finding_stands_when_it_names_none() -> None:
    some = [finding("odd", packet=3, sub=2, text="a"), finding("odd", packet=4, sub=None, text="b"), finding("odd", packet=None, text="c")]
    assert [sample["places"] for sample in diagnosed(*some).records()[0]["samples"]] == [["0:3.2"], ["0:4"], []]


def test_what_is_kept_of_a_group_is_bounded() -> None:
    hostile = [
        finding(
            "refused", text=f"{number}" + "x" * 5000, connection=f"0:{number}", evidence={"topic": f"{number}" * 2000, "frames": ["f"] * 99}
        )
        for number in range(3000)
    ]
    (record,) = diagnosed(*hostile).records()
    assert record["count"] == 3000
    assert len(record["samples"]) == 10
    assert len(record["connections"]) == len(record["topics"]) == 1000
    assert max(len(sample["text"]) for sample in record["samples"]) == max(map(len, record["topics"])) == 1024
    assert record["samples"][0]["places"] == ["f"] * 20


def test_connections_in_trouble_are_those_with_errors_or_warnings() -> None:
    some = [
        finding("odd", connection="0:1"),
        finding("slow", connection="0:2"),
        finding("refused", connection="0:2"),
        finding("lost", connection="0:3"),
    ]
    assert diagnosed(*some).troubled == 2


def test_each_connection_in_trouble_is_counted_however_many_are_named() -> None:
    diagnosis = diagnosed(*[finding("refused", connection=f"0:{number}") for number in range(1500)])
    assert (diagnosis.troubled, diagnosis.troubled_is_least) == (1500, False)
    assert len(diagnosis.records()[0]["connections"]) == 1000
    assert diagnosis.summary()["troubled_connections"] == 1500


def test_connections_in_trouble_beyond_the_bound_are_at_least_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.analysis.diagnosis.TROUBLED_CONNECTIONS_MAX", 2)
    some = [finding("slow", connection=f"0:{number}") for number in range(3)]
    assert "3 warnings in at least 2 connections" in state(diagnosed(*some), 9)
    assert "2 warnings in 2 connections" in state(diagnosed(*some[:2]), 9)
    listed = finding("slow", connection=None, evidence={"connections": [f"0:{number}" for number in range(1000)]})
    monkeypatch.undo()
    assert "in at least 1,000 connections" in state(diagnosed(listed), 9)


def test_bytes_are_missing_of_connections_of_a_known_protocol() -> None:
    assert diagnosed(rows.connection(server_missing=12)).missing_bytes == 12
    unknown = diagnosed(rows.connection(dissector=None, server_missing=12))
    assert (unknown.connections, unknown.unknown_connections, unknown.missing_bytes) == (0, 1, 0)


def test_a_protocol_explains_its_findings_in_its_own_words() -> None:
    own = {"tape": table(Code("slow", WARNING, "session", "The tape was slow.", "Oil it."))}
    diagnosis = Diagnosis(CODES, own_codes=own)
    words = {"pulsar": "Wait.", "tape": "Oil it."}
    diagnosis.feed(finding("slow", dissector=name, hint=words[name]) for name in ("pulsar", "tape", "tape"))
    groups = [(group["code"], group["count"], group["meaning"], group["hint"]) for group in diagnosis.records()]
    assert groups == [("slow", 2, "The tape was slow.", "Oil it."), ("slow", 1, "It was slow.", "Wait.")]
    assert diagnosis.by_code() == {"slow": 3}


EXPLAINING = table(
    Code("cut", WARNING, "session", "", "", ("closed", "reset")),
    Code("storm", WARNING, "session", "", "", ("cut",)),
    Code("closed", WARNING, "session", "", ""),
    Code("reset", NOTE, "tcp", "", ""),
    Code("lost", ERROR, "tcp", "", ""),
)


def explained(*some: tuple[str, str]) -> dict[str, str]:
    """Return the codes that are explained, by code, of findings given as code and connection."""
    diagnosis = Diagnosis(EXPLAINING)
    diagnosis.feed(
        rows.finding(code=code, severity=EXPLAINING[code].severity, layer=EXPLAINING[code].layer, connection=connection)
        for code, connection in some
    )
    found = {symptom.code: cause.code for symptom, cause in diagnosis.explanations().items()}
    assert {record["code"]: record["explained_by"] for record in diagnosis.records() if record["explained_by"]} == found
    return found


def test_a_finding_explains_others_of_the_same_connections() -> None:
    assert explained(("cut", "0:1"), ("cut", "0:2"), ("closed", "0:1"), ("reset", "0:2")) == {"closed": "cut", "reset": "cut"}
    assert explained(("cut", "0:1"), ("closed", "0:1"), ("closed", "0:3")) == {}
    assert explained(("closed", "0:1"), ("lost", "0:1")) == {}


def test_what_explains_an_explanation_explains_all_of_it() -> None:
    assert explained(("storm", "0:1"), ("cut", "0:1"), ("closed", "0:1")) == {"cut": "storm", "closed": "storm"}


def test_what_is_more_severe_stands_for_itself() -> None:
    codes = table(Code("mild", NOTE, "session", "", "", ("lost",)), EXPLAINING["lost"])
    diagnosis = Diagnosis(codes)
    diagnosis.feed(rows.finding(code=code, severity=codes[code].severity, layer="tcp", connection="0:1") for code in codes)
    assert diagnosis.explanations() == {}


def order(codes: dict[str, Code], *some: tuple[str, str]) -> list[str]:
    """Return the codes of a diagnosis of findings given as code and connection."""
    diagnosis = Diagnosis(codes)
    diagnosis.feed(
        rows.finding(code=code, severity=codes[code].severity, layer=codes[code].layer, connection=connection) for code, connection in some
    )
    return [symptom.code for symptom in diagnosis.symptoms()]


def test_a_cause_stands_before_its_consequences_however_many_these_are() -> None:
    closed = [("closed", f"0:{number}") for number in range(3)]
    assert order(EXPLAINING, *closed, ("cut", "0:1")) == ["cut", "closed"]
    assert order(EXPLAINING, *closed, ("cut", "0:9")) == ["closed", "cut"]  # of other connections
    assert order(EXPLAINING, *closed, ("cut", "0:1"), ("storm", "0:9"), ("storm", "0:1")) == ["storm", "cut", "closed"]
    assert order(EXPLAINING, ("reset", "0:1"), ("lost", "0:2"), ("cut", "0:1")) == ["lost", "cut", "reset"]


def test_a_cause_that_is_less_severe_stands_where_the_worst_of_its_consequences_would() -> None:
    codes = table(Code("mild", NOTE, "session", "", "", ("lost",)), *EXPLAINING.values())
    some = ("mild", "0:1"), ("lost", "0:1"), ("closed", "0:2")
    assert order(codes, *some) == ["mild", "lost", "closed"]
    assert order(codes, ("mild", "0:3"), *some[1:]) == ["lost", "closed", "mild"]


def test_codes_that_explain_each_other_are_in_some_order() -> None:
    codes = table(Code("a", NOTE, "session", "", "", ("b",)), Code("b", NOTE, "session", "", "", ("a",)))
    assert sorted(order(codes, ("a", "0:1"), ("b", "0:1"))) == ["a", "b"]


def test_what_has_no_connection_is_not_explained() -> None:
    diagnosis = Diagnosis(EXPLAINING)
    diagnosis.feed([rows.finding(code=code, severity="warning", connection=None) for code in ("cut", "closed")])
    assert diagnosis.explanations() == {}


def test_the_cause_may_be_milder_than_what_it_explains() -> None:
    hole = Code("hole", ERROR, "tcp", "Bytes are missing.", "Look.")
    stall = Code("stall", WARNING, "tcp", "The network lost bytes.", "Look.", ("hole",))
    for connection, code in (("0:1", "stall"), ("0:2", "hole")):
        diagnosis = Diagnosis(table(hole, stall))
        diagnosis.feed([rows.finding(code="hole"), rows.finding(code="stall", severity="warning", connection=connection)])
        cause = diagnosis.cause()
        assert cause is not None
        assert cause.code == code
    assert Diagnosis({}).cause() is None


OF_CAPTURE = table(
    Code("gap", ERROR, "tcp", "", "", ("truncated",), to_act=BY_CAPTURING),
    Code("damaged", ERROR, "frame", "", ""),
    Code("truncated", WARNING, "frame", "", ""),
    Code("busy", WARNING, "session", "", ""),
    Code("hint", NOTE, "session", "", ""),
)


@pytest.mark.parametrize("gaps", [1, 50])
@pytest.mark.parametrize("cut", [0, 1, 70])
def test_what_only_the_capture_is_to_blame_for_comes_after_what_is_wrong(gaps: int, cut: int) -> None:
    capture = [("gap", "0:1")] * gaps + [("truncated", "0:1")] * cut
    of_capture = ["gap", *["truncated"] * bool(cut)]
    assert order(OF_CAPTURE, *capture, ("busy", "0:2"), ("hint", "0:2")) == ["busy", *of_capture, "hint"]
    assert order(OF_CAPTURE, *capture, ("damaged", "0:1"), ("hint", "0:1")) == ["damaged", *of_capture, "hint"]
    assert order(OF_CAPTURE, *capture, ("hint", "0:1")) == [*of_capture, "hint"]


def test_a_consequence_on_other_connections_too_has_its_own_place() -> None:
    some = [("gap", "0:1"), ("truncated", "0:1"), ("truncated", "0:2"), ("truncated", "0:2"), ("busy", "0:2")]
    assert order(OF_CAPTURE, *some) == ["truncated", "busy", "gap"]
