"""The results of a review: progress, disagreements and their resolutions, and the labels."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any
from urllib.parse import quote

import numpy as np

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store.reviews import Assignment, GivenLabel, ReviewedAnswer
from evalflow.addons.studio.store.rows import storable
from evalflow.addons.studio.store.scores import CELL
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.review_desk import label_row
from evalflow.addons.studio.work.review_guidelines import submitted_by_older
from evalflow.addons.studio.work.review_rows import LabelledMetric, StoredReview, stored_review
from evalflow.addons.studio.work.reviews import Review, change_review
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.app.core.reviewing import FrozenAnswer
from evalflow.errors import Problem, UserError
from evalflow.labels.columns import LABEL_COLUMNS
from evalflow.metrics.scale import LabelScale, read_label
from evalflow.paths import safe_text
from evalflow.report.wording import counted
from evalflow.stats.agreement import cohen_kappa
from evalflow.stats.arrays import Estimated
from evalflow.stats.raters import krippendorff_alpha

LONGEST_REASON = 10_000


@dataclass(frozen=True, slots=True)
class PersonProgress:
    """How far a person is.

    Attributes:
        median_seconds: Of the answers that they submitted; None without any.
        is_invited: Whether they may label; their labels count also if not.
    """

    name: str
    done: int
    declined: int
    flagged: int
    median_seconds: float | None
    is_invited: bool


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """How well people agree on a metric, over the `doubled` answers that two of them have labelled.

    `kappa` is of the answers' first and second labels; None on a scale without few grades.
    """

    metric: str
    doubled: int
    alpha: Estimated
    kappa: Estimated | None


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """How far a review is.

    Attributes:
        labels: Submitted answers of all people, of those that are `wanted`.
        rubrics: By metric and version of its guidelines: the number of values that people gave by them.
        outdated: The number of answers that somebody submitted by older guidelines and has not labelled by newer ones.
        ties: The number of answers and metrics on which people are tied, to be decided before the review closes.
    """

    labels: int
    wanted: int
    people: Sequence[PersonProgress]
    agreement: Sequence[HumanAgreement]
    rubrics: Mapping[str, Mapping[int, int]]
    outdated: int
    ties: int


@dataclass(frozen=True, slots=True)
class ShownLabel:
    """A label without the name of its author; a value of None: they could not tell."""

    value: Any
    comment: str
    is_flagged: bool


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer to which people gave different labels on a metric, in random order; `resolved` is the value decided.

    `is_tied`: no value has more labels than another, and nobody has decided.
    """

    item: int
    position: int | None
    metric: str
    content: FrozenAnswer
    labels: Sequence[ShownLabel]
    is_tied: bool
    is_resolved: bool
    resolved: Any
    reason: str


@requires("edit")
def progress(space: Workspace, name: str) -> ReviewProgress:
    """How far each person is, and how well they agree."""
    review = stored_review(space, name)
    items, held, labels = space.read(stored.all_rows, review.id)
    names = dict.fromkeys([*review.people, *(row.by for row in held)])
    people = [_person(one, [row for row in held if row.by == one], review.people) for one in names]
    agreement = [_agreement(one, labels) for one in review.metrics]
    rubrics: dict[str, Counter[int]] = {metric: Counter() for metric in review.rubrics}
    for row in labels:
        if row.is_given:
            rubrics[row.metric][row.rubric] += 1
    wanted = sum(row.wanted for row in items)
    older = submitted_by_older(held, labels, review.rubrics)
    outdated = len({item for item, _ in older})
    ties = len(ties_of(review.rubrics, labels))
    return ReviewProgress(sum(one.done for one in people), wanted, people, agreement, rubrics, outdated, ties)


