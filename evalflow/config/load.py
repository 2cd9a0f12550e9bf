"""Hydra's side of the configuration: composing it, for the command line and for everyone else.

This is the only module that talks to Hydra. What leaves it is plain: dicts, paths and strings.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra import main as hydra_main
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from evalflow.config import hydra_plugins
from evalflow.config.runid import sweep_slug
from evalflow.errors import Problem, UserError
from evalflow.paths import conf_dirs, prompt_dirs, share_dir

MULTI_SELECT = ("dataset", "metric")
_COMPOSING = threading.Lock()
"""Hydra keeps its state in singletons, so that only one thread may compose at a time."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed configuration, not yet validated.

    Attributes:
        values: The plain configuration, interpolations resolved.
        choices: The option chosen in each single-choice group.
        sources: The file that each `dataset.NAME`, `metric.NAME`, `judge` and `target` comes from.
        overrides: The command line's overrides.
        conf_folders, prompt_folders: The search order, first found wins.
        shadowed: Parts, with their files, that stand in the place of packaged ones of the same name.
    """

    values: dict[str, Any]
    choices: dict[str, str]
    sources: dict[str, Path]
    overrides: tuple[str, ...]
    conf_folders: tuple[Path, ...]
    prompt_folders: tuple[Path, ...]
    shadowed: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One job that Hydra starts.

    Attributes:
        folder: Its output folder; `.hydra/` is already in it.
        number: Its place in the sweep, or None outside a sweep.
        read: Gives its configuration, or raises UserError.
    """

    folder: Path
    number: int | None
    read: Callable[[], Composed]


def compose(overrides: Sequence[str], config_dir: Path | None = None, run_id: str = "none") -> Composed:
    """Compose without running; safe to call from any thread, writes nothing.

    Args:
        overrides: Hydra overrides, as on the command line.
        config_dir: A folder to search first.
        run_id: What `${run_id:}` stands for.

    Raises:
        UserError: The overrides or the files are wrong.
    """
    with (
        _COMPOSING,
        _hydra(config_dir, run_id, overrides),
        initialize_config_dir(str(share_dir() / "conf"), job_name="evalflow", version_base="1.3"),
    ):
        config = hydra_compose(hydra_plugins.PRIMARY, list(overrides), return_hydra_config=True)
        return _plain(config, config.hydra.runtime.choices, tuple(overrides), config_dir)


def launch(arguments: Sequence[str], run: Callable[[Job], None], config_dir: Path | None, run_id: str) -> None:
    """Let Hydra start jobs: one, or one per combination with -m. Its other flags (--cfg, --info) work too.

    Args:
        arguments: Overrides and Hydra's own flags.
        run: Does one job. What it raises is raised again when all jobs are done.
        config_dir: A folder to search first.
        run_id: The id of this run or sweep.

    Raises:
        UserError: The overrides or the files are wrong; jobs composed before that are done.
    """
    overrides = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]

    def task(config: DictConfig) -> None:
        hydra = HydraConfig.get()
        given = tuple(hydra.overrides.task)

        def read() -> Composed:
            with _as_user_errors(given):
                return _plain(config, hydra.runtime.choices, given, config_dir)

        number = hydra.job.num if hydra.mode == RunMode.MULTIRUN else None
        try:
            run(Job(Path(hydra.runtime.output_dir), number, read))
        except Exception as error:
            failures.append(error)  # Hydra would print its own traceback, and end the sweep

    failures: list[Exception] = []
    argv, sys.argv = sys.argv, ["evalflow", *arguments]
    try:
        with _COMPOSING, _hydra(config_dir, run_id, overrides):
            hydra_main(str(share_dir() / "conf"), hydra_plugins.PRIMARY, version_base="1.3")(task)()
    finally:
        sys.argv = argv
    if failures:
        raise failures[0]


def swept_keys(overrides: Sequence[str]) -> set[str]:
    """The keys that a sweep goes over: those given several values on the command line.

    Raises:
        UserError: An override does not parse.
    """
    with _as_user_errors(overrides):
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        return {override.key_or_group for override in parsed if override.is_sweep_override()}


