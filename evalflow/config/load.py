"""Compose configurations with Hydra and return plain values, so that no other module needs Hydra."""

from __future__ import annotations

import codecs
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hydra import compose as hydra_compose
from hydra import main as hydra_main
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf

from evalflow.config import hydra_plugins
from evalflow.config.faults import AbsentKeyError, as_user_errors, no_value, problems_of_absent
from evalflow.config.foreign_keys import MULTI_SELECT, ROOT_GROUPS, SINGLE_SELECT, Untaken
from evalflow.config.overrides import quoted
from evalflow.config.validate import NOTHING_UNSAVED, Composed, Unsaved, laid_over
from evalflow.config.yaml_text import MISSING, escaped, expect_bounded, with_texts
from evalflow.errors import Problem, UserError
from evalflow.paths import conf_dirs, prompt_dirs, share_dir, sweep_slug
from evalflow.values.jsonvalues import as_list, as_map

_COMPOSING = threading.Lock()  # held while composing: Hydra keeps its state in singletons
_LAUNCHING = threading.Lock()  # held by a command line from its first composition to the end of its last job


@dataclass(frozen=True, slots=True)
class HydraJob:
    """One job that Hydra starts; `.hydra/` is already in its folder. It has a number only in sweeps."""

    folder: Path
    number: int | None
    read: Callable[[], Composed]


Run = Callable[[HydraJob], float | None]  # executes a job; returns the value of its objective, if it has one
Check = Callable[[Composed], object]  # validates a composed configuration; raises UserError


def compose(
    overrides: Sequence[str],
    config_dir: Path | None = None,
    run_id: str = "none",
    check: Check | None = None,
    *,
    complete: bool = True,
    unsaved: Unsaved = NOTHING_UNSAVED,
) -> Composed:
    """Compose without running; writes nothing. Safe in any thread, also while jobs of `launch` run.

    `check` validates, to suggest the right name for an unknown key. Unless `complete`, a missing value is "???".
    `unsaved` has options, and values for chosen ones, that no file has.
    """
    overrides = quoted(overrides)
    try:
        return _compose(overrides, config_dir, run_id, complete=complete, unsaved=unsaved)
    except AbsentKeyError as error:
        raise _explained(error, overrides, config_dir, check) from None


def launch(arguments: Sequence[str], run: Run, config_dir: Path | None, run_id: str, check: Check) -> None:
    """Let Hydra start jobs: one, or one per combination with -m. Its other flags (--cfg, --info) work too.

    For a sweeper that optimises, such as Optuna's, a job without a value of its objective has failed. A launch in
    another thread waits until the first has ended. Exceptions of `run` are raised after all jobs are done.
    UserError if the overrides or the files are invalid; earlier jobs of the sweep may have run by then.
    """
    words = [word for word in arguments if not word.startswith("-") and ("=" in word or word.startswith("~"))]
    flags = [word for word in arguments if word not in words]
    overrides = quoted(words)

    def task(config: DictConfig) -> float | None:
        job, value = _job(config, config_dir), None
        sweeper = str(HydraConfig.get().runtime.choices["hydra/sweeper"])
        optimises = job.number is not None and sweeper != "basic"
        try:
            if optimises:
                _expect_objective(config, sweeper)
            with _others_may_compose(run_id, overrides), _umask(own):
                value = run(job)
        except Exception as error:
            failures.append(error)  # Hydra would print its own traceback, and end the sweep
        if optimises and value is None:
            raise _NoValueError("the run has no value of its objective")
        return value

    failures: list[Exception] = []
    with _LAUNCHING, _umask(0o077) as own:  # Hydra's folders are readable by their owner only
        argv, sys.argv = sys.argv, ["evalflow", *flags, *overrides]  # argparse takes flags and overrides separately
        try:
            with _composing(config_dir, run_id, overrides):
                own_mode = any(word.lstrip("+").startswith("hydra.mode=") for word in overrides)
                if own_mode or not {"-m", "--multirun"}.issuperset(flags):
                    hydra_main(_packaged(), hydra_plugins.PRIMARY, version_base="1.3")(task)()
                else:  # hydra.main would compose once more to find out whether this is a sweep
                    with _hydra() as hydra:
                        go, mode = (hydra.multirun, "MULTIRUN") if flags else (hydra.run, "RUN")
                        go(hydra_plugins.PRIMARY, task, [*overrides, f"hydra.mode={mode}"])
        except AbsentKeyError as error:
            raise _explained(error, overrides, config_dir, check) from None
        except _NoValueError:
            pass  # why was reported by the run, or is among the failures
        finally:
            sys.argv = argv
    if failures:
        raise failures[0]


