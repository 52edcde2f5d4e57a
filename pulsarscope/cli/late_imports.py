"""Early imports of modules that are normally imported on use, for a process that becomes a user without permission to read them."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

PACKAGES = ("capture", "dissect", "engine", "inputs", "output", "protocols", "tls")
"""Rooms whose modules decoding imports on use."""

OTHERS = (
    "cramjam",
    "cryptography.hazmat.primitives.asymmetric.padding",
    "cryptography.hazmat.primitives.ciphers.aead",
    "encodings.idna",
    "lz4.block",
    "prometheus_client.core",
    "pulsarscope.cli.screen",
    "pulsarscope_native",
    "pyarrow.parquet",
    "rich.cells",
    "zstandard",
)

OF_SCREEN = ("textual.drivers.linux_driver",)


def import_late_modules(*, browse: bool = False) -> None:
    """Import these modules now; with `browse`, also those of the screen. Skip extras that are not installed."""
    for room in (*PACKAGES, *(("browse",) if browse else ())):
        package = import_module(f"pulsarscope.{room}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):
                import_module(module.name)
    for name in (*OTHERS, *(OF_SCREEN if browse else ())):
        with suppress(ImportError):
            import_module(name)
