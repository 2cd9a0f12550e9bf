"""The cases of a run: all of its data, or what `limit` and `sample` leave of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from evalflow import datasets
from evalflow.config.schema import RunConfig
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.records import Case
from evalflow.run.selection import Draw


def offered(run: RunConfig) -> Iterator[Case]:
    """The cases of all datasets, streamed; of each those with one of its `tags`, and of these the first `limit`.

    Raises:
        UserError: The data are wrong, or no case has one of the tags.
    """
    for name, config in run.dataset.items():
        cases = datasets.read(name, config)
        yield from islice(_tagged(name, config.tags, cases) if config.tags else cases, run.limit)


def _tagged(dataset: str, tags: Sequence[str], cases: Iterable[Case]) -> Iterator[Case]:
    wanted = {datasets.tag_name(tag) for tag in tags}
    known: set[str] = set()
    for case in cases:
        own = {level for tag in case.tags for level in datasets.tag_levels(tag)}
        known |= own
        if wanted & own:
            yield case
    absent = sorted(wanted - known)
    if absent:
        where = f"dataset.{dataset}.tags"
        raise UserError(
            [Problem(f"no case of {dataset} has the tag {tag!r}", where, did_you_mean(tag, known)) for tag in absent]
        )


def select(run: RunConfig) -> Iterator[Case]:
    """The cases that the run is about, in input order. With `sample` the data are read twice."""
    draw = Draw(run.sample, run.seed)
    if run.sample is not None:
        for case in offered(run):
            draw.offer(case)
    yield from draw.pick(offered(run))
