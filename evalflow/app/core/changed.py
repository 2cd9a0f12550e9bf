"""Find the differences between two runs in their manifests, prepared steps, cases and answers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evalflow.app.core.assemble import settings_of
from evalflow.app.core.cases import answers_of
from evalflow.app.core.saved import ANOTHER, SavedRun, composed_of, declared_meaning, prepared_steps
from evalflow.errors import UserError, command
from evalflow.lazy import pl
from evalflow.paths import shown
from evalflow.prompts import NOT_KEPT
from evalflow.records import Answer
from evalflow.records.manifest import Manifest
from evalflow.summary.changed import ChangedPart, ChangedValue, WhatChanged
from evalflow.values.jsonvalues import as_map, is_list, is_mapping

Kind = Literal["metric", "prompt", "judge", "cases"]
KINDS: tuple[Kind, ...] = ("metric", "prompt", "judge", "cases")
_SHOWN = 3
_UNDECIDED = frozenset(
    ("concurrency", "timeout_s", "retries", "batch", "price", "prices", "name", "calibrated", "thresholds")
)
"""Keys of a bot or a judge that do not affect its answers."""
_EMBEDDER = ("kind", "model", "base_url", "dimensions")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why two runs cannot be compared; `kind` is also the word after `--allow` that permits it."""

    kind: Kind
    what: str


def what_changed(a: SavedRun, b: SavedRun, *, declared_only: bool = False) -> WhatChanged:
    """Return everything that differs, most basic first; with `declared_only` only from run.json and prepared.json.

    Answers are read only if anything but the bot differs: otherwise all differences are due to the answers.
    """
    old, new = (_versions(run, declared_only=declared_only) for run in (a, b))
    parts = list(other_versions(old, new))
    shared = [name for name in a.manifest.metrics if name in b.manifest.metrics]
    for name in shared:
        parts += unlike_metrics(name, a.manifest, b.manifest)
        parts += _other_threshold(name, a.manifest, b.manifest)
        steps = tuple(prepared_steps(run.folder, name) for run in (a, b))
        if steps[0] != steps[1]:
            what = f"the steps that the judge wrote for metric {name} (prepared.json) differ"
            texts = (json.dumps(one, ensure_ascii=False, indent=1) if one else None for one in steps)
            parts.append(ChangedPart("prompt", what, name, [ChangedValue("steps", *texts)]))
    if not declared_only and (changed := _changed_cases(a, b)):
        names = ", ".join(changed[:_SHOWN]) + (", ..." if len(changed) > _SHOWN else "")
        what = f"{len(changed)} cases have another question, reference or expected value under the same id ({names})"
        parts.append(ChangedPart("cases", what))
    read = _count_answers(a, b) if parts and not declared_only else None
    composites = [name for name in shared if b.manifest.metric_config(name).get("kind") == "composite"]
    parts = [*_other_target(a.manifest, b.manifest), *sorted(parts, key=_place)]
    return WhatChanged((a.name, b.name), parts, *(read or (None, 0)), composites)


def _place(part: ChangedPart) -> int:
    return KINDS.index(part.kind) if part.kind in KINDS else len(KINDS)


def obstacles(changed: WhatChanged) -> list[Obstacle]:
    """Why the scores of two runs may not mean the same, in the order of `KINDS`."""
    return [Obstacle(part.kind, part.what) for part in changed.parts if part.kind in KINDS]


def unlike_metrics(name: str, a: Manifest, b: Manifest, called: tuple[str, str] = ("A", "B")) -> Iterator[ChangedPart]:
    """The differences of a metric between two manifests: in its configuration, prompts, judge or embedder."""
    left, right = a.metrics[name], b.metrics[name]
    if left.prompt_sha256 != right.prompt_sha256:
        texts = _prompt_values(a, b, (left.prompts, right.prompts))
        yield ChangedPart("prompt", f"the prompts of metric {name} differ", name, texts)
    if left.files_sha256 != right.files_sha256:
        yield ChangedPart("metric", f"the files or the code of metric {name} differ", name)
    ours, theirs = (declared_meaning(manifest, name) for manifest in (a, b))
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    if keys:
        what = f"metric {name} has other settings: {', '.join(sorted(keys))}"
        yield ChangedPart("metric", what, name, _other_values(ours, theirs))
    ours, theirs = (own.judge and run.judges[own.judge].identity for run, own in ((a, left), (b, right)))
    if ours != theirs:
        how = f"{left.judge} in {called[0]} and {right.judge} in {called[1]}"
        if left.judge == right.judge:
            how = f"{left.judge}, with other settings"
        judges = (_judge_config(manifest, name) for manifest in (a, b))
        named = [ChangedValue("judge", left.judge, right.judge)] if left.judge != right.judge else []
        values = [*named, *_other_values(*judges)]
        yield ChangedPart("judge", f"metric {name} has another judge: {how}", name, values)
    if left.embeds and right.embeds:
        ours, theirs = ({key: _part(run, "embedder").get(key) for key in _EMBEDDER} for run in (a, b))
        if ours != theirs:
            what = f"metric {name} has another embedder"
            yield ChangedPart("metric", what, name, _other_values(ours, theirs))


