"""How soon the application shows a run's results, with a million stored scores behind them.

    python bench/application.py [CASES] [SCORES_OF_A_CASE] [METRICS]

One run of 10,000 cases with 10 metrics, judged ten times each, is put into a database of its own, as a worker puts it
there. Then a real browser opens its page, pages on and filters. Needs playwright and a Chromium, found on the path or
named in CHROMIUM.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from _lab import folder, machine, print_table

ROUNDS = 5
ACTS = ("first paint", "first results", "next page", "one metric", "sorted by it", "case opened", "next case")
METRICS = [f"metric_{number}" for number in range(10)]
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
RUN = "2026-01-01T00-00-00Z_many"
SERVER = """
import gc

from evalflow.__main__ import COLLECT_AFTER
from evalflow.app.studio.space import open_workspace
from evalflow.web.serve import bind, loopback
from evalflow.web.application import application
from evalflow.web.serve import answer

gc.set_threshold(*COLLECT_AFTER)
sock, address = bind(loopback("127.0.0.1", 0))
app = application(open_workspace(), address, None, None)
print(address.url, flush=True)
answer(app, sock)
"""


def fill(work: Path, cases: int, per_case: int) -> None:
    """Store a finished run."""
    os.chdir(work)
    from evalflow.app.studio.space import open_workspace
    from evalflow.store import runs, scores

    space = open_workspace()
    run: dict[str, Any] = {
        **{"project_id": 1, "run_id": RUN, "title": "Many", "bot": "helper", "state": "done", "origin": "workspace"},
        **{"composition": {}, "arguments": [], "folder": str(work), "facts": facts(cases, per_case)},
    }
    with space.database.writing() as connection:
        row = runs.create(connection, run)
    chance = random.Random(1)
    for start in range(0, cases, 500):
        positions = range(start, min(start + 500, cases))
        with space.database.writing() as connection:
            scores.put(
                connection,
                [answer(row, position) for position in positions],
                [{"run": row, "tag": f"tag {position % 20}", "position": position} for position in positions],
                [score(row, position, n, chance) for position in positions for n in range(per_case)],
                [],
            )
    space.close()


def facts(cases: int, per_case: int) -> dict[str, Any]:
    """What the run's scores mean."""
    n = cases * per_case // len(METRICS)
    about = {
        "judge": "j",
        "threshold": 0.5,
        "declared": 0.5,
        "direction": "higher_is_better",
        "bounded": True,
        "description": "How good.",
    }
    row = {
        **{"dataset": "d", "target": "helper", "statistic": "mean", "judge": "j", "tag": None, "n": n, "n_scored": n},
        **{"n_undefined": 0, "n_error": 0, "n_skipped": 0, "value": 0.5, "ci_low": 0.49, "ci_high": 0.51},
        **{"ci_method": "t", "pass_rate": 0.5, "pass_rate_low": 0.49, "pass_rate_high": 0.51},
    }
    return {
        "metrics": [{"name": name, "judged": "judge: j, uncalibrated", **about} for name in METRICS],
        "summary": [{**row, "metric": name} for name in METRICS],
        "gates": [],
        "datasets": {"d": cases},
    }


def answer(run: int, position: int) -> dict[str, Any]:
    """A row of answers."""
    return {
        **{"run": run, "position": position, "dataset": "d", "case_id": f"case-{position}", "target": "helper"},
        **{"target_repeat": 0, "tags": [f"tag {position % 20}"], "question": f"How long is game {position} lent?"},
        **{"answer": "For fourteen days. " * 10, "reference": "Fourteen days.", "error": None},
    }


def score(run: int, position: int, n: int, chance: random.Random) -> dict[str, Any]:
    """A row of scores."""
    return {
        **{"run": run, "position": position, "n": n, "metric": METRICS[n % len(METRICS)], "judge": "j"},
        **{"repeat": n // len(METRICS), "member_of": None, "status": "scored", "score": round(chance.random(), 6)},
        **{
            "value": None,
            "reason": "The answer is right, and says no more than it was asked. " * 2,
            "error_type": None,
        },
        **{"error": None, "path": None, "cost_usd": None, "latency_s": 0.1},
    }


def measure(url: str) -> dict[str, list[float]]:
    """Milliseconds of each round, as the browser sees them."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    found: dict[str, list[float]] = {name: [] for name in ACTS}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for _ in range(ROUNDS):
            page: Any = browser.new_page()
            begun = time.perf_counter()
            page.goto(f"{url}/runs/{RUN}", wait_until="commit")
            page.wait_for_selector(".metric .big")
            found["first paint"].append(page.evaluate("performance.getEntriesByType('paint')[0].startTime"))
            page.wait_for_selector(".result-rows tbody tr")
            found["first results"].append(1000 * (time.perf_counter() - begun))
            page.wait_for_function(f"document.querySelectorAll('.rate').length == {len(METRICS)}", timeout=120_000)
            page.wait_for_timeout(1000)
            found["next page"].append(changed(page, lambda page=page: page.get_by_role("button", name="Next").click()))
            one = page.get_by_role("button", name="scored: show these scores of metric_2")
            found["one metric"].append(changed(page, lambda one=one: one.click()))
            sort = page.get_by_label("Order", exact=True)
            sort.click()
            lowest = page.get_by_role("option", name="metric_2, lowest first")
            found["sorted by it"].append(changed(page, lambda one=lowest: one.click()))
            row = page.locator(".result-rows tbody tr").first
            found["case opened"].append(changed(page, lambda row=row: row.click(), ".panel-content"))
            found["next case"].append(changed(page, lambda page=page: page.keyboard.press("j"), ".panel-content"))
            page.close()
        browser.close()
    return found


def changed(page: Any, act: Callable[[], None], place: str = ".result-rows") -> float:
    """Milliseconds until a part of the page is another one."""
    page.evaluate(
        """(place) => { const list = document.querySelector(place);
        const seen = new MutationObserver(() => { window.changed = performance.now(); });
        seen.observe(list, {childList: true, subtree: true});
        window.changed = 0;
        const clicked = () => { window.clicked = performance.now(); };
        const once = {capture: true, once: true};
        for (const act of ["click", "keydown"]) document.addEventListener(act, clicked, once); }""",
        place,
    )
    act()
    page.wait_for_function("window.changed > 0", timeout=60_000)
    page.wait_for_timeout(300)
    return float(page.evaluate("window.changed - window.clicked"))


def main() -> None:
    """Measure and print."""
    words = [int(word) for word in sys.argv[1:4]]
    cases, per_case, metrics = [*words, *(10_000, 100, 10)[len(words) :]]
    METRICS[metrics:] = []
    print(f"{machine()}; {cases:,} cases, {cases * per_case:,} scores, the first of {ROUNDS} rounds and the others\n")
    with folder() as work:
        fill(work, cases, per_case)
        command = [sys.executable, "-c", SERVER]
        with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            try:
                found = measure(server.stdout.readline().strip())
            finally:
                server.terminate()
    head = ("", "the first after the start, ms", "median of the others, ms", "worst of the others, ms")
    rows = [(name, *(f"{ms:.0f}" for ms in (of[0], median(of[1:]), max(of[1:])))) for name, of in found.items()]
    print_table(head, rows)


if __name__ == "__main__":
    main()
