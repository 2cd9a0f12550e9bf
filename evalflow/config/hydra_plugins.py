"""Hydra plugins: a search path with the user's folders before the packaged conf/, and a caching loader.

Hydra instantiates objects from the configuration below `hydra` (callbacks, launchers, sweepers, logging), so YAML there
can run code. A config folder may be somebody else's, so its files must not set anything below `hydra`.
"""

from __future__ import annotations

import copy
import pickle
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from evalflow.config.faults import invalid_yaml
from evalflow.config.foreign_keys import MULTI_SELECT, ROOT_GROUPS, SINGLE_SELECT, Untaken, untaken, without
from evalflow.config.yaml_text import expect_bounded
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_list, as_map

USER_FOLDERS: ContextVar[tuple[Path, ...]] = ContextVar("USER_FOLDERS", default=())
"""The folders to search before the packaged one, in the current composition."""
UNSAVED_OPTIONS: ContextVar[Mapping[tuple[str, str], Mapping[str, object]]] = ContextVar(
    "UNSAVED_OPTIONS", default=MappingProxyType({})
)
"""Options in memory, by group and name, to search before all folders in the current composition."""

PRIMARY = "config"
_CHOICE = re.compile(r"\$\{(oc\.env:\w+(,[\w-]+)?|[\w/]+)\}")
"""A choice set by an environment variable or by another choice."""
_NOT_HYDRA = "a config folder sets nothing of Hydra's own, which can run code, but for hydra.sweeper.params"
_ON_THE_LINE = "say it on the command line, such as: hydra.run.dir=FOLDER"


