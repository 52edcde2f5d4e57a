"""A hook of MkDocs: links from pages to files outside of `docs` become plain text on the site, which does not have these files."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\(\.\./[^)\s]+\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page without links to files outside."""
    return OUTSIDE.sub(r"\1", markdown)