def resolved(storable: Mapping[str, object]) -> dict[str, Any]:
    """Return `Composed.storable` with the current environment variables filled in; UserError if one is not set."""
    if not _refers(storable):
        return deepcopy(dict(storable))
    with as_user_errors(()):
        return _contents(OmegaConf.create(dict(storable)), resolve=True)


_ENVIRONMENT = re.compile(r"(?<!\\)((?:\\\\)*)\$\{oc\.env:")
_HIDDEN = "\ue000{oc.env:"
"""Stands for `${oc.env:` while other references are resolved: a private character, so no text has it."""


def self_contained(storable: Mapping[str, object]) -> dict[str, Any]:
    """Return `Composed.storable` with the value in place of each reference, except those to environment variables.

    Any part can then be replaced. The values of environment variables may be secret.
    """
    hidden = with_texts(dict(storable), lambda text: _ENVIRONMENT.sub(rf"\1{_HIDDEN}", text))
    return with_texts(escaped(resolved(hidden)), lambda text: text.replace(_HIDDEN, "${oc.env:"))


def _refers(value: object) -> bool:
    """Whether a text in these values has a reference, e.g. to a variable, or something that could be one."""
    match value:
        case str():
            return "${" in value
        case Mapping():
            return any(map(_refers, as_map(value).values()))
        case list():
            return any(map(_refers, as_list(value)))
        case _:
            return False


def read_yaml(text: str) -> dict[str, object]:
    """Parse a configuration file without resolving anything, `defaults` included; UserError unless it is a map."""
    with as_user_errors(()):
        expect_bounded(text)
        return _contents(OmegaConf.create(text), resolve=False)


def _contents(config: DictConfig | ListConfig, *, resolve: bool, complete: bool = False) -> dict[str, Any]:
    """Return the plain values of a configuration; with `complete`, a missing mandatory value is an error."""
    return dict(as_map(OmegaConf.to_container(config, resolve=resolve, throw_on_missing=complete)))


@contextmanager
def _hydra() -> Generator[Hydra]:
    """Set up Hydra as `hydra.initialize_config_dir` does, but with our loader."""
    version.setbase("1.3")
    hydra = Hydra("evalflow", hydra_plugins.Loader(create_config_search_path(_packaged())))
    GlobalHydra.instance().initialize(hydra)
    try:
        yield hydra
    finally:
        GlobalHydra.instance().clear()


def _packaged() -> str:
    return str(share_dir() / "conf")


@contextmanager
def _umask(mask: int) -> Generator[int]:
    before = os.umask(mask)
    try:
        yield before
    finally:
        os.umask(before)


def _compose(
    overrides: Sequence[str],
    config_dir: Path | None,
    run_id: str,
    *,
    complete: bool = True,
    unsaved: Unsaved = NOTHING_UNSAVED,
) -> Composed:
    with _composing(config_dir, run_id, overrides, unsaved), _hydra():
        config = hydra_compose(hydra_plugins.PRIMARY, list(overrides), return_hydra_config=True)
        choices = config.hydra.runtime.choices
        return _plain(config, choices, tuple(overrides), config_dir, complete=complete, unsaved=unsaved)


def _explained(
    error: AbsentKeyError, overrides: Sequence[str], config_dir: Path | None, check: Check | None
) -> UserError:
    if check is None:
        return error

    def again(changed: Sequence[str]) -> Composed:
        return _compose(changed, config_dir, "none", complete=False)

    return UserError(problems_of_absent(error, overrides, again, check))


def _job(config: DictConfig, config_dir: Path | None) -> HydraJob:
    """Return the job of a configuration, read while Hydra's global state belongs to it."""
    hydra = HydraConfig.get()
    given = _job_overrides()
    number = hydra.job.num if hydra.mode == RunMode.MULTIRUN else None
    outcome: Composed | UserError
    try:
        with as_user_errors(given):
            outcome = _plain(config, hydra.runtime.choices, given, config_dir)
    except UserError as error:
        outcome = error

    def read() -> Composed:
        if isinstance(outcome, UserError):
            raise outcome
        return outcome

    return HydraJob(Path(hydra.runtime.output_dir), number, read)


