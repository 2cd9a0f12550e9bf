"""Whether labelled answers can have been drawn at random: by the judge's scores of them, and by their tags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalflow.stats.multiple import adjust
from evalflow.stats.selection import LEVEL, Selection, selection
from evalflow.summary.pairing import tags_of

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class TagShare:
    """A tag of which another share of the answers is labelled than of the rest.

    Attributes:
        tag: Which.
        labelled, elsewhere: The share with the tag, and without it.
        p_value: Of the difference, adjusted for the number of tags.
    """

    tag: str
    labelled: float
    elsewhere: float
    p_value: float


def selection_of(labelled: pl.DataFrame, rest: pl.DataFrame) -> Selection:
    """Hold labelled answers against the rest: by pass and fail where there is a threshold, else by their scores.

    Args:
        labelled: Rows of `labelled_scores` with a label.
        rest: Those without.
    """
    column = "score" if labelled["passed"].null_count() or rest["passed"].null_count() else "passed"
    return selection(*(side[name].to_numpy() for name in (column, "cluster") for side in (labelled, rest)))


def uneven_tags(answers: pl.DataFrame) -> list[TagShare]:
    """Tags whose answers are labelled far more, or less, often than the others (Holm over tags, 1 %).

    Args:
        answers: Rows of `labelled_scores`.
    """
    import polars as pl

    known = answers.with_columns(labelled=pl.col("human").is_not_null().cast(pl.Float64))
    found: list[TagShare] = []
    for tag, own in tags_of(answers).items():
        inside = pl.col("tags").list.eval(pl.element().is_in(own)).list.any().fill_null(value=False)
        sides = [known.filter(side) for side in (inside, ~inside)]
        test = selection(*(side[name].to_numpy() for name in ("labelled", "cluster") for side in sides))
        if test.p_value is not None and test.labelled is not None and test.rest is not None:
            found.append(TagShare(tag, test.labelled, test.rest, test.p_value))
    if not found:
        return []
    p = adjust([one.p_value for one in found], "holm")
    adjusted = [replace(one, p_value=float(value)) for one, value in zip(found, p, strict=True)]
    return [one for one in adjusted if one.p_value < LEVEL]
