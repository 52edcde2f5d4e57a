"""Making everything that is made from the package."""

from __future__ import annotations

import pytest

from docs import make_all
from pulsarscope.protocols import DISSECTORS
from tests.dissect.third_protocol.pulsarscope_postcard import PostcardDissector


@pytest.mark.parametrize("package", ["", "pulsarscope-postcard"])
def test_nothing_is_made_while_another_package_adds_to_it(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    made: list[str] = []
    added = [type("Added", (PostcardDissector,), {"package": package})()] if package else []
    monkeypatch.setattr(make_all, "make_dissectors", lambda: [*(own() for own in DISSECTORS), *added])
    monkeypatch.setattr(make_all, "run_module", lambda name, **_: made.append(name))
    if package:
        with pytest.raises(SystemExit, match=f"uninstall {package} first"):
            make_all.main()
    else:
        make_all.main()
    assert len(made) == (0 if package else len(make_all.MAKERS))
