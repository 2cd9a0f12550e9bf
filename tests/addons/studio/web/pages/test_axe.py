"""No page breaks a rule of axe-core, changes a name, or is wider than a screen.

Contrasts it measures on the pages that have most widgets; `test_contrast.py` holds every pair of the style sheets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe

import evalflow.addons.studio.web.pages
from evalflow.addons.studio.work import (
    bots,
    cases,
    check_uses,
    checks,
    comments,
    datasets,
    judges,
    reviews,
    tasks,
)
from evalflow.addons.studio.work.checks import CheckDraft, CheckExample
from evalflow.addons.studio.work.comments import CommentedOn
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.tasks import TaskDraft
from tests.addons.studio.web.conftest import Fits, Server, working_in
from tests.addons.studio.web.finished import Finished, finish_runs
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.web.pages.plain import PLAIN

pytestmark = [pytest.mark.slow, pytest.mark.browser]
SOURCES = sorted(Path(evalflow.addons.studio.web.pages.__file__).parent.glob("*.py"))
PATHS = sorted({path for file in SOURCES for path in re.findall(r'guarded_page\("([^"]+)"', file.read_text("utf-8"))})
QUERIES = {
    "/bots/{bot}/metrics/new": ["", "?view=yaml"],
    "/compare": ["?a={worse}&b={better}", ""],
    "/history": ["?bot={bot}&dataset={dataset}&metric={metric}", ""],
}
"""Addresses of a page beside or instead of the plain one."""
MISSING = ["/nowhere", "/bots/none", "/runs/none"]
"""Addresses of nothing."""

UNSTUCK = """() => { for (const one of document.querySelectorAll("main *")) {
  if (getComputedStyle(one).position === "sticky") one.style.position = "static"; } }"""
"""axe-core takes the page for the background of what is in a sticky element."""
VIOLATIONS = """contrast => axe.run({resultTypes: ["violations"], rules: {"color-contrast": {enabled: contrast}}})
  .then(found => found.violations)"""
CONTRASTED = [
    "/",
    "/bots/{bot}/metrics/new",
    "/compare",
    "/datasets/{dataset}/cases/{case}",
    "/runs/{run}",
    "/runs/new",
]
"""The pages of which axe-core measures contrasts, in both colours: three quarters of its time on a page."""


NAME, RIGHT_TO_LEFT = "Ünïcode «x» <b>bold 007", "שלום <b>עולם 007"
NAMES = """([name, rightToLeft]) => {
  const faults = [], visible = (node) => node.parentElement.checkVisibility();
  const walk = document.createTreeWalker(document.querySelector("#app"), NodeFilter.SHOW_TEXT);
  const flat = (it) => it.normalize("NFKD").toLowerCase().replaceAll(/[^a-z]+/g, "");
  while (walk.nextNode()) {
    const node = walk.currentNode, content = node.data, style = getComputedStyle(node.parentElement);
    if (!content.trim() || !visible(node)) continue;
    if (flat(content).includes(flat("Ünïcode «x» bold")) && !content.includes(name)) faults.push(`changed: ${content}`);
    if (content.includes(name) && style.textTransform !== "none") faults.push(`${style.textTransform}: ${content}`);
    const runs = style.direction === "rtl" || style.unicodeBidi === "plaintext";
    if (content.trim().startsWith(rightToLeft.slice(0, 4)) && !runs) faults.push(`left to right: ${content}`);
  }
  for (const field of document.querySelectorAll("input, textarea"))
    if (field.value.startsWith(rightToLeft.slice(0, 4)) && getComputedStyle(field).direction !== "rtl")
      faults.push(`left to right, in a field: ${field.value}`);
  if (document.querySelector("#app b")) faults.push(`as HTML: ${document.querySelector("#app b").textContent}`);
  return faults;
}"""
"""Where a name is not shown as it was typed, or a text does not run in the direction of its letters."""


@pytest.fixture(name="finished", scope="module")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The runs, with names and texts that people may type."""
    with working_in(tmp_path_factory.mktemp("typed")) as space:
        finished = finish_runs(space, NAME, f"{RIGHT_TO_LEFT} {{}}?")
        request = ReviewRequest(name=NAME, run_id=finished.better, metrics=["exact"], size=6, people=["local"])
        reviews.create_review(space, request)
        tasks.create_task(space, TaskDraft(NAME, RIGHT_TO_LEFT, run=finished.better, position=0))
        comments.add_comment(space, CommentedOn(task=1), RIGHT_TO_LEFT)
        bots.update_bot(space, "fees", 1, description=RIGHT_TO_LEFT)
        datasets.update_dataset(space, "questions", 1, description=RIGHT_TO_LEFT)
        ids = cases.case_ids(space, "questions")
        cases.tag_cases(space, "questions", ids[:1], add=["Fees > Card", "fees", NAME, RIGHT_TO_LEFT])
        judges.create_judge(space, "mine", {"kind": "openai", "model": NAME}, RIGHT_TO_LEFT)
        examples = [CheckExample(RIGHT_TO_LEFT, passes=True), CheckExample("Hi!", passes=False)]
        check = CheckDraft("greets", "string_matching", {"keyword": RIGHT_TO_LEFT}, NAME, RIGHT_TO_LEFT, examples)
        checks.create_check(space, check)
        check_uses.enable_check(space, "questions", ids[:1], "greets")
        return finished


@pytest.fixture(name="pages", scope="module")
def _pages(finished: Finished) -> Iterator[Server]:
    with paged(finished.folder) as server:
        yield server


