"""The report of a sweep: every metric under every judge and target, the leaderboard, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.lazy import pl
from evalflow.report.charts import Cell, matrix_chart, shade_of
from evalflow.report.header import Fact, facts, judge_lines
from evalflow.report.page import write_page
from evalflow.report.pictures import Picture, draw, interval_pictures
from evalflow.report.svg import INK, MAIN, Drawing, Scale, shortened, text_width, x_axis, y_axis
from evalflow.report.wording import cost, literal, number, p_value, percent, series_name, unscored, varying

if TYPE_CHECKING:
    from rich.console import Console


def cost_pictures(rows: Sequence[Mapping[str, Any]], costs: Mapping[str, float | None]) -> list[Picture]:
    """One picture for each metric of which two runs or more have a mean and a known cost that is not 0.

    Args:
        rows: Rows of the runs' summaries over all tags, with `run`.
        costs: Dollars of each run without a reply from the cache, by name; None where a price is not known.
    """
    means = [row for row in rows if row["statistic"] == "mean" and row["value"] is not None]
    found: list[Picture] = []
    for metric in dict.fromkeys(row["metric"] for row in means):
        own = [row for row in means if row["metric"] == metric]
        priced = [row for row in own if costs.get(row["run"])]
        if len({row["run"] for row in priced}) > 1:
            found.append(_cost_chart(metric, own, priced, costs))
    return found


def _cost_chart(
    metric: str,
    rows: Sequence[Mapping[str, Any]],
    priced: Sequence[Mapping[str, Any]],
    costs: Mapping[str, float | None],
) -> Picture:
    points = [
        {"run": row["run"], "cost": costs[row["run"]], "value": row["value"], "low": row["ci_low"],
         "high": row["ci_high"]}
        for row in priced
    ]  # fmt: skip
    without = len(rows) - len(priced)
    left = f" {without} without a known cost {'is' if without == 1 else 'are'} not shown." if without else ""
    sentence = (
        "Each dot is a run: what it takes in dollars when nothing is remembered, the judge's part included, and its "
        f"mean with the 95 % interval. Up and to the left is more for less.{left} {unscored(priced)}."
    )
    return draw(f"Cost against {metric}", sentence, cost_chart(points, "mean"))


def full_cost(manifest: Mapping[str, Any]) -> float | None:
    """What a run takes when nothing is remembered; None where a price is not known."""
    paid, saved = manifest.get("cost_usd"), manifest.get("saved_usd")
    return None if paid is None or saved is None else paid + saved


_COST_WIDTH, _COST_HEIGHT = 300, 200


def cost_chart(points: Sequence[Mapping[str, Any]], title: str) -> Drawing:
    """The picture of points with run, cost, value, low and high; the title is of what goes upwards."""
    drawing = Drawing()
    values = [point[end] for point in points for end in ("value", "low", "high") if point[end] is not None]
    x = Scale.around([0, *(point["cost"] for point in points)], 0, _COST_WIDTH)
    y = Scale.around(values, _COST_HEIGHT, 0)
    y_axis(drawing, y, _COST_WIDTH, title)
    x_axis(drawing, x, _COST_HEIGHT, "dollars a run", top=0)
    for point in points:
        left, top = x(point["cost"]), y(point["value"])
        if point["low"] is not None and point["high"] is not None:
            drawing.line((left, y(point["low"])), (left, y(point["high"])), MAIN, width=2.5, opacity=0.45)
        drawing.dot(left, top)
        name = shortened(point["run"], 140)
        fits = left + 8 + text_width(name) <= _COST_WIDTH + 10
        drawing.text(left + (8 if fits else -8), top - 6, name, anchor="start" if fits else "end", fill=INK)
    return drawing


Boards = Sequence[Mapping[str, Any]]
_CHOICE_VERDICTS = {
    "best": "agrees most", "worse": "agrees less", "cannot_tell": "cannot be told apart", "undefined": "undefined",
}  # fmt: skip
_CHOICE_MEASURES = {"kappa": "Cohen's kappa", "spearman": "Spearman's correlation"}


def choice_lines(boards: Boards) -> list[tuple[str, list[str]]]:
    """A heading and a line per judge, the best first, for each dataset, metric and target."""
    return [(_title(board), [_choice_line(row) for row in board["ranking"]]) for board in boards]


def choice_tables(boards: Boards) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """A heading, the measure, and the judges with their verdicts in words, for each dataset, metric and target."""
    return [
        (
            _title(board),
            _CHOICE_MEASURES[board["measure"]],
            [{**row, "verdict": _CHOICE_VERDICTS[row["verdict"]]} for row in board["ranking"]],
        )
        for board in boards
    ]


def split_sentence(*, split: bool) -> str:
    """Which labels chose, and which corrected."""
    if split:
        return (
            "Half of the labels chose the judge; the corrected means rest on the other half, since labels that made a "
            "judge win flatter it. --no-split takes all labels for both."
        )
    return "All labels chose the judge and corrected its mean, which flatters the judge that won."


def print_choice(console: Console, boards: Boards, *, split: bool) -> None:
    """The rankings on a terminal."""
    from rich.padding import Padding

    for title, lines in choice_lines(boards):
        console.print(literal(f"who agrees with people: {title}", style="bold"))
        for place, line in enumerate(lines, start=1):
            console.print(Padding(literal(f"{place}. {line}"), (0, 0, 0, 2)))
    if boards:
        console.print(literal(split_sentence(split=split), style="dim"))


def choice_pictures(boards: Boards) -> list[Picture]:
    """Cost against agreement, for each board with two known costs or more."""
    found: list[Picture] = []
    for board in boards:
        priced = [row for row in board["ranking"] if row["cost_usd"] and row["value"] is not None]
        if len(priced) < 2:
            continue
        points = [
            {"run": row["run"], "cost": row["cost_usd"], "value": row["value"],
             "low": row["value"] if row["ci_low"] is None else row["ci_low"],
             "high": row["value"] if row["ci_high"] is None else row["ci_high"]}
            for row in priced
        ]  # fmt: skip
        sentence = (
            "Each dot is a judge: what its run takes in dollars when nothing is remembered, and how far it agrees with "
            f"people on {board['n']:,} labelled answers, with the 95 % interval. Up and to the left is more for less."
        )
        drawing = cost_chart(points, _CHOICE_MEASURES[board["measure"]])
        found.append(draw(f"Cost against agreement: {board['metric']}", sentence, drawing))
    return found


def _title(board: Mapping[str, Any]) -> str:
    on = f"{_CHOICE_MEASURES[board['measure']]} on {board['n']:,} labelled answers"
    return f"{board['metric']} · {board['dataset']} · {board['target']} ({on})"


def _choice_line(row: Mapping[str, Any]) -> str:
    span = "" if row["ci_low"] is None else f" [{number(row['ci_low'])}, {number(row['ci_high'])}]"
    p = "" if row["p_adjusted"] is None else f", p {p_value(row['p_adjusted'])}"
    text = f"{number(row['value'])}{span} {row['run']} ({row['judge']}): {_CHOICE_VERDICTS[row['verdict']]}{p}"
    text += f"; cost {cost(row['cost_usd'])}"
    c = row["corrected"]
    if c is None or c["estimate"] is None:
        return f"{text}; no corrected mean, {c['n_labels'] if c else 0} labels left for it"
    ends = "" if c["ci_low"] is None else f" [{number(c['ci_low'])}, {number(c['ci_high'])}]"
    return f"{text}; corrected mean {number(c['estimate'])}{ends} by {c['n_labels']:,} labels"


_MEASURES: Mapping[str, tuple[str, str, Callable[[float | None], str]]] = {
    "agreement": ("Same pass or fail", "the share of common answers that both judges pass or both fail", percent),
    "correlation": ("Rank correlation", "Spearman's correlation of the two judges' scores", partial(number, digits=2)),
}


def judge_matrices(agreement: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Picture]:
    """A matrix for each metric and each measure that some pair of judges has.

    Args:
        agreement: Rows as `evalflow.report.sweep` gives them.
        rows: Rows of the runs' summaries over all tags, for the counts of what is unscored.
    """
    found: list[Picture] = []
    for metric in dict.fromkeys(row["metric"] for row in agreement):
        pairs = [row for row in agreement if row["metric"] == metric]
        own = [row for row in rows if row["metric"] == metric]
        known = (name for name in _MEASURES if any(row[name] is not None for row in pairs))
        found += [_matrix_chart(metric, name, pairs, own) for name in known]
    return found


def _matrix_chart(
    metric: str, measure: str, pairs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> Picture:
    title, meaning, text = _MEASURES[measure]
    sentence = (
        f"Each cell is {meaning} on {metric}, and below it on how many answers. {_ends(measure, pairs, text)} "
        f"Judges that agree may still be wrong together. {unscored(rows)}."
    )
    return draw(f"{title} · {metric}", sentence, _judge_matrix(measure, pairs, text))


def _ends(measure: str, pairs: Sequence[Mapping[str, Any]], text: Callable[[float | None], str]) -> str:
    """The pairs that agree most and least, in words."""
    known = sorted((row for row in pairs if row[measure] is not None), key=lambda row: row[measure])
    said = [f"{row['judge_a']} and {row['judge_b']} ({text(row[measure])})" for row in (known[-1], known[0])]
    return f"Nearest are {said[0]}, farthest {said[1]}." if len(known) > 1 else f"They are {said[0]}."


def _judge_matrix(measure: str, pairs: Sequence[Mapping[str, Any]], text: Callable[[float | None], str]) -> Drawing:
    judges = sorted({row[side] for row in pairs for side in ("judge_a", "judge_b")})
    known = {(row["judge_a"], row["judge_b"]): row for row in pairs}
    cells = [
        [None if one == other else _cell(known.get(min((one, other), (other, one))), measure, text) for other in judges]
        for one in judges
    ]
    return matrix_chart(judges, cells, max(56, min(120, 240 // len(judges))), 48, turn=False)


def _cell(row: Mapping[str, Any] | None, measure: str, text: Callable[[float | None], str]) -> Cell:
    """What two judges have in common: nothing where they share no answer. No agreement below 0 is shaded."""
    value = row[measure] if row else None
    n = row["n"] if row else 0
    return Cell(text(value), shade_of(max(0.0, value or 0.0)), f"n {n:,}")


_SHOWN = ("mean", "pass_rate")
_VERDICTS = {
    "best": "leads",
    "better": "better than the first on the cases that both have scored",
    "worse": "worse",
    "cannot_tell": "cannot be told apart",
    "not_comparable": "not comparable",
}


def board_lines(boards: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """A heading and a line per run, the leader first, for each board.

    Args:
        boards: Each with dataset, metric, judge, statistic, also (what is the same number), cases, cases_left_out and
            leaderboard (run, value, ci_low, ci_high, n, n_scored, p_adjusted, verdict).
    """
    found: list[tuple[str, list[str]]] = []
    for board in boards:
        parts = (board["metric"], _statistic(board), board["dataset"], board["judge"])
        title = " · ".join(text for text in (*parts, _cases(board)) if text)
        found.append((title, [_line(row) for row in board["leaderboard"]]))
    return found


def print_boards(console: Console, boards: Sequence[Mapping[str, Any]], most: int) -> None:
    """The first lines of the tables of means and pass rates on a terminal; the page has the rest."""
    from rich.padding import Padding

    shown = [board for board in boards if board["statistic"] in _SHOWN]
    for title, lines in board_lines(shown):
        console.print(literal(f"who leads: {title}", style="bold"))
        for place, line in enumerate(lines[:most], start=1):
            console.print(Padding(literal(f"{place}. {line}"), (0, 0, 0, 2)))
        if len(lines) > most:
            console.print(literal(f"  {len(lines) - most} more in report.html", style="dim"))
    rest = dict.fromkeys(board["statistic"] for board in boards if board not in shown)
    if rest:
        console.print(literal(f"report.html has who leads by {', '.join(rest)}", style="dim"))


def _statistic(board: Mapping[str, Any]) -> str:
    """As people know it; nothing for a plain mean."""
    if board["statistic"] == "mean":
        return "accuracy" if "accuracy" in board["also"] else ""
    return board["statistic"].replace("_", " ")


def _cases(board: Mapping[str, Any]) -> str:
    """On which cases the values are, where the runs have not scored the same ones."""
    cases, left = board["cases"], board["cases_left_out"]
    if not left:
        return ""
    return (
        f"on the {cases:,} of {cases + left:,} cases that all have scored" if cases else "no case that all have scored"
    )


def _line(row: Mapping[str, Any]) -> str:
    interval = "" if row["ci_low"] is None else f" [{number(row['ci_low'])}, {number(row['ci_high'])}]"
    p = "" if row["p_adjusted"] is None else f", p {p_value(row['p_adjusted'])}"
    left = row["n"] - row["n_scored"]
    unscored = f", {left:,} not scored" if left else ""
    return f"{number(row['value'])}{interval} {row['run']}: {_VERDICTS[row['verdict']]}{p}{unscored}"


_STYLES = ("page.css", "tables.css", "sweep.css")
_SHARED = ("Dataset", "Target", "Metrics", "Versions")
Run = tuple[str, Mapping[str, Any], "pl.DataFrame"]


def write_sweep_report(
    path: Path,
    *,
    manifest: Mapping[str, Any],
    runs: Sequence[Run],
    agreement: pl.DataFrame,
    boards: Sequence[Mapping[str, Any]],
    choice: Mapping[str, Any] | None = None,
) -> None:
    """Write one self-contained page over all runs of a sweep.

    Args:
        path: The file; replaced once the new one is complete. Links lead to `<name>/report.html` beside it.
        manifest: run.json of the sweep.
        runs: Name (the run's folder), run.json and summary of each.
        agreement: As `evalflow.report.sweep` gives it.
        boards: Who leads, as under `details` in the sweep's summary.json.
        choice: Which judge agrees most with people: the sweep's calibration.json; None where nobody asked.
    """
    rows = [
        {**row, "run": name}
        for name, _, summary in runs
        for row in summary.filter(summary["tag"].is_null()).iter_rows(named=True)
    ]
    columns, parts = _columns(rows)
    costs = {name: full_cost(about) for name, about, _ in runs}
    context = {
        "title": f"Sweep of {len(runs)} runs",
        "run_id": manifest["run_id"],
        "facts": _facts(manifest, runs),
        "judges": list(dict.fromkeys(line for _, about, _ in runs for line in judge_lines(about))),
        "columns": columns,
        "lines": _lines(rows, columns, parts),
        "pictures": [*interval_pictures(_numbered(rows, parts)), *cost_pictures(rows, costs)],
        "boards": board_lines(boards),
        "choice": choice_tables(choice["choice"]) if choice else [],
        "choice_notes": choice["notes"] if choice else [],
        "split": split_sentence(split=choice["split"]) if choice else "",
        "choice_pictures": choice_pictures(choice["choice"]) if choice else [],
        "agreement": agreement.to_dicts(),
        "matrices": judge_matrices(agreement.to_dicts(), rows),
        "runs": [_cost(name, about) for name, about, _ in runs],
    }
    write_page(path, "sweep.html.jinja", context, styles=_STYLES, scripts=())


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], tuple[str, ...]]:
    """The table's columns and their keys: what varies between runs; the runs, if that is not unique."""
    varied = varying(rows)
    parts = varied or ("judge",)
    cells = [(row["metric"], row["statistic"], series_name(row, parts)) for row in rows]
    if len(set(cells)) < len(cells):
        parts = (*varied, "run")
    return list(dict.fromkeys(series_name(row, parts) or "no judge" for row in rows)), parts


def _lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], parts: Sequence[str]) -> list[dict[str, Any]]:
    """One line per metric and statistic, with a cell (or None) per column."""
    lines: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["metric"], row["statistic"]), {})[series_name(row, parts) or "no judge"] = row
    return [
        {"metric": metric, "statistic": statistic, "cells": [cells.get(column) for column in columns]}
        for (metric, statistic), cells in lines.items()
    ]


