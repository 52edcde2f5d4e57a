"""Redacted copies have the packets of `extract --redact`, with their numbers in the capture."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.cli.arguments.extract_request import ExtractRequest
from pulsarscope.cli.packet_copy import write_packets
from pulsarscope.engine.local import run
from pulsarscope.engine.options import Options
from pulsarscope.model.errors import UsageError
from pulsarscope.protocols import make_dissectors
from pulsarscope.redaction.copies import EMPTY, options_to_copy, write_copies
from tests.places import CAPTURES
from tests.scenarios.command_line import execute_here
from tests.scenarios.pcapng_blocks import blocks

KEY = b"k" * 32
QUICKSTART = CAPTURES / "quickstart.pcapng"
TOPIC = "persistent://public/default/ng-t-421"

WHOLE = ("lo-java-txn.pcap", "rw-vxlan.pcap", "snaplen200.pcap", "token-auth-py.pcap")
"""Captures from which nothing is omitted."""

IN_PART = ("mixed-pulsar-kafka.pcap", "go-tls13-dsb.pcapng", "rw-ipfrag.pcap")


def packets_in(path: Path) -> list[bytes]:
    """Return time, lengths and data of each packet."""
    packets = [block.body for block in blocks(path.read_bytes()) if block.kind == 6]
    return [body[4 : 20 + int.from_bytes(body[12:16], "little")] for body in packets]


@pytest.fixture
def key(tmp_path: Path) -> str:
    place = tmp_path / "key"
    place.write_bytes(KEY)
    return str(place)


@pytest.fixture
def extracted(tmp_path: Path, key: str, request: pytest.FixtureRequest) -> Path:
    copy = tmp_path / "share.pcapng"
    write_packets(ExtractRequest(files=[str(CAPTURES / request.param)], out=str(copy), mask_key=key, quiet=True))
    return copy


@pytest.mark.parametrize(("name", "extracted"), [(name, name) for name in WHOLE + IN_PART], indirect=["extracted"])
def test_packets_are_those_of_extract_and_others_are_empty(name: str, extracted: Path, tmp_path: Path) -> None:
    original = run([str(CAPTURES / name)], options_to_copy(Options(dissectors=make_dissectors)))
    (copy,) = write_copies(original, KEY, tmp_path, lambda _: None).paths
    assert len(packets_in(Path(copy))) == original.packets
    assert [packet for packet in packets_in(Path(copy)) if packet[16:] != EMPTY] == packets_in(extracted)


@pytest.mark.parametrize(("name", "extracted"), [(name, name) for name in WHOLE], indirect=["extracted"])
def test_records_are_those_of_a_copy(name: str, extracted: Path) -> None:
    assert list(ps.open(CAPTURES / name, redact=KEY).records()) == list(ps.open(extracted).records())


@pytest.mark.parametrize(
    "name", ["java-chunk-interleaved.pcap.zst", "kafka07-broker/sync.pcap.zst", "kafka07-broker/nested.pcap", "snaplen200.pcap"]
)
def test_messages_in_chunks_and_in_sets_keep_number_size_and_codec(name: str, tmp_path: Path) -> None:
    def seen(path: Path) -> list[tuple[Any, ...]]:
        return [(row.packet, row.payload_size, row.compression, row.batch_index, row.batch_size) for row in ps.open(path).messages()]

    original = run([str(CAPTURES / name)], options_to_copy(Options(dissectors=make_dissectors)))
    copies = write_copies(original, KEY, tmp_path, lambda _: None)
    assert copies.notes == []
    assert seen(Path(copies.paths[0])) == seen(CAPTURES / name)


@pytest.mark.slow
def test_every_command_and_format_shows_the_same(key: str, tmp_path: Path) -> None:
    share = str(tmp_path / "share.pcapng")
    assert execute_here("extract", str(QUICKSTART), "--redact-key", key, "-q", "-o", share).returncode == 0
    for line in (
        ("decode", "-V", "-q"),
        ("decode", "--format", "csv"),
        ("messages", "--format", "ndjson", "--payload", "hex"),
        ("stats", "--format", "json"),
        ("diagnose", "--format", "json"),
        ("follow", "--connection", "1", "--format", "json"),
    ):
        command, *options = line
        outputs = [execute_here(command, *files, *options).stdout for files in ((str(QUICKSTART), "--redact-key", key), (share,))]
        assert outputs[0] == outputs[1] != b""


@pytest.mark.slow
def test_filters_take_real_names_and_show_masks() -> None:
    plain = execute_here("decode", str(QUICKSTART), "-Y", f'topic == "{TOPIC}"', "--format", "ndjson", "-q").stdout
    for options in (
        ("decode", "-Y", f'topic == "{TOPIC}"'),
        ("decode", "-j", "2", "-Y", f'topic == "{TOPIC}"'),
        ("follow", "--topic", "ng-t-421"),
    ):
        shown = execute_here(options[0], str(QUICKSTART), "--redact", *options[1:], "--format", "ndjson", "-q").stdout
        assert [json.loads(line)["packet"] for line in shown.splitlines()] == [json.loads(line)["packet"] for line in plain.splitlines()]
        assert b"ng-t-421" not in shown
    assert b"ng-t-421" not in execute_here("follow", str(QUICKSTART), "--redact", "--topic", "ng-t-421").stdout
    for command in ("messages", "stats"):
        redacted = execute_here(command, str(QUICKSTART), "--redact", "-Y", f'topic == "{TOPIC}"', "-q")
        assert (redacted.returncode, b"ng-t-421" in redacted.stdout, redacted.stderr) == (0, False, b"")
    tail = execute_here("decode", str(QUICKSTART), "--redact", "-Y", "command == SEND", "--tail", "2", "--format", "ndjson", "-q").stdout
    assert tail.count(b"\n") == 2


def test_a_name_that_is_not_there_is_not_reported() -> None:
    absent = execute_here("decode", str(QUICKSTART), "--redact", "-Y", 'topic == "oops"')
    assert b"none of 94 records matches" in absent.stderr
    assert b"ng-t" not in absent.stderr


def test_a_filter_of_the_library_takes_real_names() -> None:
    plain, redacted = ps.open(QUICKSTART), ps.open(QUICKSTART, redact=True)
    for read in (
        lambda capture: [frame.packet for frame in capture.frames(filter=f'topic == "{TOPIC}"')],
        lambda capture: [frame.packet for frame in capture.follow(topic="ng-t-421")],
        lambda capture: capture.stats("topics", filter=f'topic == "{TOPIC}"')["topics"][0]["exchanges"],
    ):
        assert read(plain) == read(redacted)
    assert all("ng-t-421" not in str(frame.topic) for frame in redacted.frames())
    assert list(ps.open(QUICKSTART.read_bytes(), redact=KEY).messages()) == list(ps.open(QUICKSTART, redact=KEY).messages())


def test_more_captures_are_copied_than_files_may_be_open(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    empty = (CAPTURES / "errors.pcap").read_bytes()[:24]
    for number in range(70):
        (tmp_path / f"ring-{number:02}.pcap").write_bytes(empty if number else (CAPTURES / "errors.pcap").read_bytes())
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/dev/fd").iterdir()]) + 40, hard))
    try:
        frames = list(ps.open(tmp_path, redact=KEY).frames())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(frames) == 75


def test_damage_is_reported_and_gives_its_exit_code(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(QUICKSTART.read_bytes()[:-7])
    result = execute_here("decode", str(cut), "--redact")
    assert result.returncode == 4
    assert b"The capture ends" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [({"show_secrets": True}, "contradict"), ({"source_by": "dir"}, "source-by"), ({"redact": b"short"}, "too short")],
)
def test_options_that_contradict_redaction_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(ps.open(QUICKSTART, **{"redact": True, **options}).frames())


def test_the_capture_is_not_overwritten(tmp_path: Path) -> None:
    copy = tmp_path / "in.pcapng"
    copy.write_bytes(QUICKSTART.read_bytes())
    refused = execute_here("decode", str(copy), "--redact", "--format", "json", "-o", str(copy))
    assert refused.returncode == 2
    assert copy.read_bytes() == QUICKSTART.read_bytes()
