"""Options of runs with the dissectors of the package."""

from __future__ import annotations

from pulsarscope.engine import options
from pulsarscope.engine.options import MakeDissectors
from pulsarscope.protocols import make_dissectors


class Options(options.Options, frozen=True):
    """Options of the engine, with all dissectors by default."""

    dissectors: MakeDissectors = make_dissectors
