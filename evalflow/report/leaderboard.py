"""Who leads a sweep, in words: for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.report.terminal import literal
from evalflow.report.wording import number, p_value

if TYPE_CHECKING:
    from rich.console import Console

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
    """The first lines of the boards of means and pass rates on a terminal; all else stands on the page."""
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
