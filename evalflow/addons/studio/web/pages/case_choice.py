"""The choice of a run's cases: a part of the form of a new run, and its description in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.runs import own_first, run_option
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import message, text
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work.case_choice import LeftOutCases
from evalflow.addons.studio.work.cases import dataset_tags
from evalflow.addons.studio.work.comparing import scored_runs
from evalflow.addons.studio.work.datasets import sample_datasets
from evalflow.addons.studio.work.reruns import KnownCases, known_cases
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.scores import failed_cases
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import counted, joined

_KINDS = {
    "all": "All active cases",
    "tags": "Cases with some tags",
    "ids": "Cases that were ticked",
    "failed": "Cases that failed in a run",
}
_KIND = forms.About("Cases", "Drafts are left out.", required=True)
_TAGS = forms.About("Tags", "With the number of cases; a tag includes its sub-tags.", "Choose", required=True)
_NEED = forms.About("A case needs", "Whether one of the tags is enough.", required=True)
_NEEDS = {"any": "any of these tags", "all": "all of these tags"}
_RUN = forms.About("Run", "Its cases with a failed score or an error.", required=True)
_SAMPLE = forms.About("Random sample", "So many cases of each dataset.", "all")
_SEED = forms.About("Seed of the sample", "The same seed draws the same cases again.", "0")
_SHOWN = 5
_NOTHING = "Tick cases on the page of their dataset or in the results of a run, then press “Run these”."


@dataclass(frozen=True, slots=True)
class Arrived:
    """The cases named in the page's address and, if they failed in a run, that run."""

    known: KnownCases
    failed_in: str = ""


