"""Read labels from files and datasets, and bind them to the answers that people saw."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalflow.errors import Problem, did_you_mean
from evalflow.labels.columns import LABEL_COLUMNS, REQUIRED_COLUMNS
from evalflow.records import Answer, Case, Label
from evalflow.values.jsonvalues import is_list, is_object

UNNAMED = "unnamed"  # the name of an unknown labeller
_DIGITS = 16


@dataclass(slots=True)
class Parsed:
    """The labels of a file, its rows without a value, and the problems of the others.

    The `last` of the rows without a value are below all others, so people may not have reached them.
    """

    given: list[Label] = field(default_factory=list[Label])
    blank: list[Label] = field(default_factory=list[Label])
    problems: list[Problem] = field(default_factory=list[Problem])
    last: list[Label] = field(default_factory=list[Label])

    @property
    def asked(self) -> list[Label]:
        """The labels, and the missing ones of the metrics that people labelled: nobody was asked about the others."""
        named = self.named
        return [*self.given, *(label for label in self.blank if label.metric in named)]

    @property
    def named(self) -> set[str]:
        """The metrics that people labelled."""
        return {label.metric for label in self.given}

    def add(self, where: str, row: Mapping[str, object]) -> None:
        is_missing = not _is_blank(row.get("missing"))
        is_blank = _is_blank(row.get("value")) and not is_missing
        if is_blank and (_is_blank(row.get("case_id")) or _is_blank(row.get("metric"))):
            return  # an empty row of a spreadsheet
        if is_blank:
            row, is_missing = {**row, "missing": "blank"}, True
        if not is_blank:
            self.last.clear()
        fields: dict[str, Any] = {"value": None, "by": UNNAMED, "where": where}
        problems: list[Problem] = []
        for name, column in LABEL_COLUMNS.items():
            value = row.get(name)
            if _is_blank(value):
                if name in REQUIRED_COLUMNS and not (name == "value" and is_missing):
                    problems.append(Problem(f"no {name}", where, "a label names its case, its metric and a value"))
                continue
            try:
                fields[name] = column.read(value)
            except ValueError as error:
                problems.append(Problem(f"{name}: {error}", where))
        if "weight" not in fields and "pi" in fields:
            fields["weight"] = 1 / fields["pi"]
        if is_missing and (fields["value"] is not None or fields.get("kind") == "resolution"):
            what = "a resolution is missing" if fields["value"] is None else "a value, and a reason why it is missing"
            problems.append(Problem(what, where, "give a value, or leave it empty and say why in `missing`"))
        self.problems += problems
        if not problems:
            (self.blank if is_blank else self.given).append(label := Label(**fields))
            self.last += [label] * is_blank


def parse(rows: Iterable[tuple[str, Mapping[str, object]]], file: str) -> Parsed:
    """Read rows of a labels file, given as position and columns; cells may be text, and `file` is for messages.

    The columns are LABEL_COLUMNS; others are ignored.
    """
    labels, seen = Parsed(), set[str]()
    for where, row in rows:
        seen.update(row)
        labels.add(where, row)
    missing = [name for name in REQUIRED_COLUMNS if name not in seen]
    if missing and seen:
        hint = "; ".join(f"{name}: {did_you_mean(name, seen)}" for name in missing)
        what = f"the file has no column {' and no column '.join(missing)}"
        return Parsed(problems=[Problem(what, file, hint)])
    return labels


def parse_case(case: Case) -> Parsed:
    """Read the labels of a case of a dataset; people were not asked for those without a value.

    Either `{metric: value}` or `{metric: [...]}` with one value per person. A value can be an object (value, by, ...).
    """
    labels = Parsed()
    for metric, values in (case.labels or {}).items():
        several = is_list(values)
        for number, entry in enumerate(values if several else [values], 1):
            fields = entry if is_object(entry) else {"value": entry}
            where = f"dataset {case.dataset}, case {case.id}, labels.{metric}{f'[{number - 1}]' if several else ''}"
            by = f"person {number}" if several else UNNAMED
            labels.add(where, {"by": by, **fields, "case_id": case.id, "dataset": case.dataset, "metric": metric})
    labels.blank.clear()
    return labels


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


# Returns (score, value on the metric's own scale), with a score of None if there is nothing to score, or ValueError.
Read = Callable[[object], tuple[float | None, object]]
GRADE_HINT = "grade on the metric's own scale, or undefined where there is nothing to score"


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """An answer of a run, and its `answer_hash`; labels without one apply to it if it is `recorded` in the dataset.

    `seen` are hashes of what people see beside the answer, by metric.
    """

    dataset: str
    case_id: str
    target: str
    target_repeat: int
    digest: str
    recorded: bool
    seen: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One person's label of one answer: its score, and its value on the metric's own scale.

    Both are None if it is missing, and the score is where the person found nothing to score.
    """

    score: float | None
    value: object
    label: Label
    answer: LabelledAnswer

    @property
    def row(self) -> dict[str, object]:
        answer, label = self.answer, self.label
        return {
            "dataset": answer.dataset,
            "case_id": answer.case_id,
            "target": answer.target,
            "target_repeat": answer.target_repeat,
            "answer_hash": answer.digest,
            "case_hash": answer.seen.get(label.metric),
            "metric": label.metric,
            "by": label.by,
            "human": self.score,
            "value": None if self.value is None else str(self.value),
            "weight": label.weight,
            "comment": label.comment,
            "use": label.use,
            "review": label.review,
        }


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Names that labels may use although the run lacks them: metrics, cases by id, and any case if `partial`."""

    metrics: Collection[str] = ()
    cases: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    partial: bool = False

    def has(self, dataset: str | None, case_id: str) -> bool:
        """Whether the case may exist in the dataset (None: in any dataset)."""
        datasets = self.cases.get(case_id, ())
        return self.partial or (bool(datasets) if dataset is None else dataset in datasets)


HERE = Elsewhere()  # no other metrics and cases than those of the run


@dataclass(slots=True)
class LeftOut:
    """Counts of valid labels that do not apply to this run, or enter no mean.

    `stale` are of another answer than the scored one, `first_stale` says where; `unbound` have no hash, for answers
    that do not come from the dataset; `absent` are of cases that a limit or a sample left out, or that another run of
    the sweep has; `older_rubric` follow guidelines that were revised since. Those `unblinded` (with the judge's score
    in view) and `by_hand` (of an answer picked by hand) count apart. `missing` have no value, by reason.
    """

    stale: int = 0
    unbound: int = 0
    absent: int = 0
    other_metrics: dict[str, int] = field(default_factory=dict[str, int])
    first_stale: str | None = None
    older_rubric: int = 0
    unblinded: int = 0
    by_hand: int = 0
    missing: Counter[str] = field(default_factory=Counter[str])


def bind(
    labels: Sequence[Label], answers: Iterable[LabelledAnswer], scales: Mapping[str, Read], elsewhere: Elsewhere = HERE
) -> tuple[list[Bound], LeftOut, list[Problem]]:
    """Bind labels to the answers of a run; `scales` has the function that reads a value, by metric.

    Returns the bound labels, counts of the others, and problems: unknown cases and metrics, values off the scale, two
    labels by one person for one answer. Of a review's labels on a metric only those by the newest guidelines count.
    """
    newest = _newest_rubrics(labels)
    wanted = {label.case_id for label in labels}
    by_case: dict[str, list[LabelledAnswer]] = {}
    for answer in answers:
        if answer.case_id in wanted:
            by_case.setdefault(answer.case_id, []).append(answer)
    left, problems, bound = LeftOut(), list[Problem](), list[Bound]()
    for label in labels:
        if label.rubric is not None and label.rubric < newest[label.review, label.metric]:
            left.older_rubric += 1
            continue
        of_label = _bound(label, by_case, scales, elsewhere, left)
        if isinstance(of_label, Problem):
            problems.append(of_label)
        else:
            bound += of_label
    return bound, left, problems + list(_twice(bound))


def _newest_rubrics(labels: Iterable[Label]) -> dict[tuple[str | None, str], int]:
    newest: dict[tuple[str | None, str], int] = {}
    for label in labels:
        if label.rubric is not None:
            key = label.review, label.metric
            newest[key] = max(label.rubric, newest.get(key, 0))
    return newest


def _bound(
    label: Label,
    by_case: Mapping[str, Sequence[LabelledAnswer]],
    scales: Mapping[str, Read],
    elsewhere: Elsewhere,
    left: LeftOut,
) -> list[Bound] | Problem:
    if label.metric not in scales:
        if label.metric not in elsewhere.metrics:
            hint = did_you_mean(label.metric, scales)
            return Problem(f"the run has no metric {label.metric!r}", label.where, hint)
        left.other_metrics[label.metric] = left.other_metrics.get(label.metric, 0) + 1
        return []
    answers = [a for a in by_case.get(label.case_id, ()) if label.dataset in (None, a.dataset)]
    if not answers:
        if elsewhere.has(label.dataset, label.case_id):
            left.absent += 1
            return []
        return _unknown(label, by_case)
    several = {answer.dataset for answer in answers}
    if len(several) > 1:
        what = f"case {label.case_id!r} is in {' and in '.join(sorted(several))}"
        return Problem(what, label.where, "name one of them in the column `dataset`")
    try:
        score, value = (None, None) if label.missing else scales[label.metric](label.value)
    except ValueError as error:
        return Problem(f"the value of {label.metric}: {error}", label.where, GRADE_HINT)
    matching = list(_matching(label, answers, left))
    if matching:
        left.unblinded += not label.blind
        left.by_hand += label.blind and label.draw == "hand"
        if label.missing and label.use == "missing":
            left.missing[label.missing] += 1
    return [Bound(score=score, value=value, label=label, answer=answer) for answer in matching]


def _matching(label: Label, answers: Sequence[LabelledAnswer], left: LeftOut) -> Iterator[LabelledAnswer]:
    """The answers that a label applies to; a label without any is counted as left out."""
    own = [a for a in answers if label.target in (None, a.target) and label.target_repeat in (None, a.target_repeat)]
    if label.answer_hash is None:
        matching = [answer for answer in own if answer.recorded]
        left.unbound += bool(own) and not matching
    else:
        matching = [answer for answer in own if answer.digest == label.answer_hash]
    if not matching and (label.answer_hash is not None or not own):
        left.stale += 1
        left.first_stale = left.first_stale or label.where
    yield from matching


def _unknown(label: Label, by_case: Mapping[str, Sequence[LabelledAnswer]]) -> Problem:
    elsewhere = {answer.dataset for answer in by_case.get(label.case_id, ())}
    if elsewhere:
        hint = f"it is in {' and in '.join(sorted(elsewhere))}"
        return Problem(f"dataset {label.dataset!r} has no case {label.case_id!r}", label.where, hint)
    hint = "a label names the case by the id that `cases` shows"
    if (whole := label.case_id.removesuffix(".0")).isdigit() and whole != label.case_id:
        hint += f"; is it {whole}? pandas writes it so after astype('Int64')"
    return Problem(f"the run has no case {label.case_id!r}", label.where, hint)


def _twice(bound: Iterable[Bound]) -> Iterator[Problem]:
    seen: dict[tuple[object, ...], str] = {}
    for of_answer in bound:
        answer, label = of_answer.answer, of_answer.label
        if label.use == "missing":
            continue
        whose = "" if label.use == "resolution" else label.by  # an answer has one resolution
        key = (answer.dataset, answer.case_id, answer.target, answer.target_repeat, label.metric)
        key = (*key, whose, label.use == "apart")
        if key in seen:
            named = "resolutions" if label.use == "resolution" else f"labels by {label.by}"
            what = f"two {named} for one answer to case {label.case_id!r} on {label.metric}"
            hint = f"the other is at {seen[key]}; keep one, or name its other author in `by`"
            yield Problem(what, label.where, hint)
        else:
            seen[key] = label.where


def answer_hash(answer: Answer) -> str:
    """First 16 hex digits of the SHA-256 of the answer's text; or of `actual` as JSON if it has no text."""
    text = answer.answer
    if text is None:
        text = json.dumps(answer.actual, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
