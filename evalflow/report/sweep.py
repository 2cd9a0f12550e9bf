"""The report of a sweep, as a page and on a terminal: all runs side by side, leaderboards, judges, and cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.records.manifest import Manifest, SweepManifest
from evalflow.report import svg
from evalflow.report.charts import Picture, draw, interval_pictures, mean_point
from evalflow.report.page import (
    INTERVAL,
    Cell,
    Fact,
    PageColumn,
    PageHead,
    PageTable,
    facts,
    judge_lines,
    of_what,
    write_page,
)
from evalflow.report.ranking_sentences import labels_of_ranking, of_board, of_choice, of_standing, split_sentence
from evalflow.report.sweep_tables import metric_tables, page_table, print_tables, side_by_side
from evalflow.report.titles import ShownTitles
from evalflow.report.wording import (
    ADJUSTMENTS,
    bracketed,
    cost,
    counted,
    headline_rows,
    interval,
    joined,
    literal,
    metric_name,
    number,
    p_value,
    percent,
    plain_statistic,
    print_indented,
    rank_range,
    series_name,
    unscored,
    varying,
    who_scored,
)
from evalflow.stats.arrays import ROUNDING
from evalflow.summary.judge_choice import JudgeBoard, RankedJudge
from evalflow.summary.ranking import BoardPlace, Leaderboard
from evalflow.summary.rows import SummaryRow, rows_of

_COST_WIDTH, _COST_HEIGHT = 300, 200
_SHARED = ("Dataset", "Target", "Metrics", "Versions")
Run = tuple[str, "Manifest", "pl.DataFrame"]
_CELL = ("dataset", "case_id", "target", "target_repeat", "metric", "repeat")
_MIN_CORRELATION = 3
_SAID = 3  # sentences that the page opens with
FEW = 4  # largest number of runs that are shown in full
_SHOWN_COLUMNS = 5


def cost_pictures(rows: Sequence[SummaryRow], costs: Mapping[str, float | None]) -> list[Picture]:
    """One picture for each metric for which at least two runs have a mean and a known cost above 0."""
    means = [row for row in rows if row.statistic == "mean" and row.value is not None]
    pictures: list[Picture] = []
    for metric in dict.fromkeys(row.metric for row in means):
        own = [row for row in means if row.metric == metric]
        priced = [row for row in own if costs.get(row.run)]
        if len({row.run for row in priced}) < 2:
            continue
        points = [(costs[row.run] or 0.0, mean_point(row.run, row)) for row in priced]
        without = len(own) - len(priced)
        left = f" {without} without a known cost {'is' if without == 1 else 'are'} not shown." if without else ""
        sentence = (
            "Each dot is a run: its cost in dollars without a cache, the judge's included, and its mean with the 95 % "
            f"interval. Better and cheaper is up and to the left.{left} {unscored(priced)}."
        )
        pictures.append(draw(f"Cost against {metric_name(metric)}", sentence, cost_chart(points, "mean")))
    return pictures


def cost_chart(
    points: Sequence[tuple[float, svg.IntervalPoint]], title: str, across: str = "dollars a run"
) -> svg.Drawing:
    """A chart of values by cost; `title` names the values, `across` the cost."""
    drawing = svg.Drawing()
    values = [end for _, point in points for end in (point.value, point.low, point.high) if end is not None]
    x = svg.Scale.around([0, *(dollars for dollars, _ in points)], 0, _COST_WIDTH)
    y = svg.Scale.around(values, _COST_HEIGHT, 0)
    svg.y_axis(drawing, y, _COST_WIDTH, title)
    svg.x_axis(drawing, x, _COST_HEIGHT, across, top=0)
    for dollars, point in points:
        left, top = x(dollars), y(point.value or 0.0)
        if point.low is not None and point.high is not None:
            drawing.line((left, y(point.low)), (left, y(point.high)), svg.MAIN, width=2.5, opacity=0.45)
        drawing.dot(left, top)
        name = svg.shortened(point.label, 140)
        fits = left + 8 + svg.text_width(name) <= _COST_WIDTH + 10
        drawing.text(left + (8 if fits else -8), top - 6, name, anchor="start" if fits else "end", fill=svg.INK)
    return drawing


_CHOICE_MEASURES = {None: "agreement", "kappa": "Cohen's kappa", "spearman": "Spearman's correlation"}


def choice_tables(boards: Sequence[JudgeBoard]) -> list[tuple[str, PageTable]]:
    """A heading, and the judges with their verdicts, for each dataset, metric and target."""
    return [(_title(board), _choice_table(board)) for board in boards]


def _choice_table(board: JudgeBoard) -> PageTable:
    heads = [
        PageColumn("Judge"),
        PageColumn(_CHOICE_MEASURES[board.measure], "num value"),
        INTERVAL,
        PageColumn("Verdict"),
        PageColumn("Cost", "num"),
        PageColumn("Corrected mean", "num value"),
        INTERVAL,
    ]
    rows: list[Sequence[Cell]] = []
    for place, row in enumerate(board.ranking, 1):
        c: Mapping[str, Any] = row.corrected or {"estimate": None, "ci_low": None, "ci_high": None, "n_labels": 0}
        p = "" if row.p_adjusted is None else f", p {p_value(row.p_adjusted)} ({ADJUSTMENTS['holm']})"
        rows.append(
            (
                (f"{place}. {row.judge}", row.run),
                number(row.value),
                interval(row.ci_low, row.ci_high),
                f"{of_choice(row.verdict)}{p}",
                cost(row.cost_usd),
                number(c["estimate"]),
                (interval(c["ci_low"], c["ci_high"]), f"by {c['n_labels']} labels"),
            )
        )
    return PageTable(heads, rows)


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two judges on the answers that both scored with a metric; see `agreement`."""

    metric: str
    judge_a: str
    judge_b: str
    n: int
    agreement: float | None
    correlation: float | None

    def __str__(self) -> str:
        return f"{self.judge_a} and {self.judge_b}"


