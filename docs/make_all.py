"""Writes all that is made of the package: pages and their examples, completion scripts, man pages, the self-test, and the README's picture.

python -m docs.make_all
"""

from __future__ import annotations

from runpy import run_module

MAKERS = ("make_findings", "make_reference", "make_metrics", "make_examples", "make_share", "make_selftest", "make_picture")

if __name__ == "__main__":
    for name in MAKERS:
        run_module(f"docs.{name}", run_name="__main__")
