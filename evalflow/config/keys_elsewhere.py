"""Find where a key that other tools have belongs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evalflow.config.foreign_keys import SINGLE_SELECT
from evalflow.errors import Meant, Problem, command
from evalflow.values.jsonvalues import as_map

_OF_RUNS: Mapping[str, str] = {
    "bot": "target",
    "data": "dataset",
    "evaluator": "metric",
    "max_cases": "limit",
    "max_samples": "limit",
    "n": "limit",
    "num_samples": "limit",
    "scorer": "metric",
}
_OF_MODELS: Mapping[str, str] = {
    "api_base": "base_url",
    "api_key": "api_key_env",
    "concurrency": "concurrency.max",
    "llm": "model",
    "max_concurrency": "concurrency.max",
    "max_retries": "attempts",
    "max_workers": "concurrency.max",
    "num_workers": "concurrency.max",
    "parallel": "concurrency.max",
    "retries": "attempts",
    "threads": "concurrency.max",
    "timeout": "timeout_s",
    "workers": "concurrency.max",
    **{name: name for name in ("api_key_env", "attempts", "base_url", "max_tokens", "model", "temperature")},
}
"""Keys of judges and targets, by what other tools call them."""
_FOLDERS = frozenset({"out", "outdir", "output", "output_dir", "output_path", "outputs", "results_dir", "save_to"})
_REPORTS = frozenset({"csv", "export", "format", "html", "json", "junit", "markdown", "report", "results", "save"})


def key_elsewhere(typed: str, values: Mapping[str, object]) -> Problem | None:
    """Return the problem of an override whose key means something in other tools; None if it does not.

    `values` are those of the configuration without it. The nearest spelling would suggest an unrelated key.
    """
    key, _, value = typed.partition("=")
    where, what = "command line", f"unknown key {key}"
    if key.partition(".")[0] in _REPORTS:
        hint = (
            f"each run writes report.html, results.csv, summary.json and junit.xml; {command('open')} shows the report"
        )
        return Problem(what, where, hint, meant=Meant((typed,), ()))
    if key in _FOLDERS:
        hint = "each run writes its reports into a folder of outputs/; hydra.run.dir=FOLDER chooses another one"
        folder = not Path(value).suffix and value
        return Problem(what, where, hint, meant=Meant((typed,), (f"hydra.run.dir={value}",)) if folder else None)
    if own := _OF_RUNS.get(key):
        return Problem(what, where, f"write {own}={value}", meant=Meant((typed,), (f"{own}={value}",)))
    own = _OF_MODELS.get(key, key)
    first = own.partition(".")[0]
    parts = [part for part in SINGLE_SELECT if first in as_map(values.get(part))]
    parts += [f"metric.{name}" for name, metric in as_map(values.get("metric")).items() if first in as_map(metric)]
    shown = "VARIABLE" if own == "api_key_env" else value
    if parts:
        written = [f"{part}.{own}={shown}" for part in parts]
        meant = Meant((typed,), (written[0],)) if len(parts) == 1 and shown == value else None
        return Problem(what, where, f"it is a key of a part of the run: {' or '.join(written)}", meant=meant)
    if key in _OF_MODELS:
        written = [f"judge.{own}={shown} with judge=openai", f"target.{own}={shown} with target=openai"]
        return Problem(what, where, f"it is a key of a model: {', or '.join(written)}")
    return None
