"""The totals of a run, and its run.json at the start, at a resume and at the end."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evalflow.calls.waits import Waits
from evalflow.records import Answer, Spend, Usage, known_sum
from evalflow.records.manifest import SCHEMA, AnswerFault, Manifest, Stop
from evalflow.version import __version__


@dataclass(slots=True)
class Tally:
    """Running totals of a run."""

    expected: int = 0  # how many scores the run will have, as far as known
    # The cases that were begun, by dataset, those of earlier parts of the run included.
    asked: Counter[str] = field(default_factory=Counter[str])
    scores: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0  # calls that were sent; `cached` counts those that the cache answered
    cached: int = 0
    reasks: int = 0
    in_flight: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    provider_cached: int | None = None  # input tokens from providers' caches, and what these saved, as far as known
    provider_saved_usd: float | None = None
    cost_usd: float = 0.0  # what was paid; `unpriced` says that some calls have no known price
    unpriced: bool = False
    saved_usd: float = 0.0  # what cached replies would have cost; `saved_unpriced` likewise
    saved_unpriced: bool = False
    waits: Waits = field(default_factory=Waits)  # current waits of its calls
    unaccounted_requests: int = 0  # maximum number of requests in flight at a kill, without a record

    @property
    def done(self) -> int:
        return sum(self.scores.values())

    @property
    def errors(self) -> int:
        return self.scores["error"]

    @property
    def cost(self) -> float | None:
        """US dollars, or None if a price is unknown."""
        return None if self.unpriced else self.cost_usd

    @property
    def saved(self) -> float | None:
        """US dollars that the cache saved, or None if a price is unknown."""
        return None if self.saved_unpriced else self.saved_usd

    def count(self, spend: Spend) -> None:
        """Add the cost of calls. An unknown cost makes the total unknown; unknown tokens are left out."""
        self.requests += spend.requests
        self.reasks += spend.reasks
        self.cached += spend.cached
        if spend.saved_usd is None:
            self.saved_unpriced = True
        else:
            self.saved_usd += spend.saved_usd
        if not spend.requests:
            return
        if spend.usage:
            self.input_tokens += spend.usage.input_tokens
            self.output_tokens += spend.usage.output_tokens
            self.provider_cached = known_sum(self.provider_cached, spend.usage.provider_cached)
            self.provider_saved_usd = known_sum(self.provider_saved_usd, spend.usage.provider_saved_usd)
        if spend.cost_usd is None:
            self.unpriced = True
        else:
            self.cost_usd += spend.cost_usd

    def count_answer(self, answer: Answer) -> None:
        self.answers[answer.status] += 1
        self.count(answer.total)

    def retract(self, spend: Spend) -> None:
        """Subtract calls that were counted before their score was finished; they will be counted with it."""
        usage = spend.usage or Usage()
        self.requests -= spend.requests
        self.reasks -= spend.reasks
        self.input_tokens -= usage.input_tokens
        self.output_tokens -= usage.output_tokens
        if self.provider_cached is not None:
            self.provider_cached -= usage.provider_cached or 0
        if self.provider_saved_usd is not None:
            self.provider_saved_usd -= usage.provider_saved_usd or 0.0
        self.cost_usd -= spend.cost_usd or 0.0


PACKAGES = ("hydra-core", "omegaconf", "pydantic", "instructor", "openai", "polars", "jinja2")
_COUNTS = ("requests", "cached", "reasks", "input_tokens", "output_tokens")
_PROVIDER = ("provider_cached", "provider_saved_usd")
_TOTALS = (*_COUNTS, *_PROVIDER, "cost_usd", "saved_usd")
"""Totals written at the end of a run; a killed run's manifest lacks them."""


