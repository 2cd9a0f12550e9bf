"""The whole story in a real browser: a bot, what good means, cases, two runs, what changed, and a repeat elsewhere."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.conftest import paged, working
from tests.addons.studio.web.pages.test_bots import field, seen
from tests.forked import Forked

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CASES = 12
STEPS = ["Look for a fee.", "Grade by whether it is named."]


def reply(request: Request) -> Any:
    """The bot and the judge: the old model knows the first fee alone, the new one all others."""
    if "write down the steps" in request.text:
        return {"steps": STEPS}
    if request.schema is not None:
        says = "pounds" in request.text.split("It costs")[-1] and "It costs" in request.text
        return {"reason": "It names the fee." if says else "It names no fee.", "score": 10 if says else 1}
    fee = re.findall(r"fee (\d+)", request.text)[-1]
    knows = (fee == "0") == (request.body["model"] == "old-model")
    return f"It costs {fee} pounds." if knows else "I do not know."


class Story:
    """A person at the browser, and the folder that they work in."""

    def __init__(self, page: Any, server: Server, folder: Path, endpoint: Endpoint) -> None:
        self.page, self.server, self.folder, self.endpoint = page, server, folder, endpoint

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.server.ask(method, f"/api/v1{path}", body, X_Requested_With="test", **headers)
        assert answer.status < 300, answer.body
        return answer.json

    def go(self, path: str) -> None:
        self.page.goto(f"{self.server.address.url}{path}")
        self.page.wait_for_function("window.did_handshake === true")

    def describe_the_bot(self) -> None:
        self.go("/")
        self.page.get_by_role("link", name="New bot").click()
        field(self.page, "Name").fill("fees")
        field(self.page, "Model").fill("old-model")
        field(self.page, "Address").fill(self.endpoint.url)
        field(self.page, "API key").fill("")
        field(self.page, "Question").fill("What is fee 0?")
        self.page.get_by_role("button", name="Ask").click()
        seen(self.page, "It costs 0 pounds.")
        self.page.get_by_role("button", name="Save").click()
        self.page.wait_for_url("**/bots/fees")

    def say_what_good_means(self) -> None:
        """In the panel: criteria, steps that the judge writes, and a try-out on one case."""
        self.go("/bots/fees/metrics/new")
        field(self.page, "Name").fill("Names the fee")
        field(self.page, "Criteria").fill("The answer names the fee.")
        self.page.get_by_text("Steps: written by the judge").click()
        self.press("Generate steps")
        seen(self.page, "Written by")
        field(self.page, "Question").fill("What is fee 3?")
        field(self.page, "Answer").fill("It costs 3 pounds.")
        self.press("Try it")
        seen(self.page, "It names the fee.")
        self.press("Save")
        self.page.wait_for_url(re.compile("/bots/fees/metrics$"))

    def write_cases(self) -> None:
        self.go("/datasets/new")
        field(self.page, "Name").fill("desk")
        self.press("Create")
        self.page.get_by_role("link", name="Paste or upload").click()
        field(self.page, "Questions, or a table").fill("\n".join(f"What is fee {i}?" for i in range(CASES)))
        self.press("Continue")
        self.press(f"Import {CASES} cases")
        seen(self.page, f"of {CASES}")

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def change_the_model(self) -> None:
        self.go("/bots/fees/edit")
        field(self.page, "Model").fill("new-model")
        self.page.get_by_role("button", name="Save").click()
        self.page.wait_for_url(re.compile("/bots/fees/settings$"))

    def run(self, title: str, like: str | None = None) -> dict[str, Any]:
        """Start a run, of what was written or like an earlier one; watch it to its end."""
        self.go(f"/runs/new?source={like}" if like else "/runs/new?bot=fees&dataset=desk")
        field(self.page, "Title").fill(title)
        if like is None:
            self.choose("Judge", "vllm")
            field(self.page, "Its model").fill("judge")
            field(self.page, "Its address").fill(self.endpoint.url)
        self.page.get_by_role("button", name="Start the run").click()
        self.page.wait_for_url(re.compile(r"/runs/20[^/?]*$"))
        run = self.page.url.rpartition("/")[2]
        seen(self.page, f"{CASES} scored")
        self.page.locator(".result-rows .chip.fail").first.click()
        seen(self.page, "It names no fee.")
        done = self.ask("GET", f"/runs/{run}")
        assert (done["state"], done["exit_code"], done["progress"]["done"]) == ("done", 0, CASES), done
        assert self.page.locator(".command code").inner_text() == done["repeat"]
        return done

    def choose(self, label: str, option: str) -> None:
        field(self.page, label).click()
        self.page.keyboard.type(option)
        self.page.get_by_role("option", name=re.compile(option)).first.click()
        self.page.keyboard.press("Escape")

    def scores(self, run: str) -> dict[str, float]:
        return {one["case_id"]: one["score"] for one in self.ask("GET", f"/runs/{run}/scores")["items"]}

    def compare(self) -> None:
        self.go("/compare")
        self.page.get_by_role("button", name="Compare", exact=True).click()
        self.page.get_by_role("heading", name=re.compile("is better")).wait_for()
        seen(self.page, f"{CASES - 1} cases flipped to pass, 1 to fail.")
        self.page.locator(".flip").first.click()
        answers = self.page.locator(".pane.answered")
        answers.nth(1).get_by_text("I do not know.").wait_for()
        assert "It costs 0 pounds." in answers.nth(0).inner_text()
        assert "It names no fee." in self.page.locator(".both .half").nth(1).inner_text()

    def look_back(self) -> None:
        self.go("/history")
        assert self.page.locator(".plot .point").count() == 2
        self.page.get_by_role("link", name="Names the fee", exact=True).click()
        seen(self.page, "the bot changed")

    def repeat(self, run: dict[str, Any]) -> dict[str, float]:
        """By the command line that is shown; the scores of the repeat."""
        program, *words = shlex.split(run["repeat"])
        assert program == "python"
        before = (self.folder / "outputs" / "latest").resolve()
        self.printed(words, self.folder)
        latest = (self.folder / "outputs" / "latest").resolve()
        assert latest != before
        lines = (latest / "scores.jsonl").read_text(encoding="utf-8").splitlines()
        return {row["case_id"]: row["score"] for row in map(json.loads, lines)}

    def printed(self, words: list[str], folder: Path) -> str:
        """Run what follows `python`; returns what it prints."""
        assert words[:2] == ["-m", "evalflow"]
        with (self.folder / "printed.txt").open("w+b") as printed:
            code = Forked(words[2:], folder, printed.fileno()).wait()
            printed.seek(0)
            text = printed.read().decode()
        assert code == 0, text
        return text

    def export(self) -> None:
        """What was defined, as files that the command line takes elsewhere."""
        away = self.folder / "away"
        self.go("/bots/fees/settings")
        self.press("Download as zip")
        with self.page.expect_download() as download:
            self.page.get_by_role("link", name="Download the zip").click()
        with zipfile.ZipFile(download.value.path()) as archive:
            archive.extractall(away)
        words = ["check", "dataset=desk", "metric=names_the_fee", "target=fees"]
        judge = [
            "generate=true",
            "judge=openai",
            "judge.model=judge",
            f"judge.base_url={self.endpoint.url}",
            "judge.api_key_env=null",
        ]
        assert f"{CASES} of desk" in self.printed(["-m", "evalflow", *words, *judge], away)


@pytest.fixture(name="story")
def _story(browser: Any, tmp_path: Path) -> Iterator[Story]:
    with Endpoint(reply) as endpoint, paged(tmp_path) as server, working(tmp_path):
        context = browser.new_context(viewport={"width": 1280, "height": 844})
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(f"{server.address.url}/?token={server.token}")
        yield Story(page, server, tmp_path, endpoint)
        context.close()


def test_the_whole_story(story: Story) -> None:
    story.describe_the_bot()
    story.say_what_good_means()
    story.write_cases()
    old = story.run("The old model")
    story.change_the_model()
    new = story.run("The new model", like=old["run_id"])
    assert set(story.scores(old["run_id"]).values()) == set(story.scores(new["run_id"]).values()) == {0.0, 1.0}
    story.compare()
    story.look_back()
    assert story.repeat(old) == story.scores(old["run_id"])
    assert story.repeat(new) == story.scores(new["run_id"])
    story.export()
