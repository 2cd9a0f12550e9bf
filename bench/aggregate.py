"""Time and memory of `summarise` over many score rows.

    python bench/aggregate.py [ROWS]

Rows are made up: 8 metrics x 4 judges, graded and binary scores, 1 % errors, 1 % undefined. Each table is measured in a
process of its own: plain; with tags (12 of them, up to two per case); with tags, clusters and repeats; and, as figures,
classifications with a bootstrap for each of the 32 slices. `means` is the part of plain that finds counts, sums and
moments in one pass, without quantiles.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from _lab import machine, print_table

from evalflow.config.schema import MetricConfig
from evalflow.records import FigureSpec

GOALS = {
    "means": "0.6 s",
    "plain": "4 s and 1 GB with quantiles",
    "tags": "4 s and 1 GB",
    "clusters": "5 s",
    "figures": "3 s for the bootstrap alone",
}
_PLAIN = ("means", "plain", "figures")
_METRICS = [f"metric_{i}" for i in range(8)]
_JUDGES = [f"judge_{i}" for i in range(4)]


def generate(path: Path, rows: int, shape: str) -> None:
    """Write a score table of about `rows` rows, as a run does."""
    import numpy as np
    import polars as pl

    from evalflow.summary.summarise import write_scores

    rng = np.random.default_rng(0)
    repeats = 3 if shape == "clusters" else 1
    cases = rows // (len(_METRICS) * len(_JUDGES) * repeats)
    tags = [[], ["a"], ["b > c"], ["d > e > f", "a"], *[[f"t{i}"] for i in range(6)]]
    picked = rng.integers(0, 1 if shape in _PLAIN else len(tags), cases)
    frame = (
        pl.DataFrame(
            {
                "dataset": "generated",
                "case_id": [f"{i:016x}" for i in range(cases)],
                "group": [f"source_{i // 7}" if shape == "clusters" else None for i in range(cases)],
                "tags": [tags[i] for i in picked],
                "target": "recorded",
            },
            schema_overrides={"group": pl.String, "tags": pl.List(pl.String)},
        )
        .join(pl.DataFrame({"metric": _METRICS}), how="cross")
        .join(pl.DataFrame({"judge": _JUDGES}), how="cross")
        .join(pl.DataFrame({"repeat": range(repeats)}, schema={"repeat": pl.Int64}), how="cross")
    )
    n = frame.height
    fate = rng.random(n)
    score = np.where(frame["metric"].is_in(_METRICS[:4]).to_numpy(), rng.random(n).round(3), rng.integers(0, 2, n))
    pairs = [f'{{"prediction":{p},"truth":{t}}}' for t in ("true", "false") for p in ("true", "false")]
    value = pl.Series(pairs)[rng.integers(0, 4, n)] if shape == "figures" else pl.lit(None, pl.String)
    scores = frame.with_columns(
        status=pl.Series(np.select([fate < 0.01, fate < 0.02], ["error", "undefined"], "scored")),
        score=pl.Series(np.where(fate < 0.02, np.nan, score)).fill_nan(None),
        latency_s=pl.Series(rng.random(n).round(3)),
        target_repeat=pl.lit(0, pl.Int64),
        member_of=pl.lit(None, pl.String),
        value=value,
        cost_usd=pl.lit(0.0001),
        input_tokens=pl.lit(900, pl.Int64),
        output_tokens=pl.lit(100, pl.Int64),
        cached=pl.lit(False),
        finish_reason=pl.lit(None, pl.String),
        threshold=pl.lit(None, pl.Float64),
    ).with_columns(passed=pl.col("score") >= 0.5)
    write_scores(scores.lazy(), path)


def measure(path: Path) -> None:
    """Summarise one table and print seconds, CPU seconds, peak memory above the imports, and rows."""
    import polars as pl

    from evalflow.summary.slices import find_units, own_cells
    from evalflow.summary.summarise import summarise

    figures = FigureSpec("classification", True) if path.stem == "figures" else None
    metrics = dict.fromkeys(_METRICS, Declared(figures))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, start_cpu = time.perf_counter(), time.process_time()
    scores = pl.scan_parquet(path)
    found = find_units(own_cells(scores)).table if path.stem == "means" else summarise(scores, metrics).frame
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{seconds:.1f} {cpu:.1f} {peak:,.0f} {found.height:,}")


@dataclass(frozen=True)
class Declared:
    """What the summary asks of a metric."""

    figures: FigureSpec | None
    bounded: bool = True
    config: MetricConfig = field(default_factory=lambda: MetricConfig(kind="classification"))


def main() -> None:
    """Generate, then measure each table in a fresh process."""
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    print(f"{machine()}; {rows:,} rows\n")
    found: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for shape, goal in GOALS.items():
            path = Path(folder) / f"{shape}.parquet"
            make = "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import aggregate; "
            make += "aggregate.generate(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
            here = str(Path(__file__).parent)
            subprocess.run([sys.executable, "-c", make, here, str(path), str(rows), shape], check=True)
            measure_it = [sys.executable, __file__, "--measure", str(path)]
            done = subprocess.run(measure_it, check=True, capture_output=True, text=True)
            found.append((shape, *done.stdout.split(), goal))
            path.unlink()
    print_table(("", "seconds", "CPU s", "MiB above the imports", "rows of the summary", "goal of ten million"), found)


if __name__ == "__main__":
    main()