def now() -> str:
    """The current time in the format of manifests."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def opening(run_id: str, overrides: tuple[str, ...], facts: Mapping[str, Any]) -> Manifest:
    """Return the manifest of a new run; `facts` are its other fields."""
    return Manifest(
        schema=SCHEMA,
        run_id=run_id,
        status="running",
        started_at=now(),
        finished_at=None,
        overrides=list(overrides),
        working_directory=str(Path.cwd()),
        process=os.getpid(),
        versions=versions(),
        git_commit=git_commit(),
        **facts,
    )


def reopening(manifest: Manifest) -> Manifest:
    """Return the manifest of a resumed run."""
    begun = manifest.model_dump(by_alias=True, exclude_unset=True, exclude={*_TOTALS})
    if manifest.status not in ("running", "done") and manifest.scores.get("scored"):
        begun["ended_before"] = [*manifest.ended_before, manifest.status]
    again = {"status": "running", "finished_at": None, "process": os.getpid()}
    return Manifest.model_validate({**begun, **again, "resumed_at": [*manifest.resumed_at, now()]})


def changes(manifest: Manifest, fresh: Manifest) -> list[str]:
    """The parts that have changed since the run began: `dataset rag`, `metric faithfulness`, `judge x`."""
    changed: list[str] = []
    for group, keys in (
        ("datasets", ("files", "sha256", "cases")),
        ("metrics", ("version", "prompt_sha256", "files_sha256", "judge")),
        ("judges", ("identity",)),
    ):
        before, after = getattr(manifest, group), getattr(fresh, group)
        for name in dict.fromkeys([*before, *after]):
            old, new = before.get(name), after.get(name)
            if any(getattr(old, key, None) != getattr(new, key, None) for key in keys):
                changed.append(f"{group.removesuffix('s')} {name}")
    if manifest.target.identity != fresh.target.identity:
        changed.append(f"target {fresh.target.name}")
    return changed


def take_up(tally: Tally, manifest: Manifest) -> bool:
    """Set the tally to the totals in a manifest. False if the manifest has none, because the run was killed."""
    if manifest.requests is None:
        return False
    for name in (*_COUNTS, *_PROVIDER):
        setattr(tally, name, getattr(manifest, name))
    tally.unaccounted_requests = manifest.unaccounted_requests
    tally.cost_usd, tally.unpriced = manifest.cost_usd or 0.0, manifest.cost_usd is None
    tally.saved_usd, tally.saved_unpriced = manifest.saved_usd or 0.0, manifest.saved_usd is None
    return True


def closing(
    manifest: Manifest,
    status: str,
    exit_code: int,
    tally: Tally,
    states: Mapping[str, int],
    seconds: float,
    stopped: Stop | None,
    endings: Mapping[str, int],
    answer_faults: Mapping[str, AnswerFault],
) -> Manifest:
    """Return the manifest of an ended run; `stopped`: why cases were left out; `endings`: how conversations ended."""
    ended = {
        "status": status,
        "exit_code": exit_code,
        "finished_at": now(),
        "seconds": round(seconds, 3),
        "scores": dict(states),
        "answers": dict(tally.answers),
        "asked": dict(tally.asked),
        "stopped": stopped,
        **({"answer_faults": dict(answer_faults)} if answer_faults else {}),
        **({"endings": dict(endings)} if endings else {}),
        **({"unaccounted_requests": tally.unaccounted_requests} if tally.unaccounted_requests else {}),
        **{name: getattr(tally, name) for name in _COUNTS},
        **{name: value for name in _PROVIDER if (value := getattr(tally, name)) is not None},
        "cost_usd": tally.cost,
        "saved_usd": tally.saved,
    }
    return manifest.model_copy(update=ended)


def versions() -> dict[str, str]:
    """Versions of Python, evalflow and the packages that affect results."""
    return {"python": platform.python_version(), "evalflow": __version__, **_packages()}


@cache
def _packages() -> Mapping[str, str]:
    """Read once, since packages installed later are not those that this process has loaded."""
    return {package: version(package) for package in PACKAGES}


def git_commit() -> str | None:
    """The commit of the working directory, with `+` if files have changed; None outside a repository."""
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, encoding="utf-8", errors="replace", check=True, timeout=5
        )
    except (OSError, subprocess.SubprocessError):
        return None
    head, changed = None, False
    for line in done.stdout.splitlines():
        if line.startswith("# branch.oid "):
            head = line.rpartition(" ")[2]
        changed |= not line.startswith("#")
    if head is None or head == "(initial)":
        return None
    return f"{head}+" if changed else head
