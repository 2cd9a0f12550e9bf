"""The site: every page stands in its navigation, no link leads nowhere, and the search works without a server."""

from __future__ import annotations

import importlib.util
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_readme import ROOT

pytestmark = pytest.mark.slow

MOST = 10
"""Pages in one place of the navigation, at most."""


@pytest.fixture(scope="module")
def site() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "build.py"), run_name="build")


@pytest.fixture(scope="module")
def built(site: dict[str, Any]) -> Path:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("NO ZENSICAL: the site is not built; pip install -e '.[dev]'")
    assert site["main"]() == 0, "a link leads nowhere"
    return ROOT / "build" / "site"


def pages_of(section: dict[str, Any]) -> Iterator[str]:
    for page in section.values():
        yield from [page] if isinstance(page, str) else pages_of(page)


def test_every_page_is_in_the_navigation_once(site: dict[str, Any]) -> None:
    shown = list(pages_of(site["NAVIGATION"]))
    written = {path.name for path in (ROOT / "docs").glob("*.md")}
    made = {page for page in shown if page.startswith("reference-")}
    assert sorted(shown) == sorted(written | set(site["OUTSIDE"].values()) | made)


def test_no_list_of_pages_is_long(site: dict[str, Any]) -> None:
    lists = list(site["NAVIGATION"].values())
    for pages in lists:
        lists += [section for section in pages.values() if isinstance(section, dict)]
    assert all(len(pages) <= MOST for pages in lists)


def test_every_picture_is_taken_and_shown() -> None:
    shown = [(ROOT / "README.md").read_text(encoding="utf-8").replace("(docs/", "(")]
    shown += [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    script = (ROOT / "docs" / "screens.py").read_text(encoding="utf-8")
    for picture in (ROOT / "docs").glob("*.png"):
        assert f"]({picture.name})" in "".join(shown)
        assert f'"{picture.stem}"' in script


def test_the_reference_is_made_from_the_code(site: dict[str, Any]) -> None:
    made = {name: "\n".join(site[name]()) for name in ("commands", "keys", "python", "rest")}
    assert "usage: python -m evalflow compare" in made["commands"]
    assert "| `gate` | Conditions on its summary rows" in made["keys"]
    assert "## run\n\n```python\nrun(*overrides: str" in made["python"]
    assert "- `overrides`: Those of the command line" in made["python"]
    assert "| `POST /runs` |" in made["rest"]


def test_the_start_page_and_the_readme_are_on_the_site(built: Path) -> None:
    assert "Five jobs" in (built / "index.html").read_text(encoding="utf-8")
    assert "An evaluation is a YAML file" in (built / "overview.html").read_text(encoding="utf-8")


@pytest.mark.browser
def test_the_search_finds_a_page_from_a_folder_without_a_network(browser: Any, built: Path) -> None:
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((built / "index.html").as_uri())
    page.keyboard.press("Control+k")
    page.get_by_role("dialog", name="Search").get_by_role("combobox").fill("passkey")
    page.get_by_role("option", name="Passkeys").first.click()
    page.wait_for_url("**/sign-in.html*")
    assert all(url.startswith("file:") for url in requests)
    page.close()
