"""Three people label 60 answers, the first at browsers; an editor resolves what differs, and reads what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, people, projects, reviews
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.review_desk import next_item, submit_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.finished import EXACT
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.web.pages.test_blind import submit
from tests.addons.studio.web.public import PublicServer, serving_in_public
from tests.addons.studio.work.test_reviews import person
from tests.cli.conftest import Program
from tests.finishing import finish

pytestmark = [pytest.mark.slow, pytest.mark.browser]
PEOPLE = ("ann", "ben", "cem")
AT_BROWSERS = 21
"""The labels that are given at browsers, as many by each person."""


@pytest.fixture(name="labelled", scope="module")
def _labelled(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The workspace, and the folder of the run whose answers three people have labelled."""
    folder = tmp_path_factory.mktemp("labelled")
    with working_in(folder) as space:
        bots.create_bot(space, "fees", {"kind": "recorded"}, "")
        metrics.create_metric(space, "fees", MetricDraft("exact", EXACT, title="As on the list"))
        datasets.create_dataset(space, "questions", "")
        cases.add_cases(space, "questions", [_case(i) for i in range(90)])
        run = finish(space, RunRequest("fees", ["questions"], ["exact"]))
        for name in PEOPLE:
            people.add_user(space, name)
            projects.set_role(space, name, "annotator")
        request = ReviewRequest(name="Fees", run_id=run.run_id, metrics=["exact"], size=60, people=PEOPLE, seed=2)
        made = reviews.create_review(space, request)
        assert (made.size, made.doubled) == (60, 30)
    with serving_in_public(folder) as server:
        _label_at_browsers(browser, server)
    with working_in(folder) as space:
        _label_the_rest(space)
    return folder, run.folder


def _label_at_browsers(browser: Any, server: PublicServer) -> None:
    """In turn: Ann with the mouse, Cem by keys alone, and Ben, who closes his browser in the middle of an answer."""
    at = {name: _at_the_desk(browser, server, name) for name in PEOPLE}
    for number in range(AT_BROWSERS):
        name = PEOPLE[number % len(PEOPLE)]
        page = at[name]
        says = _says(name, page.locator(".question-in-full").inner_text())
        if name == "cem":
            page.locator(".grading:focus-within").wait_for()
            page.keyboard.press("1" if says else "2")
            submit(page, partial(page.keyboard.press, "Control+Enter"))
        else:
            page.get_by_role("button", name="Yes" if says else "No", exact=True).click()
            if number == AT_BROWSERS // 2:  # Ben closes his browser
                page.get_by_text("Saved", exact=True).wait_for()
                page.context.close()
                page = at[name] = _at_the_desk(browser, server, name)
                page.get_by_role("button", name="Yes" if says else "No", pressed=True).wait_for()
            submit(page, page.get_by_role("button", name="Submit").click)
    for page in at.values():
        page.context.close()


def _label_the_rest(space: Workspace) -> None:
    """In turn, too, without a browser."""
    desks, labels = [(name, person(space, name)) for name in PEOPLE], AT_BROWSERS
    while desks:
        name, desk = desks.pop(0)
        if item := next_item(desk, "Fees"):
            submit_item(desk, "Fees", item.item, {"exact": _says(name, item.messages[-1]["content"])})
            desks.append((name, desk))
            labels += 1
    assert labels == 90


def _says(name: str, question: str) -> bool:
    """Whether somebody takes the answer for right."""
    asked = int(re.sub(r"\D", "", question))
    is_right = (asked % 3 == 0) or (asked % 10 == 4)  # the judge misses each tenth
    return is_right != (asked % 9 in (2, 5) and name == "ben")


def _at_the_desk(browser: Any, server: PublicServer, name: str) -> Any:
    context = browser.new_context(ignore_https_errors=True, base_url=server.url)
    context.set_default_timeout(60_000)
    server.let_in(context, name)
    page = context.new_page()
    page.goto("/")
    page.get_by_role("link", name=re.compile("(Begin|Continue) Fees")).press("Enter")
    page.wait_for_url("**/reviews/Fees/label*")
    page.wait_for_function("window.did_handshake === true")
    return page


def _case(i: int) -> dict[str, Any]:
    answer = f"It costs {i} pounds." if i % 3 == 0 else "It is free."
    return {"id": f"c{i}", "question": f"What is fee {i}?", "reference": f"It costs {i} pounds.", "answer": answer}


@pytest.fixture(name="pages", scope="module")
def _pages(labelled: tuple[Path, Path]) -> Iterator[Server]:
    with paged(labelled[0]) as server:
        yield server