def _agreement_table(agreement: Sequence[JudgePair]) -> PageTable:
    numbers = [PageColumn(name, "num") for name in ("Common scores", "Same pass or fail", "Rank correlation")]
    rows = [
        (one.metric, str(one), f"{one.n:,}", percent(one.agreement), number(one.correlation, 2)) for one in agreement
    ]
    return PageTable([PageColumn("Metric"), PageColumn("Judges"), *numbers], rows)


def print_choice(console: Console, boards: Sequence[JudgeBoard], *, split: bool) -> None:
    """Print the rankings."""
    for board in boards:
        console.print(literal(f"agreement with labels: {_title(board)}", style="bold"))
        _print_ranking(console, zip(_places(board.ranking), map(_choice_line, board.ranking), strict=True))
    if boards:
        console.print(literal(split_sentence(split=split), style="dim"))


def _print_ranking(console: Console, lines: Iterable[tuple[int | None, str]]) -> None:
    for place, line in lines:
        print_indented(console, f"{'-' if place is None else f'{place}.'} {line}", style="")


def _places(rows: Iterable[BoardPlace | RankedJudge]) -> Iterator[int | None]:
    """The rank of each row, the best first: equal values share theirs, and what is not comparable has none."""
    first, of_first = None, 0
    for place, row in enumerate(rows, start=1):
        if row.value is None or row.verdict == "not_comparable":
            yield None
            continue
        if first is None or not math.isclose(row.value, first, rel_tol=0, abs_tol=ROUNDING):
            first, of_first = row.value, place
        yield of_first


def choice_pictures(boards: Sequence[JudgeBoard]) -> list[Picture]:
    """Agreement by cost, for each board with at least two known costs."""
    pictures: list[Picture] = []
    for board in boards:
        points = [
            (row.cost_usd, svg.IntervalPoint(row.run, row.value, row.ci_low, row.ci_high))
            for row in board.ranking
            if row.cost_usd and row.value is not None
        ]
        if len(points) < 2:
            continue
        sentence = (
            "Each dot is a judge: the cost of its run in dollars without a cache, and its agreement with labels on "
            f"{board.n:,} labelled answers, with the 95 % interval. Better and cheaper is up and to the left."
        )
        drawing = cost_chart(points, _CHOICE_MEASURES[board.measure])
        pictures.append(draw(f"Cost against agreement: {board.metric}", sentence, drawing))
    return pictures


def _title(board: JudgeBoard) -> str:
    on = f"{_CHOICE_MEASURES[board.measure]} on {board.n:,} labelled answers"
    return f"{joined(board.metric, board.dataset, board.target)} ({on})"


