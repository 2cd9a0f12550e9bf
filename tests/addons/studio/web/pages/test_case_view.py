"""A case as a person reads it: question, answer beside the expected one, and why each score is what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from tests.addons.studio.web.conftest import Fits, Server, working_in
from tests.addons.studio.web.finished import EXACT
from tests.addons.studio.web.pages.conftest import paged
from tests.finishing import finish

pytestmark = pytest.mark.browser
TITLES = ("Correct", "Well laid out", "Short", "Polite", "Complete", "Harmless", "In English", "Grounded")
PLAIN = {key: value for key, value in EXACT.items() if key != "gate"}
ANSWER = """# Fees

It costs **14 pounds** a day, and [more](javascript:alert(1)) at the *airport*.

| place | fee |
|:--|--:|
| airport | `16` |

<script>document.title = "owned"</script> <img src=x onerror="document.title='owned'">
![plan](https://tracker.example/plan.png)
"""
EXPECTED = "Fees\n\nIt costs 12 pounds a day, and more at the airport. The airport costs 16; see the plan of it."
ROWS = [
    {
        **{"id": "first", "answer": ANSWER, "reference": EXPECTED, "vars": {"plan": "basic"}},
        "contexts": [
            {"title": "Terms", "text": "The fee is 12 pounds."},
            {"title": "Hours", "text": "**Always** open."},
        ],
        "messages": [
            {"role": "user", "content": "Hello?"},
            {"role": "assistant", "content": "Hello, **you**."},
            {"role": "user", "content": "What does it cost?"},
        ],
    },
    {"id": "second", "question": "And with a helmet?", "answer": "The same."},
]


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    folder = tmp_path_factory.mktemp("read")
    with working_in(folder) as space:
        bots.create_bot(space, "desk", {"kind": "recorded"})
        for number, title in enumerate(TITLES):
            check = {"op": "contains", "value": "pounds" if number % 4 else "euros"}
            definition = {**PLAIN, "needs": ["answer"], "checks": [check]}
            metrics.create_metric(space, "desk", MetricDraft(f"m{number}", definition, title=title))
        datasets.create_dataset(space, "mine")
        cases.add_cases(space, "mine", ROWS)
        run = finish(space, RunRequest("desk", ["mine"], [f"m{number}" for number in range(len(TITLES))])).run_id
    with paged(folder) as server:
        yield server, run


@pytest.fixture(name="pages", scope="module")
def _pages(made: tuple[Server, str]) -> Server:
    return made[0]


@pytest.mark.parametrize("path", ["/runs/{}?case=0", "/runs/{}/cases/0"])
def test_answer_and_expected_answer_stand_side_by_side(
    visit: Callable[..., Any], made: tuple[Server, str], path: str
) -> None:
    page = visit(path.format(made[1]))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("heading", name="What does it cost?").wait_for()
    answer, expected = (page.locator(".pane").nth(i) for i in (0, 1))
    answer.locator("table").wait_for()
    left, right = answer.bounding_box(), expected.bounding_box()
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    assert left["y"] + left["height"] < 560  # the scores begin on the same screen
    assert page.locator(".score-line").first.is_visible()


def test_markdown_is_drawn_and_does_nothing(visit: Callable[..., Any], made: tuple[Server, str]) -> None:
    page = visit(f"/runs/{made[1]}/cases/0")
    answer = page.locator(".pane.answered")
    answer.get_by_role("cell", name="16").wait_for()
    assert answer.locator("strong").inner_text() == "14 pounds"
    assert "<script>" in answer.inner_text()
    assert answer.locator("script, img, [style], [onerror]").count() == 0
    assert [link.get_attribute("href") for link in answer.locator("a").all()] == ["https://tracker.example/plan.png"]
    assert page.title() != "owned"


def test_what_differs_is_marked_and_tabs_hold_the_rest(visit: Callable[..., Any], made: tuple[Server, str]) -> None:
    page = visit(f"/runs/{made[1]}/cases/0")
    differences = page.get_by_role("button", name="Differences")
    differences.wait_for()
    assert page.locator(".answered strong del").inner_text() == "14"
    assert "12" in page.locator(".pane ins").all_inner_texts()
    before = differences.get_attribute("aria-pressed")
    differences.click()
    assert differences.get_attribute("aria-pressed") != before
    page.get_by_role("tab", name="Expected answer").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Contexts 2").get_attribute("aria-selected") == "true"
    page.get_by_text("The fee is 12 pounds.").wait_for()
    page.get_by_role("tab", name="More").click()
    page.get_by_text("plan: basic").wait_for()
    page.keyboard.press("e")
    page.get_by_role("tabpanel", name="Expected answer").wait_for()
    page.get_by_text("Earlier in the conversation: 2 turns").click()
    page.locator(".case-turn strong", has_text="you").wait_for()


def test_each_metric_has_a_line_and_what_failed_is_open(visit: Callable[..., Any], made: tuple[Server, str]) -> None:
    page = visit(f"/runs/{made[1]}/cases/0")
    lines = page.locator(".score-line")
    lines.nth(len(TITLES) - 1).wait_for()
    assert lines.locator("h4").all_inner_texts() == [
        "Correct",
        "Complete",
        *(t for t in TITLES if t not in ("Correct", "Complete")),
    ]
    assert [line.locator("details").first.get_attribute("open") is not None for line in lines.all()] == [True] * 2 + [
        False
    ] * 6
    thumb = lines.nth(3).get_by_role("button", name="Agree", exact=True)
    thumb.scroll_into_view_if_needed()
    thumb.focus()
    page.keyboard.press("d")  # the key of the line with the focus
    lines.nth(3).get_by_text("You say").wait_for()
    assert lines.nth(0).get_by_text("You say").count() == 0


def test_a_case_without_an_expected_answer_says_so(visit: Callable[..., Any], made: tuple[Server, str]) -> None:
    page = visit(f"/runs/{made[1]}/cases/1")
    page.get_by_text("This case has no expected answer.").wait_for()
    assert page.get_by_role("button", name="Differences").count() == 0
    page.get_by_text("Write the expected answer", exact=True).click()
    page.get_by_role("button", name="Save the expected answer").click()
    page.get_by_text("This field is required").wait_for()
    page.get_by_label("Expected answer", exact=True).last.fill("A helmet costs 3 pounds more.")
    page.get_by_role("button", name="Save the expected answer").click()
    page.get_by_text("The expected answer is saved in the case.").wait_for()
    assert "A helmet costs 3 pounds more." in made[0].ask("GET", "/api/v1/datasets/mine/cases").body.decode()


def test_it_fits(visit: Callable[..., Any], made: tuple[Server, str], fits: Fits) -> None:
    page = visit(f"/runs/{made[1]}/cases/0", 390)
    page.locator(".pane table").wait_for()
    fits(page, "case")
