"""A calibration as JSON, as a page and on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evalflow.lazy import pl
from evalflow.records.manifest import Manifest
from evalflow.report.calibration_findings import calibration_pictures, in_words, measured, shown_measures, warnings_of
from evalflow.report.members import MemberAdvice
from evalflow.report.page import INTERVAL, METHOD, Bar, Cell, PageColumn, PageHead, PageTable, judge_lines, write_page
from evalflow.report.sentences import labelled_in
from evalflow.report.wording import (
    bracketed,
    case_lines,
    case_name,
    counted,
    cut,
    folded,
    interval,
    joined,
    literal,
    method,
    number,
    plain_line,
    print_cut,
    print_indented,
    print_lines,
    series_name,
    signed,
    table_of,
    varying,
)
from evalflow.stats.arrays import Estimated
from evalflow.stats.prediction import CorrectedMean
from evalflow.summary.agreement import Raters
from evalflow.summary.calibration import CalibrationRow, MissingLabels
from evalflow.summary.rows import Detail

Series = tuple[str, str, str, str | None]  # dataset, metric, target and judge
_SHOWN = 10  # number of disagreements to show unfolded
_WORST = 5
_NAME = 30
_CORRECTED = "corrected by labels"


@dataclass(frozen=True, slots=True)
class Calibration:
    """A run's judges compared with people: a row for each dataset, metric, target and judge that has labels.

    `left_out` counts the labels left out, by reason; `rests_on` says which were used. `disagreements` are the answers
    on which judge and people differ most, largest difference first. `followed` names other runs whose labels are used
    because the answers are equal: dataset, metric, run. `people` are their labels of each answer, of
    `answers_of_people`.
    """

    manifest: Manifest
    rows: Sequence[CalibrationRow]
    source: str
    left_out: Mapping[str, int]
    notes: Sequence[str]
    rests_on: str
    disagreements: Sequence[Detail]
    advice: Mapping[Series, MemberAdvice]
    people: pl.DataFrame
    followed: Sequence[tuple[str, str, str]] = ()

    def advice_on(self, row: CalibrationRow) -> MemberAdvice | None:
        """The advice on the members of a row's judge; None if it has none."""
        return self.advice.get((row.dataset, row.metric, row.target, row.judge))

    @property
    def who(self) -> str:
        """The source of the scores, for texts: "judge" if there is any, else "metric"."""
        return next((row.who for row in self.rows if row.judge), "metric")

    @property
    def _followed(self) -> list[dict[str, str]]:
        return [{"dataset": dataset, "metric": metric, "run": run} for dataset, metric, run in self.followed]

    @property
    def corrected_means(self) -> list[CorrectedRow]:
        """The means that have labels, with their corrections in words."""
        rows = [row for row in self.rows if row.corrected.estimate is not None or (row.unusable and row.corrected.n)]
        return [
            CorrectedRow(
                name,
                row,
                " ".join(_sentence(row, name, labelled_in(self._followed, row.dataset, row.metric))),
                warnings_of(row),
            )
            for row, name in zip(rows, _names(rows), strict=True)
        ]

    def document(self) -> dict[str, Any]:
        return {
            "run_id": self.manifest.run_id,
            "labels": self.source,
            "left_out": dict(self.left_out),
            "followed": self._followed,
            "rows": [
                {
                    **document_of(row),
                    "rests_on": self.rests_on,
                    "members": None if advice is None else advice.document(),
                }
                for row in self.rows
                for advice in [self.advice_on(row)]
            ],
            "disagreements": [dict(one) for one in self.disagreements],
            "notes": list(self.notes),
        }