def other_versions(
    a: Mapping[str, int], b: Mapping[str, int], called: tuple[str, str] = ("A", "B")
) -> Iterator[ChangedPart]:
    """The metrics with different versions in two runs."""
    for name in a:
        if name in b and a[name] != b[name]:
            what = f"metric {name} has version {a[name]} in {called[0]} and {b[name]} in {called[1]}"
            yield ChangedPart("metric", what, name, [ChangedValue("version", str(a[name]), str(b[name]))])


def _other_threshold(name: str, a: Manifest, b: Manifest) -> Iterator[ChangedPart]:
    before, after = (manifest.metric_config(name).get("threshold") for manifest in (a, b))
    if before != after:
        what = f"metric {name} has another threshold"
        yield ChangedPart("threshold", what, name, list(_other_values({"threshold": before}, {"threshold": after})))


def _other_target(a: Manifest, b: Manifest) -> Iterator[ChangedPart]:
    """The bot, if its configuration differs; else the files that have its recorded answers."""
    if a.target.identity != b.target.identity or a.target.name != b.target.name:
        values = [*_other_values(_bot(a), _bot(b)), *_prompt_values(a, b, (a.target.prompts, b.target.prompts))]
        if a.target.name != b.target.name:
            values = [ChangedValue("bot", a.target.name, b.target.name), *values]
        yield ChangedPart("target", "the bot is not the same", values=values)
    shared = [name for name in a.datasets if name in b.datasets]
    other = [name for name in shared if a.datasets[name].sha256 != b.datasets[name].sha256]
    if other:
        files = [ChangedValue(name, _data_files(a, name), _data_files(b, name)) for name in other]
        values = [one for one in files if one.before != one.after]
        yield ChangedPart("target", f"the files of {', '.join(other)} are not the same", values=values)
    ours, theirs = ({name: run.dataset_config(name) for name in shared} for run in (a, b))
    if fields := [one for one in _other_values(ours, theirs) if ".fields." in one.name]:
        yield ChangedPart("target", "other columns are read", values=fields)


def _data_files(run: Manifest, dataset: str) -> str:
    """The files of a dataset; of a copy in the run's own folder the path in there, which is the same for each run."""
    files = [Path(file) for file in run.datasets[dataset].files]
    inside = [Path(*file.parts[file.parts.index(run.run_id) + 1 :]) for file in files if run.run_id in file.parts]
    return ", ".join(str(path) for path in inside) if len(inside) == len(files) else ", ".join(map(shown, files))


def _bot(manifest: Manifest) -> dict[str, Any]:
    """The configuration of the bot, and of the simulator that talks with it."""
    simulator = {f"simulator.{key}": value for key, value in _part(manifest, "simulator").items() if key != "kind"}
    return {**_part(manifest, "target"), **simulator}


def _part(manifest: Manifest, name: str) -> Mapping[str, Any]:
    return as_map(manifest.config.get(name))


def _judge_config(manifest: Manifest, metric: str) -> Mapping[str, Any]:
    own = manifest.metric_config(metric).get("judge")
    return as_map(own) if isinstance(own, Mapping) else _part(manifest, "judge")


def _other_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedValue]:
    """Return the settings that differ, by path such as `parameters.top_p`."""
    ours, theirs = dict(_flat(before)), dict(_flat(after))
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    return [ChangedValue(key, ours.get(key), theirs.get(key)) for key in keys if _UNDECIDED.isdisjoint(key.split("."))]


def _flat(values: object, path: str = "") -> Iterator[tuple[str, str]]:
    if is_mapping(values):
        for key, value in values.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key))
    elif is_list(values) and any(isinstance(one, Mapping) for one in values):
        for number, value in enumerate(values, 1):
            yield from _flat(value, f"{path}.{number}")
    elif values is not None:
        yield path, values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)


def _prompt_values(a: Manifest, b: Manifest, named: tuple[Sequence[str], Sequence[str]]) -> list[ChangedValue]:
    """Return the texts, as used by the runs, of the named prompts that differ."""
    ours, theirs = (
        {name: manifest.prompts.get(name, NOT_KEPT) for name in names}
        for manifest, names in zip((a, b), named, strict=True)
    )
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    return [ChangedValue(key, ours.get(key), theirs.get(key)) for key in keys]


