"""Takes the pictures of pages in docs/ again, from real runs of the sample data in a real browser.

python docs/screens.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import APIRequestContext, Browser, Error, Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PORT = 8765
ADDRESS = f"http://127.0.0.1:{PORT}"
WIDTH = 1280


def main() -> None:
    """Take all pictures; each replaces the file of its name."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
        browser = playwright.chromium.launch(executable_path=found)
        report(browser, Path(folder) / "report")
        application(playwright, browser, Path(folder) / "application")
        browser.close()


def report(browser: Browser, folder: Path) -> None:
    """The report of one run."""
    folder.mkdir()
    command = [sys.executable, "-m", "evalflow", "dataset=rag", "metric=[faithfulness,relevance]"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    page.goto((folder / "outputs" / "latest" / "report.html").as_uri())
    take(page, "report")


def application(playwright: Playwright, browser: Browser, folder: Path) -> None:
    """The bot, its comparison and a review, after runs on two versions of a bot's answers."""
    for name in ("conf/dataset", "data"):
        (folder / name).mkdir(parents=True)
    dataset = (ROOT / "conf" / "dataset" / "rag.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("dataset.rag\n", "dataset.city_questions\ntitle: City questions\n"),
        ("data/rag.jsonl", "data/city_questions.jsonl"),
    ):
        dataset = dataset.replace(old, new)
    (folder / "conf" / "dataset" / "city_questions.yaml").write_text(dataset, encoding="utf-8")
    with serving(playwright, folder) as api:
        post(api, "/bots", {"name": "city_desk", "title": "City desk", "config": {"kind": "recorded"}})
        runs = []
        for title, data in (("Old prompt", "rag.jsonl"), ("New prompt", "rag_v2.jsonl")):
            shutil.copy(ROOT / "data" / data, folder / "data" / "city_questions.jsonl")
            wanted = {"bot": "city_desk", "datasets": ["city_questions"], "metrics": ["faithfulness", "relevance"]}
            run = post(api, "/runs", {**wanted, "judge": "embedded", "title": title})["run_id"]
            wait(lambda run=run: api.get(f"/api/v1/runs/{run}").json()["state"] == "done")
            runs.append(run)
        review = {"name": "City desk, new prompt", "run": runs[1], "metrics": ["faithfulness"], "size": 20}
        post(api, "/reviews", {**review, "people": ["local"]})
        page = browser.new_page()
        page.goto(f"{ADDRESS}/?token={token_of(folder)}")
        for name, path, height in (
            ("bot", "/bots/city_desk", 1100),
            ("application", f"/compare?a={runs[0]}&b={runs[1]}", 1100),
            ("run", f"/runs/{runs[1]}", 1100),
            ("review", "/reviews/City%20desk%2C%20new%20prompt/label", 600),
        ):
            page.set_viewport_size({"width": WIDTH, "height": height})
            page.goto(f"{ADDRESS}{path}")
            take(page, name)


@contextmanager
def serving(playwright: Playwright, folder: Path) -> Iterator[APIRequestContext]:
    """The API of the application in a folder, once it is ready."""
    command = [sys.executable, "-m", "evalflow", "serve", "--port", str(PORT)]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        wait(lambda: token_of(folder) != "")
        headers = {"Authorization": f"Bearer {token_of(folder)}"}
        api = playwright.request.new_context(base_url=ADDRESS, extra_http_headers=headers)
        wait(lambda: api.get("/readyz").ok)
        yield api
    finally:
        server.terminate()
        server.wait()


def token_of(folder: Path) -> str:
    """The token of the server in a folder; empty before there is one."""
    file = folder / ".evalflow" / "token"
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def post(api: APIRequestContext, path: str, body: Mapping[str, Any]) -> Any:
    """What the API replies to a request; a refusal is an error with its text."""
    reply = api.post(f"/api/v1{path}", data=dict(body))
    if not reply.ok:
        raise RuntimeError(reply.text())
    return reply.json()


def wait(done: Callable[[], bool], seconds: float = 300) -> None:
    """Wait until `done` is true; a server that does not answer yet counts as false."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(Error):
            if done():
                return
        time.sleep(0.5)
    raise TimeoutError


def take(page: Page, name: str) -> None:
    """The first screen of a page as it is after its animations, in light colours."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1500)
    page.screenshot(path=DOCS / f"{name}.png")


if __name__ == "__main__":
    main()
