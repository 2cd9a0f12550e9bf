"""Rankings in whole sentences: of runs, of their cases, leaderboards of sweeps, and judges to choose from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from evalflow.records import CASES
from evalflow.report.sentences import by_whole_cases
from evalflow.report.wording import bracketed, counted, metric_name, number, who_scored
from evalflow.stats.items import FEWEST_SYSTEMS, FEWEST_TO_MEASURE
from evalflow.summary.changed import Attribution
from evalflow.summary.items import ItemTable, ShortSet
from evalflow.summary.ranking import Leaderboard, PositionEffect, Ranking
from evalflow.summary.verdicts import ItemKind, Standing

_SENTENCES = 3
_STANDINGS: Mapping[Standing, str] = {
    "best": "leads",
    "first": "first, without a clear difference to any other",
    "better": "better than the first on the cases that both have scored",
    "worse": "worse",
    "cannot_tell": "no clear difference to the first",
    "not_comparable": "not comparable",
}
_BEATEN = "first, but another is better on the cases that both have scored"
_CHOICES: Mapping[Standing, str] = {
    "best": "agrees most",
    "first": "first, without a clear difference to any other",
    "no_agreement": "no agreement shown",
    "worse": "agrees less",
    "cannot_tell": "no clear difference",
    "undefined": "undefined",
}
_NOT_OF_ANSWERS: Mapping[Attribution, str] = {
    "judge": "This is about how the same answers were judged, not about the bots.",
    "data": "This is about the test cases, not about the bots.",
    "unclear": "This cannot be attributed to the answers alone.",
}
_SAME: Mapping[ItemKind, str] = {
    "all_pass": "pass in all of them",
    "all_fail": "fail in all of them",
    "alike": "have the same score in all of them",
}


def of_standing(verdict: Standing, *, is_first: bool) -> str:
    """The verdict on a run of a leaderboard."""
    return _BEATEN if is_first and verdict == "cannot_tell" else _STANDINGS[verdict]


def of_choice(verdict: Standing) -> str:
    """The verdict on a judge to choose from."""
    return _CHOICES[verdict]


def of_board(board: Leaderboard, others: Iterable[Leaderboard] = ()) -> str:
    """Which run leads a leaderboard, and how many may be as good; "" if none can be compared.

    `others` are the sweep's leaderboards, whose judges decide about whole cases.
    """
    rows = [row for row in board.leaderboard if row.verdict != "not_comparable"]
    if len(rows) < 2:
        return ""
    first, *rest = rows
    unclear, left = [row.verdict for row in rest].count("cannot_tell"), len(rest)
    by = f"by {_called(board)} on {board.dataset}"
    value = f"{number(first.value, 2)}{bracketed(first.ci_low, first.ci_high, lambda end: number(end, 2))}"
    if board.metric == CASES:
        own = [other for other in others if other.dataset == board.dataset]
        alone = by_whole_cases(own, labelled=any(other.n_labels for other in own))  # whole cases have no labels
    else:
        alone = "by the judge alone" if board.judge is not None and first.raw_value is None else ""
    value += f", {alone}" if alone else ""
    if first.verdict != "best":
        return f"No run is clearly the best {by}: {first.run} has {value}, {_runs(unclear)} may be as good"
    better = f"{first.run} is better than {_runs(left - unclear, of=left)} {by}: {value}"
    return f"{better}; {_runs(unclear)} may be as good" if unclear else better


def _called(board: Leaderboard) -> str:
    statistic = "" if board.statistic == "mean" or board.metric == CASES else f" {board.statistic.replace('_', ' ')}"
    return f"{metric_name(board.metric)}{statistic}"


def _runs(n: int, of: int | None = None) -> str:
    if of is not None and n == of:
        return "the other run" if n == 1 else f"all {n:,} others"
    if of is not None:
        return f"{n:,} of {of:,} others"
    return f"{n:,} other{'' if n == 1 else 's'}"


def labels_of_ranking(metric: str, n: int, uncorrected: str, judge: str | None) -> str:
    """Whether labels of `n` common cases correct a ranking or leaderboard of a metric; "" without labels."""
    labels = f"labels of {counted(n, 'case')}" if n else "labels"
    if uncorrected:
        alone = "" if metric == CASES else f"by the {who_scored(judge)} alone: "  # it is by all judges and checks
        return f"{alone}{labels} correct nothing ({uncorrected})"
    return f"corrected by {labels} of each run" if n else ""


def of_ranking(ranking: Ranking) -> Iterator[str]:
    """Sentences on the leading runs, with a joint confidence of 95 %.

    No run is called the best if more than the answers may explain the differences.
    """
    leaders = ranking.leaders
    best = "best" if ranking.attribution == "answers" else "highest" if ranking.higher_is_better else "lowest"
    if not leaders.may_lead:
        yield f"No run can be told from another: each may have any rank from 1 to {len(ranking.rows)}."
    elif len(leaders.may_lead) > 1:
        yield f"The {best} is one of {', '.join(leaders.may_lead)}."
    for run, rank in [*leaders.among_first.items()][:_SENTENCES]:
        yield f"{run} is the {best}." if rank == 1 else f"{run} is among the first {rank}."
    if leaders.may_lead and ranking.attribution != "answers":
        yield _NOT_OF_ANSWERS[ranking.attribution]


def notes_of(ranking: Ranking) -> Iterator[str]:
    """The comparisons behind strengths; empty if values are ranked."""
    if (comparisons := ranking.comparisons) is not None:
        yield f"{comparisons.n:,} comparisons, {comparisons.ties:,} of them ties"
        if comparisons.position is not None:
            yield f"position effect: {_position(comparisons.position)}"


def _position(effect: PositionEffect) -> str:
    if not effect.pairs:
        return "unknown, since no pair was asked in both orders"
    clause = f"the order decides {effect.decided:,} of {effect.pairs:,} pairs"
    if effect.net is None:
        return clause
    net, low, high = (100 * end for end in effect.net)
    more = f"{net:+.1f} % more of all pairs than the second ({low:+.1f} to {high:+.1f})"
    return f"{clause}; the answer read first wins {more}"


def of_items(table: ItemTable) -> Iterator[str]:
    """Findings of the cases about the runs, and how much could be chance."""
    counts, cases = table.counts, table.rows.height
    same = [f"{counts[kind]:,} {phrase}" for kind, phrase in _SAME.items() if kind in counts]
    apart = cases - sum(counts.get(kind, 0) for kind in _SAME)
    yield f"{apart:,} of {cases:,} cases separate the {table.runs} runs" + (f"; {', '.join(same)}." if same else ".")
    if table.runs < FEWEST_SYSTEMS:
        yield f"Discrimination cannot be measured: it needs {FEWEST_SYSTEMS} runs or more, and there are {table.runs}."
        return
    suspects = counts.get("key_suspect", 0)
    turned = counted(counts.get("reversed", 0) + suspects)
    yield f"Better runs score worse on {turned}; by chance alone it could be {table.by_chance:.1f}."
    yield f"Beyond chance, adjusted for the number of cases, a wrong key is suspected in {suspects:,}."
    if labelled := int(table.rows["labelled"].fill_null(0).sum()):
        wrong = int(table.rows["contradicted"].fill_null(0).sum())
        yield f"Scores of {wrong:,} of {labelled:,} labelled answers contradict the labels."


def of_short_set(short: ShortSet) -> str:
    """The loss by a short set of cases, in a sentence."""
    measured_loss, n = short.loss, len(short.ids)
    if measured_loss is None:
        needs = f"this takes {FEWEST_TO_MEASURE} runs or more, and there are {short.runs}"
        return f"How much it loses cannot be measured: {needs}."
    order, random_order = (100 * share for share in (measured_loss.order, measured_loss.random_order))
    same = f"; {order:.0f} % of the pairs of runs are in the same order (random: {random_order:.0f} %)"
    less = f"{measured_loss.gain:.4f} less ({measured_loss.low:.4f} to {measured_loss.high:.4f})"
    less += "" if math.isnan(measured_loss.order) else same
    verdict = "" if short.is_better else f" It is not shown to be better than a random set of {n:,} cases."
    off = f"a mean is off by {measured_loss.error:.4f}, and by {measured_loss.random_error:.4f} with a random set"
    return f"On runs that had no part in the choice, {off}: {less}.{verdict}"


def split_sentence(*, split: bool) -> str:
    """Which labels were used to choose the judge, and which to correct its mean."""
    if split:
        return (
            "Half of the labels chose the judge; the corrected means use the other half, since the labels that made a "
            "judge win flatter it. --no-split uses all labels for both."
        )
    return "All labels chose the judge and corrected its mean, which flatters the judge that won."
