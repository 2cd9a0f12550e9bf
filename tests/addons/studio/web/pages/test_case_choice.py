"""Which cases a run takes: chosen on the page of a new run, ticked on other pages, and said in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.web.pages.case_choice import cases_in_words, choice_in_words, left_out_in_words
from evalflow.addons.studio.web.ui.visitor import Visitor
from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.case_choice import LeftOutCases
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.finished import EXACT
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.web.pages.test_runs import choose
from tests.finishing import finish

Visit = Callable[..., Any]


@pytest.fixture(name="no_page", autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that are made outside of a page know no titles."""
    monkeypatch.setattr("evalflow.addons.studio.web.ui.visitor.visitor", Visitor)


@pytest.mark.parametrize(
    ("taken", "left_out", "words", "after"),
    [
        ({"a": 1}, {"a": LeftOutCases(0, 0)}, "1 case", ""),
        ({"a": 40}, {"a": LeftOutCases(3, 0)}, "40 cases; 3 drafts left out", "3 drafts"),
        (
            {"a": 1200},
            {"a": LeftOutCases(1, 1)},
            "1,200 of 1,201 cases; 1 draft left out",
            "1 case not chosen, 1 draft",
        ),
        (
            {"a": 5, "b": 7},
            {"a": LeftOutCases(0, 5), "b": LeftOutCases(0, 3)},
            "12 of 20 cases (a 5, b 7)",
            "8 cases not chosen",
        ),
    ],
)
def test_how_many_cases_a_run_takes_is_said(
    taken: dict[str, int], left_out: dict[str, LeftOutCases], words: str, after: str
) -> None:
    assert cases_in_words(taken, left_out) == words
    assert left_out_in_words(left_out) == (f"left out: {after}" if after else "")


@pytest.mark.parametrize(
    ("datasets", "values", "options", "words"),
    [
        (["a"], {}, {}, ""),
        (["a"], {"a": {"tags": ["x", "y"]}}, {"sample": 10}, "tagged x or y · random sample of 10, seed 0"),
        (["a"], {"a": {"tags": ["x", "y"], "every_tag": True, "ids": ["1"]}}, {}, "tagged x and y · 1 selected"),
        (
            ["a", "b"],
            {"b": {"ids": ["1", "2"]}},
            {"limit": 3, "sample": 2, "seed": 7},
            "b: 2 selected · first 3 of each dataset · random sample of 2 of each dataset, seed 7",
        ),
    ],
)
def test_which_cases_were_chosen_is_said(
    datasets: list[str], values: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    assert choice_in_words(RunRequest("bot", datasets, ["m"], dataset_values=values, options=options)) == words


@pytest.fixture(name="pages", scope="module")
def _pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A bot, 60 cases of two tags, every third answered wrong in the run `First`, and a draft."""
    folder: Path = tmp_path_factory.mktemp("chosen")
    with working_in(folder) as space:
        bots.create_bot(space, "fees", {"kind": "recorded"})
        metrics.create_metric(space, "fees", MetricDraft("exact", EXACT))
        datasets.create_dataset(space, "questions")
        rows = [
            {
                "id": f"c{i}",
                "question": f"What is fee {i}?",
                "reference": f"{i} pounds",
                "answer": f"{i} pounds" if i % 3 else "no idea",
                "tags": ["Even"] if i % 2 == 0 else ["Odd", "Late > Very"],
            }
            for i in range(60)
        ]
        cases.add_cases(space, "questions", rows)
        cases.add_case(space, "questions", {**rows[0], "id": "draft"}, draft=True)
        finish(space, RunRequest("fees", ["questions"], ["exact"], title="First"))
    with paged(folder) as server:
        yield server


@pytest.mark.browser
def test_answers_ticked_on_two_pages_are_run_again_and_the_choice_is_changed(visit: Visit, pages: Server) -> None:
    [run] = pages.ask("GET", "/api/v1/runs").json["items"]
    page = visit(f"/runs/{run['run_id']}?sort=input")
    page.get_by_text("left out: 1 draft").wait_for()
    page.get_by_label("Tick What is fee 3?").click()
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_label("Tick What is fee 30?").click()
    page.get_by_text("2 ticked", exact=True).wait_for()
    page.get_by_role("button", name="Previous", exact=True).click()
    page.get_by_label("Tick What is fee 2?").wait_for()
    page.get_by_role("checkbox", name="Tick What is fee 3?", checked=True).wait_for()
    page.get_by_role("button", name="Tick all 60").click()
    page.get_by_text("60 ticked", exact=True).wait_for()
    page.get_by_role("checkbox", name="Tick this page", checked=True).wait_for()
    page.get_by_role("button", name="Untick").click()
    page.get_by_text("60 ticked", exact=True).wait_for(state="hidden")
    page.get_by_role("checkbox", name="Tick What is fee 3?", checked=False).wait_for()
    page.get_by_role("combobox", name="Result").click()
    page.get_by_role("option", name="Failed").click()
    page.get_by_role("button", name="Run these 20 again").click()
    page.wait_for_url("**/runs/new?source=*")
    page.get_by_text("20 of 60 cases.", exact=True).wait_for()
    page.get_by_role("link", name="20 cases of questions").wait_for()
    choose(page, "Cases", "Cases with some tags")
    choose(page, "Tags", "Even")
    page.get_by_text("30 of 60 cases; 1 draft left out.", exact=True).wait_for()
    choose(page, "Tags", "Odd")
    page.get_by_text("60 cases; 1 draft left out.", exact=True).wait_for()
    choose(page, "A case needs", "all of these tags")
    page.get_by_text("No case of questions has every one of the tags Even, Odd").first.wait_for()
    choose(page, "Cases", "Cases that failed in a run")
    choose(page, "Run", "First")
    page.get_by_text("20 of 60 cases.", exact=True).wait_for()
    page.get_by_label("Random sample").fill("5")
    page.get_by_label("Seed of the sample").fill("3")
    page.get_by_text("5 of 60 cases.", exact=True).wait_for()
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/20*")
    page.get_by_text("20 selected · random sample of 5, seed 3 · left out: 55 cases not chosen").wait_for()
    again = pages.ask("GET", "/api/v1/runs").json["items"][0]["request"]
    assert again["options"] == {"sample": 5, "seed": 3}
    assert again["dataset_values"] == {"questions": {"ids": [f"c{i}" for i in range(0, 60, 3)]}}


@pytest.mark.browser
def test_cases_ticked_in_a_dataset_are_run_and_a_draft_among_them_is_left_out(visit: Visit, pages: Server) -> None:
    page = visit("/datasets/questions")
    page.get_by_label("Select What is fee 1?", exact=True).click()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("51–61 of 61").wait_for()
    page.get_by_label("Select What is fee 0?", exact=True).click()  # the draft
    page.get_by_text("2 selected").wait_for()
    page.get_by_role("button", name="Run these").click()
    page.wait_for_url("**/runs/new?dataset=questions&cases=*")
    page.get_by_text("2 cases of questions").wait_for()
    choose(page, "Bot", "fees")
    page.get_by_text("1 of 60 cases; 1 draft left out.", exact=True).wait_for()
