"""What the screen and the metrics of a live capture count of a path of which both legs are captured."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pulsarscope.cli.live import WATCHED_KINDS
from pulsarscope.cli.live_capture import LiveCapture
from pulsarscope.cli.live_request import LiveRequest
from pulsarscope.cli.run_command import run_options
from tests.places import CAPTURES


def piped(folder: Path, data: bytes) -> str:
    """The name of a pipe through which a capture comes."""
    path = folder / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
    return str(path)


@pytest.mark.parametrize("values", [{"top": True}, {"metrics": "127.0.0.1:0"}], ids=["top", "metrics"])
def test_a_consumer_behind_a_proxy_is_one(tmp_path: Path, values: dict[str, Any]) -> None:
    data = (CAPTURES / "proxy-keyshared.pcap").read_bytes()
    request = LiveRequest(interfaces=[piped(tmp_path, data[: len(data) * 2 // 3])], jobs=1, **values)
    shown: Sequence[str] = sorted(WATCHED_KINDS) if request.top else ("frame",)
    options = msgspec.structs.replace(run_options(request, tuple(shown), None), live=True)
    options = msgspec.structs.replace(options, records=options.records | WATCHED_KINDS, rules=True, payloads=True)
    capture = LiveCapture(request, options, frozenset(shown))
    consumers: list[dict[str, Any]] = []
    for batch in capture.start(options, None):
        batch.rows = capture.once.kept(batch.rows, capture.endpoints())
        capture.watch(batch)
        consumers = capture.consumer_records() or consumers
    capture.feed.close()
    assert len(consumers) == len({(each["subscription"], each["consumer"]) for each in consumers})
    assert not {each["connection"] for each in consumers} & capture.once.outer_of.keys()