class UserConfigSource(FileConfigSource):
    """A user's config folder. Its config.yaml is ignored: config.yaml always comes from the package."""

    @staticmethod
    def scheme() -> str:
        return "user"

    def load_config(self, config_path: str) -> ConfigResult:
        """Read a file; UserError if it could make Hydra run code, is invalid, too large, or lacks its package line."""
        file = Path(self.path, config_path.removesuffix(".yaml") + ".yaml")
        if file.is_file():
            try:
                expect_bounded(file.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                raise UserError(Problem("the file is not UTF-8", str(file), "save it as UTF-8")) from None
            except yaml.YAMLError as error:
                raise UserError(invalid_yaml(error, file)) from None
        loaded = super().load_config(config_path)
        _refuse_code(config_path, loaded, str(file))
        if config_path.partition("/")[0] in ROOT_GROUPS and loaded.header.get("package") != "_global_":
            line = "# @package _global_"
            raise UserError(Problem(f"the first line must be its package line: {line}", str(file), f"paste: {line}"))
        return loaded

    def is_config(self, config_path: str) -> bool:
        return config_path.removesuffix(".yaml") != PRIMARY and super().is_config(config_path)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names in a group; none if the folder lacks the group."""
        return super().list(config_path, results_filter) if self.is_group(config_path) else []


class UnsavedConfigSource(ConfigSource):
    """Options in memory, as if they were files in a user's config folder."""

    @staticmethod
    def scheme() -> str:
        return "unsaved"

    def load_config(self, config_path: str) -> ConfigResult:
        """The content of an option; UserError if it could make Hydra run code."""
        group, name = key = _option(config_path)
        package = f"{group}.{name}" if group in MULTI_SELECT else None
        config = OmegaConf.create(dict(UNSAVED_OPTIONS.get()[key]))
        loaded = ConfigResult(self.provider, self.full_path(), config, {"package": package})
        _refuse_code(config_path, loaded, f"{group} {name}")
        return loaded

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return any(group == config_path.strip("/") for group, _ in UNSAVED_OPTIONS.get())

    def is_config(self, config_path: str) -> bool:
        return _option(config_path) in UNSAVED_OPTIONS.get()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        named = [name for group, name in UNSAVED_OPTIONS.get() if group == config_path.strip("/")]
        return [] if results_filter == ObjectType.GROUP else sorted(named)


def _option(config_path: str) -> tuple[str, str]:
    group, _, name = config_path.strip("/").removesuffix(".yaml").partition("/")
    return group, name


def _refuse_code(config_path: str, loaded: ConfigResult, place: str) -> None:
    problems = [Problem(what, f"{place}: {key}", hint) for key, what, hint in _problems(config_path, loaded)]
    if problems:
        raise UserError(problems)


def _problems(config_path: str, loaded: ConfigResult) -> Iterator[tuple[str, str, str]]:
    """Return the keys of a user's file that could make Hydra run code, each with the problem and a hint."""
    package = loaded.header.get("package") or ""
    name = config_path.removesuffix(".yaml").rpartition("/")[2]
    if config_path.lstrip("/").startswith("hydra/") or _reaches_hydra(package.replace("_name_", name)):
        yield ("# @package", _NOT_HYDRA, _ON_THE_LINE) if package else ("hydra", _NOT_HYDRA, _ON_THE_LINE)
    values = as_map(OmegaConf.to_container(loaded.config, resolve=False))
    for path in _targets(values, ""):
        yield path, "a configuration must not run code, but _target_ names code", f"remove {path}"
    own = values.get("hydra")
    if own is not None and not _only_sweeps(own):
        yield "hydra", _NOT_HYDRA, _ON_THE_LINE
    for number, entry in enumerate(as_list(values.get("defaults"))):
        pairs = as_map(entry).items() or [(str(entry), "")]
        for group, option in pairs:
            part, _, packages = str(group).partition("@")
            of_hydra = part.split()[-1].lstrip("/").partition("/")[0] == "hydra"
            if of_hydra or any(_reaches_hydra(one) or "_name_" in one for one in packages.split(":")):
                yield f"defaults[{number}]", _NOT_HYDRA, _ON_THE_LINE
            elif not (_is_inside(str(group)) and all(_is_inside(one) for one in _options(option))):
                yield f"defaults[{number}]", f"{entry} can lead out of the folder", "name a file of the folder"


def _only_sweeps(own: object) -> bool:
    params = as_map(as_map(own).get("sweeper")).get("params")
    if own != {"sweeper": {"params": params}} or not isinstance(params, dict):
        return False
    return all(isinstance(value, str | int | float) and "${" not in str(value) for value in as_map(params).values())


def _targets(value: object, path: str) -> Iterator[str]:
    for key, one in (*as_map(value).items(), *enumerate(as_list(value))):
        here = f"{path}.{key}" if path else str(key)
        if key == "_target_":
            yield here
        yield from _targets(one, here)


def _reaches_hydra(package: str) -> bool:
    first = package.strip().removeprefix("_global_.").partition(".")[0]
    return first == "hydra" or "${" in package


def _options(option: object) -> list[str]:
    return [str(one) for one in (as_list(option) if isinstance(option, list) else [option])]


def _is_inside(name: str) -> bool:
    """Whether a name in a defaults list stays inside the folder; False for a computed name, which could be anything."""
    return ".." not in name and ("${" not in name or bool(_CHOICE.fullmatch(name)))


class UserSearchPath(SearchPathPlugin):
    """Searches the user's folders first; Hydra's own `--config-dir` would come after the packaged files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in USER_FOLDERS.get():
            search_path.prepend("user", f"user://{folder}", anchor="main")
        if UNSAVED_OPTIONS.get():
            search_path.prepend("unsaved", "unsaved://")


def register() -> None:
    """Register the plugins with Hydra; repeated calls have no effect."""
    Plugins.instance().register(UnsavedConfigSource)
    Plugins.instance().register(UserConfigSource)
    Plugins.instance().register(UserSearchPath)


_SETTLED_NS = 2 * 10**9
"""A file modified this recently may change again within the same time stamp, so it is not cached."""
_READ: dict[tuple[str, str, str], tuple[object, bytes]] = {}
"""The state and the pickled content of each file read: unpickling is 20 times as fast as parsing."""
_HYDRAS_OWN = ("hydra", "schema")  # providers of the files in Hydra's package, and of its schemas
_MERGED: dict[tuple[object, ...], bytes] = {}
"""The pickled merge of a composition's first files, by their names, packages and states. Merging them again takes a
third of a composition."""
_MOST_MERGED = 64
_BEGINNING = ResultDefault(config_path="the first files")
"""The placeholder for these files in a defaults list."""


class _Repository(ConfigRepository):
    """A repository that caches the files it read, in this process, until a file's status changes.

    `states` are those of the files read last, by this repository or a copy.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.states: dict[str, object] = {}

    def __deepcopy__(self, _: object) -> _Repository:
        return copy.copy(self)  # Hydra's copy differs only in its own list of sources

    def load_config(self, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        state = self.states[config_path] = _state(source, config_path) if source else None
        if source is None or state is None:
            return super().load_config(config_path)
        key = source.scheme(), source.path, config_path
        known, content = _READ.get(key, (None, b""))
        if known == state:
            return cast("ConfigResult", pickle.loads(content))  # noqa: S301 - this process pickled it
        loaded = super().load_config(config_path)
        _READ[key] = state, pickle.dumps(loaded)
        return loaded


def _state(source: ConfigSource, config_path: str) -> object:
    """Return a value that changes whenever the content does; None if unknown."""
    if source.provider in _HYDRAS_OWN:
        return True
    if source.scheme() not in (FileConfigSource.scheme(), UserConfigSource.scheme()):  # Hydra's own are subclasses
        return None
    try:
        status = Path(source.path, config_path.removesuffix(".yaml") + ".yaml").stat()
    except OSError:
        return None
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    settled = changed + _SETTLED_NS < time.time_ns()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if settled else None


class Loader(ConfigLoaderImpl):
    """Hydra's loader with caches of files, of the merge of the first ones, and of the last defaults list.

    It ignores a file's address and key of its own judge if another judge is chosen; `untaken` has these keys.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = _Repository(config_search_path)
        self._states = self.repository.states
        self._beginning = DictConfig({})
        self.defaults: Sequence[ResultDefault] = ()
        self.untaken: Sequence[Untaken] = ()
        self._given: Sequence[str] = ()

    def _load_configuration_impl(
        self, config_name: str | None, overrides: list[str], *args: Any, **more: Any
    ) -> DictConfig:
        self._given = overrides
        return super()._load_configuration_impl(config_name, overrides, *args, **more)

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: Any) -> DictConfig:
        self.defaults = defaults
        self.untaken = untaken_of(defaults, repo, self._given)
        first = list(takewhile(self._is_known, defaults))
        key = tuple((one.config_path, one.package, self._states[one.config_path or ""]) for one in first)
        if key not in _MERGED:
            if len(_MERGED) >= _MOST_MERGED:
                _MERGED.clear()
            _MERGED[key] = pickle.dumps(super()._compose_config_from_defaults_list(first, repo))
        self._beginning = cast("DictConfig", pickle.loads(_MERGED[key]))  # noqa: S301 - this process pickled it
        return super()._compose_config_from_defaults_list([_BEGINNING, *defaults[len(first) :]], repo)

    def _is_known(self, default: ResultDefault) -> bool:
        """Whether a file can be cached by its state and is chosen often enough to be worth it."""
        path = default.config_path or ""
        return path.partition("/")[0] not in (*ROOT_GROUPS, "metric") and self._states.get(path) is not None

    def _load_single_config(self, default: ResultDefault, repo: Any) -> ConfigResult:
        if default is _BEGINNING:
            return ConfigResult("evalflow", "", self._beginning, {})
        loaded = super()._load_single_config(default, repo)
        keys = [key for one in self.untaken if one.file == default.config_path for key in one.keys]
        if keys:
            loaded = copy.copy(loaded)
            loaded.config = without(loaded.config, keys)
        return loaded


def untaken_of(defaults: Sequence[ResultDefault], repo: Any, overrides: Sequence[str]) -> list[Untaken]:
    """Return the keys that a composition ignores in files that set keys of the whole configuration."""
    paths = [one.config_path or "" for one in defaults]
    files = {path: repo.load_config(path) for path in paths if path.partition("/")[0] in ROOT_GROUPS}
    contents = {path: OmegaConf.to_container(file.config, resolve=False) for path, file in files.items()}
    own = {
        path: {str(one.group).lstrip("/"): str(one.value) for one in file.defaults_list or () if one.is_override()}
        for path, file in files.items()
    }
    choices = {
        path.partition("/")[0]: path.partition("/")[2]
        for one, path in zip(defaults, paths, strict=True)
        if one.package in SINGLE_SELECT and not path.partition("/")[2].startswith("_")
    }
    return list(untaken(contents, own, overrides, choices))
