"""The programs that resumed runs may start: those started here before, and those that the user allowed.

A run's folder can come from somebody else, and `resume` starts the command, or calls the function, that its run.json
names. `.evalflow/programs` lists the runs whose programs may be started; only its owner can write it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from evalflow.config.schema import TargetConfig
from evalflow.errors import Problem, UserError
from evalflow.paths import private_file, private_folder
from evalflow.targets.registry import TARGET_KINDS

FILE = Path(".evalflow") / "programs"


class ProgramError(UserError):
    """Starting a program needs the user's consent."""


def expect_agreed(manifest: Mapping[str, Any], where: str, hint: str, root: Path | None = None) -> None:
    """Refuse to resume a run that would start a program without the user's consent.

    Args:
        manifest: run.json.
        where: The run's folder.
        hint: How to agree.
        root: The working directory of resumed runs; None: this process's.

    Raises:
        ProgramError: The run would start a program that was not allowed.
    """
    program = _program(manifest)
    if program is None or _digest(manifest) in _agreed((root or Path.cwd()) / FILE):
        return
    raise ProgramError(Problem(f"to resume this run starts a program of this machine: {program}", where, hint))


def agree(manifest: Mapping[str, Any], root: Path | None = None) -> None:
    """Allow the run's program, if it has one, to be started from now on."""
    path = (root or Path.cwd()) / FILE
    if _program(manifest) is None or _digest(manifest) in _agreed(path):
        return
    private_folder(path.parent)
    with os.fdopen(private_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "w", encoding="utf-8") as file:
        file.write(f"{_digest(manifest)}\n")


def _program(manifest: Mapping[str, Any]) -> str | None:
    """The program that a run starts, as configured; None if it only calls services. Unknown kinds count as programs."""
    target: object = manifest["config"].get("target")
    values: Mapping[str, Any] = cast("Mapping[str, Any]", target) if isinstance(target, Mapping) else {}
    kind = str(values.get("kind"))
    try:
        if TARGET_KINDS.config(kind).runs_here is TargetConfig.runs_here:
            return None
    except UserError:
        return f"a target of kind {kind}"
    argv = values.get("argv")
    if isinstance(argv, list):
        return shlex.join(str(word) for word in cast("Sequence[Any]", argv))
    return str(values.get("call") or f"a target of kind {kind}")


def _digest(manifest: Mapping[str, Any]) -> str:
    known = json.dumps([manifest["run_id"], manifest["config"].get("target")], sort_keys=True)
    return hashlib.sha256(known.encode()).hexdigest()


def _agreed(path: Path) -> set[str]:
    try:
        return set(path.read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return set()