@contextmanager
def _hydra(config_dir: Path | None, run_id: str, overrides: Sequence[str]) -> Generator[None]:
    """Hydra set up for one composition: search order, resolvers, and errors that are raised, not printed."""
    if config_dir and not config_dir.is_dir():
        raise UserError(Problem(f"--config-dir {config_dir} is no folder"))
    hydra_plugins.register()
    swept = swept_keys(overrides)
    OmegaConf.register_new_resolver("run_id", lambda: run_id, replace=True)
    OmegaConf.register_new_resolver(
        "swept", lambda: sweep_slug(list(HydraConfig.get().overrides.task), swept), replace=True
    )
    folders = hydra_plugins.USER_FOLDERS.set(tuple(conf_dirs(config_dir)[:-1]))
    full_error = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        with _as_user_errors(overrides):
            yield
    finally:
        hydra_plugins.USER_FOLDERS.reset(folders)
        os.environ.pop("HYDRA_FULL_ERROR")
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error


def _plain(config: DictConfig, choices: Any, overrides: tuple[str, ...], config_dir: Path | None) -> Composed:
    folders = tuple(conf_dirs(config_dir))
    sources = _check_packages(folders, overrides)
    ours = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    values = cast("dict[str, Any]", OmegaConf.to_container(ours, resolve=True, throw_on_missing=True))
    packaged = folders[-1]
    shadowed = [
        (key, file)
        for key, file in sources.items()
        if packaged not in file.parents and (packaged / file.parent.name / file.name).is_file()
    ]
    return Composed(
        values=values,
        choices={str(group): str(choice) for group, choice in choices.items()},
        sources=sources,
        overrides=overrides,
        conf_folders=folders,
        prompt_folders=tuple(prompt_dirs(config_dir)),
        shadowed=tuple(shadowed),
    )


def _check_packages(folders: Sequence[Path], overrides: Sequence[str]) -> dict[str, Path]:
    """The file behind each part; every dataset and metric file must sit in its own package, or two would merge."""
    loader = GlobalHydra.instance().config_loader()
    defaults = loader.compute_defaults_list(hydra_plugins.PRIMARY, list(overrides), RunMode.RUN).defaults
    sources: dict[str, Path] = {}
    problems: list[Problem] = []
    for part in defaults:
        group, _, name = (part.config_path or "").partition("/")
        if group not in (*MULTI_SELECT, "judge", "target") or name.startswith("_"):
            continue
        file = next((f for folder in folders if (f := folder / f"{part.config_path}.yaml").is_file()), Path(name))
        key = f"{group}.{name}" if group in MULTI_SELECT else group
        if group in MULTI_SELECT and part.package != key:
            line = f"# @package {key}"
            problems.append(Problem(f"the first line must be its package line: {line}", str(file), f"paste: {line}"))
        sources[key] = file
    if problems:
        raise UserError(problems)
    return sources


@contextmanager
def _as_user_errors(overrides: Sequence[str]) -> Generator[None]:
    try:
        yield
    except MissingMandatoryValue as error:
        key = str(error.full_key or "")
        raise UserError(Problem(f"{key} has no value", hint=f"add {key}=...")) from None
    except yaml.YAMLError as error:
        raise UserError(_yaml_problem(error)) from None
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # metric=null is a ValueError
        raise UserError(_hydra_problem(error, overrides)) from None
    except OSError as error:
        what = f"cannot write there: {error.strerror}"
        raise UserError(Problem(what, str(error.filename), "run in another folder, or set hydra.run.dir")) from None


def _yaml_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = f"{mark.name}:{mark.line + 1}" if mark else ""
    what = getattr(error, "problem", None) or str(error)
    return Problem(f"this is not valid YAML: {what}", where, "quote values that hold any of : { } [ ] # & * ! | > % @")


def _hydra_problem(error: Exception, overrides: Sequence[str]) -> Problem:
    text = "\n".join(line.rstrip() for line in str(error).strip().splitlines() if line.strip())
    if "Config group override must be" in text:
        given = ", ".join(o for o in overrides if o.endswith("=null")) or "null"
        return Problem(f"a group is chosen by a name or a list of names, not by {given}", "command line")
    absent = re.search(r"Could not override '([^']+)'", text)
    if absent:
        key = absent[1].lstrip("+")
        given = next((o for o in overrides if o.startswith(f"{key}=")), f"{key}=...")
        return Problem(
            f"there is no key {key} to change", "command line", f"if its file only leaves it out: '+{given}'"
        )
    if cause := error.__cause__:
        text = f"{text}\n{str(cause).strip().splitlines()[0]}"
    return Problem(text, "command line" if overrides else "")
