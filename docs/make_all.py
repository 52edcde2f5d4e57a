"""Writes everything made from the package: pages and examples, completion scripts, man pages, the self-test, and the README's pictures.

python -m docs.make_all
"""

from __future__ import annotations

from runpy import run_module

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.protocols import make_dissectors

MAKERS = ("make_findings", "make_reference", "make_metrics", "make_examples", "make_share", "make_selftest", "make_picture")


def main() -> None:
    """Run all makers. Raises SystemExit if dissectors of other packages are installed, whose findings and fields all outputs would have."""
    if others := sorted({made.package for made in make_dissectors()} - {Dissector.package}):
        message = f"uninstall {', '.join(others)} first: pages and scripts would contain what it adds"
        raise SystemExit(message)
    for name in MAKERS:
        run_module(f"docs.{name}", run_name="__main__")


if __name__ == "__main__":
    main()
