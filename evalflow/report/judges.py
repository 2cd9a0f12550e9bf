"""What stands over every table: who judged, what kind of judge that is, and whether people's labels bear it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from evalflow.report.terminal import literal

Metrics = Mapping[str, Mapping[str, Any]]
# The first that is known says how well judge and people agree.
_HEADLINES = (("kappa", "kappa"), ("spearman", "Spearman"), ("accuracy", "accuracy"))


def judge_line(name: str, about: Mapping[str, Any], metrics: Metrics | None = None) -> str:
    """One judge in one line: `judge: embedded (text overlap, not an LLM), uncalibrated`.

    Args:
        name: The judge's name, as in the column `judge`.
        about: Its entry under `judges` in run.json: `nature`.
        metrics: The metrics that it judged, as in run.json. Where one has a `certificate` that is not stale, the judge
            is calibrated for it: it was held against people's labels. Nothing else makes it so.
    """
    nature = about.get("nature")
    held = "; ".join(_held(metrics or {})) or "uncalibrated"
    return f"judge: {name} ({nature}), {held}" if nature else f"judge: {name}, {held}"


def judge_lines(manifest: Mapping[str, Any]) -> Sequence[str]:
    """A line for each judge of a run; one saying so where no metric asks any."""
    judges: Mapping[str, Mapping[str, Any]] = manifest.get("judges") or {}
    metrics: Metrics = manifest.get("metrics") or {}
    lines = [
        judge_line(name, about, {metric: facts for metric, facts in metrics.items() if facts.get("judge") == name})
        for name, about in judges.items()
    ]
    return lines or ["judge: none (no metric asks one)"]


def certificate_table(certificates: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each certificate: who judged what, how well, when, and how it keeps to itself.

    Args:
        certificates: With the fields of a certificate, in order.
    """
    table = Table(title="certificates", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("metric", "judge", "against people", "itself, repeated", "not parsed", "issued"):
        table.add_column(heading)
    for one in certificates:
        again, replies = one["consistency"], one["replies"]
        repeated = "not tried" if again is None else f"{again['same']:.0%} the same"
        unparsable = "unknown" if replies["unparsable"] is None else f"{replies['unparsable']:.1%}"
        cells = (one["metric"], one["judge"], _result(one), repeated, unparsable, one["issued_at"][:10])
        table.add_row(*(literal(cell) for cell in cells))
    return table


def _held(metrics: Metrics) -> Iterator[str]:
    """For which metrics the judge is calibrated and how well it did, and for which it is not; nothing without any."""
    certificates = {name: facts.get("certificate") for name, facts in metrics.items()}
    if not any(certificates.values()):
        return
    for name, certificate in certificates.items():
        if certificate is None:
            yield f"uncalibrated for {name}"
        elif certificate["stale"]:
            yield f"uncalibrated for {name} (not the same any more since its labels: {', '.join(certificate['stale'])})"
        else:
            yield f"calibrated for {name}: {_result(certificate)}"


def _result(certificate: Mapping[str, Any]) -> str:
    measures: Mapping[str, Mapping[str, Any]] = certificate["agreement"]
    found = [(word, measures[key]["value"]) for key, word in _HEADLINES if key in measures]
    agreement = [f"{word} {value:.2f}" for word, value in found if value is not None][:1]
    bias = certificate["bias"]["value"]
    off = [f"bias {bias:+.3f}"] if bias is not None else []
    return ", ".join([*agreement, *off, f"{certificate['n_labels']} labels on {certificate['dataset']}"])
