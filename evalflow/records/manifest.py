"""run.json: the description of a run, or of a sweep of several."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evalflow.records.deferred import DEFER_BUILD
from evalflow.records.scores import FigureSpec

SCHEMA = 5  # the version of the format of a run's files; raised when their meaning changes


Stop = Literal["decided", "race"]
"""Why a run left cases out: all its gates were decided, or the race was that it was part of."""


class _Facts(BaseModel):
    """Unknown keys are kept, and keys that a file lacks are not written."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=DEFER_BUILD)


class DatasetFacts(_Facts):
    """A dataset of a run: its files, their digest, and the number of its cases and of those with labels."""

    files: Sequence[str]
    sha256: str
    cases: int
    labelled: int


class MetricFacts(_Facts):
    """A metric of a run's scores, which may be one of several that a `declared` name binds to."""

    declared: str
    judge: str | None  # the judge column of its scores; None for a metric that needs no judge
    # Whether it calls a judge, and the embedder.
    asks: bool
    embeds: bool
    bounded: bool  # whether its scores lie in 0..1
    # The lowest and the highest grade of its own scale, if that is another one than 0..1.
    scale: tuple[float, float] | None = None
    key: str  # the name of its map in the configuration
    description: str
    version: int
    prompt_sha256: str | None
    figures: FigureSpec | None
    prompts: Sequence[str] = ()  # its templates and what they include; `Manifest.prompts` has the texts
    files_sha256: str | None = None  # of other files that decide its scores, such as SQL scripts
    # How well its judge agreed with people, at the last derivation; see `app.core.certificates`.
    certificate: Mapping[str, Any] | None = None
    proof: Mapping[str, Any] | None = None  # what `prove` found of its judge: dataset, run_id, findings, people, rows


class JudgeFacts(_Facts):
    """A judge of a run; see `JudgeInfo`. A panel or a cascade has a kind, and the names of its members."""

    nature: str
    identity: str
    calibrated: bool
    kind: str | None = None
    members: Sequence[str] = ()
    judges_itself: bool = False  # whether it is the model of the target, or one of its members is


class TargetFacts(_Facts):
    """The target of a run, with a digest of everything that determines its answers, and its templates."""

    name: str
    identity: str
    prompts: Sequence[str] = ()


class ExportFacts(_Facts):
    """The last export of a run to another tool.

    Attributes:
        to: The destination: otel, mlflow, weave or storage.
        where: Its address, without secrets.
        sent: The scores that it took, and of those how many it `rejected`, by its own account.
        unsent: The scores that could not be sent, and `why`.
        id: What it calls the run; None if it has no runs.
        digest: Of the results that were sent, if the destination needs it to see whether they have changed; else None.

    Example:
        >>> ExportFacts(to="archive", where="archive.csv", at="2026-01-31T12:00:00Z", sent=60, unsent=0).rejected
        0
    """

    to: str
    where: str
    at: str
    sent: int
    rejected: int = 0
    unsent: int = 0
    why: str | None = None
    id: str | None = None
    digest: str | None = None


class AnswerFault(_Facts):
    """How many of a run's answers have a fault, `of` how many, and the cases of the first of them."""

    n: int
    of: int
    cases: Sequence[str]


PLANNED = "planned"
"""The status of a run whose folder is prepared, for another process to start it."""


class CaseOrder(_Facts):
    """Whether cases were asked in random order, and the seed of every random choice."""

    shuffled: bool
    seed: int


class Header(_Facts):
    """The common fields of runs and sweeps. Times are in UTC; totals are None until the end, or if unknown."""

    schema_version: int = Field(alias="schema")
    run_id: str
    status: str
    started_at: str
    finished_at: str | None
    overrides: Sequence[str]

    @property
    def text(self) -> str:
        return json.dumps(self.model_dump(by_alias=True, exclude_unset=True), indent=2, ensure_ascii=False)