def _ranked(row: BoardPlace | RankedJudge, name: str, verdict: str) -> str:
    p = "" if row.p_adjusted is None else f", p {p_value(row.p_adjusted)} ({ADJUSTMENTS['holm']})"
    return f"{number(row.value)}{bracketed(row.ci_low, row.ci_high)} {name}: {verdict}{p}"


def _choice_line(row: RankedJudge) -> str:
    text = _ranked(row, f"{row.run} ({row.judge})", of_choice(row.verdict))
    text += f"; cost {cost(row.cost_usd)}"
    c = row.corrected
    if c is None or c["estimate"] is None:
        return f"{text}; no corrected mean, {c['n_labels'] if c else 0} labels left for it"
    corrected = number(c["estimate"]) + bracketed(c["ci_low"], c["ci_high"])
    return f"{text}; corrected mean {corrected} by {c['n_labels']:,} labels"


_MEASURES: Mapping[str, tuple[str, str, Callable[[float | None], str]]] = {
    "agreement": ("Same pass or fail", "the share of common answers that both judges pass or both fail", percent),
    "correlation": ("Rank correlation", "Spearman's correlation of the two judges' scores", partial(number, digits=2)),
}


def judge_matrices(agreement: Sequence[JudgePair], rows: Sequence[SummaryRow]) -> list[Picture]:
    """A matrix for each metric and each measure that at least one pair of judges has."""
    pictures: list[Picture] = []
    for metric in dict.fromkeys(pair.metric for pair in agreement):
        pairs = [pair for pair in agreement if pair.metric == metric]
        own = [row for row in rows if row.metric == metric]
        known = (name for name in _MEASURES if any(getattr(pair, name) is not None for pair in pairs))
        pictures += [_matrix_chart(metric, name, pairs, own) for name in known]
    return pictures


