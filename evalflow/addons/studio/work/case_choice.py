"""The selection of a run's cases, and the number of cases left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evalflow import datasets as readers
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.cases import case_rows
from evalflow.addons.studio.work.datasets import Dataset, list_datasets
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.cases import has_tags
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.values.jsonvalues import is_sequence

KEYS = ("tags", "every_tag", "ids")
"""The keys of a dataset that choose its cases."""
_FILE = "left_out.json"


@dataclass(frozen=True, slots=True)
class LeftOutCases:
    """How many cases of a dataset a run leaves out.

    Attributes:
        drafts: Drafts that the run would take if they were active.
        unselected: Active cases that are not selected, or beyond the limit or the sample.
    """

    drafts: int
    unselected: int


_LEFT_OUT = TypeAdapter(dict[str, LeftOutCases])


def wrong_choices(request: RunRequest) -> Iterator[Problem]:
    """Yield the problems with names and keys of a request's `dataset_values`; types are checked with the run."""
    for name, values in request.dataset_values.items():
        where = f"dataset_values.{name}"
        if name not in request.datasets:
            yield Problem(f"the run has no dataset {name!r}", where, did_you_mean(name, request.datasets))
        for key in set(values) - set(KEYS):
            yield Problem(f"cases are not chosen by {key!r}", f"{where}.{key}", f"choose them by {', '.join(KEYS)}")


@requires("read")
def chosen_values(space: Workspace, request: RunRequest) -> dict[str, Mapping[str, Any]]:
    """The request's `dataset_values` without the ids of drafts, which runs leave out."""
    own, given = _own(space, request), _given(request)
    return {name: _without_drafts(space, own[name], one) if name in own else one for name, one in given.items()}


def _given(request: RunRequest) -> dict[str, dict[str, object]]:
    """The keys that are set; an empty list counts as unset, like null."""
    by_dataset: dict[str, dict[str, object]] = {}
    for name, values in request.dataset_values.items():
        by_dataset[name] = {key: value for key, value in values.items() if value not in (None, [], ())}
    return {name: values for name, values in by_dataset.items() if values}


def _without_drafts(space: Workspace, dataset: Dataset, values: Mapping[str, Any]) -> Mapping[str, Any]:
    if not (dataset.drafts and _texts(values.get("ids"))):
        return values
    drafts = {body["id"] for body in case_rows(space, dataset.name, draft=True)}
    active = [key for key in values["ids"] if key not in drafts]
    if not active:
        what = f"all {len(values['ids']):,} chosen cases of {dataset.name} are drafts"
        where = f"dataset.{dataset.name}.ids"
        raise UserError(Problem(what, where, "activate them, or choose others", where))
    return {**values, "ids": active}


@requires("read")
def count_left_out(
    space: Workspace, request: RunRequest, known: Mapping[str, int], taken: Mapping[str, int]
) -> dict[str, LeftOutCases]:
    """Count what a run leaves out, by dataset. `known`: the cases of each; `taken`: the cases that the run takes."""
    own, chosen = _own(space, request), _given(request)
    return {
        name: LeftOutCases(_drafts(space, own[name], chosen.get(name, {})) if name in own else 0, total - taken[name])
        for name, total in known.items()
    }


def _drafts(space: Workspace, dataset: Dataset, chosen: Mapping[str, Any]) -> int:
    """Count a dataset's drafts with the chosen tags and ids."""
    if not (dataset.drafts and chosen):
        return dataset.drafts
    ids, tags = set(chosen.get("ids", ())), {readers.tag_name(tag) for tag in chosen.get("tags", ())}
    every = bool(chosen.get("every_tag"))
    return sum(
        (not ids or body["id"] in ids) and (not tags or has_tags(body.get("tags") or (), tags, every=every))
        for body in case_rows(space, dataset.name, draft=True)
    )


def _own(space: Workspace, request: RunRequest) -> dict[str, Dataset]:
    """The request's datasets in the database; only these can have drafts."""
    datasets = {one.name: one for one in list_datasets(space) if one.origin == "workspace"}
    return {name: datasets[name] for name in request.datasets if name in datasets}


def _texts(value: object) -> bool:
    return is_sequence(value) and all(isinstance(one, str) for one in value)


def keep_left_out(snapshot: Path, left_out: Mapping[str, LeftOutCases]) -> None:
    """Save a run's counts in its snapshot."""
    (snapshot / _FILE).write_bytes(_LEFT_OUT.dump_json(dict(left_out), indent=1))


def read_left_out(snapshot: Path) -> dict[str, LeftOutCases]:
    """Read a run's counts; empty if there are none, as for runs of the command line."""
    try:
        return _LEFT_OUT.validate_json((snapshot / _FILE).read_bytes())
    except (OSError, ValidationError):
        return {}
