"""Hydra plugins that give evalflow its search order: the user's folders before the packaged conf/."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

USER_FOLDERS: ContextVar[tuple[Path, ...]] = ContextVar("USER_FOLDERS", default=())
"""The folders to search before the packaged one, for the composition under way."""

PRIMARY = "config"


class UserConfigSource(FileConfigSource):
    """A user's config folder. Its config.yaml is not seen: that one always comes from the package."""

    @staticmethod
    def scheme() -> str:
        """The scheme of search paths that this source serves."""
        return "user"

    def is_config(self, config_path: str) -> bool:
        """Whether the folder holds that config file."""
        return config_path.removesuffix(".yaml") != PRIMARY and super().is_config(config_path)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names in a group; an absent group is an empty one."""
        return super().list(config_path, results_filter) if self.is_group(config_path) else []


class UserSearchPath(SearchPathPlugin):
    """Puts the user's folders in front; Hydra's own `--config-dir` would append, and lose to the packaged files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Insert the folders just before the packaged one, which keeps their order."""
        for folder in USER_FOLDERS.get():
            search_path.prepend("user", f"user://{folder}", anchor="main")


def register() -> None:
    """Make both known to Hydra; doing so again changes nothing."""
    Plugins.instance().register(UserConfigSource)
    Plugins.instance().register(UserSearchPath)