@requires("edit")
def disagreements(space: Workspace, name: str) -> list[Disagreement]:
    """The answers with labels that differ, without names: those that nobody has resolved first, ties before others."""
    review = stored_review(space, name)
    with space.database.reading() as connection:
        rows, held, labels = stored.all_rows(connection, review.id)
        differing = {key: own for key, own in _by_answer(review.rubrics, labels).items() if _differ(own)}
        contents = stored.contents(connection, review.id, [item for item, _ in differing])
    items, flags = {row.item: row for row in rows}, flags_of(held)
    shown = [
        _disagreement(review, items[item], metric, contents[item], rows, flags)
        for (item, metric), rows in differing.items()
    ]
    return sorted(shown, key=lambda one: (one.is_resolved, not one.is_tied, one.item, one.metric))


@requires("edit")
def resolve(space: Workspace, name: str, item: int, metric: str, value: object, reason: str) -> None:
    """Decide what is true of an answer on a metric. It replaces the labels there; people's agreement stays."""
    review = stored_review(space, name)
    own = next((one for one in review.metrics if one.name == metric), None)
    if own is None:
        raise not_found("metric", metric, list(review.rubrics))
    reason = storable(reason.strip())
    if len(reason) > LONGEST_REASON:
        raise UserError(Problem(f"the reason is longer than {LONGEST_REASON:,} characters", "reason", "shorten it"))
    try:
        read = read_label(own.scale, value)[1]
    except ValueError as error:
        raise UserError(Problem(f"{metric}: {error}", "value", "choose a value of the scale")) from None
    me = space.identify().name
    with space.changing("resolve", "review", review.name, [metric]) as connection:
        answer = stored.reviewed_answer(connection, review.id, item)
        if answer is None or metric not in stored.contents(connection, review.id, [item])[item].metrics:
            raise not_found("answer", str(item), [])
        seen = stored.has_viewed(connection, review.run_ids, me)
        row = label_row(review, answer, me, metric, read, seen_before=seen, rubric=own.rubric)
        stored.replace_labels(connection, review.id, item, [{**row, "comment": reason}], kind="resolution")


@requires("edit")
def review_labels(space: Workspace, name: str) -> Iterator[dict[str, object]]:
    """The labels and resolutions as rows of a labels file, and a row for each value that is missing.

    The answers that were served are a random sample, wherever labelling stopped: the weight of an answer of a stratum
    is the stratum's size by the number served of it, and a group of which answers are still to be labelled is left out.
    """
    review = stored_review(space, name)
    with space.database.reading() as connection:
        items, held, labels = stored.all_rows(connection, review.id)
        contents = stored.contents(connection, review.id, sorted({row.item for row in held}))
    return _rows(review, items, held, labels, {item: content.metrics for item, content in contents.items()})


