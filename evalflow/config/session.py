"""Hydra's state, which is one for the whole process: lent to one composition at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from evalflow.config import hydra_plugins
from evalflow.config.faults import as_user_errors
from evalflow.config.runid import sweep_slug
from evalflow.errors import Problem, UserError
from evalflow.paths import conf_dirs

_COMPOSING = threading.Lock()
"""Hydra keeps its state in singletons, so that only one thread may compose at a time."""


@contextmanager
def composing(config_dir: Path | None, run_id: str, overrides: Sequence[str]) -> Generator[None]:
    """Hydra set up for one composition: search order, resolvers, and errors that are raised, not printed.

    Other threads wait until the block has ended, or lends Hydra by `others_may_compose`.

    Args:
        config_dir: A folder to search first.
        run_id: What `${run_id:}` stands for.
        overrides: The command line's overrides.

    Raises:
        UserError: The folder is none, or something went wrong in the block.
    """
    if config_dir and not config_dir.is_dir():
        raise UserError(Problem(f"--config-dir {config_dir} is no folder", "command line"))
    with _COMPOSING:
        hydra_plugins.register()
        _name_folders(run_id, overrides)
        folders = hydra_plugins.USER_FOLDERS.set(tuple(conf_dirs(config_dir)[:-1]))
        full_error = os.environ.get("HYDRA_FULL_ERROR")
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            with as_user_errors(overrides):
                yield
        finally:
            hydra_plugins.USER_FOLDERS.reset(folders)
            os.environ.pop("HYDRA_FULL_ERROR")
            if full_error is not None:
                os.environ["HYDRA_FULL_ERROR"] = full_error


@contextmanager
def others_may_compose(run_id: str, overrides: Sequence[str]) -> Generator[None]:
    """Lend Hydra to other threads while a job runs, which can take hours.

    Args:
        run_id: What `${run_id:}` stands for in the jobs still to come.
        overrides: The command line's overrides.
    """
    ours = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    _COMPOSING.release()
    try:
        yield
    finally:
        _COMPOSING.acquire()
        if ours:
            GlobalHydra.instance().initialize(ours)
        _name_folders(run_id, overrides)


def job_overrides() -> tuple[str, ...]:
    """The overrides of the job under way as they were given: what they take from the environment is not resolved."""
    return tuple(cast("list[str]", OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)))


def swept_keys(overrides: Sequence[str]) -> set[str]:
    """The keys that a sweep goes over: those given several values on the command line.

    Raises:
        UserError: An override does not parse.
    """
    with as_user_errors(overrides):
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        return {override.key_or_group for override in parsed if override.is_sweep_override()}


def _name_folders(run_id: str, overrides: Sequence[str]) -> None:
    """Register what conf/hydra/default.yaml makes the names of folders from."""
    swept = swept_keys(overrides)
    OmegaConf.register_new_resolver("run_id", lambda: run_id, replace=True)
    OmegaConf.register_new_resolver("swept", lambda: sweep_slug(job_overrides(), swept), replace=True)
