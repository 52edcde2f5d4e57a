"""Bounds: each has a reason and is used."""

from __future__ import annotations

import ast

import pytest

from pulsarscope.model import command_limits, limits, live_limits
from tests.architecture.modules import SOURCES, name_of
from tests.places import PACKAGE

BOUNDS = {name: value for module in (limits, live_limits, command_limits) for name, value in vars(module).items() if name.isupper()}
BODY = [
    node for name in ("limits.py", "live_limits.py", "command_limits.py") for node in ast.parse((PACKAGE / "model" / name).read_text()).body
]
USERS = "\n".join(
    path.read_text()
    for path in SOURCES
    if name_of(path) not in {"pulsarscope.model.limits", "pulsarscope.model.live_limits", "pulsarscope.model.command_limits"}
)


@pytest.mark.parametrize("name", BOUNDS)
def test_each_is_a_positive_number(name: str) -> None:
    assert isinstance(BOUNDS[name], int)
    assert BOUNDS[name] > 0


@pytest.mark.parametrize("name", BOUNDS)
def test_each_has_its_reason_behind_it(name: str) -> None:
    at = next(at for at, node in enumerate(BODY) if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name)
    reason = BODY[at + 1] if at + 1 < len(BODY) else None
    assert isinstance(reason, ast.Expr)
    assert isinstance(reason.value, ast.Constant)
    assert len(str(reason.value.value)) > 30


@pytest.mark.parametrize("name", BOUNDS)
def test_each_is_used(name: str) -> None:
    assert name in USERS


def test_those_of_the_design_have_its_values() -> None:
    assert limits.READ_BLOCK_MAX_BYTES == 640 << 10
    assert limits.OUT_OF_ORDER_MAX_BYTES == 4 << 20
    assert limits.FRAME_DEFAULT_MAX_BYTES + limits.FRAME_PADDING_BYTES == 5_242_880 + 10_240
    assert limits.FRAME_HARD_MAX_BYTES == 64 << 20
    assert limits.DECOMPRESSED_MAX_BYTES == 64 << 20
    assert limits.IDLE_CONNECTION_NANOSECONDS == 3600 * 10**9
    assert limits.MEMORY_MAX_BYTES == 256 << 20
    assert (limits.PENDING_MESSAGES_MAX, limits.PENDING_MESSAGES_MAX_BYTES) == (65_536, 16 << 20)
