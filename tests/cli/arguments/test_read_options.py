"""The options of every command that reads captures."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.inputs.private_keys import read_key_files, rsa_keys
from pulsarscope.model.errors import UsageError
from pulsarscope.protocols.pulsar.entry.encryption import _decrypted
from tests.scenarios import write_pcapng
from tests.scenarios.recapture import bridged, packets_of

EC_KEY = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

READ_CAPTURES = ("decode", "messages", "stats", "diagnose", "compare", "extract", "follow")


@pytest.mark.parametrize("command", [*READ_CAPTURES, "pipeline"])
def test_each_command_that_reads_captures_offers_all_of_them(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"]).output
    assert {"--" + name.replace("_", "-") for name in ReadOptions.__struct_fields__} <= set(re.findall(r"--[a-z-]+", result))


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (["decode", "--records", "connection"], "at br0"),
        (["messages"], "at br0"),
        (["stats"], "2 connections"),
        (["diagnose"], "stream-gap"),
        (["follow", "--topic", "ng-t-421"], "at br0"),
    ],
)
def test_interfaces_are_distinguished_by_each_of_them(captures: Path, tmp_path: Path, command: list[str], where: str) -> None:
    path = str(write_pcapng(tmp_path / "bridge.pcapng", bridged(packets_of(captures / "quickstart.pcapng"), lost=10)))
    assert where not in CliRunner().invoke(app, [*command, path]).output
    assert where in CliRunner().invoke(app, [*command, path, "--source-by", "interface"]).output


def test_packets_of_one_interface_are_extracted_and_what_two_show_is_compared(captures: Path, tmp_path: Path) -> None:
    packets = packets_of(captures / "quickstart.pcapng")
    path = str(write_pcapng(tmp_path / "bridge.pcapng", bridged(packets)))
    out = str(tmp_path / "br0.pcapng")
    CliRunner().invoke(app, ["extract", path, "--source-by", "interface", "--records", "connection", "-Y", "source == 'br0'", "-o", out])
    assert len(list(ps.open(out).frames())) == len(list(ps.open(str(captures / "quickstart.pcapng")).frames()))
    assert {row.source for row in ps.open(out, source_by="interface").frames()} == {"br0"}
    result = CliRunner().invoke(app, ["compare", path, out, "--source-by", "interface", "--format", "json"]).output
    assert "packet-duplicate" not in result


def test_no_other_command_does() -> None:
    assert "--decode-as" not in CliRunner().invoke(app, ["fields", "--help"]).output


@pytest.mark.parametrize("command", ["decode", "stats"])
def test_they_reach_the_run(command: str, captures: Path) -> None:
    capture = str(captures / "quickstart.pcapng")
    result = CliRunner().invoke(app, [command, capture, "-d", "6650=nothing"])
    assert result.exception is not None
    assert "no dissector is named 'nothing'" in str(result.exception)


def test_the_library_takes_ports_as_the_command_line_does(captures: Path) -> None:
    capture = str(captures / "raw-not-pulsar.pcap")
    rows = list(ps.open(capture, ports=[6650]).frames())
    lines = CliRunner().invoke(app, ["decode", capture, "--port", "6650", "--format", "ndjson", "-q"]).stdout.splitlines()
    assert len(lines) == len(rows) > 0
    assert [json.loads(line)["offset"] for line in lines] == [row.offset for row in rows]
    assert len(list(ps.open(capture, decode_as={6650: "pulsar"}).frames())) == len(rows)


def test_key_logs_open_tls_for_the_command_line_and_the_library_alike(captures: Path) -> None:
    capture = str(captures / "go-tls13.pcap")
    key_logs = [str(captures / f"go-tls{version}.keylog") for version in ("12", "13")]
    rows = list(ps.open(capture, tls_keylog=key_logs).frames())
    assert len(rows) > 50
    assert rows == list(ps.open(capture, tls_keylog=key_logs[1]).frames())
    arguments = ["decode", capture, *(f"--tls-keylog={path}" for path in key_logs), "--format", "ndjson", "-q"]
    lines = CliRunner().invoke(app, arguments).stdout.splitlines()
    assert [json.loads(line)["command"] for line in lines] == [row.command for row in rows]


def test_the_environment_opens_nothing(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(captures / "go-tls13.keylog"))
    assert list(ps.open(str(captures / "go-tls13.pcap")).frames()) == []


@pytest.mark.parametrize("command", [*READ_CAPTURES, "pipeline"])
def test_a_key_log_that_cannot_be_read_is_one_line(command: str, captures: Path) -> None:
    files = [str(captures / "quickstart.pcapng")] * (2 if command == "compare" else 1)
    more = ["--topic", "t"] if command == "follow" else ["-o", "never.pcapng"] if command == "extract" else []
    result = CliRunner().invoke(app, [command, *files, *more, "--tls-keylog", "missing.log"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "the TLS key log missing.log cannot be read: No such file or directory"


def run(command: str, capture: Path, *options: str) -> Any:
    files = [str(capture)] * (2 if command == "compare" else 1)
    if command == "follow":
        options = (*options, "--connection", "1")
    return CliRunner().invoke(app, [command, *files, *options])


@pytest.mark.parametrize("command", [*READ_CAPTURES, "pipeline"])
def test_a_private_key_of_another_kind_is_one_line_and_two_from_every_command(command: str, captures: Path, tmp_path: Path) -> None:
    path = tmp_path / "ec.pem"
    path.write_bytes(EC_KEY)
    out = ["-o", str(tmp_path / "out")] if command == "extract" else []
    result = run(command, captures / "encrypted.pcap", "--private-key", str(path), *out)
    assert isinstance(result.exception, UsageError)
    assert result.exception.exit_code == 2
    assert str(result.exception) == f"the private key {path} is a key of kind EC, which is not supported: only RSA keys decrypt messages"
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("decode", ("--records", "finding", "--format", "ndjson")),
        ("messages", ("--format", "ndjson")),
        ("diagnose", ()),
        ("diagnose", ("--format", "json")),
        ("compare", ("--format", "json")),
    ],
)
def test_private_keys_open_what_the_command_shows(command: str, options: tuple[str, ...], captures: Path) -> None:
    key = str(captures / "keys" / "e2e_a.private.pem")
    closed = run(command, captures / "go-encrypted.pcap", *options).stdout
    opened = run(command, captures / "go-encrypted.pcap", *options, "--private-key", key).stdout
    assert "encrypted-payload" in closed or '"status":"encrypted"' in closed
    assert "encrypted-payload" not in opened
    assert '"status":"encrypted"' not in opened


def test_the_library_takes_private_keys_as_the_command_line_does(captures: Path) -> None:
    capture, key = captures / "encrypted.pcap", str(captures / "keys" / "e2e_ag.private.pem")
    lines = run("messages", capture, "--format", "ndjson", "-q", "--private-key", key).stdout.splitlines()
    rows = list(ps.open(str(capture), private_key=key).messages())
    assert [json.loads(line)["payload_sha256"] for line in lines] == [row.payload_sha256 for row in rows]
    assert {row.status for row in rows} == {"ok"}
    with pytest.raises(UsageError, match="is not a private key in PEM or DER"):
        list(ps.open(str(capture), private_key=[str(capture)]).messages())


@pytest.mark.parametrize("command", READ_CAPTURES)
@pytest.mark.parametrize("options", [(), ("--format", "ndjson"), ("--show-secrets",), ("-V", "--show-secrets"), ("-x",)])
def test_private_keys_and_data_keys_are_in_no_output(command: str, options: tuple[str, ...], captures: Path, tmp_path: Path) -> None:
    key = captures / "keys" / "e2e_a.private.pem"
    out = tmp_path / "out"
    result = run(command, captures / "encrypted.pcap", "--private-key", str(key), *options, *(("-o", str(out)) * (command == "extract")))
    if result.exit_code == 2:
        return  # not an option of this command
    data = result.output.encode() + (out.read_bytes() if out.exists() else b"")
    assert data or command == "diagnose", "there is nothing to say any more"
    private = rsa_keys(read_key_files([str(key)]))[0]
    numbers = private.private_numbers()
    frames = ps.open(str(captures / "encrypted.pcap")).frames()
    wrapped = {item["value"] for row in frames for item in (row.metadata or {}).get("encryption_keys", [])}
    secrets = [_decrypted(private, value) or b"" for value in wrapped]
    secrets += [number.to_bytes(128, "big") for number in (numbers.p, numbers.q)] + key.read_bytes().splitlines()[1:-1]
    for secret in secrets:
        assert len(secret) >= 16
        for form in (secret, secret.hex().encode(), secret.hex(" ").encode(), base64.b64encode(secret)[:-4]):
            assert form not in data
