"""How a run is spoken of on every page: its name, its state, its times."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from evalflow.app.workspace.run_types import Run
from evalflow.web.pages.parts import Tone

STATES: dict[str, tuple[str, Tone]] = {
    "queued": ("waiting", "accent"),
    "running": ("running", "accent"),
    "done": ("done", "pass"),
    "failed": ("failed", "fail"),
    "cancelled": ("cancelled", "warn"),
    "interrupted": ("interrupted", "warn"),
}
ACTIVE = ("queued", "running")


def name_of(run: Run) -> str:
    """What it is called: its title, or else what is run on what."""
    if run.title:
        return run.title
    datasets = run.request.datasets if run.request else list(run.facts.get("datasets", ()))
    return f"{run.bot} on {', '.join(datasets)}" if datasets else run.run_id


def metrics_of(run: Run) -> list[str]:
    """Its metrics by name; none where they are not known yet."""
    return list(run.request.metrics) if run.request else [one["name"] for one in run.facts.get("metrics", [])]


def history_path(run: Run, metric: str) -> str:
    """The address of a metric's history, over the first of the run's datasets."""
    words = {"bot": run.bot, "dataset": next(iter(run.facts.get("datasets", ())), ""), "metric": metric}
    return f"/history?{urlencode(words)}"


def state_of(run: Run) -> tuple[str, Tone]:
    """Its state in a word, and how that is coloured."""
    if run.state == "running" and run.cancelling:
        return "stopping", "warn"
    return STATES[run.state]


def when(moment: str | None) -> str:
    """A time of the database, to the minute and in UTC."""
    return f"{datetime.fromisoformat(moment):%-d %b %Y, %H:%M} UTC" if moment else ""


def took(run: Run) -> str:
    """How long it took; empty where it has not ended."""
    if not run.started_at or not run.finished_at:
        return ""
    seconds = (datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)).total_seconds()
    return span(max(seconds, 0.0))


def span(seconds: float) -> str:
    """Seconds as people say them: 8 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