class Manifest(Header):
    """run.json of a run, written before the first request and again at the end."""

    working_directory: str
    folder: str = ""  # the run's, below the working directory; elsewhere an absolute path; empty without one
    process: int  # the id of the process that works on it, or did; 0 if none has yet
    versions: Mapping[str, str]
    git_commit: str | None
    config: dict[str, Any]  # the configuration before interpolation
    choices: dict[str, str]  # the chosen file of the groups judge, embedder and target
    search_folders: Mapping[str, Sequence[str]]
    datasets: Mapping[str, DatasetFacts]
    metrics: Mapping[str, MetricFacts]
    judges: Mapping[str, JudgeFacts]
    target: TargetFacts
    # The text of each template that was used, by name; without texts of more than `prompts.LONGEST_KEPT` characters.
    prompts: Mapping[str, str] = Field(default_factory=dict)
    order: CaseOrder
    prices: Mapping[str, Any]
    spent_before: Mapping[str, Any]  # what earlier runs of the same sweep have spent; see `Amount`
    ended_before: Sequence[str] = ()  # the states in which earlier parts of a resumed run ended with results written
    resumed_at: Sequence[str] = ()
    exit_code: int | None = None
    seconds: float | None = None
    # The number of scores and answers by status, and of cases asked by dataset.
    scores: Mapping[str, int] = Field(default_factory=dict)
    answers: Mapping[str, int] = Field(default_factory=dict)
    asked: Mapping[str, int] = Field(default_factory=dict)
    # Answers that are not what they should be, if there are any: cut_off, filtered, not_extracted.
    answer_faults: Mapping[str, AnswerFault] = Field(default_factory=dict)
    endings: Mapping[str, int] = Field(default_factory=dict)  # of simulated conversations, by how they ended
    stopped: Stop | None = None
    notes: Sequence[str] = ()  # what changed its cost or the meaning of its scores
    # Calls that were sent, that the cache answered, and that repeated an invalid reply.
    requests: int | None = None
    cached: int | None = None
    reasks: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    # Input tokens that providers read from their own caches, and the US dollars that this saved, as far as they say so.
    provider_cached: int | None = None
    provider_saved_usd: float | None = None
    # What was paid, and what cached replies would have cost.
    cost_usd: float | None = None
    saved_usd: float | None = None
    unaccounted_requests: int = 0  # maximum number in flight at a kill; not in any score or total
    exports: Sequence[ExportFacts] = ()

    @property
    def full_cost(self) -> float | None:
        """US dollars without the cache; None if a price is unknown."""
        return None if self.cost_usd is None or self.saved_usd is None else self.cost_usd + self.saved_usd

    @property
    def titles(self) -> dict[str, str]:
        """The titles of the metrics that have one, by name; without those that are also another metric's."""
        configs: Mapping[str, Mapping[str, Any]] = self.config.get("metric") or {}
        titles = {
            name: str(configs.get(facts.key, {}).get("title") or name)
            for name, facts in self.metrics.items()
            if facts.declared == name
        }
        used = Counter([*titles.values(), *self.metrics])
        return {name: title for name, title in titles.items() if title != name and used[title] == 1}

    @property
    def bot_title(self) -> str:
        """The displayed name of the evaluated bot."""
        target: Mapping[str, Any] = self.config.get("target") or {}
        recorded = "Recorded answers" if target.get("kind") == "recorded" else self.target.name
        return str(target.get("title") or recorded)

    @property
    def answered(self) -> int | None:
        """How many answers there are to label; None if unknown. Of recorded answers, each case has one."""
        return self.answers.get("answered", 0 if self.answers else sum(self.asked.values())) or None

    @property
    def dataset_titles(self) -> list[str]:
        """The displayed names of the datasets."""
        return [self.dataset_title(name) for name in self.datasets]

    def dataset_title(self, name: str) -> str:
        """The displayed name of a dataset: its title, or else its name."""
        return str(self.dataset_config(name).get("title") or name)

    def exported(self, facts: ExportFacts) -> Manifest:
        """Return the manifest with a destination's export facts, which replace its earlier ones."""
        others = [export for export in self.exports if (export.to, export.where) != (facts.to, facts.where)]
        return self.model_copy(update={"exports": [*others, facts]})

    def dataset_config(self, name: str) -> Mapping[str, Any]:
        """The configuration of a dataset, whose key may not be its name; empty for a dataset of another run."""
        declared: Mapping[str, Mapping[str, Any]] = self.config.get("dataset") or {}
        nothing: Mapping[str, Any] = {}
        return next((own for key, own in declared.items() if (own.get("name") or key) == name), nothing)

    def metric_config(self, name: str) -> Mapping[str, Any]:
        """The configuration of a metric. For a check named in a case, the configuration of its metric."""
        return self.config["metric"][self.metrics[name].key]


class SweepManifest(Header):
    """run.json of a sweep: its runs' folders in order, empty until the end, and why some ended early, by folder."""

    jobs: Sequence[str]
    failed: Mapping[str, str] = Field(default_factory=dict)
    requests: int | None = None
    cached: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    provider_cached: int | None = None
    provider_saved_usd: float | None = None
    cost_usd: float | None = None
    saved_usd: float | None = None
    seconds: float | None = None
