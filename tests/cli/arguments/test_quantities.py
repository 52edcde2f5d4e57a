from __future__ import annotations

import pytest

from pulsarscope.cli.arguments.quantities import quantity
from pulsarscope.model.errors import UsageError
from pulsarscope.model.units import DURATIONS, SIZES


def test_numbers_have_units() -> None:
    assert quantity("1.5s", DURATIONS, "--for") == 1_500_000_000
    assert quantity("10MB", SIZES, "--rotate") == 10_000_000
    assert quantity("2 GiB", SIZES, "--rotate") == 2 << 30
    with pytest.raises(UsageError, match="--for 0s"):
        quantity("0s", DURATIONS, "--for")
