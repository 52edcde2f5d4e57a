"""Paths through a proxy that fail on one of their legs, and ends that are not due to a proxy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

import pytest

from tests.faults.attempts import attempt
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame
from tests.scenarios.legs import HOSTS, Path

CODE = "proxy-leg-failed"

End = Callable[[Path], Any]


def one_after_the_other(first: End, second: End, wait: int = MILLISECOND) -> End:
    def end(path: Path) -> None:
        first(path)
        path.wait(wait)
        second(path)

    return end


def found(folder: FilePath, end: End, hosts: str = "apart", proxy: str = "pulsar") -> list[tuple[str, dict[str, Any]]]:
    path = Path(hosts, proxy).produce(12)
    end(path)
    diagnosis = diagnose(folder, path.outer, path.inner)
    return [(row.text or "", dict(row.evidence or {})) for row in diagnosis.findings if row.code == CODE]


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("proxy", ["pulsar", "balancer"])
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("wait", [MILLISECOND, 500 * MILLISECOND, 9 * SECOND])
def test_a_broker_that_ends_the_path_is_named(tmp_path: FilePath, hosts: str, proxy: str, how: str, wait: int) -> None:
    end = one_after_the_other(lambda path: getattr(path.inner, how)(by="server"), lambda path: path.outer.close(by="server"), wait)
    ((text, evidence),) = found(tmp_path, end, hosts, proxy)
    broker = "{}:{}".format(*HOSTS[hosts][3])
    assert (evidence["leg"], evidence["broker"], evidence["closed"]) == ("broker", broker, "rst" if how == "reset" else "fin")
    assert f"Broker {broker} {'reset' if how == 'reset' else 'closed'}" in text


@pytest.mark.parametrize("outer_first", [True, False])
@pytest.mark.parametrize("wait", [MILLISECOND, 2 * SECOND])
def test_a_proxy_that_ends_the_path_by_itself_is_named(tmp_path: FilePath, *, outer_first: bool, wait: int) -> None:
    ends: list[End] = [lambda path: path.outer.close(by="server"), lambda path: path.inner.close(by="client")]
    first, second = ends if outer_first else ends[::-1]
    ((text, evidence),) = found(tmp_path, one_after_the_other(first, second, wait))
    assert evidence["leg"] == "proxy"
    assert "The proxy at 10.0.0.2 ended the path" in text


@pytest.mark.parametrize("wait", [15 * SECOND, 40 * SECOND])
def test_a_client_that_is_not_notified_that_its_broker_is_gone_is_named(tmp_path: FilePath, wait: int) -> None:
    ((text, evidence),) = found(tmp_path, lambda path: (path.inner.reset(by="server"), path.outer.wait(wait).client(command_frame("PING"))))
    assert evidence["leg"] == "broker"
    assert "stays open" in text


@pytest.mark.parametrize(
    "end",
    [
        lambda path: path.close(),
        lambda path: (path.outer.reset(by="client"), path.inner.close(by="client")),
        lambda path: (path.outer.close(by="client"), path.wait(SECOND), path.inner.reset(by="client")),
        lambda path: (path.inner.reset(by="server"), path.outer.wait(100 * MILLISECOND).client(command_frame("PING"))),  # the capture ends
        lambda path: path.wait(20 * SECOND),
    ],
)
def test_a_path_that_its_client_ends_and_one_that_goes_on_did_not_fail(tmp_path: FilePath, end: End) -> None:
    assert found(tmp_path, end) == []


@pytest.mark.parametrize("target", ["10.9.0.3:6650", "pulsar://10.9.0.3:6650", "broker-1:6650"])
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("how", ["refused", "unanswered"])
def test_a_broker_that_a_proxy_does_not_reach_is_named(tmp_path: FilePath, target: str, how: str, *, answers: bool) -> None:
    outer = Conversation(("10.0.0.1", 40_000), ("10.0.0.2", 6650)).handshake()
    outer.client(command_frame("CONNECT", client_version="C", protocol_version=20, proxy_to_broker_url=target))
    tried = [attempt(("10.9.0.3", 6650), number * SECOND, how, port=42_000 + number, client="10.0.0.2") for number in (1, 2)]
    outer.wait(4 * SECOND)
    if answers:
        outer.server(command_frame("ERROR", request_id=-1 & (1 << 64) - 1, error="ServiceNotReady", message="gone"))
    outer.close(by="server")
    diagnosis = diagnose(tmp_path, outer, *tried)
    (row,) = [row for row in diagnosis.findings if row.code == CODE]
    assert (row.evidence or {})["broker"] == "10.9.0.3:6650"
    assert f"does not reach broker {target} for client 10.0.0.1:40000: 2 connections to 10.9.0.3:6650 were {how}" in (row.text or "")
    assert ("ServiceNotReady" in (row.text or "")) == answers


def test_a_broker_that_another_client_does_not_reach_is_no_matter_of_the_proxy(tmp_path: FilePath) -> None:
    outer = Conversation(("10.0.0.1", 40_000), ("10.0.0.2", 6650)).handshake()
    outer.client(command_frame("CONNECT", client_version="C", protocol_version=20, proxy_to_broker_url="10.9.0.9:6650"))
    outer.close(by="server")
    tried = [attempt(("10.9.0.3", 6650), number * SECOND, port=42_000 + number, client="10.0.0.2") for number in (1, 2)]
    assert CODE not in diagnose(tmp_path, outer, *tried).codes
