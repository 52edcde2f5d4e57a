"""HTML pages in one file: templates that escape all their input, and a policy under which a browser runs nothing else.

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
from pulsarscope.output.html.sortable_tables import LEFT

_PACKAGE = "pulsarscope.output.html"

_OWN_WORDS = frozenset({"severity", "code", "layer", "command", "direction", "request", "dissector", "state", "type", "closed", "status"})
"""Keys whose values are our own words or words of the protocol."""


def require_jinja() -> None:
    """Raise UsageError with the way to install jinja2 when it is missing."""
    try:
        import jinja2  # noqa: F401 - the import is the test
    except ImportError as error:
        raise UsageError(f"HTML needs jinja2: {install_command('report')}") from error


def page(template: str, data: Mapping[str, Any], charts: Mapping[str, Any] | None = None) -> bytes:
    """Return a page made of texts that are already escaped for people (see `printable`) and the data of its charts."""
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
    # The policy has the hashes of these texts, so the page must contain them unchanged. They are our own, and a test says what they must
    # not contain.
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
    """Return a plain value with `change` applied to its texts, and everything invisible or active in them escaped.

    Keys are our own words and stay unchanged, even if a topic has such a name. Keys inside the values of evidence may be names: `named`
    changes them, too. The values of some keys are also our own words.
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
    """Apply `printable` to the evidence of findings, whose own keys are our words."""
    if isinstance(value, Mapping):
        return {escape(name): printable(item, change, named=True) for name, item in value.items()}
    return [_evidence(item, change) for item in value] if isinstance(value, (list, tuple)) else printable(value, change)


def _json(value: Any) -> str:
    """Return JSON that cannot end an HTML element, whatever texts it contains."""
    text = msgspec.json.encode(value).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _asset(name: str) -> str:
    return (files(_PACKAGE) / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