def _matrix_chart(metric: str, measure: str, pairs: Sequence[JudgePair], rows: Sequence[SummaryRow]) -> Picture:
    title, meaning, text = _MEASURES[measure]
    value_of: Callable[[JudgePair], float | None] = attrgetter(measure)
    known = sorted((pair for pair in pairs if value_of(pair) is not None), key=lambda pair: value_of(pair) or 0.0)
    high, low = (f"{pair} ({text(value_of(pair))})" for pair in (known[-1], known[0]))
    sentence = (
        f"Each cell is {meaning} on {metric}, and below it the number of answers. Highest: {high}"
        f"{f'; lowest: {low}' if low != high else ''}. Judges that agree may still be wrong together. {unscored(rows)}."
    )
    judges = sorted({judge for pair in pairs for judge in (pair.judge_a, pair.judge_b)})
    by_judges = {(pair.judge_a, pair.judge_b): pair for pair in pairs}

    def cell(one: str, other: str) -> svg.Tile | None:
        """The agreement of two judges; not shaded below 0."""
        if one == other:
            return None
        pair = by_judges.get((min(one, other), max(one, other)))
        value = value_of(pair) if pair else None
        return svg.Tile(text(value), max(0.0, value or 0.0), f"n {pair.n if pair else 0:,}")

    cells = [[cell(one, other) for other in judges] for one in judges]
    drawing = svg.matrix_chart(judges, cells, max(56, min(120, 240 // len(judges))), 48, turn=False)
    return draw(f"{title} · {metric}", sentence, drawing)


_SHOWN = ("mean", "pass_rate")


def board_lines(boards: Sequence[Leaderboard]) -> list[tuple[str, list[tuple[int | None, str]]]]:
    """A heading, and each run's rank and line, the leader first, for each of the sweep's leaderboards."""
    return [
        (
            joined(
                metric_name(board.metric),
                _statistic(board),
                board.dataset,
                board.judge,
                _cases(board),
                labels_of_ranking(board.metric, board.n_labels, board.uncorrected, board.judge),
            ),
            [
                (place, _line(row, board))
                for place, row in zip(_places(board.leaderboard), board.leaderboard, strict=True)
            ],
        )
        for board in boards
    ]


def print_boards(console: Console, boards: Sequence[Leaderboard]) -> None:
    """Print the first lines of the leaderboards by mean and pass rate; the page has the rest."""
    shown = [board for board in boards if board.statistic in _SHOWN]
    for title, lines in board_lines(shown):
        console.print(literal(f"leaderboard: {title}", style="bold"))
        _print_ranking(console, lines[:FEW])
        if len(lines) > FEW:
            console.print(literal(f"  {len(lines) - FEW} more in report.html", style="dim"))
    rest = dict.fromkeys(board.statistic for board in boards if board not in shown)
    if rest:
        console.print(literal(f"report.html has the leaderboards by {', '.join(rest)}", style="dim"))


def _statistic(board: Leaderboard) -> str:
    """The statistic's usual name; empty for a plain mean."""
    if board.statistic == "mean":
        return "accuracy" if "accuracy" in board.also else ""
    return "" if board.metric == CASES else plain_statistic(board.statistic)


def _cases(board: Leaderboard) -> str:
    """The cases that the values are based on, if the runs did not all score the same ones."""
    cases, left = board.cases, board.cases_left_out
    if not cases:
        return "no case that all runs scored" if left else ""
    return f"on the {cases:,} of {cases + left:,} cases that all runs scored" if left else ""


def _line(row: BoardPlace, board: Leaderboard) -> str:
    verdict = of_standing(row.verdict, is_first=row is board.leaderboard[0])
    left = row.n - row.n_scored
    ends = (row.rank_low, row.rank_high)
    ranks = "" if ends[0] is None or ends[1] is None else f"; rank {rank_range(ends[0], ends[1])}"
    alone = "" if row.raw_value is None else f"; by the {who_scored(board.judge)} alone {number(row.raw_value)}"
    return _ranked(row, row.run, verdict) + ranks + alone + (f", {left:,} not scored" if left else "")


def write_sweep_report(
    path: Path,
    *,
    manifest: SweepManifest,
    runs: Sequence[Run],
    agreement: Sequence[JudgePair],
    boards: Sequence[Leaderboard],
    choice: Mapping[str, Any] | None = None,
) -> None:
    """Write one self-contained page over all runs of a sweep, with titles. It links to `<run>/report.html` beside it.

    `agreement` is from the function of that name, and `choice` the sweep's calibration.json; None if not requested.
    """
    rows = [replace(row, run=name) for name, _, summary in runs for row in rows_of(summary) if row.tag is None]
    manifests = {name: about for name, about, _ in runs}
    tables, titles = metric_tables(rows, manifests), ShownTitles.of(manifests.values())
    rows, agreement, boards = titles.shown(rows), titles.shown(agreement), titles.shown(boards)
    costs = {name: about.full_cost for name, about, _ in runs}
    judges = list(dict.fromkeys(line for _, about, _ in runs for line in judge_lines(about)))
    first = {board.metric: board for board in reversed(boards) if board.statistic in _SHOWN}
    ordered = sorted(first.values(), key=lambda board: (board.metric != CASES, boards.index(board)))
    lines = [line for board in ordered if (line := of_board(board, boards))][:_SAID]
    headlines = [(line, ". ".join(lines[1:])) for line in lines[:1]]
    head = PageHead("Sweep", _title_of(manifests), "", judges, facts=_facts(manifest, runs), headlines=headlines)
    chosen = titles.shown(JudgeBoard.of(board) for board in choice["choice"]) if choice else []
    context = {
        "side": side_by_side(tables),
        "tables": [(one.title, page_table(one, manifests)) for one in tables if one.is_headline],
        "more": [(one.title, page_table(one, manifests)) for one in tables if not one.is_headline],
        "pictures": [*interval_pictures(_numbered(rows)), *cost_pictures(rows, costs)],
        "boards": board_lines(boards),
        "choice": choice_tables(chosen),
        "choice_notes": choice["notes"] if choice else [],
        "split": split_sentence(split=choice["split"]) if choice else "",
        "choice_pictures": choice_pictures(chosen),
        "agreement": _agreement_table(agreement),
        "matrices": judge_matrices(agreement, rows),
        "runs": [_cost(name, about) for name, about, _ in runs],
    }
    write_page(path, "sweep.html.jinja", head, context)


def _title_of(manifests: Mapping[str, Manifest]) -> str:
    whole = dict.fromkeys(of_what(about) for about in manifests.values())
    return f"{counted(len(manifests), 'run')}: {next(iter(whole))}{' and others' if len(whole) > 1 else ''}"


def _numbered(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows by metric, with the run's name instead of the target if only runs distinguish them."""
    order = list(dict.fromkeys(row.metric for row in rows))
    by_metric = sorted(rows, key=lambda row: order.index(row.metric))
    parts = varying(rows)
    cells = {(row.metric, row.statistic, series_name(row, parts)) for row in rows}
    return by_metric if len(cells) == len(rows) else [replace(row, target=row.run) for row in by_metric]


def _facts(manifest: SweepManifest, runs: Sequence[Run]) -> list[Fact]:
    every = [facts(about) for _, about, _ in runs]
    shared = [fact for fact in every[0] if all(fact in other for other in every)] if every else []
    own = facts(manifest.model_copy(update={"overrides": ["-m", *manifest.overrides]}))
    return [*own[:-1], *(fact for fact in shared if fact[0] in _SHARED), *own[-1:]]


def _cost(name: str, manifest: Manifest) -> dict[str, Any]:
    keys = ("status", "requests", "input_tokens", "output_tokens", "cost_usd")
    return {"name": name} | {key: getattr(manifest, key) for key in keys}


def agreement(runs: Sequence[pl.LazyFrame]) -> list[JudgePair]:
    """Compare every two judges on the answers that both scored with the same metric, repeat by repeat.

    If several runs have the same cell of the same judge, the first one counts. Panel members are left out. `agreement`
    is the share where both pass or both fail (None without verdicts), `correlation` Spearman's (None below 3 cells or
    if one judge never varies).
    """
    frames = [
        run.filter(
            (pl.col("status") == "scored") & pl.col("judge").is_not_null() & pl.col("member_of").is_null()
        ).select(*_CELL, "judge", "score", "passed")
        for run in runs
    ]
    cells = pl.concat(frames).unique([*_CELL, "judge"], keep="first", maintain_order=True)
    both = cells.join(cells, on=_CELL, suffix="_b").filter(pl.col("judge") < pl.col("judge_b"))
    rho = pl.corr("score", "score_b", method="spearman").fill_nan(None)
    pairs = (
        both.group_by("metric", pl.col("judge").alias("judge_a"), "judge_b")
        .agg(
            n=pl.len(),
            agreement=(pl.col("passed") == pl.col("passed_b")).mean(),
            correlation=pl.when(pl.len() >= _MIN_CORRELATION).then(rho),
        )
        .sort("metric", "judge_a", "judge_b")
        .collect(engine="streaming")
    )
    return [JudgePair(*pair) for pair in pairs.iter_rows()]


_FAULTS = {
    "cut_off": "of its answers cut off",
    "filtered": "filtered",
    "not_extracted": "without the part that is scored",
}


def run_line(name: str, manifest: Manifest, summary: pl.DataFrame) -> str:
    """A run of a sweep in one line: its first numbers, its errors, and its exit code unless 0."""
    rows = headline_rows(summary)
    figures = [
        f"{row.metric}{'' if row.statistic == 'mean' else f' {row.statistic}'} {number(row.value)}"
        for row in rows[:_SHOWN_COLUMNS]
    ]
    figures += [f"{len(rows) - _SHOWN_COLUMNS} more"] if len(rows) > _SHOWN_COLUMNS else []
    errors = manifest.scores["error"]
    left = sum(about.cases for about in manifest.datasets.values()) - sum(manifest.asked.values())
    ends = [f"not asked: {counted(left, 'case')}"] if manifest.stopped else []
    ends += [counted(errors, "error")] if errors else []
    ends += [f"{fault.n:,} {_FAULTS[name]}" for name, fault in manifest.answer_faults.items()]
    ends += [f"exit code {manifest.exit_code}"] if manifest.exit_code else []
    return "; ".join((f"{name}: {', '.join(figures)}", *ends))


def print_sweep(
    console: Console,
    summary: pl.DataFrame,
    manifests: Mapping[str, Manifest],
    agreement: Sequence[JudgePair],
    boards: Sequence[Leaderboard],
) -> None:
    """Print a table of all runs for each metric, agreement between judges, and the leaderboards."""
    print_tables(console, rows_of(summary), manifests)
    for pair in agreement[:FEW]:
        facts = [f"rank correlation {number(pair.correlation, 2)}"]
        if pair.agreement is not None:
            facts.append(f"same verdict {percent(pair.agreement)}")
        console.print(literal(f"{pair.metric}: {pair} on {pair.n} answers: {', '.join(facts)}"), soft_wrap=True)
    if len(agreement) > FEW:
        rest = f"report.html has the agreement of {len(agreement) - FEW} more pairs of judges"
        console.print(literal(rest, style="dim"))
    print_boards(console, boards)
