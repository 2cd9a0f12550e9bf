"""How soon the application shows a run's results, and what that takes of the server and of the browser.

    python bench/application.py [CASES] [SCORES_OF_A_CASE] [METRICS]

One run of 10,000 cases with 10 metrics, judged ten times each, is put into a database of its own, as a worker puts it
there. Then a real browser opens its page, pages on, filters, sorts and opens cases. Milliseconds on the clock depend on
what else runs; CPU time is that of all threads of the server, and of all processes of the browser. Needs playwright and
a Chromium, found on the path or named in CHROMIUM.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from _lab import BROWSER_FLAGS, chromium, folder, machine, print_table

ROUNDS = 5
GOALS_MS = {
    **{"first paint": 1000, "first results": 1000, "all figures": None, "next page": 200, "one metric": 200},
    **{"sorted by it": 200, "failed alone": 200, "case opened": 200, "next case": 200},
}
SETTLES_MS = 2500
"""In which a new tab loads pages of the browser's own, such as that of its address bar: half a second of CPU."""
METRICS = [f"metric_{number}" for number in range(10)]
RUN = "2026-01-01T00-00-00Z_many"
SERVER = """
import gc

from evalflow.__main__ import COLLECT_AFTER
from evalflow.addons.studio.work.space import open_workspace
from evalflow.addons.studio.web.address import bind, loopback
from evalflow.addons.studio.web.application import application
from evalflow.addons.studio.web.serve import answer

gc.set_threshold(*COLLECT_AFTER)
sock, address = bind(loopback("127.0.0.1", 0))
app = application(open_workspace(), address, None, None)
print(address.url, flush=True)
answer(app, sock)
"""


def fill(work: Path, cases: int, per_case: int, url: str | None = None) -> None:
    """Store a finished run."""
    os.chdir(work)
    from evalflow.addons.studio.store import runs, scores
    from evalflow.addons.studio.work.space import open_workspace

    space = open_workspace(url)
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
        "metrics": [{"name": name, "title": name, "judged": "judge: j, uncalibrated", **about} for name in METRICS],
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


FIRST_RESULTS = """new MutationObserver((_, seen) => {
  if (!document.querySelector(".result-rows tbody tr")) return;
  seen.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.firstResults = performance.now(); }));
}).observe(document, {childList: true, subtree: true})"""
"""Notes when the first rows have been drawn, by the page's own clock; what drives the browser has its own delays."""


class Stopwatch:
    """What each act took: on the clock, of the server's CPU and of the browser's, in milliseconds."""

    def __init__(self, server: int) -> None:
        self.took: dict[str, list[tuple[float, float, float]]] = {name: [] for name in GOALS_MS}
        self._server = server

    def cpu(self) -> tuple[float, float]:
        """CPU milliseconds of the server and of the browser until now."""
        return _cpu_ms(self._server), sum(map(_cpu_ms, _descendants(os.getpid()) - {self._server}))

    def note(self, act: str, wall_ms: float, before: tuple[float, float]) -> None:
        """Note an act that began when the CPU times were those of `before`."""
        server, browser = self.cpu()
        self.took[act].append((wall_ms, server - before[0], browser - before[1]))


def _cpu_ms(pid: int) -> float:
    """CPU milliseconds of a process, by Linux's clock of it; 0 if it has ended."""
    try:
        return 1000 * time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _descendants(pid: int) -> set[int]:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended meanwhile
            parents.setdefault(int(stat.read_text().rpartition(") ")[2].split()[1]), []).append(int(stat.parent.name))
    found, waiting = set[int](), [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found.update(children)
        waiting += children
    return found


def measure(url: str, watch: Stopwatch) -> None:
    """Do everything, as a person would, in some rounds."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=BROWSER_FLAGS)
        for _ in range(ROUNDS):
            page: Any = browser.new_page()
            page.add_init_script(FIRST_RESULTS)
            page.wait_for_timeout(SETTLES_MS)
            open_run(page, url, watch)

            def act(name: str, work: Callable[[], None], place: str = ".result-rows", page: Any = page) -> None:
                before = watch.cpu()
                watch.note(name, changed(page, work, place), before)

            def choose(label: str, option: str, name: str, page: Any = page, act: Any = act) -> None:
                page.get_by_label(label, exact=True).click()
                act(name, page.get_by_role("option", name=option, exact=True).click)

            act("next page", page.get_by_role("button", name="Next").click)
            act("one metric", page.get_by_role("button", name=f"scored: show these scores of {METRICS[-1]}").click)
            choose("Order", f"{METRICS[-1]}, lowest first", "sorted by it")
            choose("Result", "Failed", "failed alone")
            act("case opened", page.locator(".result-rows tbody tr").first.click, ".panel-content")
            act("next case", lambda page=page: page.keyboard.press("j"), ".panel-content")
            page.close()
        browser.close()


def open_run(page: Any, url: str, watch: Stopwatch) -> None:
    """Open the run's page, and wait until all of it is there."""
    begun, before = time.perf_counter(), watch.cpu()
    page.goto(f"{url}/runs/{RUN}", wait_until="commit")
    page.wait_for_function("window.firstResults > 0", polling=20)  # by frames it would cause frames
    watch.note("first paint", page.evaluate("performance.getEntriesByType('paint')[0].startTime"), before)
    watch.note("first results", page.evaluate("window.firstResults"), before)
    page.wait_for_function(f"document.querySelectorAll('p.rate:not(:empty)').length == {len(METRICS)}", timeout=120_000)
    watch.note("all figures", 1000 * (time.perf_counter() - begun), before)
    page.wait_for_timeout(1000)


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
    page.wait_for_function("window.changed > 0", timeout=60_000, polling=20)  # by frames it would cause frames
    page.wait_for_timeout(300)
    return float(page.evaluate("window.changed - window.clicked"))


def main() -> None:
    """Measure and print."""
    words = [int(word) for word in sys.argv[1:4]]
    cases, per_case, metrics = [*words, *(10_000, 100, 10)[len(words) :]]
    if per_case < metrics:
        sys.exit(f"{per_case} scores of a case are too few for {metrics} metrics: each needs one")
    METRICS[metrics:] = []
    print(f"{machine()}; {cases:,} cases, {cases * per_case:,} scores, the first of {ROUNDS} rounds and the others\n")
    with folder() as work:
        fill(work, cases, per_case)
        command = [sys.executable, "-c", SERVER]
        with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            watch = Stopwatch(server.pid)
            try:
                measure(server.stdout.readline().strip(), watch)
            finally:
                server.terminate()
    head = ("", "the first, ms", "median, ms", "worst, ms", "server's CPU, ms", "browser's CPU, ms", "goal, ms")
    print_table(head, [row(act, took) for act, took in watch.took.items()])


def row(act: str, took: Sequence[tuple[float, float, float]]) -> tuple[str, ...]:
    """Clock of the first round and of the others, and the median CPU of the others."""
    wall, server, browser = zip(*took[1:], strict=True)
    shown = (took[0][0], median(wall), max(wall), median(server), median(browser))
    return (act, *(f"{ms:.0f}" for ms in shown), f"{GOALS_MS[act] or ''}")


if __name__ == "__main__":
    main()
