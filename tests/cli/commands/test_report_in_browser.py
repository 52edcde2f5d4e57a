"""Pages of reports in Chromium: the one named by PULSARSCOPE_CHROMIUM, that of the system, or that of playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pulsarscope.cli.commands.report import ReportPageRequest, report
from tests.scenarios.bad_inputs.cases import capture
from tests.scenarios.bad_inputs.text import hostile_packets

pytest.importorskip("jinja2")
playwright = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.browser


class Opened(NamedTuple):
    page: Any
    requests: list[str]
    errors: list[str]
    """Messages of the console, and exceptions."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(
                executable_path=os.environ.get("PULSARSCOPE_CHROMIUM") or shutil.which("chromium"), args=arguments
            )
        except playwright.Error as error:
            pytest.skip(f"no Chromium here: {error.message.splitlines()[0]}")
        yield browser
        browser.close()


def opened(chromium: Any, path: Path, width: int = 1280, scheme: str = "light") -> Opened:
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    result = Opened(page, [], [])
    page.on("request", lambda request: result.requests.append(request.url))
    page.on("console", lambda message: result.errors.append(message.text))
    page.on("pageerror", lambda error: result.errors.append(str(error)))
    page.on("dialog", lambda dialog: result.errors.append(f"dialog {dialog.message}"))
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.zoom !== undefined")
    return result


@pytest.fixture(scope="module")
def stuck(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stuck") / "report.html"
    report(ReportPageRequest(files=[str(captures / "stuck-consumer.pcap")], out=str(out), quiet=True))
    return out


def shown(page: Any) -> list[float]:
    return [float(end) for end in page.evaluate("document.documentElement.dataset.zoom").split()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_loads_nothing_logs_no_error_and_fits(chromium: Any, stuck: Path, width: int, scheme: str) -> None:
    page, requests, errors = opened(chromium, stuck, width, scheme)
    assert requests == [stuck.as_uri()]
    assert errors == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator(".chart canvas").count() == 5
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(each => each)"
    assert all(page.locator(".chart canvas").nth(place).evaluate(drawn) for place in range(5))
    page.close()


def test_what_is_printed_is_light_and_fits_the_paper(chromium: Any, stuck: Path) -> None:
    page, _, errors = opened(chromium, stuck, scheme="dark")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 900})
    assert max(page.locator("canvas").nth(at).evaluate("each => each.getBoundingClientRect().right") for at in range(5)) <= 700
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".u-legend .u-series:first-child").first.is_visible(), "there is no pointer whose time it could tell"
    assert errors == []
    page.close()


def test_the_policy_stops_scripts_and_requests(chromium: Any, stuck: Path) -> None:
    page, _, errors = opened(chromium, stuck)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\"><p style=\"color:red\">')")
    page.evaluate(
        "() => { const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script); }"
    )
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in error for error in errors)
    page.close()


def test_a_table_sorts_by_its_headings_and_filters_by_its_field(chromium: Any, stuck: Path) -> None:
    page, _, errors = opened(chromium, stuck)
    table = page.locator("#table-exchanges")

    def column(number: int) -> list[str]:
        found: list[str] = table.locator(f"tbody tr:visible td:nth-child({number})").all_inner_texts()
        return found

    table.locator("th", has_text="count").locator("button").click()
    counts = [int(text) for text in column(2)]
    assert counts == sorted(counts, reverse=True)
    table.locator("th", has_text="count").locator("button").click()
    assert [int(text) for text in column(2)] == sorted(counts)
    table.locator("th", has_text="request").locator("button").click()
    assert column(1) == sorted(column(1))
    table.locator("input").fill("producer")
    assert column(1) == ["CLOSE_PRODUCER", "PRODUCER"]
    table.locator("input").fill("")
    assert len(column(1)) == len(counts)
    assert errors == []
    page.close()


def test_all_charts_zoom_together(chromium: Any, stuck: Path) -> None:
    page, _, errors = opened(chromium, stuck)
    whole = shown(page)
    page.locator("[data-zoom=in]").click()
    assert shown(page)[1] - shown(page)[0] == pytest.approx((whole[1] - whole[0]) / 2)
    page.locator("[data-zoom=right]").click()
    assert shown(page)[1] == pytest.approx(whole[1])
    page.locator("[data-zoom=all]").click()
    assert shown(page) == pytest.approx(whole)
    over = page.locator("#throughput .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 50, steps=5)
    page.mouse.up()
    assert shown(page)[1] - shown(page)[0] == pytest.approx((whole[1] - whole[0]) * 0.2, rel=0.02)
    over.dblclick()
    assert shown(page) == pytest.approx(whole)
    page.locator(".jump").first.click()
    start, end = shown(page)
    assert start <= 0.037367 <= end
    assert end - start < (whole[1] - whole[0]) / 10
    assert errors == []
    page.close()


def test_evidence_unfolds_and_frames_say_what_they_are(chromium: Any, stuck: Path) -> None:
    page, _, errors = opened(chromium, stuck)
    evidence = page.locator(".evidence").first
    evidence.locator("summary").click()
    assert "unacknowledged" in evidence.inner_text()
    over = page.locator("#timeline .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.7)
    assert "connection #15" in page.locator(".tip").inner_text()
    assert errors == []
    page.close()


def test_hostile_names_run_nothing(chromium: Any, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    report(ReportPageRequest(files=[str(capture(tmp_path, hostile_packets()))], out=str(out), quiet=True))
    page, requests, errors = opened(chromium, out)
    page.locator("#courses-more").click()
    assert "<script>alert(1)</script>" in page.locator("#courses").inner_text()
    assert (requests, errors) == ([out.as_uri()], [])
    page.close()
