"""How fast a run is that is started from the application and watched there, against the same by command line.

    python bench/from_page.py [CASES] [IN_FLIGHT] [ROUNDS]

Both take turns: the run from the page is repeated by the very command that its page shows. A worker follows it, writes
its scores down each second, and a real browser shows how far it is. Needs playwright and a Chromium, found on the path
or named in CHROMIUM.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from _lab import BROWSER_FLAGS, SENTENCE, Endpoint, chromium, folder, machine, measured, print_table

LATENCY_S = 0.2
PATIENCE_S = 600
AT_ONCE = 500


class Application:
    """The application in a process of its own, asked as a program would."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What it says, as JSON."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, sent, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def define(self, cases: int) -> None:
        """Recorded answers, and a metric that asks a judge once for each."""
        self.ask("POST", "/bots", {"name": "desk", "config": {"kind": "recorded"}})
        self.ask("POST", "/bots/desk/metrics", {"source": "coherence", "name": "coherence"})
        self.ask("POST", "/datasets", {"name": "games"})
        rows = [
            {"id": f"case-{n}", "question": f"How long is game {n} lent?", "answer": f"{n}: {SENTENCE * 5}"}
            for n in range(cases)
        ]
        for start in range(0, cases, AT_ONCE):
            self.ask("POST", "/datasets/games/cases", {"items": rows[start : start + AT_ONCE]})

    def start(self, endpoint: Endpoint, in_flight: int) -> str:
        """A run that asks everything anew; its id."""
        judge = {"base_url": endpoint.url, "api_key_env": None, "concurrency": {"start": in_flight, "max": in_flight}}
        names = {"bot": "desk", "datasets": ["games"], "metrics": ["coherence"]}
        options = {"cache": {"mode": "off"}}
        body = {**names, "judge": "openai", "judge_values": judge, "options": options}
        return self.ask("POST", "/runs", body)["run_id"]

    def wait(self, run: str) -> dict[str, Any]:
        """The run, once it has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.ask("GET", f"/runs/{run}"))["state"] in ("queued", "running"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{run} is not done in {PATIENCE_S} s")
            time.sleep(0.5)
        if found["exit_code"] != 0:
            raise RuntimeError(found["message"] or f"exit code {found['exit_code']}")
        return found


@contextmanager
def application(work: Path) -> Iterator[Application]:
    """Serve in a folder."""
    command = [sys.executable, "-m", "evalflow", "serve", "--port", "0", "--no-token"]
    with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout
            said = next(line for line in server.stdout if "http://" in line)
            yield Application(next(word for word in said.split() if word.startswith("http://")))
        finally:
            server.terminate()


def compare(work: Path, cases: int, in_flight: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Judge calls a second and whole seconds of each round, by either way."""
    from playwright.sync_api import sync_playwright

    found: dict[str, list[tuple[float, float]]] = {"command line": [], "from the page": []}
    with application(work) as app, sync_playwright() as playwright:
        app.define(cases)
        browser = playwright.chromium.launch(executable_path=chromium(), args=BROWSER_FLAGS)
        for _ in range(rounds):
            with Endpoint(LATENCY_S) as endpoint:
                begun = time.perf_counter()
                run = app.start(endpoint, in_flight)
                page = browser.new_page()
                page.goto(f"{app.url}/runs/{run}")
                command = app.wait(run)["repeat"]
                wall = time.perf_counter() - begun
                page.wait_for_selector(".metric .big", timeout=60_000)
                page.close()
            found["from the page"].append((endpoint.requests / endpoint.busy_s, wall))
            with Endpoint(LATENCY_S) as endpoint:
                words = [sys.executable, *shlex.split(command)[1:], f"judge.base_url={endpoint.url}"]
                wall = measured(words, work).wall_s
            found["command line"].append((endpoint.requests / endpoint.busy_s, wall))
        browser.close()
    return found


def main() -> None:
    """Measure and print."""
    words = [int(word) for word in sys.argv[1:4]]
    cases, in_flight, rounds = [*words, *(2_000, 100, 5)[len(words) :]]
    print(f"{machine()}; {cases:,} calls at {in_flight} in flight, {LATENCY_S:g} s each, median of {rounds}\n")
    with folder() as work:
        found = compare(work, cases, in_flight, rounds)
    line, page = found["command line"], found["from the page"]
    ratios = sorted(b[0] / a[0] for a, b in zip(line, page, strict=True))
    rows = [(name, f"{median(r[0] for r in of):.0f}", f"{median(r[1] for r in of):.1f}") for name, of in found.items()]
    print_table(("", "calls/s", "whole run, s"), rows)
    print(f"calls/s from the page: {median(ratios):.0%} of the command line's ({ratios[0]:.0%} to {ratios[-1]:.0%})")


if __name__ == "__main__":
    main()