def _versions(run: SavedRun, *, declared_only: bool) -> dict[str, int]:
    """The version of each metric in run.json, or else of each one with scores: also of the checks named in cases."""
    if declared_only:
        return {name: facts.version for name, facts in run.manifest.metrics.items()}
    table = run.scores().select("metric", "metric_version").unique().sort("metric").collect(engine="streaming")
    return dict(table.iter_rows())


def _changed_cases(a: SavedRun, b: SavedRun) -> list[str]:
    """Ids of cases whose question or expectation differs between the runs; identical files are not read."""
    left, right = a.manifest.datasets, b.manifest.datasets
    shared = [name for name in left if name in right and left[name].sha256 != right[name].sha256]
    if not shared:
        return []
    left, right = (run.case_texts().filter(pl.col("dataset").is_in(shared)) for run in (a, b))
    both = left.join(right, on=["dataset", "id"], maintain_order="right")
    doubtful = both.filter((pl.col("text") != pl.col("text_right")).fill_null(value=True))
    if doubtful.is_empty():
        return []
    old, new = a.case_digests(doubtful["line"]), b.case_digests(doubtful["line_right"])
    rows = doubtful.select("id", "line", "line_right").iter_rows()
    return [case_id for case_id, before, after in rows if old[before] != new[after]]


def _count_answers(a: SavedRun, b: SavedRun) -> tuple[int, int] | None:
    """The number of cases in both runs, and of those with other answers; None if a run's answers cannot be read."""
    if _reads_same_answers(a.manifest, b.manifest):
        return sum(min(run.manifest.datasets[name].cases for run in (a, b)) for name in a.manifest.datasets), 0
    try:
        known = dict(_answers(a))
        same = [known[key] == digest for key, digest in _answers(b) if key in known]
    except UserError:  # its data or settings are gone
        return None
    return len(same), same.count(False)


def _reads_same_answers(a: Manifest, b: Manifest) -> bool:
    """Return whether both runs read their answers from the same columns of the same files."""
    keys = ("dataset", "generate", "target")
    recorded = all(run.target.identity in ("recorded", "demo") for run in (a, b))
    digests = ({name: facts.sha256 for name, facts in run.datasets.items()} for run in (a, b))
    return recorded and next(digests) == next(digests) and all(a.config.get(key) == b.config.get(key) for key in keys)


def _answers(run: SavedRun) -> Iterator[tuple[tuple[str, str], int]]:
    """A hash of each case's answers with what they rest on, by dataset and case."""
    config, target = settings_of(composed_of(run.manifest)).run, run.manifest.target.name
    with answers_of(run.folder, config) as answers:
        for case in run.cases():
            given = (answers(case, target, repeat) for repeat in range(config.repeats.target))
            yield (case.dataset, case.id), hash(json.dumps([one and _content(one) for one in given], default=str))


def _content(answer: Answer) -> Sequence[Any]:
    """The parts of an answer visible to a judge: its text or value, its contexts, and the bot's earlier turns."""
    turns = [message.content for message in answer.messages if message.role == "assistant"]
    contexts: Iterable[Any] = answer.contexts or ()
    return [answer.answer, answer.actual, [one.text for one in contexts], turns]


def not_allowed(changed: WhatChanged, allow: Collection[str], *, unpaired: bool = False) -> list[Obstacle]:
    """The obstacles that forbid a comparison: none if the same answers were judged twice."""
    if changed.only_judged and not unpaired:
        return []
    return [one for one in obstacles(changed) if one.kind not in allow and not (unpaired and one.kind == "cases")]


def _named_alike(pair: tuple[SavedRun, SavedRun]) -> str:
    """How to run the second again if its cases are those of the first under another name; "" if the names are equal."""
    first, second = (list(run.manifest.datasets) for run in pair)
    keys = list(pair[1].manifest.config["dataset"])
    if len(first) != 1 or len(keys) != 1 or first == second:
        return ""
    again = command(*pair[1].manifest.overrides, f"++dataset.{keys[0]}.name={first[0]}")
    return f"if {second[0]} has the cases of {first[0]} with other answers, give it that name: {again}"


def of_different_cases(pair: tuple[SavedRun, SavedRun]) -> str:
    """How to compare runs of different cases, or of equal cases whose datasets have two names."""
    folders = (shown(run.folder.path) for run in pair)
    first, second = (run.manifest.datasets.keys() for run in pair)
    if not first & second and (len(first) > 1 or len(second) > 1):
        return ANOTHER  # nothing says which dataset to compare with which
    unpaired = f"two samples of different cases: {command('compare', *folders, '--unpaired')}"
    return "; ".join(filter(None, (_named_alike(pair), unpaired)))
