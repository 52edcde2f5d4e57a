"""Dissectors that come from elsewhere. This room knows no protocol: who composes the program says where they are."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from pulsarscope.dissect.contract import Dissector

DEFAULT = "pulsarscope.protocols:DISSECTORS"
"""Where the dissectors of the package are listed; looked up by name on first use."""


def default_dissector() -> Dissector:
    """The first dissector of the package."""
    module, _, attribute = DEFAULT.partition(":")
    classes: Any = getattr(import_module(module), attribute)
    return cast("Dissector", classes[0]())
