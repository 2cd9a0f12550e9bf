"""run.json: the description of a run, written before the first request and again at the end."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from evalflow import __version__
from evalflow.config.kinds import installed_version
from evalflow.records import Answer, Spend, Usage


@dataclass(slots=True)
class Tally:
    """Running totals of a run.

    Attributes:
        expected: How many scores the run will have, as far as known.
        asked: The cases that were begun, by dataset, those of earlier parts of the run included.
        requests: Calls that were sent; `cached` counts those that the cache answered.
        cost_usd: What was paid; `unpriced` says that some calls have no known price.
        saved_usd: What cached replies would have cost; `saved_unpriced` likewise.
    """

    expected: int = 0
    asked: Counter[str] = field(default_factory=Counter[str])
    scores: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    cached: int = 0
    reasks: int = 0
    in_flight: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: bool = False
    saved_usd: float = 0.0
    saved_unpriced: bool = False

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
        if spend.cost_usd is None:
            self.unpriced = True
        else:
            self.cost_usd += spend.cost_usd

    def count_answer(self, answer: Answer) -> None:
        self.answers[answer.status] += 1
        self.count(answer.spend)

    def retract(self, spend: Spend) -> None:
        """Subtract calls that were counted before their score was finished; they will be counted with it."""
        usage = spend.usage or Usage()
        self.requests -= spend.requests
        self.reasks -= spend.reasks
        self.input_tokens -= usage.input_tokens
        self.output_tokens -= usage.output_tokens
        self.cost_usd -= spend.cost_usd or 0.0


Stop = Literal["decided", "race"]
"""Why a run left cases out: all its gates were decided, or the race was that it was part of."""
PACKAGES = ("hydra-core", "omegaconf", "pydantic", "instructor", "openai", "polars", "jinja2")
SCHEMA = 4
"""The version of the format of a run's files; raised when their meaning changes."""


_COUNTS = ("requests", "cached", "reasks", "input_tokens", "output_tokens")
_TOTALS = (*_COUNTS, "cost_usd", "saved_usd")
"""Totals that are written at the end of a run; the manifest of a killed run lacks them."""


def now() -> str:
    """The current time in the format of manifests."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def opening(run_id: str, overrides: tuple[str, ...], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a new run."""
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "status": "running",
        "started_at": now(),
        "finished_at": None,
        "overrides": list(overrides),
        "working_directory": str(Path.cwd()),
        "process": os.getpid(),
        "versions": versions(),
        "git_commit": git_commit(),
        **facts,
    }


def reopening(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a resumed run."""
    resumed = [*manifest.get("resumed_at", []), now()]
    begun = {key: value for key, value in manifest.items() if key not in _TOTALS}
    if manifest["status"] not in ("running", "done"):
        begun["ended_before"] = [*manifest.get("ended_before", []), manifest["status"]]
    return {**begun, "status": "running", "finished_at": None, "resumed_at": resumed, "process": os.getpid()}


def changes(manifest: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """The parts that have changed since the run began: `dataset rag`, `metric faithfulness`, `judge x`."""
    found: list[str] = []
    for group, keys in (
        ("datasets", ("files", "sha256", "cases")),
        ("metrics", ("version", "prompt_sha256", "judge")),
        ("judges", ("identity",)),
    ):
        before, after = manifest[group], facts[group]
        for name in dict.fromkeys([*before, *after]):
            old, new = before.get(name, {}), after.get(name, {})
            if any(old.get(key) != new.get(key) for key in keys):
                found.append(f"{group.removesuffix('s')} {name}")
    if manifest["target"]["identity"] != facts["target"]["identity"]:
        found.append(f"target {facts['target']['name']}")
    return found


def take_up(tally: Tally, manifest: Mapping[str, Any]) -> bool:
    """Set the tally to the totals in a manifest. False if it has none, as that of a killed run."""
    if "requests" not in manifest:
        return False
    for name in _COUNTS:
        setattr(tally, name, manifest[name])
    tally.cost_usd, tally.unpriced = manifest["cost_usd"] or 0.0, manifest["cost_usd"] is None
    tally.saved_usd, tally.saved_unpriced = manifest["saved_usd"] or 0.0, manifest["saved_usd"] is None
    return True


def closing(
    manifest: Mapping[str, Any],
    status: str,
    exit_code: int,
    tally: Tally,
    states: Mapping[str, int],
    seconds: float,
    stopped: Stop | None,
) -> dict[str, Any]:
    """The manifest of a run that has ended; `stopped` is why cases were left out."""
    return {
        **manifest,
        "status": status,
        "exit_code": exit_code,
        "finished_at": now(),
        "seconds": round(seconds, 3),
        "scores": dict(states),
        "answers": dict(tally.answers),
        "asked": dict(tally.asked),
        "stopped": stopped,
        **{name: getattr(tally, name) for name in _COUNTS},
        "cost_usd": tally.cost,
        "saved_usd": tally.saved,
    }


def versions() -> dict[str, str]:
    """Versions of Python, evalflow and the packages that affect results."""
    packages = {package: installed_version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "evalflow": __version__, **packages}


def git_commit() -> str | None:
    """The commit of the working directory, with `+` if files have changed; None outside a repository."""
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)  # noqa: S603
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
