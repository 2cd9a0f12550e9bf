"""Runs of the command line: open them from their folders, and make them repeatable in the application."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evalflow.addons.studio.store import runs
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import BOTS
from evalflow.addons.studio.work.case_choice import KEYS
from evalflow.addons.studio.work.datasets import DATASETS
from evalflow.addons.studio.work.judges import JUDGES
from evalflow.addons.studio.work.own_parts import OPTIONS
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run, get_run, run_row
from evalflow.addons.studio.work.space import TakenError, Workspace, refuse_elsewhere, run_folder, within
from evalflow.app.core.saved import agree, expect_agreed, find_run
from evalflow.app.core.stored_runs import LAST
from evalflow.calls.objects import StoredFolder, is_address
from evalflow.config.load import compose
from evalflow.engine.folder import refuse_links
from evalflow.errors import Problem, UserError, command
from evalflow.paths import shown
from evalflow.records.manifest import Manifest
from evalflow.values.jsonvalues import is_mapping


@requires("own")
def open_run(space: Workspace, folder: Path | str, *, trust_program: bool = False) -> Run:
    """Add a run of the command line, from its folder or its address in object storage.

    A worker then loads its scores. A run in object storage is downloaded; a server with accounts refuses it.
    `trust_program` allows the program named in run.json to be started when the run is resumed; without it, such a run
    raises ProgramError.
    """
    opened = find_run(within(space, _here(space, str(folder))))
    opened_folder, manifest = opened.folder, opened.manifest
    refuse_links(opened_folder)
    refuse_elsewhere(space, manifest.config)
    if trust_program:
        agree(manifest, space.root)
    expect_agreed(
        manifest, str(opened_folder.path), "open it with trust_program if you trust the person who made it", space.root
    )
    if manifest.status == "running" or not opened_folder.scores.is_file():
        hint = f"finish it: {command('resume', opened_folder.path)}"
        raise UserError(Problem("this run has no scores yet", str(opened_folder.path), hint))
    values: dict[str, object] = {
        "project_id": space.project_id,
        "run_id": manifest.run_id,
        "title": "",
        "bot": manifest.target.name,
        "state": "queued",
        "task": "load",
        "origin": "command line",
        "composition": _composition(space, manifest),
        "arguments": [*_own_conf(manifest), *manifest.overrides],
        "folder": shown(opened_folder.path),
        "created_by": space.identify().name,
    }
    with space.changing("open", "run", manifest.run_id) as connection:
        if runs.get(connection, manifest.run_id):
            raise TakenError(Problem(f"run {manifest.run_id} is here already", str(opened_folder.path)))
        runs.create(connection, values)
    return get_run(space, manifest.run_id)


def _here(space: Workspace, folder: str) -> Path:
    """The run's folder on this machine, downloaded if it is in object storage."""
    if not is_address(folder):
        return Path(folder)
    if space.allowed is not None:
        hint = "copy its folder below outputs/runs, then open that"
        raise UserError(Problem("a server with accounts reads no object storage", "folder", hint))
    return StoredFolder(folder, "folder").fetch_all(LAST)


def _own_conf(manifest: Manifest) -> list[str]:
    """The command-line arguments that set the run's config folder, if any."""
    first, *_ = folders = manifest.search_folders["conf"]
    found_anyway = (str(Path(manifest.working_directory, "conf").resolve()), folders[-1])
    return [] if first in found_anyway else ["--config-dir", shown(Path(first))]


@requires("edit")
def make_repeatable(space: Workspace, run_id: str) -> RunRequest:
    """Derive the request of a command-line run, and save it in the run's row.

    Raises UserError listing all configuration that a request cannot express.
    """
    row = run_row(space, run_id)
    request = _request_of(space, run_folder(space, row).read_manifest())
    with space.changing("update", "run", run_id, ["composition"]) as connection:
        if not runs.change(connection, run_id, row.version, composition=asdict(request)):
            raise TakenError(Problem(f"run {run_id} is being read", "run", "try again in a moment"))
    return request


def _composition(space: Workspace, manifest: Manifest) -> dict[str, object]:
    try:
        return asdict(_request_of(space, manifest))
    except UserError:
        return {}  # it can still be viewed, and repeated by its command


def _request_of(space: Workspace, manifest: Manifest) -> RunRequest:
    """The request with the same files of conf/ and the command line's changes."""
    hint = f"run its command in {manifest.working_directory}"
    if Path(manifest.working_directory).resolve() != space.root.resolve() or _own_conf(manifest):
        folder = manifest.search_folders["conf"][0]
        raise UserError(Problem(f"its configuration is in {folder}, where the application does not look", "run", hint))
    config, choices = manifest.config, manifest.choices
    named = RunRequest(
        choices["target"],
        list(config["dataset"]),
        list(config["metric"]),
        judge=choices["judge"],
        embedder=choices["embedder"],
    )
    _expect_declared(space, named)
    changed: dict[str, Any] = {}
    problems: list[Problem] = []
    # Compared in the form of run.json: JSON turns the keys of a scale's anchors into texts.
    declared = json.loads(json.dumps(compose(named.words(), complete=False).storable))
    for path, value in _differences(declared, manifest.config):
        if _is_expressible(path, value):
            _put(changed, path, value)
        else:
            problems.append(Problem(f"its command line changed {'.'.join(path)}", "run", hint))
    if problems:
        raise UserError(problems)
    return replace(
        named,
        dataset_values=changed.pop("dataset", {}),
        judge_values=changed.pop("judge", {}),
        embedder_values=changed.pop("embedder", {}),
        thresholds={name: values["threshold"] for name, values in changed.pop("metric", {}).items()},
        options={"generate": config["generate"], **changed},
    )


def _expect_declared(space: Workspace, request: RunRequest) -> None:
    """Raise UserError if a definition in the database shadows one of the request's files of conf/."""
    named = (BOTS, [request.bot]), (JUDGES, [request.judge or ""]), (DATASETS, request.datasets)
    problems = [
        Problem(
            f"the {store.kind} {name!r} is another one here than on its command line",
            "run",
            "rename it, or run the command",
        )
        for store, names in named
        for name in names
        if store.find(space, name)
    ]
    if problems:
        raise UserError(problems)


_GONE = object()


def _differences(
    before: Mapping[str, object], after: Mapping[str, object], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the key paths whose values differ, with the new values; `_GONE` for removed keys."""
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key, _GONE)
        if is_mapping(old) and is_mapping(new):
            yield from _differences(old, new, (*path, key))
        elif key not in before or old != new:
            yield (*path, key), new


def _is_expressible(path: Sequence[str], value: object) -> bool:
    """Whether a request can express this value of the configuration; it cannot contain interpolations."""
    match path:
        case ("judge" | "embedder", *_) | ("cache", "mode"):
            known = True
        case ("dataset", _, key):
            known = key in KEYS
        case ("metric", _, "threshold"):
            known = isinstance(value, int | float)
        case (key, *_):
            known = key in OPTIONS and key != "cache"
        case _:
            known = False
    return known and value is not _GONE and "${" not in json.dumps(value)


def _put(values: dict[str, Any], path: Sequence[str], value: object) -> None:
    *above, last = path
    for key in above:
        values = values.setdefault(key, {})
    values[last] = value
