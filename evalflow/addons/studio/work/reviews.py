"""Reviews: answers of a run, drawn at random, that people label without seeing the judge's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store.rows import from_row, storable
from evalflow.addons.studio.store.scores import CELL
from evalflow.addons.studio.work.access import may, requires
from evalflow.addons.studio.work.projects import Person, people_who_may
from evalflow.addons.studio.work.review_rows import (
    REVIEWS,
    LabelledMetric,
    ReviewDraw,
    Shown,
    StoredReview,
    metrics_column,
    stored_review,
)
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.reviewing import (
    Method,
    StratifiedBy,
    answers_to_label,
    compared_with,
    doubled,
    draw_pairs,
    draw_review,
    labellable_scores,
)
from evalflow.app.core.saved import SavedRun, open_scored
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, check_all, did_you_mean
from evalflow.metrics.scale import PREFERENCE, LabelScale, LikertScale, label_bounds, label_scale, scale_text
from evalflow.stats.prediction import Spread

MOST_ITEMS = 10_000
LONGEST_NAME, LONGEST_GUIDELINES = 100, 20_000
DEFAULT_OVERLAP = 0.2
PREFERRED = LabelledMetric(
    "preference", "Which answer is better", PREFERENCE, "The better answer helps the person who asked more."
)
"""What people say of the answers of two runs."""


@dataclass(frozen=True, slots=True)
class ReviewScale:
    """The grades that people may give.

    Attributes:
        kind: What the control is.
        min, max: The bounds of a number or a grade; None: none.
        labels: The words of a label.
        anchors: What single grades mean.
        text: The allowed values in words.
    """

    kind: Literal["boolean", "likert", "percentage", "label", "number"]
    min: float | None
    max: float | None
    labels: Sequence[str]
    anchors: Mapping[int, str]
    text: str


@dataclass(frozen=True, slots=True)
class ReviewMetric:
    """A metric on which people label, with its title in the run.

    `rubric` counts the versions of its guidelines; `older` has the texts of those before, the first one first, for
    editors only.
    """

    name: str
    scale: ReviewScale
    description: str
    rubric: int
    guidelines: str
    older: Sequence[str] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """A review.

    Attributes:
        run_id, run_title: The run whose answers are labelled; it may be deleted.
        people: User names of those who label.
        by: What strata are made by; None without strata.
        size, population: The number of drawn answers, and of those that they were drawn from.
        against: The run whose answers these are compared with; empty if people judge one answer. `same` more pairs have
            the same answer.
        overlap: The requested share of answers for two people; `doubled` is their number.
        items, items_done: The number of answers, and of those that as many people have labelled as are wanted.
    """

    id: int
    name: str
    run_id: str
    run_title: str
    state: Literal["open", "closed"]
    metrics: Sequence[ReviewMetric]
    people: Sequence[str]
    method: Method
    by: StratifiedBy | None
    size: int
    population: int
    seed: int
    overlap: float
    doubled: int
    against: str
    same: int
    shown: Shown
    created_by: str
    created_at: str
    version: int
    items: int
    items_done: int


@dataclass(frozen=True, slots=True)
class ReviewEntry:
    """A review in the list. `is_mine`: the person who asks is among its people; `review` is None for annotators."""

    name: str
    state: Literal["open", "closed"]
    is_mine: bool
    review: Review | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """A review to create.

    Attributes:
        size: How many answers to draw; about as many if whole groups are drawn.
        guidelines: By metric; by default its description and the anchors of its scale.
        by: What to make strata by; score if None.
        seed: None: drawn.
        against: The run whose answers these are compared with: people say which of two answers is better. Such a review
            has no metrics of the run, and draws at random.
    """

    name: str
    run_id: str
    metrics: Sequence[str]
    size: int
    people: Sequence[str]
    overlap: float = DEFAULT_OVERLAP
    method: Method = "random"
    by: StratifiedBy | None = None
    seed: int | None = None
    guidelines: Mapping[str, str] | None = None
    shown: Shown = field(default_factory=Shown)
    against: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What can be reviewed of a run: its metrics with guidelines to begin with, answers, groups, tags, and people.

    `judged` are the metrics that a judge scores, `compared` those that compare two answers, which have reviews of
    their own.
    """

    metrics: Sequence[ReviewMetric]
    judged: Sequence[str]
    compared: Sequence[str]
    answers: int
    groups: int
    tags: Sequence[str]
    people: Sequence[Person]


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """Half the width of the 95 % interval of the mean label to be expected, from 0 to 1, and what that assumes."""

    half_width: float
    labels: int
    basis: str


