"""Which judge of a sweep agrees most with people, in words and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.report.costs import cost_spec
from evalflow.report.pictures import Picture, draw
from evalflow.report.terminal import literal
from evalflow.report.wording import cost, number, p_value

if TYPE_CHECKING:
    from rich.console import Console

Boards = Sequence[Mapping[str, Any]]
_VERDICTS = {
    "best": "agrees most", "worse": "agrees less", "cannot_tell": "cannot be told apart", "undefined": "undefined",
}  # fmt: skip
_MEASURES = {"kappa": "Cohen's kappa", "spearman": "Spearman's correlation"}


def choice_lines(boards: Boards) -> list[tuple[str, list[str]]]:
    """A heading and a line per judge, the best first, for each dataset, metric and target."""
    return [(_title(board), [_line(row) for row in board["ranking"]]) for board in boards]


def choice_tables(boards: Boards) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """A heading, the measure, and the judges with their verdicts in words, for each dataset, metric and target."""
    return [
        (
            _title(board),
            _MEASURES[board["measure"]],
            [{**row, "verdict": _VERDICTS[row["verdict"]]} for row in board["ranking"]],
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
        spec = cost_spec(points, _MEASURES[board["measure"]])
        found.append(draw(f"Cost against agreement: {board['metric']}", sentence, spec))
    return found


def _title(board: Mapping[str, Any]) -> str:
    on = f"{_MEASURES[board['measure']]} on {board['n']:,} labelled answers"
    return f"{board['metric']} · {board['dataset']} · {board['target']} ({on})"


def _line(row: Mapping[str, Any]) -> str:
    span = "" if row["ci_low"] is None else f" [{number(row['ci_low'])}, {number(row['ci_high'])}]"
    p = "" if row["p_adjusted"] is None else f", p {p_value(row['p_adjusted'])}"
    text = f"{number(row['value'])}{span} {row['run']} ({row['judge']}): {_VERDICTS[row['verdict']]}{p}"
    text += f"; cost {cost(row['cost_usd'])}"
    c = row["corrected"]
    if c is None or c["estimate"] is None:
        return f"{text}; no corrected mean, {c['n_labels'] if c else 0} labels left for it"
    ends = "" if c["ci_low"] is None else f" [{number(c['ci_low'])}, {number(c['ci_high'])}]"
    return f"{text}; corrected mean {number(c['estimate'])}{ends} by {c['n_labels']:,} labels"