def document_of(row: CalibrationRow) -> dict[str, Any]:
    """A row as JSON, with the rows of its tags under `tags`."""
    mean, other = row.corrected, row.by_class
    document: dict[str, Any] = {
        "dataset": row.dataset,
        "metric": row.metric,
        "target": row.target,
        "judge": row.judge,
        "tag": row.tag,
        "n_labels": mean.n,
        "n_unlabelled": mean.n_unlabelled,
        "n_unscored": row.unscored,
        "n_failed": row.failed[0],
        "n_failed_labelled": row.failed[1],
        "n_people": row.people[0],
        "weighted": row.weighted,
        "judge_mean": mean.judge_mean,
        "judge_ci_low": row.judged.low,
        "judge_ci_high": row.judged.high,
        "human_mean": mean.human_mean,
        "human_ci_low": mean.human_low,
        "human_ci_high": mean.human_high,
        "bias": mean.bias,
        "bias_ci_low": mean.bias_low,
        "bias_ci_high": mean.bias_high,
        "agreement": {name: one.document() for name, one in row.agreement.items()},
        "people_agreement": None if row.raters is None else _raters(row.raters),
        "corrected": _corrected(mean),
        "pass_rate": None
        if row.pass_rate is None
        else {"judge": row.pass_rate.judge_mean, "human": row.pass_rate.human_mean, **_corrected(row.pass_rate)},
        "labels_saved": mean.labels_saved,
        "rogan_gladen": None
        if other is None
        else {"estimate": other.value, "ci_low": other.low, "ci_high": other.high, "method": other.method},
        "n_resolved": row.resolved,
        "missing": None if row.missing is None else _missing(row.missing),
        "apart": None
        if row.apart is None
        else {
            "n_labels": sum(row.apart.by.values()),
            "n_answers": row.apart.n_answers,
            "by": dict(row.apart.by),
            "agreement": {name: one.document() for name, one in row.apart.agreement.items()},
        },
        "undefined": None if row.undefined is None else asdict(row.undefined),
        "at_random": row.at_random,
        "uncorrected": row.uncorrected,
        "warnings": warnings_of(row),
    }
    return document if row.tag else document | {"tags": [document_of(one) for one in row.tags]}


def _corrected(mean: CorrectedMean) -> dict[str, Any]:
    return {
        "estimate": mean.estimate,
        "ci_low": mean.low,
        "ci_high": mean.high,
        "std_error": mean.std_error,
        "finite_ci_low": mean.finite_low,
        "finite_ci_high": mean.finite_high,
        "method": mean.method,
        "lambda": mean.lambda_,
        "spread": mean.spread and asdict(mean.spread),
    }


def _missing(missing: MissingLabels) -> dict[str, Any]:
    ends = ("worst", "best", "pass_rate_worst", "pass_rate_best")
    bounds = {name: one and _corrected(one) for name in ends for one in [getattr(missing, name)]}
    return {"n": missing.n, "share": missing.share, **bounds}


