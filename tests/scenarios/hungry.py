"""Tasks that need more memory than there is."""

from __future__ import annotations

import resource
from pathlib import Path

from pulsarscope.model.platform import load_native


class Hungry:
    """One whose unpickling needs it."""

    def __reduce__(self) -> tuple[object, ...]:
        return bytearray, (1 << 62,)


class HungryReader:
    """One for which the compiled reader needs it; only on Linux."""

    def __call__(self) -> None:
        native = load_native()[0]
        stretches = [(b"", b"", 0, 0)] * 4_000_000
        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (8 << 20),) * 2)
        native.merged_lines(stretches)
