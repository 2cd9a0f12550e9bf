"""A review as the database has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.work.access import may, requires
from evalflow.addons.studio.work.definitions import DefinitionStore
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.app.core.reviewing import Method, StratifiedBy
from evalflow.errors import Problem
from evalflow.metrics.scale import RecordedScale

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class LabelledMetric:
    """A metric on which people label.

    `rubric` counts the versions of its guidelines; `older` has the texts of those before, the first one first.
    """

    name: str
    title: str
    scale: RecordedScale
    description: str
    rubric: int = 1
    older: Sequence[str] = ()


@dataclass(frozen=True)
class ReviewDraw:
    """How answers were drawn, and how many: `strata` and `groups` have the drawn ones and all, as `DrawnReview`.

    `against`: the id of the run whose answers these are compared with; empty if people judge one answer. `same` pairs
    have the same answer.
    """

    method: Method
    by: StratifiedBy | None
    population: int
    seed: int
    overlap: float
    strata: Mapping[str, tuple[int, int]]
    groups: tuple[int, int]
    title: str
    size: int
    doubled: int
    against: str = ""
    same: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """The content that people see besides conversation and answer."""

    contexts: bool = True
    reference: bool = True


@dataclass(frozen=True)
class StoredReview:
    """A review; `run` is the row of its run, None once that is deleted."""

    id: int
    project_id: int
    name: str
    run: int | None
    run_id: str
    state: Literal["open", "closed"]
    metrics: Sequence[LabelledMetric]
    draw: ReviewDraw
    people: Sequence[str]
    shown: Shown
    guidelines: Mapping[str, str]
    created_by: str
    created_at: str
    version: int

    @property
    def run_ids(self) -> list[str]:
        """The runs whose answers people see: two if they say which answer is better."""
        return [self.run_id, *([self.draw.against] if self.draw.against else [])]

    @property
    def rubrics(self) -> dict[str, int]:
        """The versions of the guidelines that it has now, by metric."""
        return {metric.name: metric.rubric for metric in self.metrics}


_REVIEW: TypeAdapter[StoredReview] = TypeAdapter(StoredReview)
_METRICS: TypeAdapter[Sequence[LabelledMetric]] = TypeAdapter(Sequence[LabelledMetric])


REVIEWS = DefinitionStore("review", _REVIEW.validate_python)


def metrics_column(metrics: Sequence[LabelledMetric]) -> Any:
    """The metrics of a review as its row has them."""
    return _METRICS.dump_python(metrics, mode="json")


@requires("edit")
def stored_review(space: Workspace, name: str) -> StoredReview:
    """The review of that name."""
    return REVIEWS.get(space, name)


@requires("label")
def named_review(space: Workspace, name: str, connection: Connection) -> StoredReview:
    """A review that includes the person who asks. Only people who may edit learn that other reviews exist."""
    row = definitions.named(connection, "review", name, space.project_id)
    review = None if row is None else REVIEWS.read(row)
    if review is None or space.identify().name not in review.people:
        if review is not None and may(space, "edit"):
            what = f"you are not among the people of the review {name!r}"
            raise TakenError(Problem(what, "people", "add yourself to them to label"))
        raise not_found("review", name, [])
    return review
