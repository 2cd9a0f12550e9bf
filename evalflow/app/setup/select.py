"""The cases of a run: all of its data, or what `limit` and `sample` leave of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from evalflow import datasets
from evalflow.config.schema import RunConfig
from evalflow.records import Case
from evalflow.run.selection import Draw


def offered(run: RunConfig) -> Iterator[Case]:
    """The cases of all datasets, streamed; of each the first `limit`, where there is a limit."""
    for name, config in run.dataset.items():
        yield from islice(datasets.read(name, config), run.limit)


def select(run: RunConfig) -> Iterator[Case]:
    """The cases that the run is about, in input order. With `sample` the data are read twice."""
    draw = Draw(run.sample, run.seed)
    if run.sample is not None:
        for case in offered(run):
            draw.offer(case)
    yield from draw.pick(offered(run))
