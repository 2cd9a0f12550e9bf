"""The cases that changed between two runs, each listed once by its worst drop, else its largest rise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.summary.pairing import Pairing, Traits, lower_is_better

Sort = Literal["all", "flipped", "worse", "better", "lost", "answer"]
SORTS: tuple[Sort, ...] = get_args(Sort)
MOST_LISTED = 200
"""Number of cases that documents list."""
_KEY = ("dataset", "case_id", "metric")
_CASE = ["dataset", "case_id"]
_SHOWN = ("metric", "score_a", "score_b", "passed_a", "passed_b", "change", "judged")
_HALF = 0.5
_LEAST = 1e-9  # sort value if only one run has a score: after changed cases, before unchanged ones


@dataclass(frozen=True, slots=True)
class MetricChange:
    """How the scores of a case differ in one metric. Scores are means over repeats; None if the run has none.

    If people labelled both answers, scores, passes and change are those of their labels; None if they found nothing
    to score.
    """

    metric: str
    score_a: float | None
    score_b: float | None
    # Whether most of its repeats passed; None without a threshold or a score.
    passed_a: bool | None
    passed_b: bool | None
    change: float | None  # B minus A, or A minus B if lower is better: below 0 is worse. None if a score is missing.
    judged: float | None  # the change of the judge's scores, if `change` is that of people's labels


@dataclass(frozen=True, slots=True)
class CaseChange(MetricChange):
    """A changed case, shown by its worst drop, else its largest rise; `others` are all other metrics that changed."""

    dataset: str
    case_id: str
    question: str  # empty if it is not known
    is_answered_otherwise: bool
    others: Sequence[MetricChange]
    reason: str | None = None  # of B's lowest score; None if it has none, or was not read

    def document(self) -> dict[str, object]:
        known = asdict(self)
        return {name: known[name] for name in (*_CASE, *_SHOWN, "reason", "others")}


class CaseChanges:
    """The cases in both runs (`common`) that differ in a score or the answer; a case may count in several `counts`.

    Documents list cases that flipped between pass and fail in any metric, and cases with another score in a metric
    without a threshold. `worsened` cases flipped to fail in some metric, `improved` ones only to pass, and `rescored`
    ones did not flip.
    """

    def __init__(self, pair: tuple[str, str], cells: pl.DataFrame, scores: pl.LazyFrame | None = None) -> None:
        """The changes of `changed_cells`; `scores` are B's, for the reasons in documents."""
        self.pair = pair
        self.common = cells.select(_CASE).n_unique()
        self._changed, self._scores = cells.filter(pl.col("all")), scores
        fails = (pl.col("flipped") & pl.col("passed_a")).any().alias("fails")
        listed = self._changed.filter("listed").group_by(_CASE).agg(fails, pl.col("flipped").any())
        self.listed = listed.height
        self.worsened = int(listed["fails"].sum())
        self.improved = int(listed["flipped"].sum()) - self.worsened
        self.rescored = self.listed - self.worsened - self.improved

    @cached_property
    def counts(self) -> Mapping[Sort, int]:
        """The number of cases with each kind of change."""
        return {sort: self._changed.filter(pl.col(sort)).select(_CASE).n_unique() for sort in SORTS}

    def page(self, sort: Sort | Literal["listed"], offset: int = 0, limit: int = 20) -> Sequence[CaseChange]:
        """A page of the cases with a kind of change, worst first; for `better`, best first.

        The kind is all, flipped (between pass and fail), worse, better, lost (scored in one run only), answer (the
        answers differ, whether or not the scores do), or listed (in documents).
        """
        weight = pl.col("weight")
        # Drops first, then rises, then unchanged; the metric that failed says more than the case as a whole.
        kind = pl.when(weight < 0).then(0).when(weight > 0).then(1).otherwise(2)
        shown = self._changed.filter(pl.col(sort)).sort(
            *_CASE,
            kind,
            pl.col("metric") == CASES,
            pl.when(weight < 0).then(weight).otherwise(-weight),
            maintain_order=True,
        )
        cases = shown.unique(_CASE, keep="first", maintain_order=True)
        order = -weight if sort == "better" else weight
        page = cases.sort(order, "place", maintain_order=True).slice(offset, limit)
        changed = self._changed.filter(pl.col("differs") | pl.col("flipped")).sort(weight, maintain_order=True)
        others: dict[tuple[str, str], list[MetricChange]] = {}
        for row in changed.join(page.select(_CASE), on=_CASE, how="semi", maintain_order="left").iter_rows(named=True):
            others.setdefault((row["dataset"], row["case_id"]), []).append(
                MetricChange(*(row[name] for name in _SHOWN))
            )
        case_changes: list[CaseChange] = []
        for row in page.iter_rows(named=True):
            own = [one for one in others.get((row["dataset"], row["case_id"]), ()) if one.metric != row["metric"]]
            known = {name: row[name] for name in (*_SHOWN, *_CASE, "question")}
            case_changes.append(CaseChange(**known, is_answered_otherwise=row["answer"], others=own))
        return case_changes

    @cached_property
    def cases(self) -> Sequence[CaseChange]:
        """The first `MOST_LISTED` cases that documents list, with reasons, the worst first."""
        return self.first(MOST_LISTED)

    def first(self, limit: int) -> Sequence[CaseChange]:
        """The first cases that documents list, with reasons, the worst first."""
        page = self.page("listed", limit=limit)
        reasons = self._reasons([(one.dataset, one.case_id, one.metric) for one in page])
        return [replace(one, reason=reasons.get((one.dataset, one.case_id, one.metric))) for one in page]

    def _reasons(self, keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], str | None]:
        if self._scores is None or not keys:
            return {}
        wanted = pl.LazyFrame(keys, schema=dict.fromkeys(_KEY, pl.String), orient="row")
        own = self._scores.filter(pl.col("member_of").is_null()).join(wanted, on=_KEY, how="semi")
        first = own.sort("score").group_by(_KEY).agg(pl.col("reason").first()).collect()
        return {(dataset, case, metric): reason for dataset, case, metric, reason in first.iter_rows()}


