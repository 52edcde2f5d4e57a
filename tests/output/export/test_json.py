from __future__ import annotations

import json

import pytest

from pulsarscope.output.registry import output
from tests.scenarios import rows
from tests.scenarios.rows import Memory


@pytest.mark.parametrize("blocks", [[], [0], [1], [0, 2, 0, 1], [3]])
def test_the_array_holds_what_ndjson_has_line_by_line(blocks: list[int]) -> None:
    sinks = {name: Memory() for name in ("json", "ndjson")}
    for name, sink in sinks.items():
        made = output(name)(sink, rows.options())
        for count in blocks:
            made.write([rows.send(number, topic="a\nb") for number in range(count)])
        made.close()
    array = json.loads(sinks["json"].data)
    assert array == [json.loads(line) for line in sinks["ndjson"].data.splitlines()]
    assert sinks["json"].data.endswith(b"]\n")
