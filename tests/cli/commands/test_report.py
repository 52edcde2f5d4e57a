from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.cli.commands.report import ReportPageRequest, report
from pulsarscope.inputs.mask_keys import mask_key
from pulsarscope.model.errors import UsageError
from tests.places import ROOT
from tests.scenarios.bad_inputs.cases import capture
from tests.scenarios.bad_inputs.text import HOSTILE, hostile_packets

pytest.importorskip("jinja2")


def made(tmp_path: Path, *files: Path, **options: Any) -> str:
    out = tmp_path / "report.html"
    assert report(ReportPageRequest(files=[str(file) for file in files], out=str(out), quiet=True, **options)) in (0, 4)
    return out.read_text()


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_of_a_stuck_consumer_shows_why(captures: Path, tmp_path: Path) -> None:
    page = made(tmp_path, captures / "stuck-consumer.pcap")
    assert "2 warnings in 1 connection: consumer-starved (1) explaining consumer-not-acking (1)." in page
    assert "sent no further FLOW for 5.26 s. Who must act: the consumer&#39;s application." in page
    assert "connection #1 · frame 78.1" in page
    assert "problems that show only after 5.46 s of traffic" in page
    assert "<b>Try:</b> Look at the application" in page
    data = data_of(page)
    stuck = data["courses"][0]
    assert (stuck["subscription"], stuck["consumer"]) == ("stuck", "cons-stuck")
    assert (stuck["lines"]["permits_left"][-1], stuck["lines"]["unacknowledged"][-1]) == (0, 8)
    assert max(stuck["lines"]["permits_left"]) == 8
    assert sum(data["throughput"]["client_messages"]) == 100
    assert data["latency"][0]["request"] == "SEND"
    assert sum(octave[2] for octave in data["latency"][0]["octaves"]) == data["latency"][0]["count"] == 100
    assert sum(data["timeline"]["frames"]) == 339
    assert [lane["severity"] for lane in data["timeline"]["lanes"]] == ["warning", None]
    assert page.count("so far") == 8


@pytest.mark.parametrize(
    "name", ["kafka07.pcap", "mixed-pulsar-kafka.pcap", "bookkeeper/e3.pcap.zst", "raw-not-pulsar.pcap", "go-tls12.pcap"]
)
def test_every_protocol_has_a_page(captures: Path, tmp_path: Path, name: str) -> None:
    page = made(tmp_path, captures / name)
    frames = sum(1 for _ in ps.open(captures / name).frames())
    assert sum(data_of(page)["timeline"]["frames"]) == frames
    if "bookkeeper" in name:
        assert '<section class="table" id="table-legs">' in page
        assert '<section class="table" id="table-bookies">' in page


@pytest.mark.slow
def test_several_processes_make_the_same_page(captures: Path, tmp_path: Path) -> None:
    page = made(tmp_path, captures / "mixed-pulsar-kafka.pcap", captures / "errors.pcap", jobs=2)
    assert page == made(tmp_path, captures / "mixed-pulsar-kafka.pcap", captures / "errors.pcap")
    assert "mixed-pulsar-kafka.pcap" in page
    assert "errors.pcap" in page


def test_hostile_names_are_text(tmp_path: Path) -> None:
    page = made(tmp_path, capture(tmp_path, hostile_packets()))
    assert not {character for character in page if not character.isprintable()} - {"\n", "\r", "\t"}
    without_data = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<script" not in without_data
    assert "&lt;script&gt;alert(1)" in without_data
    assert any("<script>alert(1)</script>" in str(course["topic"]) for course in data_of(page)["courses"])
    assert HOSTILE[0] not in page


CAPTURES = [*sorted((ROOT / "captures").glob("*.pcap*")), ROOT / "captures" / "bookkeeper" / "auth.pcap.zst"]


@pytest.mark.slow
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_no_credential_payload_or_property_is_in_the_page(path: Path, tmp_path: Path) -> None:
    if secrets := credentials(path):
        page = made(tmp_path, path)
        assert not [secret for secret in secrets if secret in page]


