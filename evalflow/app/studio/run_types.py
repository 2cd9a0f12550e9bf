"""A run for pages and REST: what was requested, its progress, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evalflow.app.studio.snapshot import command_line
from evalflow.store.tables import from_row

State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled", "interrupted")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to be created. Names refer to definitions made here first, then to conf/.

    Attributes:
        bot: The bot whose answers are scored; "recorded" uses the answers in the data.
        datasets, metrics: Names; a metric is looked up in the bot's metrics first, then in the library.
        judge: Name of a judge in conf/; "target" is the bot's own model; None: "target" if the bot is a model, else
            "embedded".
        judge_values: Keys of the judge to change, such as model, base_url, api_key_env.
        embedder, embedder_values: The same for the embedder, which metrics use to compare meanings.
        thresholds: Changed thresholds, by metric.
        options: Root keys of the configuration: generate (by default true unless the answers are recorded), repeats,
            limit, sample, seed, cache, budget, gate, max_error_rate, case_timeout_s.
        title: For people.
    """

    bot: str
    datasets: Sequence[str]
    metrics: Sequence[str]
    judge: str | None = None
    judge_values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    embedder: str = "embedded"
    embedder_values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    thresholds: Mapping[str, float] = field(default_factory=dict[str, float])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    title: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run's progress.

    Attributes:
        done, expected: Finished scores, and their final number; expected is None until it is known.
        counts: Finished scores by status.
        answers: Generated answers by status.
        rate: Scores per second, recently.
        seconds_left: None if unknown.
        cost_usd: Cost so far; None if a price is unknown.
        latest: The last finished scores, newest first: metric, dataset, case_id, target_repeat, status, score, reason;
            and position, the answer's position in the run, if it can be shown already.
        loaded: Answers in the database while a finished run is being loaded; 0 before.
    """

    done: int = 0
    expected: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    answers: Mapping[str, int] = field(default_factory=dict[str, int])
    rate: float | None = None
    seconds_left: float | None = None
    cost_usd: float | None = None
    latest: Sequence[Mapping[str, Any]] = ()
    loaded: int = 0

    @property
    def errors(self) -> int:
        """Scores in state error."""
        return self.counts.get("error", 0)


@dataclass(frozen=True, slots=True)
class Run:
    """A run.

    Attributes:
        state: queued, running, done, failed (refused, an endpoint gone, a bug), cancelled (from here), or interrupted
            (killed, or stopped by hand elsewhere).
        origin: workspace, or command line for a run opened from its folder.
        request: The original request, for running it again with changes; None for a run from its folder.
        folder: The folder of its files.
        repeat: The command line that repeats it; empty until available.
        exit_code: Of its process; None until it has ended, or if no worker saw it end.
        message: Why it failed, in words.
        facts: What its scores mean, once it has ended: `metrics` (name, judge, threshold, direction, bounded,
            description; declared: the threshold that it was made with; judged: the judge, and its agreement with
            people's labels), `summary` (rows of all cases together, as in summary.json), `gates`, `datasets`, `target`,
            `kept` (the overrides that changed declared thresholds), `seed`.
        cancelling: Whether it is about to stop.
    """

    run_id: str
    title: str
    bot: str
    state: State
    origin: str
    request: RunRequest | None
    folder: Path
    repeat: str
    progress: Progress
    exit_code: int | None
    message: str
    cost_usd: float | None
    facts: Mapping[str, Any]
    cancelling: bool
    version: int
    created_at: str
    started_at: str | None
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of runs, newest first. `next` is the cursor of the following page, None at the end."""

    items: Sequence[Run]
    next: str | None


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The estimate of a run, as from `check`. Costs are None if a price is unknown.

    Attributes:
        cases: By dataset.
        scores: The number of scores.
        notices: Warnings about the results, e.g. a judge that grades answers of its own model.
    """

    cases: Mapping[str, int]
    scores: int
    requests: int
    input_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    cost_usd: tuple[float | None, float | None]
    notices: Sequence[str]


def as_run(row: Mapping[str, Any]) -> Run:
    """A run from its row."""
    return from_row(
        Run,
        row,
        folder=Path(row["folder"]),
        repeat=command_line(_repeating(row)) if row["arguments"] else "",
        request=RunRequest(**row["composition"]) if row["composition"] else None,
        progress=from_row(Progress, {**row["progress"], "loaded": row["loaded"]}),
        facts=row["facts"] if "summary" in row["facts"] else {},  # until then, facts only hold what decides passing
    )


def _repeating(row: Mapping[str, Any]) -> list[str]:
    """The arguments that repeat a run, including generated steps and changed thresholds that were saved with it."""
    facts = row["facts"]
    steps = [f"metric.{metric}.steps_from={row['folder']}" for metric in facts.get("wrote_steps", ())]
    return [*row["arguments"], *steps, *(f"++{override}" for override in facts.get("kept", ()))]
