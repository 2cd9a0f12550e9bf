"""Time, memory and size of a run's reports, and how soon a browser shows them.

    python bench/report_page.py [CASES]

Cases are made up: 4 metrics each, three contexts, and the judge's steps with every score. Writing is measured in a
process of its own. The browser part needs playwright and a Chromium, found on the path or named in CHROMIUM.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _lab import BROWSER_FLAGS, chromium

METRICS = ("faithfulness", "relevance", "coherence", "completeness")
WORDS = (
    "the",
    "council",
    "decides",
    "within",
    "thirty",
    "days",
    "whether",
    "a",
    "fee",
    "is",
    "waived",
    "for",
    "residents",
)
WATCH = """
new PerformanceObserver((list) => { window.painted = list.getEntries()[0].startTime; }).observe({type: "paint"});
const timer = setInterval(() => {
  if (document.querySelector(".item")) window.listed ??= performance.now();
  if (document.querySelector("#detail .question")) { window.detailed = performance.now(); clearInterval(timer); }
}, 5);
"""


def text(random_: random.Random, words: int) -> str:
    """So many words, as a sentence."""
    return " ".join(random_.choices(WORDS, k=words)).capitalize() + "."


def cases(n: int) -> Iterator[Any]:
    """The cases, each made when it is its turn."""
    from evalflow.records import Case, Context, Message

    for i in range(n):
        r = random.Random(i)
        yield Case(
            dataset="rag",
            index=i,
            id=f"{i:012x}",
            messages=(Message("user", text(r, 12)),),
            answer=text(r, 40),
            reference=text(r, 30),
            contexts=tuple(Context(text(r, 90), title=text(r, 3)) for _ in range(3)),
        )


def cells(n: int) -> Iterator[dict[str, Any]]:
    """The rows of scores.parquet."""
    for i in range(n):
        r = random.Random(i)
        for metric in METRICS:
            claims = [text(r, 10) for _ in range(4)]
            verdicts = [{"reason": text(r, 12), "verdict": r.choice(["supported", "not_in_context"])} for _ in claims]
            odds = [{"verdict": {"supported": 0.8}}] * 4
            steps = [
                {"id": "verdicts", "task": "verify_claims", "items": claims, "reply": verdicts, "probabilities": odds}
            ]
            score = round(r.random(), 3)
            yield {
                "case_id": f"{i:012x}",
                "metric": metric,
                "score": score,
                "passed": score >= 0.5,
                "reason": text(r, 25),
                "steps": json.dumps(steps),
            }


def write(folder: Path, n: int) -> None:
    """Write the reports, and print what that took."""
    import polars as pl

    from evalflow.config.schema import MetricConfig
    from evalflow.records.manifest import JudgeFacts, Manifest, TargetFacts
    from evalflow.report.html import Reported, write_reports

    texts = ("group", "member_of", "value", "error", "error_type", "path", "finish_reason")
    pl.DataFrame(cells(n)).with_columns(
        *[pl.lit(None, pl.String).alias(name) for name in texts],
        run_id=pl.lit("bench"),
        tags=pl.lit([], pl.List(pl.String)),
        dataset=pl.lit("rag"),
        target=pl.lit("recorded"),
        judge=pl.lit("embedded"),
        status=pl.lit("scored"),
        target_repeat=pl.lit(0, pl.Int64),
        repeat=pl.lit(0, pl.Int64),
        threshold=pl.lit(0.5),
        latency_s=pl.lit(0.1),
        cost_usd=pl.lit(None, pl.Float64),
    ).write_parquet(folder / "scores.parquet")
    columns = ("dataset", "target", "metric", "statistic", "judge", "tag", "value", "pass_rate")
    run = Reported(
        scores=pl.scan_parquet(folder / "scores.parquet"),
        summary=pl.DataFrame(schema=dict.fromkeys(columns, pl.String)),
        details=[],
        gates=[],
        manifest=Manifest.model_construct(
            run_id="bench",
            status="done",
            started_at="",
            overrides=(),
            datasets={},
            metrics={},
            versions={},
            git_commit=None,
            target=TargetFacts(name="recorded", identity=""),
            judges={"embedded": JudgeFacts(nature="made up", identity="", calibrated=True)},
        ),
        metrics={name: MetricConfig(kind="judge") for name in METRICS},
        cases=cases(n),
        answers=lambda *_: None,
    )
    before = peak()
    begun = time.perf_counter()
    write_reports(folder, run)
    print(f"written in {time.perf_counter() - begun:.1f} s, peak memory {peak():.0f} MB ({before:.0f} MB before)")


def peak() -> float:
    """The process's peak memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def look(page_file: Path) -> None:
    """Open the page three times, and print when what was there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), headless=True, args=BROWSER_FLAGS)
        for _ in range(3):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.add_init_script(WATCH)
            page.goto(page_file.as_uri())
            page.wait_for_selector("#detail .question", state="attached")
            page.wait_for_timeout(50)
            moments = page.evaluate(
                "[painted, listed, detailed, performance.timing.domComplete - performance.timeOrigin]"
            )
            print("painted {:.0f} ms, list {:.0f} ms, a case {:.0f} ms, all read {:.0f} ms".format(*moments))
            page.close()
        browser.close()


def main() -> None:
    """Measure."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, __file__, "--write", name, str(n)], check=True)
        for file in sorted(folder.iterdir()):
            print(f"{file.name:16} {file.stat().st_size / 1e6:8.1f} MB")
        look(folder / "report.html")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