def _plain(
    config: DictConfig,
    choices: Mapping[str, object],
    overrides: tuple[str, ...],
    config_dir: Path | None,
    *,
    complete: bool = True,
    unsaved: Unsaved = NOTHING_UNSAVED,
) -> Composed:
    folders = tuple(conf_dirs(config_dir))
    sources, root_files, untaken = _files_of(folders, overrides, unsaved)
    OmegaConf.set_struct(config, value=False)
    config.pop("hydra", None)
    ours = config
    if unsaved.changes:
        ours = OmegaConf.create(laid_over(_contents(config, resolve=False), unsaved.changes))
    for key in _hidden_by_null(ours, sources):
        OmegaConf.update(ours, key, MISSING)
    unresolved = _contents(ours, resolve=False)
    if complete and (absent := sorted(_missing_keys(unresolved))):
        raise UserError([no_value(key) for key in absent])
    values = _contents(ours, resolve=True, complete=complete)
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
        unresolved=unresolved,
        root_files=root_files,
        untaken=untaken,
        unsaved=unsaved,
    )


def _missing_keys(value: object, path: str = "") -> Iterator[str]:
    """Return the keys whose mandatory value is missing, as OmegaConf writes them."""
    if value == MISSING:
        yield path
    for key, one in as_map(value).items():
        yield from _missing_keys(one, f"{path}.{key}" if path else str(key))
    for index, one in enumerate(as_list(value)):
        yield from _missing_keys(one, f"{path}[{index}]")


def _hidden_by_null(config: DictConfig, sources: Mapping[str, Path]) -> list[str]:
    """Return the keys that are ??? in the chosen file but null in a file of its defaults: OmegaConf keeps the null."""
    hidden: list[str] = []
    for key, file in sources.items():
        text = "" if "." in key or not file.is_file() else file.read_text(encoding="utf-8")
        if MISSING in text:
            named = _missing_keys(_contents(OmegaConf.create(text), resolve=False), key)
            hidden += [name for name in named if OmegaConf.select(config, name) is None]
    return hidden


def _files_of(
    folders: Sequence[Path], overrides: Sequence[str], unsaved: Unsaved
) -> tuple[dict[str, Path], tuple[Path, ...], tuple[Untaken, ...]]:
    """Return the file of each part, the files that set keys of the whole configuration, and their ignored keys.

    UserError if a dataset's or a metric's file has no package of its own, since two such files would merge.
    """
    loader = GlobalHydra.instance().config_loader()
    if isinstance(loader, hydra_plugins.Loader):
        defaults, untaken = loader.defaults, loader.untaken
    else:
        defaults = loader.compute_defaults_list(hydra_plugins.PRIMARY, list(overrides), RunMode.RUN).defaults
        untaken = hydra_plugins.untaken_of(defaults, vars(loader)["repository"], overrides)
        if untaken:
            hint = "leave hydra.mode and Hydra's other flags out, or remove these keys from the file"
            raise UserError([Problem(str(one), one.file, hint) for one in untaken])
    sources: dict[str, Path] = {}
    root_files: list[Path] = []
    problems: list[Problem] = []
    for part in defaults:
        group, _, name = (part.config_path or "").partition("/")
        if (group, name) in unsaved.options:
            continue
        file = next((f for folder in folders if (f := folder / f"{part.config_path}.yaml").is_file()), Path(name))
        if group in ROOT_GROUPS and file.is_file():
            root_files.append(file)
        if group not in (*MULTI_SELECT, *SINGLE_SELECT) or name.startswith("_"):
            continue
        key = f"{group}.{name}" if group in MULTI_SELECT else group
        if group in MULTI_SELECT and part.package != key:
            problems.append(_lost_package(key, file))
        sources[key] = file
    if problems:
        raise UserError(problems)
    return sources, tuple(root_files), tuple(untaken)


