"""The sentence that heads a run: how many of its cases pass everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalflow.records import CASES
from evalflow.report.wording import bracketed, counted, percent

_NAMED = 8  # metrics to name in a sentence


def cases_in_words(row: Mapping[str, Any]) -> str:
    """How many cases pass everything, by the summary's row of the metric `cases`.

    Such as `30 % of 300 cases pass everything (25 % to 36 %); 4 more are open because of errors`.
    """
    n, open_cases = row["n_scored"], row["n_error"]
    failed = f"{counted(open_cases)} {'is' if open_cases == 1 else 'are'} open because of errors" if open_cases else ""
    if not n:
        return failed or "No case has a score that passes or fails"
    ends = bracketed(row["pass_rate_low"], row["pass_rate_high"], percent)
    said = f"{percent(row['pass_rate'])} of {counted(n)} pass{'es' if n == 1 else ''} everything{ends}"
    return f"{said}; {failed}" if failed else said


def rates_in_words(
    rows: Sequence[Mapping[str, Any]], cases: Mapping[str, Any], named: Callable[[str], str] = str
) -> str:
    """The pass rate of each metric on the dataset and target of the row `cases`, such as `Fees 69 %, tone 40 %`."""
    own = [
        f"{named(row['metric'])} {percent(row['pass_rate'])}"
        for row in rows
        if row["statistic"] == "mean" and row["pass_rate"] is not None and row["metric"] != CASES and row["tag"] is None
        if all(row[part] == cases[part] for part in ("dataset", "target"))
    ]
    return ", ".join([*own[:_NAMED], *([f"{len(own) - _NAMED} more metrics"] if len(own) > _NAMED else [])])


def head_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each row of the cases that pass everything; with the dataset or target if there are several."""
    own = [row for row in rows if row["metric"] == CASES and row["tag"] is None]
    apart = [part for part in ("dataset", "target") if len({row[part] for row in own}) > 1]
    return [": ".join([*(str(row[part]) for part in apart), cases_in_words(row)]) for row in own]
