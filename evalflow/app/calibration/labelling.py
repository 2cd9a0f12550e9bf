"""`calibrate --sample`: a sheet of answers, drawn at random, for people to label."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evalflow import datasets
from evalflow.app.comparison.comparable import Scored, open_scored
from evalflow.app.locate import find_run
from evalflow.app.results.answered import answered_rows
from evalflow.app.results.saved import Saved, load
from evalflow.app.screen import shown
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.labels import (
    CELL,
    Candidate,
    Drawn,
    Key,
    Sheet,
    answer_hash,
    draw,
    key_of,
    read_sheet,
    score_strata,
    tag_stratum,
)
from evalflow.metrics.people import label_scale, scale_in_words
from evalflow.report.join import as_answered
from evalflow.report.label_sheet import shown_case, write_label_sheet
from evalflow.report.terminal import literal

if TYPE_CHECKING:
    import polars as pl

    from evalflow.report.join import Row

SHEET = Path("labels.csv")
_MOST = 20


@dataclass(frozen=True, slots=True)
class _Source:
    """What answers are drawn from: a run, and the metrics that they are to be labelled on, with how each is graded."""

    saved: Saved
    run: Scored
    metrics: Mapping[str, str]

    def scores(self) -> pl.LazyFrame:
        """Scored cells of these metrics."""
        import polars as pl

        own = pl.col("metric").is_in(list(self.metrics)) & pl.col("member_of").is_null()
        return self.run.scores().filter(own & (pl.col("status") == "scored"))


def write_sample(options: argparse.Namespace, console: Console) -> int:
    """Draw answers of a run and write them into a sheet; one that exists is topped up.

    Args:
        options: run, sample, out, seed, stratify, metric.
        console: Where to print.

    Raises:
        UserError: There is no such run or metric, nothing to draw, or the sheet is of other answers.
    """
    path = Path(options.out) if options.out else SHEET
    folder = find_run(options.run)
    run, saved = open_scored(folder, folder.path.name), load(folder)
    source = _Source(saved, run, _graded(saved, options.metric))
    problems = list(_option_problems(options, path, source))
    if problems:
        raise UserError(problems)
    candidates = list(_candidates(source))
    if not candidates:
        raise UserError(Problem(f"no answer has a score of {', '.join(source.metrics)}", str(folder.path)))
    sheet = _existing(path)
    _refuse_other_draws(sheet, candidates, path, stratified=options.stratify is not None)
    strata = {None: None, "score": score_strata(candidates), "tag": tag_stratum}[options.stratify]
    drawn = draw(candidates, options.sample, options.seed, stratum=strata, already=sheet.answers)
    fresh = _fresh(source, drawn, sheet, path)
    write_label_sheet(path, [row | {"weight": _weight(drawn, key_of(row))} for row in sheet.rows] + fresh)
    n = len(drawn.weights)
    of = f"all {n}" if n == len(candidates) else f"{n} of {len(candidates)}"
    console.print(literal(f"{of} answers, drawn at random with seed {options.seed}; {len(fresh)} rows added"))
    for name, (taken, size) in drawn.strata.items() if options.stratify else ():
        console.print(literal(f"  {name}: {taken} of {size}", style="dim"))
    _tell(console, path, source)
    return 0


def _graded(saved: Saved, wanted: str | None) -> dict[str, str]:
    """The metric that is wanted, else those whose scores a judge gave, else all; with how people grade them."""
    known = saved.recipe.metrics
    if wanted is not None and wanted not in known:
        raise UserError(
            Problem(f"the run has no metric {wanted!r}", str(saved.folder.path), did_you_mean(wanted, known))
        )
    names = [wanted] if wanted else [name for name in known if saved.recipe.judge_of[name]] or list(known)
    scales = {name: label_scale(known[name].config, bounded=known[name].bounded) for name in names}
    return {name: scale_in_words(scale) for name, scale in scales.items()}


def _option_problems(options: argparse.Namespace, path: Path, source: _Source) -> Iterator[Problem]:
    if options.sample < 1:
        yield Problem(f"--sample is {options.sample}", "command line", "say how many answers to label: --sample 50")
    if path.suffix.lower() not in (".csv", ".jsonl"):
        yield Problem(f"--out {path} is neither .csv nor .jsonl", "command line", f"--out {SHEET}")
    if not path.parent.is_dir():
        yield Problem(f"there is no folder {path.parent}", "command line", f"--out {SHEET}")
    if options.stratify and len(source.metrics) > 1:
        hint = f"name one of them: --metric {next(iter(source.metrics))}"
        yield Problem(f"strata are of one metric, and there are {len(source.metrics)}", "command line", hint)


def _candidates(source: _Source) -> Iterator[Candidate]:
    import polars as pl

    answers = source.scores().group_by(CELL, maintain_order=True).agg(pl.col("score").mean(), pl.col("tags").first())
    for dataset, case_id, target, repeat, score, tags in answers.collect().iter_rows():
        yield Candidate((dataset, case_id, target, repeat), score, tuple(tags or ()))


def _existing(path: Path) -> Sheet:
    """The sheet that stands in the file; an empty one where there is none."""
    rows: list[tuple[str, dict[str, Any]]] = []
    broken: list[Problem] = []
    for row in datasets.plain_rows(path) if path.exists() else ():
        if isinstance(row, Problem):
            broken.append(row)
        else:
            rows.append((row.where, row.data))
    sheet, problems = read_sheet(rows)
    if broken or problems:
        raise UserError([*broken, *problems][:_MOST])
    return sheet


def _refuse_other_draws(sheet: Sheet, candidates: Sequence[Candidate], path: Path, *, stratified: bool) -> None:
    known = {one.key for one in candidates}
    others = [key for key in sheet.answers if key not in known]
    if others:
        what = f"{len(others)} of {len(sheet.answers)} answers in it are not of this run, such as {others[0][1]}"
        raise UserError(Problem(what, shown(path), "write a new sheet: --out FILE"))
    if sheet.answers and stratified != sheet.weighted:
        how, hint = ("by strata", "say --stratify as then") if sheet.weighted else ("all alike", "leave --stratify out")
        raise UserError(Problem(f"its answers were drawn {how}", shown(path), f"{hint}, or --out FILE"))


def _fresh(source: _Source, drawn: Drawn, sheet: Sheet, path: Path) -> list[dict[str, Any]]:
    """A row for each drawn answer and metric that is not in the sheet yet, in the order of the draw.

    Raises:
        UserError: The sheet has another answer for what was drawn.
    """
    made: dict[Key, list[dict[str, Any]]] = {}
    for row in answered_rows(source.saved, source.scores(), {key[:2] for key in drawn.weights}):
        key = (row.case.dataset, row.case.id, row.target, row.target_repeat)
        if key not in drawn.weights or row.answer is None:
            continue
        if sheet.answers.get(key, answer_hash(row.answer)) != answer_hash(row.answer):
            what = f"its answer to case {key[1]} is another than this run's"
            raise UserError(Problem(what, shown(path), "write a new sheet: --out FILE"))
        metrics = dict.fromkeys(score["metric"] for score in row.scores)
        asked = [metric for metric in metrics if (key, metric) not in sheet.asked]
        made[key] = [_row(row, key, metric, source.metrics[metric], _weight(drawn, key)) for metric in asked]
    return [row for key in drawn.weights for row in made.get(key, ())]


def _row(row: Row, key: Key, metric: str, scale: str, weight: float) -> dict[str, Any]:
    assert row.answer is not None
    names = dict(zip(CELL, key, strict=True))
    about = shown_case(as_answered(row.case, row.answer))
    return {
        **names, "metric": metric, "answer_hash": answer_hash(row.answer), "weight": weight, **about, "scale": scale,
    }  # fmt: skip


def _weight(drawn: Drawn, key: Key) -> float:
    return round(drawn.weights[key], 6)


def _tell(console: Console, path: Path, source: _Source) -> None:
    for name, scale in source.metrics.items():
        description = source.saved.recipe.metrics[name].config.description
        console.print(literal(f"{name}: {description} Write {scale}."))
    words = "Fill the columns value and by, without a look at the judge's scores. Rows are in random order: whoever "
    words += "stops early has labelled answers at random too. Rows left empty do not count."
    console.print(literal(words, style="dim"))
    console.print(literal(f"sheet  {shown(path)}"), soft_wrap=True)
    console.print(literal(f"then   python -m evalflow calibrate --labels {shown(path)}"), soft_wrap=True)
