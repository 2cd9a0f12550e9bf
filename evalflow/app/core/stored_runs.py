"""Copies of runs and sweeps in object storage, which are there as a whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from evalflow.app.core.saved import jobs_of
from evalflow.calls.objects import StoredFolder
from evalflow.engine import bookkeeping
from evalflow.engine.folder import RunFolder
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.records.manifest import ExportFacts

log = logging.getLogger("evalflow")

LAST = "run.json"
"""The file of each folder that is written last and deleted first: without it the run does not exist."""
_BEGUN = ".begun"


class OutgoingCopy:
    """The copy of an active run or sweep, below the address in its configuration."""

    def __init__(self, folder: Path, to: str) -> None:
        sweep = [folder.parent.name] if RunFolder(folder.parent).manifest.is_file() else []
        self._folder = folder
        self._stored = StoredFolder("/".join([to.rstrip("/"), *sweep, folder.name]), "copy_to")

    def begin(self) -> None:
        """Write a mark to the address before the run begins; UserError without write access."""
        self._stored.write(_BEGUN, bookkeeping.now().encode())

    def finish(self) -> ExportFacts:
        """Copy it, except runs of a sweep that are already there. Failures are reported only in the returned facts."""
        why = None
        try:
            jobs = jobs_of(self._folder) or []
            there = {job for job in jobs if self._stored.has(f"{job.name}/{LAST}")}
            send_folder(self._folder, self._stored, again=True, without=there)
            self._stored.delete(_BEGUN)
        except (EvalflowError, OSError) as error:
            log.exception("%s could not be copied", self._folder)
            why = str(error)
        return _facts(self._folder, self._stored, why)


def begin_copy(folder: Path, to: str | None) -> OutgoingCopy | None:
    """The copy of a run that begins, if it is to be copied; UserError if nothing can be written there."""
    if to is None:
        return None
    copy = OutgoingCopy(folder, to)
    copy.begin()
    return copy


def copy_folder(folder: Path, address: str, *, again: bool) -> ExportFacts:
    """Copy a run or a sweep to an address; UserError if there is one already, unless `again` says to replace it."""
    stored = StoredFolder(address, "--to")
    send_folder(folder, stored, again=again)
    return _facts(folder, stored, None)


def send_folder(folder: Path, stored: StoredFolder, *, again: bool, without: Set[Path] = frozenset()) -> None:
    """Copy the files of a run, or of a sweep and its runs; UserError if there is one already, unless `again`."""
    if stored.has(LAST) and not again:
        hint = "replace it with --again, or name another address with --to"
        raise UserError(Problem("there is a run already", stored.address, hint))
    named = {path.relative_to(folder).as_posix(): path for path in _in_order(folder, without)}
    for name, path in reversed(named.items()):
        if path.name == LAST:
            stored.delete(name)
    for name, path in named.items():
        stored.write(name, path, new=name == LAST)


def _in_order(folder: Path, without: Set[Path]) -> Sequence[Path]:
    """Return the files of a folder, each run.json after the others of its folder, the topmost last."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    kept = [path for path in files if not path.name.endswith(".part") and without.isdisjoint(path.parents)]
    return sorted(kept, key=lambda path: (path.name == LAST, -len(path.parts), path))


def _facts(folder: Path, stored: StoredFolder, why: str | None) -> ExportFacts:
    """Return the facts on a copy: all scores are at the address, or none and why."""
    count = sum(sum(RunFolder(run).read_manifest().scores.values()) for run in _runs(folder))
    sent, unsent = (0, count) if why else (count, 0)
    return ExportFacts(to="storage", where=stored.address, at=bookkeeping.now(), sent=sent, unsent=unsent, why=why)


def _runs(folder: Path) -> Iterator[Path]:
    jobs = jobs_of(folder)
    yield from [folder] if jobs is None else jobs
