"""Programs that a run starts: one from a run's folder is started only if it was before, or somebody agrees.

A run's folder can come from somebody else, and to resume it starts the command, or calls the callable, that its
run.json names. What was started or agreed to here stands in `.evalflow/programs`, which its owner alone can write.
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
from evalflow.targets.registry import target_config_model

FILE = Path(".evalflow") / "programs"


class ProgramError(UserError):
    """A program would be started that nobody has agreed to."""


def expect_agreed(manifest: Mapping[str, Any], where: str, hint: str, root: Path | None = None) -> None:
    """See that to resume a run starts no program that nobody has agreed to.

    Args:
        manifest: run.json.
        where: The run's folder.
        hint: How to agree.
        root: The working directory that runs are resumed in; None: this process's.

    Raises:
        ProgramError: It would start one.
    """
    program = _program(manifest)
    if program is None or _digest(manifest) in _agreed((root or Path.cwd()) / FILE):
        return
    raise ProgramError(Problem(f"to resume this run starts a program of this machine: {program}", where, hint))


def agree(manifest: Mapping[str, Any], root: Path | None = None) -> None:
    """Note that the run's program, if it has one, may be started from now on."""
    path = (root or Path.cwd()) / FILE
    if _program(manifest) is None or _digest(manifest) in _agreed(path):
        return
    private_folder(path.parent)
    with os.fdopen(private_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "w", encoding="utf-8") as file:
        file.write(f"{_digest(manifest)}\n")


def _program(manifest: Mapping[str, Any]) -> str | None:
    """What a run starts, as it was written; None where it only asks services. What cannot be read may be anything."""
    target: object = manifest["config"].get("target")
    values: Mapping[str, Any] = cast("Mapping[str, Any]", target) if isinstance(target, Mapping) else {}
    kind = str(values.get("kind"))
    try:
        if target_config_model(kind).runs_here is TargetConfig.runs_here:
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
