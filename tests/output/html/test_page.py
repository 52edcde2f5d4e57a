from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.output.html.page import page, printable, require_jinja
from tests.places import PACKAGE

ASSETS = PACKAGE / "output" / "html" / "assets"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u2028\u202e\x1b[2J\"'&"
DATA = {
    "title": HOSTILE,
    "level": "healthy",
    "state": HOSTILE,
    "cause": HOSTILE,
    "not_judged": [HOSTILE],
    "span": "",
    "figures": [(HOSTILE, HOSTILE)],
    "findings": [],
    "journeys": [],
    "tables": [],
    "has_courses": False,
    "notes": [HOSTILE],
    "anonymized": False,
    "version": "1",
}


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("script", "style"):
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, _tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.texts[self._inside][-1] += data


@pytest.fixture(scope="module")
def made() -> str:
    pytest.importorskip("jinja2")
    return page("report.html", printable(DATA), printable({"name": HOSTILE})).decode()


def test_hostile_texts_are_no_markup(made: str) -> None:
    elements = Elements(made)
    scripts = [attributes for tag, attributes in elements.found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}, {}]
    assert not [tag for tag, _ in elements.found if tag in ("img", "iframe", "object", "embed", "form", "base")]
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on") or name == "style"]
    assert json.loads(elements.texts["script"][0])["name"].startswith("</script><script>")
    assert not {"\u2028", "\u202e", "\x1b"} & set(made)


def test_the_policy_allows_the_scripts_and_styles_of_the_page_and_nothing_else(made: str) -> None:
    elements = Elements(made)
    (policy,) = [attributes["content"] for tag, attributes in elements.found if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    directives = {name: set(sources) for name, *sources in (part.split() for part in policy.split("; "))}
    assert directives["default-src"] == {"'none'"}

    def hashes(texts: list[str]) -> set[str]:
        return {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts}

    assert directives["script-src"] == hashes(elements.texts["script"][1:])
    assert directives["style-src"] == hashes(elements.texts["style"])


def test_the_page_names_no_place_to_load_from(made: str) -> None:
    for _, attributes in Elements(made).found:
        assert attributes.get("src") is None
        assert (attributes.get("href") or "data:,") == "data:,"
    assert not re.search(r"@import|url\(", (ASSETS / "report.css").read_text() + (ASSETS / "uplot.min.css").read_text())
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|sendBeacon|importScripts|eval)\b|https?://(?!www\.w3\.org/2000/svg)",
                         (ASSETS / "report.js").read_text())  # fmt: skip


def test_no_asset_ends_its_element() -> None:
    for path in ASSETS.iterdir():
        if path.suffix in (".js", ".css"):
            assert not re.search(r"</(?:script|style)|<!--", path.read_text(), re.IGNORECASE)


def test_the_library_of_charts_is_the_one_that_is_said() -> None:
    readme = (ASSETS / "README.md").read_text()
    for name in ("uplot.min.js", "uplot.min.css"):
        assert f"`{name}`" in readme
        assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() in readme
    assert "MIT License" in (ASSETS / "uplot.LICENSE").read_text()


def test_a_missing_extra_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"pip install .*\[report\]"):
        require_jinja()


def test_the_script_is_one_that_node_can_read() -> None:
    try:
        subprocess.run(["node", "--check", str(ASSETS / "report.js")], check=True, capture_output=True)  # noqa: S607
    except FileNotFoundError:
        pytest.skip("no node here")


def test_keys_are_our_own_words_but_for_those_in_values_of_evidence() -> None:
    value = {"topic": "topic", "samples": [{"evidence": {"topic": "a", "counts": {"topic": 3}}}]}
    changed = printable(value, lambda text: text.replace("topic", "masked"))
    assert changed == {"topic": "masked", "samples": [{"evidence": {"topic": "a", "counts": {"masked": 3}}}]}