def test_an_editor_resolves_and_reads_the_corrected_mean(
    visit: Callable[..., Any], labelled: tuple[Path, Path], tmp_path: Path
) -> None:
    page = visit("/reviews")
    page.get_by_role("link", name="Fees", exact=True).click()
    page.wait_for_url("**/reviews/Fees")
    page.get_by_text("60 of 60 answers judged").wait_for()
    page.get_by_text("90 of 90 labels").wait_for()
    page.get_by_text(re.compile("on 30 answers with two labels")).wait_for()
    told = page.get_by_text(re.compile(r"(\d+) of (\d+) are to be decided")).inner_text()
    before = int(told.split()[0])
    assert before > 1
    assert told.endswith(f"are to be decided, {before} of them ties.")
    body = page.locator("main").inner_text()
    assert "ben" in body.split("Disagreements")[0]
    assert "ben" not in body.split("Disagreements")[1]
    card = page.locator("article").filter(has=page.get_by_label("Why")).first  # the result may come above it
    card.get_by_label("Why").fill("The fee is on the page.")
    card.get_by_label("Why").press("Tab")  # the buttons follow
    page.keyboard.press("2")
    page.get_by_text(f"{before - 1} of {told.split()[2]} are to be decided").wait_for()
    page.get_by_text("The fee is on the page.").wait_for()
    page.wait_for_function("document.querySelector('article [data-key]').checkVisibility() && scrollY > 0")
    page.get_by_text("Provisional: people are still labelling.").wait_for()
    page.get_by_role("button", name="Close the review").click()
    asked = page.get_by_role("dialog")
    asked.get_by_text(re.compile(f"^{before - 1} ties? between people (is|are) to be decided$")).wait_for()
    asked.get_by_role("link", name="Decide them").click()
    page.wait_for_url("**#disagreements")
    page.get_by_role("button", name="Close the review").click()
    page.get_by_role("dialog").get_by_role("button", name="Close anyway").click()
    page.get_by_role("button", name="Reopen the review").wait_for()
    page.get_by_role("heading", name="As on the list: judge against people").wait_for()
    page.get_by_role("link", name="Judge wrong").first.wait_for()
    page.get_by_role("rowheader", name=re.compile(r"^\w.*\?$")).first.wait_for()
    page.get_by_text(re.compile("of 60 answers; where people are tied, an answer counts half")).wait_for()
    shown = page.locator("main").inner_text()
    assert "As on the list: the metric says" in shown
    page.get_by_role("button", name="Save the calibration").click()
    page.get_by_text("The run's gates and reports count these labels.").wait_for()
    assert (labelled[1] / "calibration.json").is_file()

    with page.expect_download() as download:
        page.get_by_role("link", name="Labels (CSV)").click()
    file = tmp_path / "labels.csv"
    download.value.save_as(file)
    ended = Program(labelled[0])("calibrate", str(labelled[1]), "--labels", str(file), "--json")
    assert ended.returncode == 0, ended.stderr
    [row] = json.loads(ended.stdout)["rows"]
    corrected = row["corrected"]
    assert corrected["estimate"] != row["judge_mean"]
    for name in ("estimate", "ci_low", "ci_high"):
        assert f"{corrected[name]:.3f}" in shown or f"{corrected[name]:.2f}" in shown, (name, corrected)


def test_an_editor_changes_who_labels_and_by_which_guidelines(visit: Callable[..., Any]) -> None:
    page = visit("/reviews/Fees", width=390, colours="dark")
    page.get_by_role("button", name="Remove cem").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("removed", exact=True).wait_for()
    page.wait_for_function("window.did_handshake === true")
    page.get_by_text("Add people", exact=True).first.click()
    page.get_by_label("Add people").click()
    page.get_by_role("option", name="cem").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Remove cem").wait_for()
    page.wait_for_function("window.did_handshake === true")
    page.get_by_text("Change the guidelines").click()
    page.get_by_text(re.compile("90 labels by version 1 will be left out")).wait_for()
    page.get_by_label("Guideline for As on the list").fill("Cents count too.")
    page.get_by_role("button", name="Save as version 2").click()
    page.get_by_text(re.compile("90 labels by older versions left out")).wait_for()
    page.get_by_text("version 2", exact=True).wait_for()
    page.wait_for_function("window.did_handshake === true")
    page.get_by_text("Earlier versions").click()
    page.get_by_text("Version 1, 90 labels").wait_for()
    page.get_by_text("Result: not there yet.").wait_for()
    page.get_by_text("60 answers are labelled by older guidelines only.").wait_for()
    page.get_by_role("button", name="Give out again").click()
    page.get_by_role("dialog").get_by_role("button", name="Give out again").click()
    page.get_by_role("heading", name="0 of 60 answers judged").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