def _raters(raters: Raters) -> dict[str, Any]:
    return {
        "n_answers": raters.alpha.n,
        "krippendorff_alpha": raters.alpha.document(),
        "judge_krippendorff_alpha": raters.alphas.judge.document(),
        "difference": raters.alphas.difference.document(),
        "krippendorff_alpha_ordinal": raters.alpha_ordinal.document(),
        "fleiss_kappa": raters.fleiss_kappa,
        "gwet_ac1": raters.gwet_ac1,
        "reliability": raters.reliability.document(),
        "ceiling": raters.ceiling.document(),
        "alt_test": raters.alt_document(),
    }


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write one self-contained page; replaces the one before."""
    head = PageHead(
        "Calibration",
        f"The {calibration.who} compared with human labels",
        f"{calibration.who}, labels, and the {calibration.who} corrected by labels",
        judge_lines(calibration.manifest),
        facts=[("Run", calibration.manifest.run_id), ("Labels", f"{calibration.source}: {calibration.rests_on}")],
    )
    context = {
        "calibration": calibration,
        "blocks": [_block(row, calibration.advice_on(row)) for row in calibration.rows],
        "worst": _answers_table(calibration.who, calibration.disagreements[:_SHOWN]),
        "smaller": _answers_table(calibration.who, calibration.disagreements[_SHOWN:]),
    }
    write_page(path, "calibration.html.jinja", head, context)


def _block(row: CalibrationRow, advice: MemberAdvice | None) -> dict[str, Any]:
    """A row for the page; measures without a value are grouped by reason."""
    measures = shown_measures(row)
    unknown: dict[str, list[str]] = {}
    for _, phrase, one in measures:
        if one.value is None:
            unknown.setdefault(one.method.removeprefix("none: "), []).append(phrase)
    return {
        "row": row,
        "c": row.corrected,
        "words": in_words(row),
        "warnings": warnings_of(row),
        "means": _means_table(row),
        "measures": _measures_table(row, measures),
        "unknown": list(unknown.items()),
        "pictures": calibration_pictures(row),
        "advice": advice,
        "tags": _tags_table(row.who, [one for one in row.tags if one.corrected.estimate is not None]),
        "few": _tags_table(row.who, [one for one in row.tags if one.corrected.estimate is None]),
    }


def _means_table(row: CalibrationRow) -> PageTable:
    rows: list[Sequence[Cell]] = [
        (name.strip(), number(value), Bar(value, low, high), how) for name, value, low, high, how in _mean_rows(row)
    ]
    if row.by_class is not None and row.biased_sample:
        other, name = row.by_class, "the other answers, if raters chose by what they thought of them"
        rows.append((name, number(other.value), Bar(other.value, other.low, other.high), method(other.method)))
    return PageTable(
        [PageColumn(f"Mean over all {row.named}"), PageColumn("Mean", "num value"), INTERVAL, METHOD], rows
    )


def _measures_table(row: CalibrationRow, measures: Sequence[tuple[str, str, Estimated]]) -> PageTable:
    shown = [((phrase, measured(name)), one) for name, phrase, one in measures if one.value is not None]
    if row.raters is not None:
        alphas = row.raters.alphas
        on = f"Krippendorff's alpha, on {counted(alphas.people.n, 'answer')} with several labels"
        shown.append(((f"a rater with another ({on})", measured("")), alphas.people))
        shown.append(((f"the {row.who} with a rater (on the same)", measured("")), alphas.judge))
    rows = [(name, number(one.value), interval(one.low, one.high), method(one.method)) for name, one in shown]
    return PageTable([PageColumn("Measure"), PageColumn("Value", "num value"), INTERVAL, METHOD], rows)


def _tags_table(who: str, rows: Sequence[CalibrationRow]) -> PageTable:
    heads = [PageColumn(name, "num") for name in ("Labels", "Answers", who.capitalize(), "By labels")]
    cells = [
        (
            row.tag or "",
            f"{c.n:,}",
            f"{c.n + c.n_unlabelled:,}",
            number(c.judge_mean),
            number(c.human_mean),
            number(c.estimate),
            interval(c.low, c.high),
            method(c.method),
        )
        for row in rows
        for c in (row.corrected,)
    ]
    return PageTable([PageColumn("Tag"), *heads, PageColumn("Corrected", "num value"), INTERVAL, METHOD], cells)


def _answers_table(who: str, rows: Sequence[Detail]) -> PageTable:
    columns = [
        PageColumn("Case"),
        PageColumn("Metric"),
        PageColumn(who.capitalize(), "num"),
        PageColumn("Label", "num"),
        PageColumn("Difference", "num value", f"{who.capitalize()} minus label"),
        PageColumn(f"The {who}'s reason", "wide"),
        PageColumn("As labelled", "wide"),
    ]
    cells = [
        (
            case_lines(one["case_id"], one["question"], cut(one["answer"], 300)),
            one["metric"],
            number(one["score"]),
            number(one["human"]),
            signed(one["difference"]),
            cut(one["reason"] or "–", 400),
            ", ".join(one["said"]) + (f": {cut(one['comment'], 300)}" if one["comment"] else ""),
        )
        for one in rows
    ]
    return PageTable(columns, cells)


def print_calibration(console: Console, calibration: Calibration) -> None:
    """Print means, findings and agreement of each judge and metric, then the worst disagreements."""
    print_lines(console, judge_lines(calibration.manifest), "dim")
    console.print(literal(f"labels: {calibration.source} ({calibration.rests_on})", style="dim"), soft_wrap=True)
    print_lines(console, (f"note: {note}" for note in calibration.notes), "yellow")
    for row, name in zip(calibration.rows, _names(calibration.rows), strict=True):
        console.print()
        console.print(literal(plain_line(name), style="bold"))
        _print_row(console, row)
        print_lines(console, advice.lines() if (advice := calibration.advice_on(row)) else ())
    worst, who = calibration.disagreements[:_WORST], calibration.who
    if not any(row.corrected.n for row in calibration.rows):  # no usable label, so no agreement to measure
        return
    console.print()
    head = f"largest differences ({who}, labels)" if worst else f"{who} and labels agree on every answer"
    console.print(literal(head, style="bold"))
    for one in worst:
        name = case_name(one["case_id"], one["question"])
        head = f"  {number(one['score'], 2)}  {number(one['human'], 2)}  {name}  {one['metric']}"
        print_cut(console, head, one["comment"] or one["reason"] or "no reason given")


def _print_row(console: Console, row: CalibrationRow) -> None:
    console.print(_means(row))
    for line in in_words(row):
        console.print(literal(line))
    for warning in warnings_of(row):
        console.print(literal(f"warning: {warning}", style="yellow"))
    measures = [(phrase, one) for _, phrase, one in shown_measures(row) if one.value is not None]
    if measures:
        of = "all answers, by the labels' weights" if row.weighted else "the labelled answers"
        console.print(literal(f"agreement on {of}, with 95 % intervals", style="dim"))
        for phrase, one in measures:
            print_indented(console, f"{phrase}: {number(one.value)}{bracketed(one.low, one.high)}")
    tags = [one for one in row.tags if one.corrected.estimate is not None]
    if tags:
        console.print(_tags(tags))
    left = len(row.tags) - len(tags)
    if left:
        have = "has" if left == 1 else "have"
        console.print(literal(f"{counted(left, 'tag')} {have} too few labels for an estimate by tag", style="dim"))


def _mean_rows(row: CalibrationRow) -> list[tuple[str, float | None, float | None, float | None, str]]:
    """The means by the judge, by labels and by both: name, value, low, high and method."""
    c = row.corrected
    scored = f", on {row.answers.height:,} scored" if row.failed[1] else ""
    means = [
        (f"{row.who} alone{scored}", c.judge_mean, row.judged.low, row.judged.high, method(row.judged.method)),
        (f"labels alone, on {counted(c.n, 'answer')}", c.human_mean, c.human_low, c.human_high, ""),
        (_CORRECTED, c.estimate, c.low, c.high, method(c.method)),
    ]
    if c.finite_low is not None and c.n_unlabelled:
        means.append(("  for exactly these answers", c.estimate, c.finite_low, c.finite_high, ""))
    return means


def _means(row: CalibrationRow) -> Table:
    c = row.corrected
    rows = [
        (literal(name, style), literal(number(value), style), interval(low, high), literal(plain_line(how), "dim"))
        for name, value, low, high, how in _mean_rows(row)
        for style in ["bold" if name == _CORRECTED else ""]
    ]
    head = f"mean over {c.n + c.n_unlabelled:,} {row.named}"
    return table_of({head: "word", "": "number", "95 % interval": "number", "how": "text"}, rows, gap=2)


def _tags(tags: list[CalibrationRow]) -> Table:
    heads = ("labels", tags[0].who, "corrected", "95 % interval")
    rows = [
        (
            folded(plain_line(row.tag or ""), _NAME),
            f"{c.n:,}",
            number(c.judge_mean),
            number(c.estimate),
            interval(c.low, c.high),
        )
        for row in tags
        for c in (row.corrected,)
    ]
    return table_of({"tag": "word", **dict.fromkeys(heads, "number")}, rows, gap=2)


@dataclass(frozen=True, slots=True)
class CorrectedRow:
    """A mean with labels, its name, and the correction in words."""

    name: str
    row: CalibrationRow
    sentence: str
    warnings: list[str]

    @property
    def adds(self) -> bool:
        """Whether the sentence says more than the table of means, as it does if only some answers are labelled."""
        return not self.row.uncorrected and bool(self.row.corrected.n_unlabelled)


def _names(rows: Sequence[CalibrationRow]) -> list[str]:
    parts = varying(rows)
    return [joined(row.metric, series_name(row, parts)) for row in rows]


def print_corrected(console: Console, calibration: Calibration) -> None:
    """Print the sentences, under the table of means."""
    for one in calibration.corrected_means:
        if one.adds:
            console.print(literal(one.sentence, style="bold"))
        for warning in one.warnings:
            console.print(literal(f"warning: {warning}", style="yellow"))


def _sentence(row: CalibrationRow, name: str, where: str) -> Iterator[str]:
    c, where = row.corrected, where and f" {where}"
    if row.uncorrected:
        yield f"{name}: labels of {counted(c.n, 'answer')} correct nothing: {row.uncorrected}."
        return
    yield f"{name}: the {row.who} says {number(c.judge_mean)},"
    if not c.n_unlabelled:
        span = "" if c.low is None else f" ({number(c.low)} to {number(c.high)} for answers like these)"
        yield f"and the labels of all {c.n:,} {row.named}{where} say {number(c.estimate)}{span}."
        return
    like = "" if c.finite_low is None else " for answers like these"
    yield f"and labels would say about {number(c.estimate)}"
    if c.low is not None and c.high is not None:
        these = f"; {number(c.finite_low)} to {number(c.finite_high)} for exactly these" if like else ""
        yield f"(most likely {number(c.low)} to {number(c.high)}{like}{these}),"
    yield f"going by {c.n:,} of {c.n + c.n_unlabelled:,} {row.named} that are labelled{where}."
