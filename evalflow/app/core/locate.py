"""Finding a run's folder from what people typed."""

from __future__ import annotations

import shlex
from pathlib import Path

from evalflow.errors import Problem, UserError, command
from evalflow.run.folder import RunFolder

LATEST = Path("outputs") / "latest"


def find_folder(given: str | None) -> Path:
    """The folder of a run or a sweep; the latest where none is given.

    Raises:
        UserError: There is none.
    """
    path = Path(given) if given else LATEST
    if RunFolder(path).manifest.is_file():
        return path.resolve()
    if given is None:
        raise UserError(
            Problem("there is no run here yet", str(LATEST), f"run: {command('dataset=rag', 'metric=faithfulness')}")
        )
    hint = "a run's folder has a run.json; see outputs/runs" if path.is_dir() else "see: ls outputs/runs"
    raise UserError(Problem("this is no folder of a run", given, hint))


def find_run(given: str | None, *verb: str) -> RunFolder:
    """The folder of a single run.

    Args:
        given: The folder; the latest without it.
        verb: The words of the command line that the folder comes after, to say which lines would work of a sweep.

    Raises:
        UserError: There is none, or it is a sweep, which has several.
    """
    folder = RunFolder(find_folder(given))
    jobs = folder.read_manifest().get("jobs")
    if jobs is not None:
        names = [f"{given or LATEST}/{job}" for job in jobs]
        lines = "\n    ".join(command(*verb, name) if verb else shlex.quote(name) for name in names)
        where = str(given or LATEST)
        raise UserError(Problem("this is a sweep of several runs", where, f"name one of them:\n    {lines}"))
    return folder


def jobs_of(folder: Path) -> list[Path] | None:
    """The runs of a sweep, in order, or None where the folder holds a single run.

    A sweep that was killed has not written which they are.
    """
    jobs = RunFolder(folder).read_manifest().get("jobs")
    if jobs is None or jobs:
        return None if jobs is None else [folder / job for job in jobs]
    begun = [path.parent for path in folder.glob("*/run.json")]
    return sorted(begun, key=lambda path: (len(path.name.partition("_")[0]), path.name))


def is_override(word: str) -> bool:
    """Whether a word is KEY=VALUE, and no folder: those of a sweep's runs have `=` in their names."""
    return "=" in word and not word.startswith("-") and not Path(word).exists()
