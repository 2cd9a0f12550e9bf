"""The facts about a run that stand at the top of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from evalflow.report.wording import cost

Fact = tuple[str, str]
_NAMED = 4


def facts(manifest: Mapping[str, Any]) -> list[Fact]:
    """Label and text of what a reader needs to place a run; what the manifest does not say is left out.

    Args:
        manifest: run.json.
    """
    found: list[tuple[str, str | None]] = [
        ("Started", _moment(manifest.get("started_at"))),
        ("Finished", _moment(manifest.get("finished_at"))),
        ("Status", manifest.get("status")),
        ("Dataset", _names(manifest.get("datasets"))),
        ("Target", _names(manifest.get("targets"))),
        ("Metrics", _names(manifest.get("metrics"))),
        ("Requests", _count(manifest.get("requests"))),
        ("Tokens", _tokens(manifest)),
        ("Cost", cost(manifest["cost_usd"]) if "cost_usd" in manifest else None),
        ("Versions", _versions(manifest)),
        ("Command", _command(manifest.get("command"))),
    ]
    return [(label, text) for label, text in found if text]


def title(manifest: Mapping[str, Any]) -> str:
    """What was evaluated in one line, such as `faithfulness, relevance on rag`; else the run's id."""
    metrics, datasets = list(manifest.get("metrics") or ()), list(manifest.get("datasets") or ())
    if not metrics or not datasets:
        return str(manifest["run_id"])
    what = ", ".join(metrics) if len(metrics) <= _NAMED else f"{len(metrics)} metrics"
    return f"{what} on {', '.join(datasets)}"


def _moment(text: Any) -> str | None:
    """An ISO time to the second, with a space and UTC spelled out."""
    if not isinstance(text, str):
        return None
    stem = text.removesuffix("Z").removesuffix("+00:00")
    zone = " UTC" if stem != text else ""
    return stem.split(".")[0].replace("T", " ") + zone


def _names(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return ", ".join(map(str, cast("Sequence[Any]", value))) if isinstance(value, (Mapping, Sequence)) else None


def _count(value: Any) -> str | None:
    return f"{value:,}" if isinstance(value, int) else None


def _tokens(manifest: Mapping[str, Any]) -> str | None:
    sent, received = _count(manifest.get("input_tokens")), _count(manifest.get("output_tokens"))
    return f"{sent} in, {received} out" if sent and received else None


def _versions(manifest: Mapping[str, Any]) -> str | None:
    versions: Mapping[str, Any] = manifest.get("versions") or {}
    texts = [f"{name} {version}" for name, version in versions.items()]
    commit = manifest.get("git_commit")
    return ", ".join([*texts, f"commit {str(commit)[:10]}"] if commit else texts) or None


def _command(value: Any) -> str | None:
    import shlex

    if isinstance(value, str):
        return value
    return shlex.join(map(str, cast("Sequence[Any]", value))) if isinstance(value, (list, tuple)) else None
