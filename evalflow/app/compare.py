"""The command `compare`: run B with run A, or every two runs of a sweep."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Literal, get_args

from rich.console import Console

from evalflow.app.core.comparison import ComparisonOptions, compare_labelled
from evalflow.app.core.saved import (
    ANOTHER,
    SavedRun,
    expect_scores,
    expect_two,
    find_folder,
    find_run,
    jobs_of,
    scored_runs,
)
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.lazy import pl
from evalflow.paths import shown
from evalflow.records import CASES
from evalflow.records.manifest import Manifest
from evalflow.report.comparison import print_comparison
from evalflow.report.comparison_page import write_comparison
from evalflow.report.markdown import write_comparison_markdown
from evalflow.report.wording import print_json
from evalflow.summary.compare import by_case, whole_cases


def compare(options: argparse.Namespace, console: Console) -> int:
    """Compare, print the table, and write compare.html and compare.md into the folder of run B or of the sweep."""
    by = {"by_tag": options.tags, "by_class": options.classes, "unpaired": options.unpaired}
    how = ComparisonOptions(options.allow, options.adjust, options.margin, **by)
    if options.labels and options.judge_alone:
        hint = "leave out --labels or --judge-alone"
        raise UserError(Problem("--judge-alone uses no labels", "command line", hint))
    folder, pairs = _pairs(options.runs)
    found = compare_labelled(pairs, how, options.labels, judge_alone=options.judge_alone)
    write_comparison(folder / "compare.html", found)
    write_comparison_markdown(folder / "compare.md", found)
    if options.json:
        document = found.document() | {"page": str(folder / "compare.html")}
        return print_json(console, document)
    print_comparison(console, found)
    console.print(f"page   {shown(folder / 'compare.html')}", soft_wrap=True, markup=False)
    return 0


def _pairs(given: Sequence[str]) -> tuple[Path, list[tuple[SavedRun, SavedRun]]]:
    """The runs to compare, and the folder for the page."""
    if len(given) > 2:
        hint = "name two, or the folder of a sweep for all pairs"
        raise UserError(Problem(f"{len(given)} runs", "command line", hint))
    folder = find_folder(given[0] if given else None)
    jobs = jobs_of(folder) if len(given) < 2 else None
    if jobs is not None:
        runs = scored_runs(jobs)
        if len(runs) < 2:
            raise UserError(Problem("fewer than two runs of this sweep have scores", str(folder)))
        return folder, list(combinations(runs, 2))
    if not given:
        raise UserError(Problem("compare with what?", "command line", _another_than(find_run(None))))
    a, b = find_run(given[0]), find_run(given[1] if len(given) > 1 else None)
    expect_two(a, b)
    return b.folder.path, [(expect_scores(a), expect_scores(b))]


def _another_than(latest: SavedRun) -> str:
    """The command that compares the latest run with the newest earlier one of the same data and a common metric."""
    folders = sorted(latest.folder.path.parent.glob("*/run.json"), reverse=True)
    earlier = (RunFolder(file.parent) for file in folders if file.parent != latest.folder.path)
    for folder in islice(earlier, _LOOKED_AT):
        try:
            found = folder.read()
        except UserError:
            continue  # damaged
        if (
            isinstance(found, Manifest)
            and folder.scores.is_file()
            and found.datasets.keys() == latest.manifest.datasets.keys()
            and found.metrics.keys() & latest.manifest.metrics.keys()
        ):
            return f"the latest run with the one before it: {command('compare', shown(folder.path))}"
    return ANOTHER


Sort = Literal["all", "flipped", "worse", "better", "lost", "answer"]
SORTS: tuple[Sort, ...] = get_args(Sort)
_LOOKED_AT = 50  # earlier runs, newest first, among which one to compare with is looked for
_KEY = ("dataset", "case_id", "metric")
_CASE = ["dataset", "case_id"]
_SHOWN = ("metric", "score_a", "score_b", "passed_a", "passed_b", "change")
_HALF = 0.5
_LEAST = 1e-9  # sort value of a score that only one run has: after cases that changed, before unchanged ones


@dataclass(frozen=True, slots=True)
class MetricChange:
    """How the scores of a case differ in one metric. Scores are means over repeats; None if the run has none."""

    metric: str
    score_a: float | None
    score_b: float | None
    # Whether most of its repeats passed; None without a threshold or a score.
    passed_a: bool | None
    passed_b: bool | None
    change: float | None  # B minus A, or A minus B if lower is better: below 0 is worse. None if a score is missing.


@dataclass(frozen=True, slots=True)
class Change(MetricChange):
    """A changed case, shown by its worst drop, else its largest rise; `chips` are all other metrics that changed."""

    dataset: str
    case_id: str
    question: str  # empty if the database does not have it
    others: int  # the number of other metrics that changed in the same way
    is_answered_otherwise: bool
    chips: Sequence[MetricChange]


class Changes:
    """The cases in both runs (`common`) that differ in a score or the answer; a case may count in several `counts`."""

    def __init__(self, table: pl.DataFrame) -> None:
        self.common = table.select("dataset", "case_id").n_unique()
        self._changed = table.filter(pl.col("all"))
        self.counts: Mapping[Sort, int] = {
            sort: self._changed.filter(pl.col(sort)).select("dataset", "case_id").n_unique() for sort in SORTS
        }

    def page(self, sort: Sort, offset: int = 0, limit: int = 20) -> Sequence[Change]:
        """A page of the cases with a kind of change, worst first; for `better`, best first.

        The kind is all, flipped (between pass and fail), worse, better, lost (scored in one run only), or answer (the
        answers differ, whether or not the scores do).
        """
        weight = pl.col("weight")
        # Drops before rises before what does not differ; the metric that failed says more than the case as a whole.
        kind = pl.when(weight < 0).then(0).when(weight > 0).then(1).otherwise(2)
        shown = self._changed.filter(pl.col(sort)).sort(
            "dataset", "case_id", kind, pl.col("metric") == CASES, pl.when(weight < 0).then(weight).otherwise(-weight),
            maintain_order=True,
        )  # fmt: skip
        same_way = pl.col("differs").sum().over(_CASE) - pl.col("differs").cast(pl.UInt32)
        cases = shown.with_columns(others=same_way).unique(_CASE, keep="first", maintain_order=True)
        order = -weight if sort == "better" else weight
        page = cases.sort(order, "place", maintain_order=True).slice(offset, limit)
        changed = self._changed.filter(pl.col("differs") | pl.col("flipped")).sort(weight, maintain_order=True)
        others: dict[tuple[str, str], list[MetricChange]] = {}
        for row in changed.join(page.select(_CASE), on=_CASE, how="semi", maintain_order="left").iter_rows(named=True):
            others.setdefault((row["dataset"], row["case_id"]), []).append(
                MetricChange(*(row[name] for name in _SHOWN))
            )
        found: list[Change] = []
        for row in page.iter_rows(named=True):
            case = row["dataset"], row["case_id"]
            chips = [one for one in others.get(case, ()) if one.metric != row["metric"]]
            known = {name: row[name] for name in (*_SHOWN, *_CASE, "question", "others")}
            found.append(Change(**known, is_answered_otherwise=row["answer"], chips=chips))
        return found


def cells_between(a: SavedRun, b: SavedRun, cases: Sequence[tuple[str, str, str, bool]]) -> pl.DataFrame:
    """A row for each case and metric in both runs, of which `a` is the earlier one.

    The cases that pass everything are a metric too. `cases` has dataset, id and question of the cases in both, and
    whether the answers differ. The columns are those of `MetricChange`, a Boolean for each of `SORTS`, `differs` (in
    the score, or in whether it exists), `place` in A's order,
    and `weight`: the change, for a metric that exceeds 1 divided by the largest, so that other units do not dominate.
    """
    schema = {"dataset": pl.String, "case_id": pl.String, "question": pl.String, "answer": pl.Boolean}
    known = pl.LazyFrame(cases, schema=schema, orient="row")
    lower = [name for name, traits in (a.traits | b.traits).items() if not traits.higher_is_better]
    rise = pl.col("score_b") - pl.col("score_a")
    passed = {f"passed_{side}": pl.col(f"passed_{side}") >= _HALF for side in "ab"}
    greatest = pl.max_horizontal(pl.col("change").abs().max().over("metric"), 1.0)
    lost = pl.when(pl.col("score_b").is_null()).then(-_LEAST).otherwise(_LEAST)
    left, right = _side(a.scores(), "a"), _side(b.scores(), "b")
    passing = [name for name in a.manifest.metrics if a.manifest.metric_config(name).get("threshold") is not None]
    traits = a.traits | b.traits
    several = len(passing) > 1 or any(one.of_cases for one in traits.values())
    if several and (whole := whole_cases((a.scores(), b.scores()), traits)):
        # A case's place is that of its metrics.
        own = [_side(side, name) for side, name in zip(whole, "ab", strict=True)]
        left = pl.concat([left, own[0].with_columns(place=pl.lit(None, pl.UInt32))], how="vertical_relaxed")
        right = pl.concat([right, own[1]])
    return (
        left.join(right, on=_KEY)
        .join(known, on=("dataset", "case_id"), how="left")
        .with_columns(pl.col("answer").fill_null(value=False), pl.col("question").fill_null(""), **passed)
        .with_columns(
            change=pl.when(pl.col("metric").is_in(lower)).then(-rise).otherwise(rise),
            flipped=(pl.col("passed_a") != pl.col("passed_b")).fill_null(value=False),
            lost=pl.col("score_a").is_null() != pl.col("score_b").is_null(),
        )
        .with_columns(
            worse=(pl.col("change") < 0).fill_null(value=False),
            better=(pl.col("change") > 0).fill_null(value=False),
            weight=pl.when(pl.col("lost"))
            .then(lost)
            .when(pl.col("flipped") & (pl.col("change") == 0))  # by another threshold
            .then(pl.when("passed_b").then(2 * _LEAST).otherwise(-2 * _LEAST))
            .otherwise((pl.col("change") / greatest).fill_null(0.0)),
        )
        .with_columns(pl.col("place").min().over(_CASE), differs=pl.col("worse") | pl.col("better") | pl.col("lost"))
        .with_columns(all=pl.col("differs") | pl.col("flipped") | pl.col("answer"))
        .collect(engine="streaming")
    )


def _side(scores: pl.LazyFrame, side: str) -> pl.LazyFrame:
    place = [pl.col("place")] if side == "a" else []
    return by_case(scores).select(*_KEY, *place, pl.col("score", "passed").name.suffix(f"_{side}"))
