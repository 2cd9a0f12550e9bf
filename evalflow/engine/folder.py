"""A run's folder: the names of its files, and `outputs/latest`."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shlex
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from evalflow.errors import EvalflowError, InfrastructureError, Problem, UserError, command
from evalflow.paths import rebased, write_atomically
from evalflow.records.manifest import SCHEMA, Header, Manifest, SweepManifest
from evalflow.values.jsonvalues import as_map, is_object, kind

log = logging.getLogger("evalflow")
H = TypeVar("H", bound=Header)

_NO_ROOM = 64 * 1024  # free bytes below which a disk counts as full


class _File:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, _: object) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run. They need not exist."""

    path: Path

    manifest = _File("run.json")
    prepared = _File("prepared.json")  # values made once per run
    answers = _File("answers.jsonl")  # the journal of generated answers
    journal = _File("scores.jsonl")  # the journal of scores
    spending = _File("budget.json")  # the amounts spent and reserved of its budget, if any
    cases = _File("cases.jsonl")  # as evaluated
    scores = _File("scores.parquet")  # in input order
    results = _File("results.csv")
    report = _File("report.html")
    junit = _File("junit.xml")
    labels = _File("labels.jsonl")  # people's labels of its answers, if it was calibrated
    calibration = _File("calibration.json")  # the judge's agreement with labels, if there are any
    calibration_page = _File("calibration.html")  # the same, if `calibrate` was called
    exclusions = _File("exclusions.json")  # results that people took out of a metric, if there are any
    delivered = _File("otel.jsonl")  # the scores sent to an OpenTelemetry receiver, if any
    log = _File("evalflow.log")  # warnings and errors

    def read(self) -> Manifest | SweepManifest:
        """Read run.json of a run or of a sweep; UserError if it is damaged, or another version wrote the run."""
        content = self._json()
        return self._read(SweepManifest, content) if "jobs" in content else self._read_here(content)

    def read_manifest(self) -> Manifest:
        """Read run.json of a run; UserError if it is damaged, or another version wrote it."""
        return self._read_here(self._json())

    def read_sweep(self) -> SweepManifest | None:
        """Read run.json of a sweep; None for a single run, UserError if it is damaged."""
        content = self._json()
        return self._read(SweepManifest, content) if "jobs" in content else None

    def _read_here(self, content: dict[str, object]) -> Manifest:
        """The manifest of a run; if the working directory was moved with the run, its paths are as they are now."""
        manifest = self._read(Manifest, content)
        if not manifest.folder:
            return manifest
        *above, _ = parts = Path(manifest.folder).parts or ("",)
        path = self.path.resolve()
        if Path(manifest.folder).is_absolute() or list(path.parts[-len(parts) : -1]) != above:
            return manifest  # the run itself was moved, or it never was in its working directory
        return _moved(manifest, path.parents[len(parts) - 1])

    def _json(self) -> dict[str, object]:
        try:
            content: object = json.loads(self.manifest.read_bytes())
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None
        if not is_object(content):
            raise self._damaged(f"expected an object, got {kind(content)}")
        return content

    def _read(self, model: type[H], content: dict[str, object]) -> H:
        if model is Manifest and (schema := content.get("schema")) != SCHEMA:
            what = f"this run was written by another version of evalflow (schema {schema}, not {SCHEMA})"
            raise UserError(Problem(what, str(self.manifest), "open it with the version named in it"))
        try:
            return model.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            key, is_missing = ".".join(map(str, first["loc"])), first["type"] == "missing"
            raise self._damaged(f"`{key}` is {'missing' if is_missing else kind(first['input'])}") from None

    def _damaged(self, why: str) -> UserError:
        hint = "start that run again; the cache has its replies"
        return UserError(Problem(f"run.json is damaged: {why}", str(self.manifest), hint))

    def write_manifest(self, manifest: Header) -> None:
        write_atomically(self.manifest, manifest.text + "\n")


def _moved(manifest: Manifest, root: Path) -> Manifest:
    """The manifest with the paths that were below the working directory at their places below `root` now.

    Paths at which nothing is there stay as they were.
    """
    before = Path(manifest.working_directory)
    if root == before or not before.is_absolute():
        return manifest

    def here(values: Mapping[str, object], key: str) -> dict[str, Any]:
        path = values.get(key)
        return {**values, key: rebased(path, before, root)} if isinstance(path, str) else {**values}

    config = here(manifest.config, "baseline")
    if "cache" in config:
        config["cache"] = here(as_map(config["cache"]), "path")
    for group, key in (("dataset", "path"), ("metric", "steps_from")):
        config[group] = {name: here(as_map(values), key) for name, values in as_map(config.get(group)).items()}
    datasets = {
        name: facts.model_copy(update={"files": [rebased(file, before, root) for file in facts.files]})
        for name, facts in manifest.datasets.items()
    }
    folders = {
        group: [rebased(path, before, root) for path in paths] for group, paths in manifest.search_folders.items()
    }
    now = {"working_directory": str(root), "config": config, "datasets": datasets, "search_folders": folders}
    return manifest.model_copy(update=now)


def refuse_links(folder: RunFolder) -> None:
    """UserError if a run's folder contains a link, through which other files would be read or written."""
    link = next((path for path in folder.path.rglob("*") if path.is_symlink()), None)
    if link is not None:
        hint = f"remove it: rm {shlex.quote(str(link))}"
        raise UserError(Problem("this is a link, but a run's folder must not contain links", str(link), hint))


@contextmanager
def telling_full_disks(folder: RunFolder) -> Generator[None]:
    """Turn an error in the block into an InfrastructureError if the disk is full or the folder is gone."""
    try:
        yield
    except EvalflowError:
        raise
    except Exception as error:
        if not folder.path.is_dir():
            what = f"{folder.path} is gone: it was moved or deleted while the run was going"
            raise InfrastructureError(what, "start the run again; the cache has the replies") from None
        # Polars does not say why it could not write.
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not full and shutil.disk_usage(folder.path).free > _NO_ROOM:
            raise
        what = f"{folder.path} cannot be written: {os.strerror(errno.ENOSPC)}"
        raise InfrastructureError(what, f"make room, then: {command('resume', folder.path)}") from None


def point_latest(folder: Path) -> None:
    """Make `outputs/latest` in the working directory a link to the folder. A failure is only logged.

    Each project of a server has a `latest` of its own, in its folder of `outputs/projects`.
    """
    outputs = Path("outputs").absolute()
    if folder.is_relative_to(projects := outputs / "projects"):
        outputs = projects / folder.relative_to(projects).parts[0]
    link = outputs / "latest"
    draft = outputs / f".latest.{os.getpid()}"
    try:
        outputs.mkdir(exist_ok=True)
        draft.unlink(missing_ok=True)
        draft.symlink_to(os.path.relpath(folder, outputs), target_is_directory=True)
        draft.replace(link)
    except OSError as error:
        log.warning("%s was not switched to this run: %s", link, error.strerror)
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
