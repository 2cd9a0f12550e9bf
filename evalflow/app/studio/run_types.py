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
    """What is to be run; every name is that of something defined here, or else of conf/.

    Attributes:
        bot: Whose answers are scored; "recorded" takes those that stand in the data.
        datasets, metrics: Names; a metric is the bot's own, or else the library's.
        judge: Name of a judge in conf/; "target" is the bot's own model; None: "target" for a bot that is a model, else
            "embedded".
        judge_values: Its keys that differ, such as model, base_url, api_key_env.
        embedder, embedder_values: Likewise, of whom metrics ask that compare meanings.
        thresholds: Other thresholds, by metric.
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
    """How far a run is.

    Attributes:
        done, expected: Finished scores, and how many there will be; expected is None until it is known.
        counts: Finished scores by status.
        answers: Generated answers by status.
        rate: Scores a second, lately.
        seconds_left: None where it is unknown.
        cost_usd: So far; None where a price is unknown.
        latest: The last finished scores, the newest first: metric, dataset, case_id, target_repeat, status, score,
            reason; and position, where the answer stands in the run, if it can be shown already.
        loaded: Answers in the database, while the rest of a run that has ended is written; 0 before.
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
        origin: workspace, or command line for one that was opened from its folder.
        request: What was asked for, so that it can be asked for again with changes; None for one from its folder.
        folder: Where its files are.
        repeat: The command line that repeats it; empty until it can.
        exit_code: Of its process; None until it has ended, or where nobody saw it.
        message: Why it failed, in words.
        facts: What its scores mean, once it has ended: `metrics` (name, judge, threshold, direction, bounded,
            description; declared: the threshold that it was made with; judged: who did, and whether people's labels
            bear it out), `summary` (rows of all cases together, as in summary.json), `gates`, `datasets`, `target`,
            `kept` (the overrides that made other thresholds of those declared), `seed`.
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
    """Some runs, the newest first; `next` is the cursor of those that follow, None at the end."""

    items: Sequence[Run]
    next: str | None


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a run would take, as `check` tells it; costs are None where a price is not known.

    Attributes:
        cases: By dataset.
        scores: How many there will be.
        notices: What people should know before they read the numbers, self-preference of a judge among it.
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
        facts=row["facts"] if "summary" in row["facts"] else {},  # until then they only say what passes
    )


def _repeating(row: Mapping[str, Any]) -> list[str]:
    """The arguments that repeat a run, with the steps that it had written for it, and other thresholds kept with it."""
    facts = row["facts"]
    steps = [f"metric.{metric}.steps_from={row['folder']}" for metric in facts.get("wrote_steps", ())]
    return [*row["arguments"], *steps, *(f"++{override}" for override in facts.get("kept", ()))]
