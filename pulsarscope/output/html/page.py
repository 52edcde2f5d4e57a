"""HTML pages in one file: templates that escape all they are given, and a policy under which a browser runs nothing else.

Script and styles are part of the page and allowed by their hashes; nothing is loaded from anywhere.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import install_command
from pulsarscope.model.text import escape
from pulsarscope.output.html.tables import LEFT

_PACKAGE = "pulsarscope.output.html"

_OWN_WORDS = frozenset({"severity", "code", "layer", "command", "direction", "request", "dissector", "state", "type", "closed", "status"})
"""Keys whose values are words of ours or of the protocol."""


def require_jinja() -> None:
    """Raise UsageError with the way to install jinja2 when it is missing."""
    try:
        import jinja2  # noqa: F401 - the import is the test
    except ImportError as error:
        raise UsageError(f"HTML needs jinja2: {install_command('report')}") from error


def page(template: str, data: Mapping[str, Any], charts: Mapping[str, Any] | None = None) -> bytes:
    """Return a page from texts that are escaped for people already (see `printable`), and the data of its charts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup  # noqa: PLC0415 - it comes with jinja2

    loader = PackageLoader(_PACKAGE, "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    styles = _asset("uplot.min.css") + _asset("report.css")
    scripts = [_asset("uplot.min.js"), _asset("report.js")]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hash(styles)}",
            f"script-src {' '.join(map(_hash, scripts))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    # The hashes are those of these very texts, so they stand in the page as they are; they are ours, and a test says what they lack.
    text: str = environment.get_template(template).render(
        **data,
        policy=policy,
        left=LEFT,
        styles=Markup(styles),  # noqa: S704
        scripts=[Markup(script) for script in scripts],  # noqa: S704
        charts=Markup(_json(charts or {})),  # noqa: S704
    )
    return text.encode(errors="backslashreplace")


def printable(value: Any, change: Callable[[str], str] = str, *, named: bool = False) -> Any:
    """Return a plain value whose texts have been through `change` and have nothing invisible or active in them.

    Keys are our own words, which a topic may have for its name, but for those inside the values of evidence, which may be names:
    `named` changes them, too. So are the values of some keys.
    """
    if isinstance(value, str):
        return escape(change(value))
    if isinstance(value, Mapping):
        if named:
            return {escape(change(name)): printable(item, change, named=True) for name, item in value.items()}
        return {
            escape(name): (_evidence if name == "evidence" else printable)(item, str if name in _OWN_WORDS else change)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [printable(item, change, named=named) for item in value]
    return value


def _evidence(value: Any, change: Callable[[str], str]) -> Any:
    """Do as `printable` with the evidence of findings, whose own keys are our words."""
    if isinstance(value, Mapping):
        return {escape(name): printable(item, change, named=True) for name, item in value.items()}
    return [_evidence(item, change) for item in value] if isinstance(value, (list, tuple)) else printable(value, change)


def _json(value: Any) -> str:
    """Return JSON that ends no element of HTML, whatever texts are in it."""
    text = msgspec.json.encode(value).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _asset(name: str) -> str:
    return (files(_PACKAGE) / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
