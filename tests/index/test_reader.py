"""Indexes that cannot be trusted."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from pulsarscope.engine.options import Options
from pulsarscope.index import reader
from pulsarscope.index.candidates import DISPLAY_COLUMNS
from pulsarscope.index.identity import Identity, identity_of
from pulsarscope.index.reader import Index, IndexUnusable, open_index
from pulsarscope.model.errors import CaptureError
from tests.places import CAPTURES
from tests.scenarios.indexes import INDEX_OPTIONS, indexed


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copy(CAPTURES / "ipv6.pcap", tmp_path / "a.pcap"))


def identity(path: Path, options: Options = INDEX_OPTIONS) -> Identity:
    found = identity_of([str(path)], options, "1")
    assert found is not None
    return found


def test_an_index_of_the_same_state_is_taken(capture: Path, tmp_path: Path) -> None:
    indexed(capture, tmp_path / "i")
    index, refusals = open_index([tmp_path / "missing", tmp_path / "i"], identity(capture))
    assert index is not None
    assert not refusals


def test_names_are_those_of_the_frames(capture: Path, tmp_path: Path) -> None:
    indexed(capture, tmp_path / "i")
    index = Index(tmp_path / "i", identity(capture))
    names = [name for number in range(index.chunks) for name in index.names(number)]
    assert names == [(row.file, row.packet, row.sub) for row in (index[at] for at in range(len(index)))]


@pytest.mark.parametrize("keep", [0, 10, 500, -300, -1])
def test_a_cut_index_is_noticed(capture: Path, tmp_path: Path, keep: int) -> None:
    place = tmp_path / "i"
    indexed(capture, place)
    place.write_bytes(place.read_bytes()[:keep])
    with pytest.raises(IndexUnusable, match="damaged, or cut"):
        Index(place, identity(capture))


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_index_never_ends_in_anything_else(capture: Path, tmp_path: Path, seed: int) -> None:
    place, random = tmp_path / "i", Random(seed)  # noqa: S311 - repeatable
    indexed(capture, place)
    data = bytearray(place.read_bytes())
    for _ in range(random.choice((1, 1, 5, 40))):
        data[random.randrange(len(data))] = random.choice((0, 255, random.randrange(256)))
    place.write_bytes(data)
    with suppress(IndexUnusable, CaptureError):
        index = Index(place, identity(capture))
        for number in range(index.chunks):
            assert index.chunk(number)
            assert len(index.names(number)) == index.size(number)
            assert index.columns(number, DISPLAY_COLUMNS).to_pylist()


def test_an_index_of_other_modules_is_not_used(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "i"
    indexed(capture, place)
    monkeypatch.setattr(reader, "modules_mark", lambda: "0123")
    index, refusals = open_index([place], identity(capture))
    assert index is None
    assert refusals == [f"the index {place} was made with other options, or by another version"]


def test_another_arrow_file_is_no_index(capture: Path, tmp_path: Path) -> None:
    place = tmp_path / "i"
    with pa.OSFile(str(place), "wb") as file, pa.ipc.new_file(file, pa.schema([("a", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"a": [1]}))
    with pytest.raises(IndexUnusable):
        Index(place, identity(capture))


def test_a_newer_another_and_an_otherwise_read_capture_are_noticed(capture: Path, tmp_path: Path) -> None:
    place = tmp_path / "i"
    indexed(capture, place)
    os.utime(capture, ns=(1, capture.stat().st_mtime_ns + 1))
    assert open_index([place], identity(capture)) == (None, [f"the index {place} is older than {capture}"])
    with capture.open("ab") as stream:
        stream.write(b"more")
    assert "of another state" in open_index([place], identity(capture))[1][0]
    other = identity(capture, Options(ports=frozenset({1}), dissectors=INDEX_OPTIONS.dissectors))
    assert "other options" in open_index([place], other)[1][0]


def test_captures_read_with_secrets_and_pipes_have_no_identity(capture: Path) -> None:
    assert identity_of(["-"], INDEX_OPTIONS, "1") is None
    assert identity_of([str(capture)], Options(show_secrets=True), "1") is None
    assert identity_of([str(capture.parent / "missing")], INDEX_OPTIONS, "1") is None