@pytest.fixture(name="profile", scope="module")
def _profile(browser: Any, pages: Server) -> Iterator[Any]:
    """Without the content security policy, since axe-core styles elements while it measures contrasts."""
    context = browser.new_context(bypass_csp=True)
    context.add_cookies([pages.cookie])
    context.set_default_timeout(60_000)
    yield context
    context.close()


@pytest.mark.parametrize("path", [*PATHS, *MISSING])
def test_no_page_breaks_a_rule_or_changes_a_name(
    visit: Callable[..., Any], finished: Finished, fits: Fits, path: str
) -> None:
    names = {
        **{"bot": "fees", "metric": "exact", "dataset": "questions", "case": "1", "position": "0"},
        **{"run": finished.better, "worse": finished.worse, "better": finished.better},
        **{"user": "nobody", "project": "default", "connection": "none", "judge": "mine", "task": "1"},
        **{"review": quote(NAME, safe=""), "check": "greets"},
    }
    broken: list[str] = []
    for query in QUERIES.get(path, [""]):
        address = f"{path}{query}".replace("/library/{metric}", "/library/faithfulness").format_map(names)
        page = visit(address)
        page.locator("h1").wait_for()
        page.wait_for_load_state("networkidle")
        page.evaluate(Axe().axe_script)
        broken += [f"{address} {fault}" for fault in page.evaluate(NAMES, [NAME, RIGHT_TO_LEFT])]
        broken += [f"{address} {fault}" for fault in page.evaluate(PLAIN)]
        for colours in ("light", "dark") if path in CONTRASTED else ("light",):
            page.emulate_media(color_scheme=colours)
            found = _violations(page, contrast=path in CONTRASTED)
            broken += [f"{address} {colours} {one['id']}: {_where(one)}" for one in found]
        for landmark in ("h1", "main"):
            assert page.locator(landmark).count() == 1, (address, landmark)
        fits(page, address)
    assert not broken, "\n".join(broken)


def test_the_form_of_an_own_prompt_breaks_no_rule(visit: Callable[..., Any], finished: Finished, fits: Fits) -> None:
    page = visit("/bots/fees/metrics/new")
    page.get_by_text("Kind: G-Eval").click()
    page.get_by_label("Own prompt").click()
    page.get_by_text("Shared texts that it includes").click()
    page.locator("pre", has_text="The score is a whole number from").wait_for()
    page.evaluate(Axe().axe_script)
    found = _violations(page, contrast=True)
    assert not found, "\n".join(f"{one['id']}: {_where(one)}" for one in found)
    fits(page, "own prompt")


def test_the_pages_with_contrasts_are_there() -> None:
    assert set(CONTRASTED) <= set(PATHS)


def _violations(page: Any, *, contrast: bool) -> list[dict[str, Any]]:
    """What is broken once the page has settled: colours fade over, and parts come by the websocket."""
    for _ in range(10):
        page.evaluate(UNSTUCK)
        found = page.evaluate(VIOLATIONS, contrast)
        if not found:
            break
        page.wait_for_timeout(300)
    return found


def _where(violation: dict[str, Any]) -> str:
    return "; ".join(f"{node['html'][:160]} ({node['failureSummary'][:200]})" for node in violation["nodes"][:3])


FOCUSED = ["/", "/bots/{bot}/metrics/new", "/datasets/questions/cases/1", "/runs/{run}", "/runs/new", "/reviews/new"]
MOST_STEPS = 60
FOCUS = """() => {
  const one = document.activeElement, control = one.closest(".q-field__control"), field = one.closest(".q-chip");
  if (!one || one === document.body) return null;
  const number = (colour) => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map(it => it / 255)
      .map(it => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (colour, other) => {
    const [low, high] = [number(colour), number(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const rings = () => [one, one.nextElementSibling, field].filter(Boolean).map(it => getComputedStyle(it))
    .filter(it => it.outlineStyle === "solid" && parseFloat(it.outlineWidth) >= 2).map(it => it.outlineColor);
  const frames = () => control ? [getComputedStyle(control, "::after")]
    .filter(it => parseFloat(it.borderTopWidth) >= 2).map(it => it.borderTopColor) : [];
  const shadows = () => [getComputedStyle(one).boxShadow].filter(it => it.includes(" 4px"))
    .map(it => it.match(/rgba?\\([^)]*\\)(?=[^(]*4px)/)[0]);
  const before = document.documentElement.dataset.colours, missing = [];
  document.documentElement.classList.add("still");
  for (const colours of ["light", "dark"]) {
    document.documentElement.dataset.colours = colours;
    const paper = getComputedStyle(document.documentElement).getPropertyValue("--paper");
    const colour = [...rings(), ...frames(), ...shadows()];
    if (!colour.some(it => contrast(it, paper) >= 3)) missing.push(`${colours} ${colour}`);
  }
  document.documentElement.dataset.colours = before;
  const what = `${one.outerHTML.slice(0, 200)}`;
  return {what, missing};
}"""
"""What has the focus, and in which colours no ring of a contrast of 3 is around it."""


@pytest.mark.parametrize("path", FOCUSED)
def test_the_focus_is_seen(visit: Callable[..., Any], finished: Finished, path: str) -> None:
    page = visit(path.format(bot="fees", run=finished.better))
    page.add_style_tag(content="*, ::before, ::after { transition: none !important; }")
    unseen: set[str] = set()
    for _ in range(MOST_STEPS):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUS)
        if found is None:
            break
        if found["missing"]:
            unseen.add(f"{found['missing']}: {found['what']}")
    assert not unseen, "\n".join(sorted(unseen))