@requires("edit")
def labels_csv(space: Workspace, name: str) -> str:
    """The rows of `review_labels` as CSV, with a byte order mark, so that spreadsheets read it as UTF-8."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(LABEL_COLUMNS))
    writer.writeheader()
    for row in review_labels(space, name):
        writer.writerow({key: safe_text(value) if isinstance(value, str) else value for key, value in row.items()})
    return "\ufeff" + text.getvalue()


def _person(name: str, rows: Sequence[Assignment], invited: Sequence[str]) -> PersonProgress:
    states = Counter(row.state for row in rows)
    seconds = [row.seconds for row in rows if row.state == "submitted"]
    flagged, middle = sum(row.is_flagged for row in rows), median(seconds) if seconds else None
    return PersonProgress(name, states["submitted"], states["declined"], flagged, middle, name in invited)


def _agreement(metric: LabelledMetric, labels: Sequence[GivenLabel]) -> HumanAgreement:
    scale = metric.scale
    rows = [row for row in labels if row.metric == metric.name and row.rubric == metric.rubric]
    given = [row for row in rows if row.is_given and row.value is not None]
    people = {name: i for i, name in enumerate(sorted({row.by for row in given}))}
    items = {item: i for i, item in enumerate(sorted({row.item for row in given}))}
    table = np.full((max(1, len(people)), len(items)), np.nan)
    values: dict[int, list[Any]] = defaultdict(list)
    for row in given:
        table[people[row.by], items[row.item]] = read_label(scale, row.value)[0]
        values[row.item].append(row.value)
    pairs = [own[:2] for own in values.values() if len(own) > 1]
    kappa = None
    if scale.type in ("boolean", "label", "likert"):
        sides = [[str(one[side]) for one in pairs] for side in (0, 1)]
        if not isinstance(scale, LabelScale) and scale.type == "likert":
            numbers = [[float(one[side]) for one in pairs] for side in (0, 1)]
            kappa = cohen_kappa(numbers[0], numbers[1], "quadratic")
        else:
            names = sorted({*sides[0], *sides[1]})
            coded = [[names.index(one) for one in side] for side in sides]
            kappa = cohen_kappa(coded[0], coded[1])
    return HumanAgreement(metric.name, len(pairs), krippendorff_alpha(table, "interval"), kappa)


def current_labels(rubrics: Mapping[str, int], labels: Sequence[GivenLabel]) -> list[GivenLabel]:
    """The labels by the newest guidelines; `rubrics` has their versions, by metric."""
    return [row for row in labels if row.rubric == rubrics[row.metric]]


def _by_answer(rubrics: Mapping[str, int], labels: Sequence[GivenLabel]) -> dict[tuple[int, str], list[GivenLabel]]:
    """The labels by the newest guidelines, by answer and metric."""
    grouped: dict[tuple[int, str], list[GivenLabel]] = defaultdict(list)
    for row in current_labels(rubrics, labels):
        grouped[row.item, row.metric].append(row)
    return grouped


def ties_of(rubrics: Mapping[str, int], labels: Sequence[GivenLabel]) -> list[tuple[int, str]]:
    """The answers and metrics on which people are tied."""
    return [key for key, own in _by_answer(rubrics, labels).items() if _is_tied(own)]


def _is_tied(labels: Sequence[GivenLabel]) -> bool:
    """Whether no value has more labels than another, and nobody has decided."""
    counts = Counter(_given_value(row) for row in labels if row.is_given and row.value is not None)
    most = sorted(counts.values(), reverse=True)
    return len(most) > 1 and most[0] == most[1] and all(row.kind != "resolution" for row in labels)


def _given_value(row: GivenLabel) -> object:
    value = row.value
    return float(value) if isinstance(value, bool | int | float) else value


def _differ(labels: Sequence[GivenLabel]) -> bool:
    return len({_given_value(row) for row in labels if row.is_given}) > 1


def flags_of(held: Sequence[Assignment]) -> dict[tuple[int, str], bool]:
    """Whether a person flagged an item."""
    return {(row.item, row.by): row.is_flagged for row in held}


def shown_label(row: GivenLabel, flags: Mapping[tuple[int, str], bool]) -> ShownLabel:
    """A label without its author; `flags` as of `flags_of`."""
    return ShownLabel(row.value, row.comment or "", flags.get((row.item, row.by), False))


def _disagreement(
    review: StoredReview,
    item: ReviewedAnswer,
    metric: str,
    content: FrozenAnswer,
    rows: Sequence[GivenLabel],
    flags: Mapping[tuple[int, str], bool],
) -> Disagreement:
    labels = [shown_label(row, flags) for row in rows if row.is_given]
    random.Random(f"{review.id} {item.item} {metric}").shuffle(labels)  # noqa: S311 - hides who was first
    decided = next((row for row in rows if row.kind == "resolution"), None)
    value, reason = (decided.value, decided.comment or "") if decided else (None, "")
    state = _is_tied(rows), decided is not None
    return Disagreement(item.item, item.position, metric, content, labels, *state, value, reason)


def item_key(row: ReviewedAnswer) -> tuple[str, str, str, int]:
    """Which answer of the run an item is: dataset, case, target and repeat."""
    return row.dataset, row.case_id, row.target, row.target_repeat


def _rows(
    review: StoredReview,
    items: Sequence[ReviewedAnswer],
    held: Sequence[Assignment],
    labels: Sequence[GivenLabel],
    metrics: Mapping[int, Sequence[str]],
) -> Iterator[dict[str, object]]:
    draw = review.draw
    of_item: dict[int, list[GivenLabel]] = defaultdict(list)
    for row in labels:
        of_item[row.item].append(row)
    newest = review.rubrics
    served = _served(review, items, held, of_item)
    counts = Counter(row.stratum for row in served)
    finished = len({(row.dataset, row.group) for row in served})
    outdated = [row for row in items if row.item in of_item and row not in served and draw.method != "groups"]
    known: set[str] = set()  # metrics of which a row names the newest guidelines, so that older labels do not count
    for item in [*served, *outdated]:
        stratum = item.stratum
        of, among = (
            (finished, draw.groups[1])
            if draw.method == "groups"
            else (
                counts[stratum] or 1,
                draw.strata[stratum][1],
            )
        )
        about = {
            **{name: getattr(item, name) for name in (*CELL, "answer_hash")},
            "weight": among / of if draw.method == "strata" else 1.0,
            "group": item.group if draw.method == "groups" else None,
            "review": review.name,
            "position": item.item,
            "draw": draw.method,
            "seed": draw.seed,
            "population": draw.population,
            "pi": min(1.0, of / among),
        }
        own = of_item[item.item]
        for row in own:
            names = ("metric", "value", "by", "comment", "at", "seconds", "kind", "blind", "seen_before", "rubric")
            yield {**about, **{name: getattr(row, name) for name in names}, "missing": row.missing}
        labelled = {row.metric for row in own if row.rubric == newest[row.metric]}
        known |= labelled
        for metric in metrics.get(item.item, ()):
            if metric not in labelled and (item in served or metric not in known):
                known.add(metric)
                nothing = dict.fromkeys(("value", "by", "comment", "at", "seconds"))
                yield {
                    **about,
                    **nothing,
                    "metric": metric,
                    "kind": "label",
                    "blind": True,
                    "seen_before": False,
                    "rubric": newest[metric],
                    "missing": "unfinished",
                }


def _served(
    review: StoredReview,
    items: Sequence[ReviewedAnswer],
    held: Sequence[Assignment],
    of_item: Mapping[int, Sequence[GivenLabel]],
) -> list[ReviewedAnswer]:
    """The answers served under the newest guidelines; those of a group only if all of its answers are settled."""
    newest = review.rubrics
    states: dict[int, list[str]] = defaultdict(list)
    for row in held:
        states[row.item].append(row.state)
    opened = {row.item for row in held if row.state == "open" and row.expires_at}  # also what was again
    known = [
        row
        for row in items
        if row.item in states
        and (
            row.item in opened
            or not (own := of_item.get(row.item, ()))
            or any(one.rubric == newest[one.metric] for one in own)
        )
    ]
    if review.draw.method != "groups":
        return known
    people = len(review.people)
    settled = {row.item for row in known if _is_settled(states[row.item], people)}
    open_groups = {(row.dataset, row.group) for row in items if row.item not in settled}
    return [row for row in known if (row.dataset, row.group) not in open_groups]


def _is_settled(states: Sequence[str], people: int) -> bool:
    return "submitted" in states or states.count("declined") >= people


@requires("edit")
def close_review(space: Workspace, name: str, expected: int, *, allow_ties: bool = False) -> Review:
    """End the labelling: nothing more is served, and what people have begun they may submit while it is reserved.

    TakenError while ties are to be decided, unless `allow_ties`: each then counts as the mean of its labels.
    """
    review = stored_review(space, name)
    if not allow_ties and (ties := ties_of(review.rubrics, space.read(stored.label_rows, review.id))):
        what = f"{counted(len(ties), 'tie')} between people {'is' if len(ties) == 1 else 'are'} to be decided first"
        hint = (
            f"decide them on /reviews/{quote(name, safe='')}#disagreements, or close it with allow_ties: a tie then "
            "counts as the mean of its labels"
        )
        raise TakenError(Problem(what, "state", hint))
    return change_review(space, name, expected, {"state": "closed"})