@requires("edit")
def candidates(space: Workspace, run_id: str, metrics: Sequence[str] = ()) -> Candidates:
    """What can be reviewed of a run; answers, groups and tags on these metrics (none: those that a judge scores)."""
    run = scored_run(space, run_id)
    judged = [name for name, metric in run.rules.metrics.items() if metric.judge]
    _expect_metrics(run, metrics)
    answers = answers_to_label(labellable_scores(run, metrics or judged or list(run.rules.metrics)))
    return Candidates(
        [as_metric(metric, _guidelines(metric)) for metric in _metrics(run, list(run.rules.metrics))],
        judged,
        [name for name in run.rules.metrics if compared_with(run, [name])],
        len(answers),
        len({(one.key[0], one.group) for one in answers}),
        sorted({tag for one in answers for tag in one.tags}),
        labellers(space),
    )


@requires("edit")
def expected_interval(
    space: Workspace, run_id: str, metric: str, size: int, overlap: float = DEFAULT_OVERLAP
) -> IntervalEstimate:
    """The interval to be expected from labelling so many answers, and how many labels that takes."""
    run = scored_run(space, run_id)
    _expect_metrics(run, [metric])
    answers = answers_to_label(labellable_scores(run, [metric]))
    scores = [one.score for one in answers if one.score is not None]
    mean = sum(scores) / len(scores) if scores else 0.5
    variance = sum((score - mean) ** 2 for score in scores) / (len(scores) - 1) if len(scores) > 1 else 0.0
    size = max(2, min(size, len(answers)))
    basis = "if people's grades vary as much as the judge's; less where the judge agrees with them"
    if variance == 0:
        variance, basis = 0.25, "if half of the answers pass, since the judge's scores do not vary"
    half_width = float(Spread(variance, 0.0, 0.0).width(size)) / 2
    return IntervalEstimate(half_width, size + doubled(size, overlap), basis)


@requires("edit")
def create_review(space: Workspace, request: ReviewRequest) -> Review:
    """Draw answers of a run, and freeze what people read of each."""
    run, row = scored_run(space, request.run_id), run_row(space, request.run_id)
    other = scored_run(space, request.against) if request.against else None
    check_all(
        lambda: _check(request),
        lambda: _expect_metrics(run, request.metrics),
        lambda: _expect_people(space, request.people),
    )
    people = _expect_people(space, request.people)
    given = request.guidelines or {}
    metrics = [PREFERRED] if other else _metrics(run, request.metrics)
    overlap = request.overlap if len(people) > 1 else 0.0
    if other is not None:
        sample = draw_pairs(run, other, PREFERRED.name, request.size, seed=request.seed, overlap=overlap)
    else:
        sample = draw_review(
            run, request.metrics, request.size, method=request.method, by=request.by, seed=request.seed, overlap=overlap
        )
    by = (request.by or "score") if request.method == "strata" else None
    draw = ReviewDraw(
        request.method,
        by,
        sample.population,
        sample.seed,
        overlap,
        sample.strata,
        sample.groups,
        row.title,
        size=len(sample.items),
        doubled=sum(item.wanted == 2 for item in sample.items),
        against=request.against,
        same=sample.same,
    )
    values: dict[str, Any] = {
        "name": request.name.strip(),
        "run": row.id,
        "run_id": request.run_id,
        "state": "open",
        "metrics": metrics_column(metrics),
        "draw": asdict(draw),
        "people": people,
        "shown": asdict(replace(request.shown, contexts=request.shown.contexts and other is None)),
        "created_by": space.identify().name,
        "guidelines": {metric.name: guideline_text(given.get(metric.name, _guidelines(metric))) for metric in metrics},
    }
    with space.changing("create", "review", values["name"]) as connection:
        review = REVIEWS.add(connection, space.project_id, values)
        positions = stored.answer_positions(connection, row.id)
        own = ("group", "stratum", "pi", "wanted")
        items = [
            dict(zip(CELL, one.key, strict=True))
            | {"position": positions.get(one.key), "answer_hash": one.digest, "content": asdict(one.content)}
            | {name: getattr(one, name) for name in own}
            for one in sample.items
        ]
        stored.add_items(connection, review, items)
    return get_review(space, values["name"])