def _numbered(rows: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows by metric, with the run's name instead of the target if only runs distinguish them."""
    order = list(dict.fromkeys(row["metric"] for row in rows))
    by_metric = sorted(rows, key=lambda row: order.index(row["metric"]))
    return [{**row, "target": row["run"]} for row in by_metric] if "run" in parts else by_metric


def _facts(manifest: Mapping[str, Any], runs: Sequence[Run]) -> list[Fact]:
    """The facts about the sweep, and those about its runs that are the same in all of them."""
    every = [facts(about) for _, about, _ in runs]
    shared = [fact for fact in every[0] if all(fact in other for other in every)] if every else []
    own = facts({**manifest, "overrides": ["-m", *manifest.get("overrides", ())]})
    return [*own[:-1], *(fact for fact in shared if fact[0] in _SHARED), *own[-1:]]


def _cost(name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("status", "requests", "input_tokens", "output_tokens", "cost_usd")
    return {"name": name} | {key: manifest.get(key) for key in keys}


_CELL = ("dataset", "case_id", "target", "target_repeat", "metric", "repeat")
_MIN_CORRELATION = 3


def agreement(runs: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Compare every two judges on the answers that both scored with the same metric.

    Only `scored` cells of both judges count. Repeat k of one judge is held against repeat k of the other. Where
    several runs hold the same cell of the same judge, the first one stands. Panel members are left out.

    Args:
        runs: The columns of scores.parquet, one frame per run.

    Returns:
        Rows sorted by metric, judge_a, judge_b (judge_a < judge_b) with
        n: how many common cells;
        agreement: the share of them where both pass or both fail, of those where both judges say so; null without any;
        correlation: Spearman's rank correlation of the scores; null below 3 cells or where one judge never varies.
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
    return (
        both.group_by("metric", pl.col("judge").alias("judge_a"), "judge_b")
        .agg(
            n=pl.len(),
            agreement=(pl.col("passed") == pl.col("passed_b")).mean(),
            correlation=pl.when(pl.len() >= _MIN_CORRELATION).then(rho),
        )
        .sort("metric", "judge_a", "judge_b")
        .collect(engine="streaming")
    )
