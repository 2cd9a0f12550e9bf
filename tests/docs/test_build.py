"""The site: every page stands in its navigation, and no link leads nowhere."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_readme import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "build.py"), run_name="build")


def test_every_page_is_in_the_navigation(site: dict[str, Any]) -> None:
    shown = {page for pages in site["NAVIGATION"].values() for page in pages.values()}
    written = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert written <= shown
    assert shown == written | set(site["OUTSIDE"].values()) | {page for page in shown if page.startswith("reference-")}


def test_the_reference_is_made_from_the_code(site: dict[str, Any]) -> None:
    made = {name: "\n".join(site[name]()) for name in ("commands", "keys", "python", "rest")}
    assert "usage: python -m evalflow compare" in made["commands"]
    assert "| `gate` | Conditions on its summary rows" in made["keys"]
    assert "## run\n\n```python\nrun(*overrides: str" in made["python"]
    assert "- `overrides`: Those of the command line" in made["python"]
    assert "| `POST /runs` |" in made["rest"]


def test_no_link_leads_nowhere(site: dict[str, Any]) -> None:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("NO ZENSICAL: the site is not built; pip install -e '.[dev]'")
    assert site["main"]() == 0
    page = Path(ROOT / "build" / "site" / "python" / "index.html").read_text(encoding="utf-8")
    assert "evalflow in Python" in page
