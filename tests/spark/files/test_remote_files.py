"""Equality of captures at URIs with those at paths."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from pulsarscope.capture import BlockReader, Inputs, expand_inputs
from pulsarscope.cli.arguments.application import app
from pulsarscope.model.errors import CaptureError
from pulsarscope.spark.files.remote_files import list_files, open_path, system_at
from tests.spark.inside import Cluster, local


@pytest.fixture
def folder(captures: Path, tmp_path: Path) -> Path:
    """Write captures of two hosts into folders, and a file that is not a capture."""
    for place, name in (
        ("a/ring.pcap0", "errors.pcap"),
        ("a/go nack 100%.pcap.gz", "go-nack-dlq-gz.pcap.gz"),
        ("b/ring.pcap0", "ipv6.pcap"),
    ):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((captures / name).read_bytes())
    (tmp_path / "a" / "notes.txt").write_text("none")
    return tmp_path


def expanded(*uris: str, source_by: str = "none") -> Inputs:
    return expand_inputs(uris, source_by, list_files, open_path)


@pytest.mark.parametrize("where", ["a/ring.pcap0", "a", "a/", "*/ring*", "a/*.gz", "[ab]/ring.pcap[0-9]"])
def test_files_folders_and_patterns_are_found_as_paths_are(folder: Path, where: str) -> None:
    there, here = expanded(f"file://{folder}/{where}"), expand_inputs([str(folder / where)])
    assert there.paths == [f"file://{folder}/{quote(path[len(str(folder)) + 1 :])}" for path in here.paths]
    assert (there.sizes, there.findings) == (here.sizes, here.findings)
    assert len(there.paths) >= 1


def test_they_give_the_rows_of_paths(folder: Path) -> None:
    there = expanded(f"file://{folder}/*/*", source_by="dir")
    here = expand_inputs([str(folder / "*" / "*")], "dir")
    assert [there.source(file) for file in range(3)] == [f"file://{here.source(file)}" for file in range(3)]
    space = "go nack 100%"
    tables = {
        kind: [row.replace("file://", "").replace(quote(space), space) for row in rows] for kind, rows in Cluster(there).tables().items()
    }
    assert tables == local(here)


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("file:///no/such/folder", "nothing found at /no/such/folder"),
        ("file:///no/such/*.pcap", "nothing found at /no/such"),
        ("nowhere://bucket/a.pcap", "nowhere://bucket/a.pcap cannot be read: .*[Uu]nrecognized filesystem"),
        ("file://{0}/a/*.none", "a pattern, without captures"),
        ("file://{0}/a/notes.txt", "notes.txt is "),
    ],
)
def test_what_is_not_there_is_said_in_a_line(folder: Path, uri: str, why: str) -> None:
    with pytest.raises(CaptureError, match=why) as raised:
        expanded(uri.replace("{0}", str(folder)))
    assert "\n" not in str(raised.value)


def test_a_file_that_goes_away_is_a_finding(tmp_path: Path) -> None:
    (block,) = BlockReader(f"file://{tmp_path}/gone.pcap", opener=open_path)
    assert [finding.code for finding in block.findings] == ["file-unreadable"]


def test_other_commands_report_what_to_do() -> None:
    result = CliRunner().invoke(app, ["decode", "s3://bucket/a.pcap"])
    assert isinstance(result.exception, CaptureError)
    assert "only pipeline reads from URIs: mount it, or copy it here" in str(result.exception)


def test_s3a_is_s3() -> None:
    system, place = system_at("s3a://bucket/a.pcap?region=us-east-1")
    assert (system.type_name, place) == ("s3", "bucket/a.pcap")