def test_credentials_are_looked_for() -> None:
    for name, least in (("token-auth-py.pcap", 3), ("token-refresh-java.pcap", 3), ("proxy-keyshared.pcap", 2), ("go-schemas.pcap", 3)):
        assert len(credentials(ROOT / "captures" / name)) >= least, name


def credentials(path: Path) -> set[str]:
    """Values that must not be on any page, long enough not to be there by chance: credentials, payloads and values of properties."""
    found: set[str] = set()
    masked = list(ps.open(path).frames())
    for shown, row in zip(ps.open(path, show_secrets=True).frames(), masked, strict=True):
        if shown != row:
            for each in set(leaves(shown.fields)) - set(leaves(row.fields)):
                found |= {each.decode("latin-1"), each.hex(), base64.b64encode(each).decode()} if isinstance(each, bytes) else {str(each)}
    for message in ps.open(path, payload="text").messages():
        found |= {message.payload or "", *(message.properties or {}).values()}
    names = " ".join([*names_of(path), *(row.subscription or "" for row in masked)])
    return {text for text in found if len(text) >= 12 and text not in names}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value


def names_of(path: Path) -> set[str]:
    """Names of topics; retry topics have them in properties, too."""
    topics = {row.topic for row in ps.open(path).frames() if row.topic}
    return {form for topic in topics for form in (topic, topic.removeprefix("persistent://"))}


@pytest.mark.slow
def test_anonymized_pages_have_no_address_and_no_topic(captures: Path, tmp_path: Path) -> None:
    for name in ("stuck-consumer", "proxy-keyshared", "kafka07", "errors", "ipv6", "lo-java-txn", "java-schemas", "faults/g-addr-dead"):
        path = captures / f"{name}.pcap"
        plain, page = made(tmp_path, path), made(tmp_path, path, anonymize=True)
        for row in ps.open(path).connections():
            for end in (row.client, row.server):
                host = end.rpartition(":")[0].strip("[]")
                assert host in plain
                assert host not in page
        for topic in names_of(path):
            assert topic not in page
        for frame in ps.open(path).frames():
            for called in filter(None, (frame.subscription, frame.producer_name, (frame.fields or {}).get("consumer_name"))):
                assert f">{called}<" not in page
                assert f'"{called}"' not in page
                assert f"subscription {called} " not in page
        assert path.name not in page
        assert "are pseudonyms" in page


@pytest.mark.slow
def test_pseudonyms_are_the_same_under_one_key(captures: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    pages = [made(tmp_path, captures / "stuck-consumer.pcap", mask_key=str(key)) for _ in range(2)]
    assert pages[0] == pages[1]
    assert made(tmp_path, captures / "stuck-consumer.pcap", anonymize=True) != pages[0]


def test_a_key_that_is_short_or_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    for name in ("key", "none"):
        with pytest.raises(UsageError, match="key"):
            mask_key("--anonymize-key", str(tmp_path / name))
    assert mask_key("--anonymize-key", None) != mask_key("--anonymize-key", None)


def test_a_filter_narrows_charts_and_tables_but_not_the_verdict(captures: Path, tmp_path: Path) -> None:
    page = made(tmp_path, captures / "stuck-consumer.pcap", filter="command == SEND")
    assert "2 warnings in 1 connection" in page
    assert "only what matches command == SEND" in page
    assert set(data_of(page)["timeline"]["commands"]) == {"SEND"}


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("x.txt", ".txt"), ("x.JSON", ".JSON"), ("x.csv.gz", ".csv"), ("x.html", None), ("x.html.zst", None), ("monday.2", None)],
)
def test_a_name_of_another_kind_of_file_is_remarked(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, suffix: str | None
) -> None:
    out = tmp_path / name
    assert report(ReportPageRequest(files=[str(captures / "raw-not-pulsar.pcap")], out=str(out))) == 0
    remark = f"pulsarscope: {out} is a page (HTML), though its name ends in {suffix}\n"
    assert (remark in capsys.readouterr().err) == (suffix is not None)
