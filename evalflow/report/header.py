"""The facts about a run that stand at the top of its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from evalflow.report.wording import cost

Fact = tuple[str, str]
_NAMED = 4
_MINUTE = 60


def facts(manifest: Mapping[str, Any]) -> list[Fact]:
    """Label and text of what a reader needs to place a run; what the manifest does not say is left out.

    Args:
        manifest: run.json.
    """
    target: Mapping[str, Any] = manifest.get("target") or {}
    found: list[tuple[str, str | None]] = [
        ("Started", _moment(manifest.get("started_at"))),
        ("Took", _duration(manifest.get("seconds"))),
        ("Status", manifest.get("status")),
        ("Dataset", _datasets(manifest.get("datasets") or {})),
        ("Target", target.get("name")),
        ("Metrics", ", ".join(manifest.get("metrics") or ()) or None),
        ("Requests", _requests(manifest)),
        ("Tokens", _tokens(manifest)),
        ("Cost", cost(manifest["cost_usd"]) if "cost_usd" in manifest else None),
        ("Saved", cost(manifest["saved_usd"]) if "saved_usd" in manifest and manifest.get("cached") else None),
        ("Versions", _versions(manifest)),
        ("Command", _command(manifest.get("overrides"))),
    ]
    return [(label, text) for label, text in found if text]


def title(manifest: Mapping[str, Any]) -> str:
    """What was evaluated in one line, such as `faithfulness, relevance on rag`; else the run's id."""
    metrics, datasets = list(manifest.get("metrics") or ()), list(manifest.get("datasets") or ())
    if not metrics or not datasets:
        return str(manifest["run_id"])
    what = ", ".join(metrics) if len(metrics) <= _NAMED else f"{len(metrics)} metrics"
    return f"{what} on {', '.join(datasets)}"


def _moment(text: str | None) -> str | None:
    """An ISO time to the second, with a space, and UTC spelled out."""
    if text is None:
        return None
    stem = text.removesuffix("Z").removesuffix("+00:00")
    zone = " UTC" if stem != text else ""
    return stem.split(".")[0].replace("T", " ") + zone


def _duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _datasets(datasets: Mapping[str, Mapping[str, Any]]) -> str | None:
    texts = [f"{name} ({about['cases']:,} cases)" if "cases" in about else name for name, about in datasets.items()]
    return ", ".join(texts) or None


def _requests(manifest: Mapping[str, Any]) -> str | None:
    if "requests" not in manifest:
        return None
    cached = manifest.get("cached")
    sent = manifest["requests"]
    return ("unknown" if sent is None else f"{sent:,}") + (f", {cached:,} more from the cache" if cached else "")


def _tokens(manifest: Mapping[str, Any]) -> str | None:
    if manifest.get("input_tokens") is None or manifest.get("output_tokens") is None:
        return None
    return f"{manifest['input_tokens']:,} in, {manifest['output_tokens']:,} out"


def _versions(manifest: Mapping[str, Any]) -> str | None:
    """The two versions that matter first; the manifest at the page's end has them all."""
    versions: Mapping[str, str] = manifest.get("versions") or {}
    texts = [f"{name} {versions[name]}" for name in ("evalflow", "python") if name in versions]
    commit: str | None = manifest.get("git_commit")
    if commit:
        texts.append(f"commit {commit[:10]}{' with changes' if commit.endswith('+') else ''}")
    return ", ".join(texts) or None


def _command(overrides: Sequence[str] | None) -> str | None:
    return None if overrides is None else shlex.join(["python", "-m", "evalflow", *overrides])
