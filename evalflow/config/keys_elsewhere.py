"""Say what evalflow calls a key that other tools have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evalflow.config.foreign_keys import SINGLE_SELECT
from evalflow.errors import Meant, Problem, command, nearest
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
_MODELS = ("judge", "target")
_OF_ANY_PART = frozenset({"kind", "name", "version"})  # what each part has; they do not say which part is meant
_FEW = 2  # parts with the key; more are no hint
_FOLDERS = frozenset({"out", "outdir", "output", "output_dir", "output_path", "outputs", "results_dir", "save_to"})
_REPORTS = frozenset({"csv", "export", "format", "html", "json", "junit", "markdown", "report", "results", "save"})


def key_elsewhere(typed: str, values: Mapping[str, object]) -> Problem | None:
    """Return the problem of an override whose key means something in other tools; None if it does not.

    `values` are those of the configuration without it. The nearest spelling would suggest an unrelated key.
    """
    key, _, value = typed.lstrip("+~").partition("=")
    if (advice := _meaning(key, value, values)) is None:
        return None
    hint, right = advice
    return Problem(f"unknown key {key}", "command line", hint, meant=None if right is None else Meant((typed,), right))


def key_of_part(typed: str, values: Mapping[str, object]) -> Problem | None:
    """Return the problem of an override whose key is almost one of a chosen part, such as `treshold`; else None."""
    key, _, value = typed.lstrip("+~").partition("=")
    parts = [as_map(values.get(part)) for part in SINGLE_SELECT]
    parts += [as_map(metric) for metric in as_map(values.get("metric")).values()]
    close = nearest(key, {name for part in parts for name in part} - _OF_ANY_PART)
    problem = key_elsewhere(f"{close}={value}", values) if close else None
    if problem is None:
        return None
    meant = problem.meant and replace(problem.meant, wrong=(typed,))
    return replace(problem, what=f"unknown key {key}", meant=meant)


def _meaning(key: str, value: str, values: Mapping[str, object]) -> tuple[str, tuple[str, ...] | None] | None:
    """Return a hint, and what to write instead if that is clear; None if the key means nothing in other tools."""
    if key.partition(".")[0] in _REPORTS:
        files = "each run writes report.html, results.csv, summary.json and junit.xml"
        return f"{files}; {command('open')} shows the report", ()
    if key in _FOLDERS:
        hint = "each run writes its reports into a folder of outputs/; hydra.run.dir=FOLDER chooses another one"
        return hint, (f"hydra.run.dir={value}",) if value and not Path(value).suffix else None
    if own := _OF_RUNS.get(key):
        is_clear = own != "limit" or value.isdecimal()
        return f"write {own}={value if is_clear else 'NUMBER'}", (f"{own}={value}",) if is_clear else None
    if key in _OF_ANY_PART:
        return None
    part, _, name = key.partition(".")
    if part in _MODELS:
        return _meaning_of_model(part, name, value, as_map(values.get(part)))
    own = _OF_MODELS.get(key, key)
    metrics = as_map(values.get("metric")).items()
    maps = {part: values.get(part) for part in SINGLE_SELECT} | {f"metric.{name}": metric for name, metric in metrics}
    parts = [f"{part}.{path}" for part, keys in maps.items() if (path := _path_in(as_map(keys), own))]
    shown = "VARIABLE" if key.rpartition(".")[2] == "api_key" else value
    if len(parts) > _FEW and key not in _OF_MODELS:
        return None
    if parts:
        written = [f"{part}={shown}" for part in parts]
        is_clear = len(parts) == 1 and shown == value
        return f"it is a key of a part of the run: {' or '.join(written)}", tuple(written) if is_clear else None
    if key in _OF_MODELS:
        return f"it is a key of a model: {', or '.join(f'{of}.{own}={shown} with {of}=openai' for of in _MODELS)}", None
    return None


def _path_in(keys: Mapping[str, object], path: str) -> str | None:
    """Return the path of a key in a part: its last name if it leads into a single value, such as model.temperature."""
    first, _, rest = path.partition(".")
    if first not in keys:
        return None
    inner = keys[first]
    if not rest or (isinstance(inner, Mapping) and (not inner or _path_in(as_map(inner), rest) == rest)):
        return path
    last = path.rpartition(".")[2]
    return None if isinstance(inner, Mapping) else _path_in(keys, _OF_MODELS.get(last, last))


def _meaning_of_model(
    part: str, name: str, value: str, keys: Mapping[str, object]
) -> tuple[str, tuple[str, ...] | None] | None:
    """Return the same for a key of the judge or the target, such as `judge.max_retries`."""
    path = _path_in(keys, _OF_MODELS.get(name, ""))
    if path is None or path == name:
        return None
    is_secret = name == "api_key"
    written = f"{part}.{path}={'VARIABLE' if is_secret else value}"
    return f"write {written}", None if is_secret else (written,)