@requires("label")
def list_reviews(space: Workspace) -> list[ReviewEntry]:
    """The reviews, the newest first: all for editors, and for others those that name them."""
    me, sees_all = space.identify().name, may(space, "edit")
    reviews = [own for own in REVIEWS.own(space) if sees_all or me in own.people]
    reviews.sort(key=lambda own: -own.id)
    whole = {review.name: review for review in _as_reviews(space, reviews)} if sees_all else {}
    return [ReviewEntry(own.name, own.state, me in own.people, whole.get(own.name)) for own in reviews]


@requires("edit")
def get_review(space: Workspace, name: str) -> Review:
    """One review."""
    return _as_reviews(space, [stored_review(space, name)])[0]


@requires("edit")
def reopen_review(space: Workspace, name: str, expected: int) -> Review:
    """Let people continue with a closed review."""
    return change_review(space, name, expected, {"state": "open"})


@requires("edit")
def change_people(space: Workspace, name: str, expected: int, people: Sequence[str]) -> Review:
    """Change who labels. The labels of those who leave stay; what they had begun goes to others at once."""
    review = stored_review(space, name)
    chosen = _expect_people(space, people, review.people)
    changed = change_review(space, name, expected, {"people": chosen})
    with space.database.writing() as connection:
        for held in stored.review_assignments(connection, review.id):
            if held.by not in chosen and held.state == "open":
                stored.change_assignment(connection, review.id, held.item, held.by, {"expires_at": 0.0})
    return changed


@requires("edit")
def delete_review(space: Workspace, name: str, expected: int) -> None:
    """Delete a review with its labels."""
    REVIEWS.delete(space, REVIEWS.get(space, name), expected)


@requires("edit")
def labellers(space: Workspace) -> list[Person]:
    """Who may label in the project, by name."""
    return people_who_may(space, "label")


@requires("edit")
def scored_run(space: Workspace, run_id: str) -> SavedRun:
    """A run that has scores, opened from its folder."""
    folder = run_row(space, run_id).path
    try:
        return open_scored(RunFolder(folder), run_id)
    except OSError as error:
        hint = "put the run's folder back, or review another run"
        raise UserError(Problem(f"{folder}: {error.strerror}", "run", hint)) from None


def as_metric(metric: LabelledMetric, guidelines: str) -> ReviewMetric:
    """A metric of a review as people see it."""
    scale = metric.scale
    low, high = label_bounds(scale)
    anchors = scale.anchors or {} if isinstance(scale, LikertScale) else {}
    labels = list(scale.values) if isinstance(scale, LabelScale) else []
    own = ReviewScale(
        "number" if scale.type == "fraction" else scale.type, low, high, labels, anchors, scale_text(scale)
    )
    return ReviewMetric(metric.name, own, metric.description, metric.rubric, guidelines, title=metric.title)


def _as_reviews(space: Workspace, reviews: Sequence[StoredReview]) -> list[Review]:
    counted = space.read(stored.counts, [review.id for review in reviews])
    return [_as_review(review, *counted.get(review.id, (0, 0))) for review in reviews]


def _as_review(review: StoredReview, done: int, items: int) -> Review:
    texts = review.guidelines
    metrics = [replace(as_metric(metric, texts[metric.name]), older=metric.older) for metric in review.metrics]
    fields = {**vars(review.draw), **vars(review)}
    return from_row(Review, fields, items=items, items_done=done, metrics=metrics, run_title=review.draw.title)