def changed_cells(
    pairing: Pairing,
    metrics: Mapping[str, Traits],
    cases: Sequence[tuple[str, str, str, bool]] = (),
    *,
    by_labels: bool = True,
) -> pl.DataFrame:
    """A row for each case and metric in both runs.

    If people labelled both answers, labels count instead of scores, unless `by_labels` is false (labels show no change
    between two judges of the same answers). "Passes everything" is treated as a metric, too. `cases` has dataset, id
    and question of the cases in both, and whether the answers differ. The columns are those of `MetricChange`, a
    Boolean for each of `SORTS`, `listed`, `differs` (in the score, or in whether it exists), `place` in A's order, and
    `weight`: the change, for a metric that exceeds 1 divided by the largest, so that other units do not dominate.
    Metrics are in the order of the run.
    """
    schema = {"dataset": pl.String, "case_id": pl.String, "question": pl.String, "answer": pl.Boolean}
    known = pl.LazyFrame(cases, schema=schema, orient="row")
    rise = pl.col("score_b") - pl.col("score_a")
    change = pl.when(pl.col("metric").is_in(lower_is_better(metrics))).then(-rise).otherwise(rise)
    passed = {f"passed_{side}": pl.col(f"passed_{side}") >= _HALF for side in "ab"}
    labelled = pl.all_horizontal(pl.lit(by_labels), pl.col("human_undefined_a", "human_undefined_b").is_not_null())
    unjudged = pl.col("passed_a").is_null() | pl.col("passed_b").is_null()
    greatest = pl.max_horizontal(pl.col("change").abs().max().over("metric"), 1.0)
    lost = pl.when(pl.col("score_b").is_null()).then(-_LEAST).otherwise(_LEAST)
    cells = pairing.shared
    if pairing.whole:
        # all metrics of a case have the same place
        own = pairing.whole.shared.with_columns(place=pl.lit(None, cells.schema["place"]))
        cells = pl.concat([cells, own.select(cells.columns)], how="vertical_relaxed")
    return (
        cells.lazy()
        .join(known, on=_CASE, how="left")
        .with_columns(pl.col("answer").fill_null(value=False), pl.col("question").fill_null(""), **passed)
        .with_columns(judged=pl.when(labelled).then(change))
        .with_columns(**_by_people(labelled))
        .with_columns(
            change=change,
            flipped=(pl.col("passed_a") != pl.col("passed_b")).fill_null(value=False),
            lost=pl.col("score_a").is_null() != pl.col("score_b").is_null(),
        )
        .with_columns(
            worse=(pl.col("change") < 0).fill_null(value=False),
            better=(pl.col("change") > 0).fill_null(value=False),
            weight=pl.when(pl.col("lost"))
            .then(lost)
            .when(pl.col("flipped") & (pl.col("change") == 0))  # the threshold differs
            .then(pl.when("passed_b").then(2 * _LEAST).otherwise(-2 * _LEAST))
            .otherwise((pl.col("change") / greatest).fill_null(0.0)),
        )
        .sort("place", nulls_last=True, maintain_order=True)
        .with_columns(pl.col("place").min().over(_CASE), differs=pl.col("worse") | pl.col("better") | pl.col("lost"))
        .with_columns(
            all=pl.col("differs") | pl.col("flipped") | pl.col("answer"),
            listed=pl.col("flipped") | (unjudged & (pl.col("worse") | pl.col("better"))),
        )
        .collect(engine="streaming")
    )


def _by_people(labelled: pl.Expr) -> dict[str, pl.Expr]:
    """The scores and passes of both runs, replaced by people's if known; passes only if the judge's score has one.

    An answer in which people found nothing to score has neither.
    """
    scores = {f"score_{side}": pl.when(labelled).then(f"human_{side}").otherwise(f"score_{side}") for side in "ab"}
    judged = [pl.col(f"{name}_{side}").is_not_null() for name in ("passed", "accepted") for side in "ab"]
    both = pl.all_horizontal(labelled, *judged)
    accepted = {side: pl.col(f"accepted_{side}") >= _HALF for side in "ab"}
    passed = {side: pl.when(both).then(accepted[side]).otherwise(f"passed_{side}") for side in "ab"}
    empty = {side: labelled & pl.col(f"human_undefined_{side}") for side in "ab"}
    return scores | {f"passed_{side}": pl.when(~empty[side]).then(passed[side]) for side in "ab"}
