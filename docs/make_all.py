"""Writes everything made from the package: pages and examples, completion scripts, man pages, the self-test, and the README's pictures.

python -m docs.make_all
"""

from __future__ import annotations

from runpy import run_module

MAKERS = ("make_findings", "make_reference", "make_metrics", "make_examples", "make_share", "make_selftest", "make_picture")

if __name__ == "__main__":
    for name in MAKERS:
        run_module(f"docs.{name}", run_name="__main__")