@requires("edit")
def change_review(space: Workspace, name: str, expected: int, values: Mapping[str, object]) -> Review:
    """Change a review that still has the expected version."""
    REVIEWS.change(space, REVIEWS.get(space, name), expected, values)
    return get_review(space, name)


def _metrics(run: SavedRun, names: Sequence[str]) -> list[LabelledMetric]:
    known, titles = run.rules.metrics, run.manifest.titles
    return [
        LabelledMetric(
            name,
            titles.get(name, name),
            label_scale(known[name].config, bounded=known[name].bounded),
            known[name].config.description or "",
        )
        for name in names
    ]


def _guidelines(metric: LabelledMetric) -> str:
    """The initial guidelines of a metric: its description, and the anchors of its scale."""
    scale = metric.scale
    anchors = sorted((scale.anchors or {}).items()) if isinstance(scale, LikertScale) else []
    return "\n".join([metric.description, *(f"{grade}: {text}" for grade, text in anchors)]).strip()


def _expect_metrics(run: SavedRun, metrics: Sequence[str]) -> None:
    for name in metrics:
        if name not in run.rules.metrics:
            raise UserError(
                Problem(f"the run has no metric {name!r}", "metrics", did_you_mean(name, run.rules.metrics))
            )


def _expect_people(space: Workspace, names: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """The names, each once. Those of `before` may stay, also if they may not label any more."""
    known = [*(one.name for one in labellers(space)), *before]
    people = list(dict.fromkeys(names))
    if not people:
        raise UserError(Problem("nobody is to label", "people", "choose one person or more"))
    for name in people:
        if name not in known:
            hint = did_you_mean(name, known) or "ask an admin of the project to make them an annotator"
            raise UserError(Problem(f"{name!r} may not label in this project", "people", hint))
    return people


def _check(request: ReviewRequest) -> None:
    problems: list[Problem] = []
    name = request.name.strip()
    if not name or len(name) > LONGEST_NAME or storable(name) != name or "/" in name or "\n" in name:
        problems.append(Problem(f"a review's name has 1 to {LONGEST_NAME} characters, and no /", "name"))
    if request.against:
        problems += _problems_of_pairs(request)
    elif not request.metrics:
        problems.append(Problem("no metric is chosen", "metrics", "choose what people are to judge"))
    if not 1 <= request.size <= MOST_ITEMS or request.size % 1:
        problems.append(Problem(f"{request.size:g} answers cannot be drawn", "size", f"draw 1 to {MOST_ITEMS:,}"))
    if not 0 <= request.overlap <= 1:
        what = f"from 0 to 100 % of the answers can have two people, not {100 * request.overlap:g} %"
        problems.append(Problem(what, "overlap"))
    if request.method == "strata" and request.by != "tag" and len(request.metrics) > 1:
        hint = "choose one metric, or make the strata by tag"
        problems.append(Problem("strata by score are of one metric", "by", hint))
    for metric in request.guidelines or {}:
        if metric not in (request.metrics or [PREFERRED.name]):
            problems.append(Problem(f"the review has no metric {metric!r}", "guidelines"))
    if problems:
        raise UserError(problems)


def _problems_of_pairs(request: ReviewRequest) -> Iterator[Problem]:
    if request.against == request.run_id:
        yield Problem("this is one run, not two", "against", "choose another run")
    if request.metrics:
        what = "in a review of two runs people say which answer is better, and judge no metric"
        yield Problem(what, "metrics", "leave the metrics out")
    if request.method != "random":
        yield Problem("pairs of answers are drawn at random", "method", "leave it out")


def guideline_text(text: str) -> str:
    """Guidelines as they are stored; UserError if they are too long."""
    if len(text) > LONGEST_GUIDELINES:
        raise UserError(Problem(f"guidelines have at most {LONGEST_GUIDELINES:,} characters", "guidelines"))
    return storable(text.strip())
