"""Details of a summary: noise of repeats and flaky cases, consistency of a judge, and members of a panel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from evalflow.lazy import np, pl
from evalflow.records import passes
from evalflow.stats.arrays import Bools, Floats, Ints
from evalflow.stats.intervals import Moments, intervals, moments, stacked
from evalflow.stats.variance import Components, Repeated, components, pass_all_k, pass_at_k
from evalflow.summary.journal import SLICE
from evalflow.summary.slices import (
    COUNTED,
    REPEATED,
    STATES,
    UnitArrays,
    Units,
    case_clusters,
    cluster,
    cluster_name,
    cluster_numbers,
    clusters_in,
)

_DRAWS = (1, 2, 3, 5, 10, 20, 50, 100)
_LISTED = 50
_HALF = 0.5
PASS_SHARE = 0.5
"""Default share of its repeats that a case must pass."""
Columns = Mapping[str, Floats]
"""Columns of `repeats_of`, with the cluster as a number if cases have groups."""
_UNPARSABLE = ("schema", "malformed", "truncated")
"""Causes of `errors.CallError` for a reply that arrived but could not be read."""
_ANSWER_KEY = ("case_id", "target", "target_repeat")


def noise(cases: UnitArrays, units: Units, ids: pl.Series, pass_share: float) -> list[dict[str, object]]:
    """Details of all slices in which some case has several scores.

    `noise` has answers_per_case and judgements_per_answer (means), case_spread, generator_noise and judge_noise
    (variances, null if unknown), std_error, lowest_std_error (of these cases with unlimited repeats), one_more (answer,
    judgement, case: the resulting std_error, and the number of additional cases with the same effect), stability,
    draws and repeats (`repeat_rates`; null without pass or fail). `cases` are from `repeats_of`, with the place of each
    among `ids`.
    """
    keys, means = units.keys, _RepeatMeans()
    repeated = ((keys[unit], own) for unit, own in cases if (own["judgements"] > 1).any())
    details: list[dict[str, object]] = [
        {
            **key,
            "statistic": "mean",
            "n": int((own["judgements"] > 0).sum()),
            "noise": _noise(own, ids, pass_share, means),
        }
        for key, own in repeated
    ]
    means.finish()
    return details


def draws_of_cases(cells: pl.LazyFrame, units: Units, pass_share: float) -> list[dict[str, object]]:
    """The entry `repeats` of `noise`, from the table of `passing_cases`, which counts the repeats of each case."""
    columns = ("judged", "passing", "verdicts", "passes")
    if not set(columns) <= set(cells.collect_schema().names()):
        return []
    known = cells.filter(pl.col("verdicts") > 0).select(units.number(), *columns, cluster())
    table = known.collect(engine="streaming")
    keys, means = units.keys, _RepeatMeans()
    sides = units.arrays(table.drop("cluster").with_columns(cluster_numbers(table)))
    details: list[dict[str, object]] = [
        {**keys[unit], "noise": {"repeats": repeat_rates(own, pass_share, means)}} for unit, own in sides
    ]
    means.finish()
    return details


class _RepeatMeans:
    """Means over cases. Their intervals are computed together, which is far faster than one by one."""

    def __init__(self) -> None:
        self._rows: list[tuple[dict[str, object], Moments]] = []

    def of(self, shares: Floats, clusters: Ints | None) -> dict[str, object]:
        """The mean of shares; `finish` adds the interval."""
        entry: dict[str, object] = {"value": float(shares.mean()) if shares.size else None}
        self._rows.append((entry, moments(shares, clusters, bounded=True)))
        return entry

    def finish(self) -> None:
        every = intervals(stacked(row for _, row in self._rows), bounded=True) if self._rows else ()
        for place, (entry, _) in enumerate(self._rows):
            one = every[place]
            entry |= {"ci_low": one.low, "ci_high": one.high, "ci_method": one.method}


def components_of(cases: pl.DataFrame) -> Components | None:
    """The variance components of rows of `repeats_of`; None for fewer than two cases, or clusters."""
    columns = [cases[name].cast(pl.Float64).to_numpy() for name in REPEATED]
    return components(Repeated(*columns), case_clusters(cases))


def _noise(cases: Columns, ids: pl.Series, pass_share: float, means: _RepeatMeans) -> dict[str, object]:
    scored = _chosen(cases, cases["judgements"] > 0, REPEATED)
    total = scored["answers"].sum()
    answers, judgements = float(total / scored["mean"].size), float(cases["judgements"].sum() / total)
    entry: dict[str, object] = {"answers_per_case": answers, "judgements_per_answer": judgements}
    parts = components(Repeated(*(scored[name] for name in REPEATED)), clusters_in(scored))
    entry |= _parts(parts, answers, judgements)
    judged = _chosen(cases, cases["verdicts"] > 0, (*COUNTED, "place"))
    return entry | {
        "stability": _stability(judged, ids) if judged["place"].size else None,
        "draws": list(_draws(judged, means)) or None,
        "repeats": repeat_rates(judged, pass_share, means),
    }


def _chosen(cases: Columns, which: Bools, names: Sequence[str]) -> Columns:
    return {name: column[which] for name, column in cases.items() if name in (*names, "cluster")}


def repeat_rates(cases: Columns, pass_share: float, means: _RepeatMeans) -> dict[str, object] | None:
    """How reliably cases pass when they are repeated, with intervals over cases; None if no case has two verdicts.

    Repeats are the answers to a case, by the majority of their verdicts, or the verdicts if no case has two answers.
    `repeats` is their largest number k, `pass_hat_k` the probability that all k pass (pass^k, over the cases with k),
    and `repeat_pass_share` the share of cases that pass at least the share `pass_share` of their repeats.
    """
    answered = bool((cases["judged"] > 1).any())
    n, passed = (cases[name] for name in (("judged", "passing") if answered else ("verdicts", "passes")))
    k = int(n.max(initial=0))
    if k < 2:
        return None
    known, whole, clusters = n > 0, n >= k, clusters_in(cases)
    of = (None, None) if clusters is None else (clusters[whole], clusters[known])
    enough = passes(passed[known] / n[known], pass_share).astype(np.float64)
    return {
        "repeats": k,
        "pass_hat_k": means.of(pass_all_k(passed[whole], n[whole], k), of[0]),
        "pass_share": pass_share,
        "repeat_pass_share": means.of(enough, of[1]),
    }


def _parts(parts: Components | None, answers: float, judgements: float) -> dict[str, object]:
    if parts is None:
        empty = ("case_spread", "generator_noise", "judge_noise", "std_error", "lowest_std_error", "one_more")
        return {**dict.fromkeys(empty)}
    n = parts.cases
    more: dict[str, dict[str, float | None] | None]
    more = {"answer": None, "judgement": None, "case": {"std_error": parts.std_error(n + 1, answers, judgements)}}
    if parts.generator_noise is not None:
        more["answer"] = _after_one_more(parts, answers, judgements, parts.variance(answers + 1, judgements))
    if parts.judge_noise is not None:
        more["judgement"] = _after_one_more(parts, answers, judgements, parts.variance(answers, judgements + 1))
    return {
        "case_spread": parts.case_spread,
        "generator_noise": parts.generator_noise,
        "judge_noise": parts.judge_noise,
        "std_error": parts.std_error(n, answers, judgements),
        "lowest_std_error": parts.std_error(n, math.inf),
        "one_more": more,
    }


def _after_one_more(parts: Components, answers: float, judgements: float, variance: float) -> dict[str, float | None]:
    """The standard error with this variance per case, and the number of additional cases with the same effect."""
    n = parts.cases
    same = n * (parts.variance(answers, judgements) / variance - 1) if variance else None
    return {"std_error": math.sqrt(variance / n), "as_more_cases": same}


def _stability(cases: Columns, ids: pl.Series) -> dict[str, object]:
    """Counts of stable and flaky cases; and the flaky ones, the most evenly split first, ties by place."""
    verdicts, passes = cases["verdicts"], cases["passes"]
    several, split = verdicts > 1, (passes > 0) & (passes < verdicts)
    counts = {
        "stable_pass": several & (passes == verdicts),
        "flaky": split,
        "stable_fail": several & (passes == 0),
        "judged_once": ~several,
    }
    p, n, place = (column[split].astype(np.int64) for column in (passes, verdicts, cases["place"]))
    # One number sorts by evenness, then by place: shares of passes differ by more than 2^-30.
    order = (np.round(np.abs(p / n - _HALF) * (1 << 30)).astype(np.int64) << 32) + place
    most = min(_LISTED, order.size)
    listed = np.argpartition(order, most - 1)[:most] if most else order
    listed = listed[np.argsort(order[listed])]
    columns = (column[listed].tolist() for column in (place, p, n))
    flaky = [{"case_id": ids[row], "passes": p, "verdicts": n} for row, p, n in zip(*columns, strict=True)]
    numbers = {name: int(chosen.sum()) for name, chosen in counts.items()}
    return {**numbers, "flaky_cases": flaky}


def _draws(cases: Columns, means: _RepeatMeans) -> Iterator[dict[str, object]]:
    most = int(cases["judged"].max(initial=0))
    if most < 2:
        return
    for k in sorted({*(k for k in _DRAWS if k < most), most}):
        enough = _chosen(cases, cases["judged"] >= k, ("passing", "judged"))
        passed, judged, clusters = enough["passing"], enough["judged"], clusters_in(enough)
        yield {
            "k": k,
            "cases": judged.size,
            "pass_at_k": means.of(pass_at_k(passed, judged, k), clusters),
            "pass_all_k": means.of(pass_all_k(passed, judged, k), clusters),
        }


def consistency(scores: pl.LazyFrame) -> dict[str, object] | None:
    """How consistent a judge's repeated judgements of an answer are; None if no answer was judged twice.

    `answers` were judged more than once, on average `repeats` times; `same` is the share of pairs of judgements with
    the same value (mean over answers), `sd` the root of the mean variance of the judgements of an answer.
    """
    k, pairs = pl.col("n"), pl.col("n") * (pl.col("n") - 1)
    by_value = (
        scores.filter(pl.col("status") == "scored")
        .group_by(*_ANSWER_KEY, "value")
        .agg(n=pl.len(), total=pl.col("score").sum(), square=(pl.col("score") ** 2).sum())
    )
    answers = (
        by_value.group_by(*_ANSWER_KEY)
        .agg(k.sum(), equal=pairs.sum(), total=pl.col("total").sum(), square=pl.col("square").sum())
        .filter(k > 1)
        .with_columns(same=pl.col("equal") / pairs, variance=(pl.col("square") - pl.col("total") ** 2 / k) / (k - 1))
    )
    means = {"repeats": k.mean(), "same": pl.col("same").mean(), "sd": pl.col("variance").clip(0).mean().sqrt()}
    row = answers.select(answers=pl.len(), **means).collect().row(0, named=True)
    return row if row["answers"] else None


def replies(scores: pl.LazyFrame) -> dict[str, object]:
    """How often a judge's replies could not be read; shares are None if nothing was judged.

    `unparsable` is the share without a readable reply, `reasked` that scored after a repeated question.
    """
    unparsable = pl.col("error_type").is_in(_UNPARSABLE).fill_null(False)
    judged = (pl.col("status") == "scored") | unparsable
    shares = {"unparsable": unparsable.mean(), "reasked": (pl.col("path") == "reasked").fill_null(False).mean()}
    return scores.filter(judged).select(judged=pl.len(), **shares).collect().row(0, named=True)


_BETWEEN = "\x1f"
_MOST_DIFFERING = 10
_CELL = ("case_id", "target_repeat", "repeat")
_STATES = [f"n_{state}" for state in STATES]
_MEMBER_COLUMNS = ("judge", "n", *_STATES, "value", "ci_low", "ci_high", "ci_method", "cost_usd")


def member_key() -> pl.Expr:
    """A name for a member that is unique over all panels."""
    return pl.concat_str("member_of", "judge", separator=_BETWEEN)


def panel_details(members: pl.LazyFrame, alone: pl.DataFrame, seed: int = 0) -> list[dict[str, object]]:
    """Details of the slices whose judge has members; `alone` is the members' summary, named by `member_key`.

    `n` counts the cells that two members or more scored. `panel` has members (their row of the summary, and
    cost_per_score if a call was made and its price is known), alpha (Krippendorff's, of the scores as intervals),
    mean_range (of a cell's scores, highest minus lowest) and widest (the cells with the largest ranges).
    """
    overall = (pl.col("statistic") == "mean") & pl.col("tag").is_null()
    parts = pl.col("judge").str.split_exact(_BETWEEN, 1).struct
    means = alone.filter(overall).with_columns(panel=parts.field("field_0"), judge=parts.field("field_1"))
    spent = _spent(members)
    details: list[dict[str, object]] = []
    for values, rows in means.group_by("dataset", "target", "metric", "panel", maintain_order=True):
        key = dict(zip(SLICE, values, strict=True))
        own = [pl.col("member_of" if name == "judge" else name) == value for name, value in key.items()]
        names = rows["judge"].to_list()
        costs = dict(spent.filter(*own).select("judge", "cost_per_score").iter_rows())
        cells = _cells(members.filter(*own), names)
        about = {
            "members": [
                {**{name: row[name] for name in _MEMBER_COLUMNS}, "cost_per_score": costs.get(row["judge"])}
                for row in rows.iter_rows(named=True)
            ],
            "alpha": _alpha(cells, names, seed),
            "mean_range": cells["range"].mean(),
            "widest": _widest(cells, names),
        }
        details.append({**key, "tag": None, "statistic": "mean", "n": cells.height, "panel": about})
    return details


def _spent(members: pl.LazyFrame) -> pl.DataFrame:
    asked = members.filter(~pl.col("cached") & pl.col("cost_usd").is_not_null())
    keys = ("dataset", "target", "metric", "member_of", "judge")
    return asked.group_by(keys).agg(cost_per_score=pl.col("cost_usd").mean()).collect(engine="streaming")


def _cells(members: pl.LazyFrame, names: list[str]) -> pl.DataFrame:
    """One row for each cell that at least two members scored: its cluster, the members' scores, and their range."""
    cluster = cluster_name(pl.col("group"), pl.col("case_id")).first()
    scores = [pl.col("score").filter(pl.col("judge") == name).first().alias(name) for name in names]
    n, high, low = pl.len(), pl.col("score").max(), pl.col("score").min()
    return (
        members.filter(pl.col("status") == "scored")
        .group_by(_CELL, maintain_order=True)
        .agg(*scores, cluster=cluster, range=high - low, n=n)
        .filter(pl.col("n") > 1)
        .collect(engine="streaming")
    )


def _alpha(cells: pl.DataFrame, names: list[str], seed: int) -> dict[str, object]:
    from evalflow.stats.raters import krippendorff_alpha

    ratings = cells.select(names).fill_null(float("nan")).to_numpy().T
    alpha = krippendorff_alpha(ratings, "interval", cells["cluster"].to_numpy(), seed=seed)
    return {**alpha.document(), "n": alpha.n}


def _widest(cells: pl.DataFrame, names: list[str]) -> list[dict[str, object]]:
    differing = cells.filter(pl.col("range") > 0).sort(pl.col("range").round(9), maintain_order=True, descending=True)
    return [
        {**{name: row[name] for name in (*_CELL, "range")}, "scores": {name: row[name] for name in names}}
        for row in differing.head(_MOST_DIFFERING).iter_rows(named=True)
    ]
