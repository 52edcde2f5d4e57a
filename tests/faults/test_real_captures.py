"""Faults of a real broker and real clients, healthy runs that look similar, and cuts of both."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pulsarscope.analysis.coverage import Coverage
from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.engine.local import run
from pulsarscope.output.render.diagnosis import verdict
from tests.places import CAPTURES
from tests.scenarios.options import Options

FOLDER = CAPTURES / "faults"
ROWS = [line.split("\t") for line in (FOLDER / "MANIFEST.tsv").read_text().splitlines()[1:]]
FAULTS = [(name, set(codes.split(","))) for name, _, codes, _ in ROWS if codes != "-"]
HEALTHY = [name for name, _, codes, _ in ROWS if codes == "-"]


def diagnosed(path: Path) -> Diagnosis:
    diagnosis = Diagnosis({}, Coverage((6650, 6651)))
    for batch in run([str(path)], Options(frozenset({"connection", "finding"}), rules=True)):
        diagnosis.feed(batch.rows)
    return diagnosis


def problems(path: Path) -> set[str]:
    return {symptom.code for symptom in diagnosed(path).symptoms() if symptom.severity in ("error", "warning")}


def cuts(path: Path) -> dict[str, bytes]:
    """The capture without its first or last quarter, without a packet in the middle, and its beginnings and ends."""
    data, packets, at = path.read_bytes(), [], 24
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        packets.append(data[at:end])
        at = end
    count, head = len(packets), data[:24]
    kept = {
        "without the first quarter": packets[count // 4 :],
        "without the last quarter": packets[: count - count // 4],
        "without one in the middle": packets[: count // 2] + packets[count // 2 + 1 :],
        **{f"first {share} %": packets[: count * share // 100] for share in (10, 25, 50)},
        **{f"last {share} %": packets[count - count * share // 100 :] for share in (10, 25, 50)},
    }
    return {name: head + b"".join(rest) for name, rest in kept.items()}


def test_each_capture_is_listed() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.pcap")) == sorted(name for name, *_ in ROWS)


@pytest.mark.parametrize(("name", "codes"), FAULTS, ids=[name for name, _ in FAULTS])
def test_a_fault_is_named(name: str, codes: set[str]) -> None:
    assert codes <= {symptom.code for symptom in diagnosed(FOLDER / name).symptoms()}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_is_not_accused(name: str, tmp_path: Path) -> None:
    assert not problems(FOLDER / name)
    for cut, data in cuts(FOLDER / name).items():
        path = tmp_path / "cut.pcap"
        path.write_bytes(data)
        missing = {"frame-truncated", "stream-gap"} if cut == "without one in the middle" else set[str]()
        assert problems(path) <= missing, cut


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, _ in FAULTS])
def test_no_cut_of_a_fault_is_called_healthy_without_a_reservation(name: str, tmp_path: Path) -> None:
    for cut, data in cuts(FOLDER / name).items():
        path = tmp_path / "cut.pcap"
        path.write_bytes(data)
        diagnosis = diagnosed(path)
        assert not verdict(diagnosis, 1).startswith("Healthy") or diagnosis.coverage.not_judged(), cut