class CaseChoiceFields:
    """The fields.

    `choose_datasets` is called with the datasets of a selection when these become the chosen cases.
    """

    def __init__(
        self,
        workspace: Workspace,
        request: RunRequest,
        arrived: Arrived | None,
        choose_datasets: Callable[[Sequence[str]], object],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._workspace, self._changed, self._choose_datasets = workspace, changed, choose_datasets
        given = request.dataset_values
        self._selected = {name: one for name, one in given.items() if one.get("ids")}
        self._failed = self._selected if arrived and arrived.failed_in else dict[str, Mapping[str, Any]]()
        self._gone = arrived.known.gone if arrived else 0
        tags = list(dict.fromkeys(tag for one in given.values() for tag in one.get("tags") or ()))
        self.kind = "ids" if self._selected or arrived else "tags" if tags else "all"
        self.kind = "failed" if arrived and arrived.failed_in else self.kind
        self._tags_of: dict[str, Mapping[str, int]] = {}
        self._has_runs = False
        with forms.pair():
            which = forms.pick(_KIND, _KINDS, self.kind)
            sample = forms.number_field(_SAMPLE, request.options.get("sample"))
        with ui.element("div").classes("stack-wide") as self._by_tag:
            self._tags = forms.several(_TAGS, {tag: tag for tag in tags}, tags, searched=True)
            every = any(one.get("every_tag") for one in given.values())
            self._need = forms.pick(_NEED, _NEEDS, "all" if every else "any")
        with ui.element("div") as self._by_run:
            self._run = forms.pick(_RUN, {}, None)
        self._listed = ui.element("div").classes("stack").props("aria-live=polite")
        with ui.element("div") as seeded:
            self.numbers = {"sample": sample, "seed": forms.number_field(_SEED, request.options.get("seed", 0))}
        seeded.bind_visibility_from(sample, "value", lambda size: size is not None)
        self._failed_in = arrived.failed_in if arrived else ""
        which.on_value_change(lambda: self._choose(str(which.value)))
        self._tags.on_value_change(self._changed)
        self._need.on_value_change(self._changed)
        self._run.on_value_change(self._take_failed)
        self._show()

    @property
    def fields(self) -> dict[str, forms.Field]:
        """The fields by the keys that problems name."""
        by_dataset = {f"dataset.{name}.tags": self._tags for name in self._tags_of}
        return {**self.numbers, **by_dataset, "tags": self._tags, "failed_in": self._run}

    def is_complete(self) -> bool:
        """Whether cases are chosen."""
        if self.kind == "tags":
            return bool(self._tags.value)
        return self.kind == "all" or bool(self._values())

    def apply(self, request: RunRequest) -> RunRequest:
        """The request with the chosen cases; for selected cases, with only their datasets."""
        if self.kind == "tags":
            return replace(request, dataset_values={name: self._tagged(name) for name in request.datasets})
        if self.kind == "all":
            return replace(request, dataset_values={})
        values = {name: one for name, one in self._values().items() if name in request.datasets}
        return replace(request, datasets=list(values), dataset_values=values)

    async def load(self, datasets: Sequence[str]) -> None:
        """Read the possible choices: the tags of these datasets, or runs."""
        if self.kind == "tags":
            for name in datasets:
                if name not in self._tags_of:
                    self._tags_of[name] = dict(await to_thread.run_sync(dataset_tags, self._workspace, name))
            counts: dict[str, int] = {}
            for name in datasets:
                for tag, number in self._tags_of[name].items():
                    counts[tag] = counts.get(tag, 0) + number
            chosen = list(self._tags.value)
            options = {tag: f"{tag} ({counts.get(tag, 0):,})" for tag in sorted({*counts, *chosen})}
            self._tags.set_options(options, value=chosen)  # pyright: ignore[reportUnknownMemberType] - untyped in NiceGUI
        if self.kind == "failed" and not self._has_runs:
            self._has_runs = True
            scored = await to_thread.run_sync(scored_runs, self._workspace)
            samples = await to_thread.run_sync(sample_datasets, self._workspace)
            options = {run.run_id: run_option(run, samples) for run in own_first(scored, samples)}
            known = self._failed_in if self._failed_in in options else None
            self._run.set_options(options, value=known)  # pyright: ignore[reportUnknownMemberType]

    def _values(self) -> Mapping[str, Mapping[str, Any]]:
        return self._failed if self.kind == "failed" else self._selected

    def _tagged(self, dataset: str) -> Mapping[str, Any]:
        """If any tag is enough, the tags that the dataset has; if it has none, all, so that an error names them."""
        tags, every = list(self._tags.value), self._need.value == "all"
        own = [tag for tag in tags if tag in self._tags_of.get(dataset, {})]
        return {"tags": tags if every or not own else own, "every_tag": every}

    async def _choose(self, kind: str) -> None:
        self.kind = kind
        self._show()
        self._choose_datasets(list(self._values()) if kind in ("ids", "failed") else [])
        await self._changed()

    async def _take_failed(self) -> None:
        run = str(self._run.value or "")
        if not run or run == self._failed_in:
            return
        known = await forms.attempt(lambda: known_cases(self._workspace, failed_cases(self._workspace, run)))
        if known is None:
            return
        self._failed_in, self._gone = run, known.gone
        self._failed = {name: {"ids": list(ids)} for name, ids in known.ids.items()}
        self._show()
        self._choose_datasets(list(self._failed))
        await self._changed()

    def _show(self) -> None:
        self._by_tag.set_visibility(self.kind == "tags")
        self._by_run.set_visibility(self.kind == "failed")
        self._listed.clear()
        self._listed.set_visibility(self.kind in ("ids", "failed"))
        with self._listed:
            if self.kind == "ids" or (self.kind == "failed" and self._failed_in):
                self._list()

    def _list(self) -> None:
        values = self._values()
        for name, one in values.items():
            ids = list(one["ids"])
            more = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
            with ui.element("p").classes("text"):
                ui.link(f"{counted(len(ids))} of {title_of('dataset', name)}", f"/datasets/{name}")
                text(f": {', '.join(ids[:_SHOWN])}{more}", "span", "muted")
        if not values and not self._gone:
            empty = ("Nothing is selected.", _NOTHING) if self.kind == "ids" else ("No case failed in this run.", "")
            message(*empty)
        if self._gone:
            message(
                f"{counted(self._gone)} of {'the selection' if self.kind == 'ids' else 'that run'} "
                f"no longer exist{'s' if self._gone == 1 else ''}.",
                "",
                "warn",
            )


def cases_in_words(cases: Mapping[str, int], left_out: Mapping[str, LeftOutCases]) -> str:
    """How many of the cases a run takes (by dataset if there are several), and how many drafts it leaves out."""
    taken, unselected = sum(cases.values()), sum(one.unselected for one in left_out.values())
    summary = f"{taken:,} of {counted(taken + unselected)}" if unselected else counted(taken)
    if len(cases) > 1:
        of_each = [f"{title_of('dataset', name)} {number:,}" for name, number in cases.items()]
        summary += f" ({', '.join(of_each)})"
    drafts = sum(one.drafts for one in left_out.values())
    return f"{summary}; {counted(drafts, 'draft')} left out" if drafts else summary


def left_out_in_words(left_out: Mapping[str, LeftOutCases]) -> str:
    """How many cases and drafts a run left out; empty if none."""
    unselected, drafts = (sum(getattr(one, name) for one in left_out.values()) for name in ("unselected", "drafts"))
    parts = [f"{counted(unselected)} not chosen" if unselected else "", counted(drafts, "draft") if drafts else ""]
    return f"left out: {', '.join(filter(None, parts))}" if unselected or drafts else ""


def choice_in_words(request: RunRequest) -> str:
    """Which cases a run was asked to take; empty for all."""
    parts: list[str] = []
    for name, one in request.dataset_values.items():
        tags = (" and " if one.get("every_tag") else " or ").join(one.get("tags") or ())
        what = joined(f"tagged {tags}" if tags else "", f"{len(one['ids']):,} selected" if one.get("ids") else "")
        parts.append(f"{title_of('dataset', name)}: {what}" if what and len(request.datasets) > 1 else what)
    limit, sample = request.options.get("limit"), request.options.get("sample")
    each = " of each dataset" if len(request.datasets) > 1 else ""
    parts.append("" if limit is None else f"first {limit:,}{each}")
    parts.append("" if sample is None else f"random sample of {sample:,}{each}, seed {request.options.get('seed', 0)}")
    return joined(*parts)