def _lost_package(key: str, file: Path) -> Problem:
    line = f"# @package {key}"
    if file.is_file() and file.read_bytes().startswith(codecs.BOM_UTF8):
        what = "the file begins with a byte order mark, which hides its first line, the package line"
        return Problem(what, str(file), "save it as UTF-8 without a byte order mark (BOM)")
    return Problem(f"the first line must be its package line: {line}", str(file), f"paste: {line}")


@contextmanager
def _composing(
    config_dir: Path | None, run_id: str, overrides: Sequence[str], unsaved: Unsaved = NOTHING_UNSAVED
) -> Generator[None]:
    """Set up Hydra for one composition; other threads wait until the block ends or calls `_others_may_compose`."""
    if config_dir and not config_dir.is_dir():
        raise UserError(Problem(f"--config-dir {config_dir} is not a folder", "command line"))
    _expect_own_launcher(overrides)
    _expect_single_choices(overrides)
    with _COMPOSING:
        hydra_plugins.register()
        _name_folders(run_id, overrides)
        folders = hydra_plugins.USER_FOLDERS.set(tuple(conf_dirs(config_dir)[:-1]))
        options = hydra_plugins.UNSAVED_OPTIONS.set(unsaved.options)
        full_error = os.environ.get("HYDRA_FULL_ERROR")
        os.environ["HYDRA_FULL_ERROR"] = "1"
        try:
            with as_user_errors(overrides, conf_dirs(config_dir)):
                yield
        finally:
            hydra_plugins.UNSAVED_OPTIONS.reset(options)
            hydra_plugins.USER_FOLDERS.reset(folders)
            os.environ.pop("HYDRA_FULL_ERROR")
            if full_error is not None:
                os.environ["HYDRA_FULL_ERROR"] = full_error


def _expect_own_launcher(overrides: Sequence[str]) -> None:
    """UserError if another launcher is chosen: its jobs would be processes that know nothing of each other."""
    for word in overrides:
        key, _, value = word.lstrip("+~").partition("=")
        if key.startswith(("hydra/launcher", "hydra.launcher")) and value != "basic":
            what = "a launcher of Hydra would start jobs that share no budget, no limits and no answers"
            hint = "leave it out: jobs go one after the other; engine=ray spreads each over all cores or a cluster"
            raise UserError(Problem(what, word, hint))


class _NoValueError(Exception):
    """Tells a sweeper that a job has failed."""


def _expect_objective(config: DictConfig, sweeper: str) -> None:
    """UserError if the run does not say what the sweeper is to optimise."""
    if config.get("objective") is None:
        what, where = "the sweeper optimises a metric, but the run has none", f"hydra/sweeper={sweeper}"
        raise UserError(Problem(what, where, "add objective=METRIC, with one of the run's metrics"))


def _expect_single_choices(overrides: Sequence[str]) -> None:
    """UserError if several options of a single-choice group are chosen; Hydra would merge them into one."""
    for word in overrides:
        group, _, value = word.lstrip("+").partition("=")
        if group in SINGLE_SELECT and value.startswith("["):
            hint = f"{group}=NAME; one run for each: -m {group}={value.strip('[]')}"
            raise UserError(Problem(f"{group} is one name, not a list", word, hint))


@contextmanager
def _others_may_compose(run_id: str, overrides: Sequence[str]) -> Generator[None]:
    """Release Hydra to other threads while a job runs, which can take hours."""
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


def _job_overrides() -> tuple[str, ...]:
    """The overrides of the current job, with environment references unresolved."""
    return tuple(cast("list[str]", OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)))


def _swept_keys(overrides: Sequence[str]) -> set[str]:
    """The keys that a sweep varies, by its command line and by `hydra.sweeper.params` of its files."""
    params = as_map(as_map(OmegaConf.to_container(HydraConfig.get().sweeper)).get("params"))
    words = [*overrides, *(f"{key}={value}" for key, value in params.items())]
    with as_user_errors(overrides):
        parsed = OverridesParser.create().parse_overrides(words)
        return {override.key_or_group for override in parsed if override.is_sweep_override()}


def _name_folders(run_id: str, overrides: Sequence[str]) -> None:
    OmegaConf.register_new_resolver("run_id", lambda: run_id, replace=True)
    OmegaConf.register_new_resolver("swept", lambda: sweep_slug(_job_overrides(), _swept_keys(overrides)), replace=True)
