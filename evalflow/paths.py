"""Where conf/, prompts/ and data/ are, for a checkout and for an installed wheel alike; names of run folders."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

GROUPS = ("dataset", "metric", "judge", "target", "embedder", "simulator", "engine", "experiment")
"""The config groups, which are the folders of conf/."""
_MARKS = ("dataset", "metric", "judge", "target", "experiment")
"""The groups by which a folder is known as one of evalflow's."""
OWN_FOLDER = ".evalflow"
"""evalflow's own folder in a working directory: the database, the cache, the token and the like."""
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
_NAMED = ("experiment", "dataset", "metric")
FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
"""A spreadsheet runs a text that begins with one of these as a formula. The last ones are wide forms of the first,
which East Asian spreadsheets treat as equal."""


def share_dir() -> Path:
    """The folder that holds the packaged conf/, prompts/ and data/."""
    package = Path(__file__).resolve().parent
    shipped = package / "_share"
    return shipped if shipped.is_dir() else package.parent


def conf_dirs(config_dir: Path | None = None) -> list[Path]:
    """Config folders, first found wins: `--config-dir`, the working directory's conf/, the packaged one.

    The working directory's conf/ counts only if it holds datasets, metrics, judges, targets or experiments.
    """
    folders = [config_dir] if config_dir else []
    local = Path.cwd() / "conf"
    if any((local / group).is_dir() for group in _MARKS):
        folders.append(local)
    folders.append(share_dir() / "conf")
    return _distinct(folders)


def prompt_dirs(config_dir: Path | None = None) -> list[Path]:
    """Prompt folders, in the order of `conf_dirs`; those of `--config-dir D` are D/prompts or beside D."""
    folders = [config_dir / "prompts", config_dir.parent / "prompts"] if config_dir else []
    folders += [Path.cwd() / "prompts", share_dir() / "prompts"]
    return _distinct([folder for folder in folders if folder.is_dir()])


def resolve(path: str) -> Path:
    """An absolute path: relative ones are looked up in the working directory, then beside the packaged conf."""
    here = Path.cwd() / path
    shipped = share_dir() / path
    return shipped if not _matches(here) and _matches(shipped) else here


def rebased(path: str, before: Path, after: Path) -> str:
    """Move an absolute path from below `before` to below `after`; unchanged if it is elsewhere or nothing is there.

    Example:
        >>> rebased("/usr/share/x", Path("/srv/old"), Path("/srv/new"))
        '/usr/share/x'
    """
    if not Path(path).is_relative_to(before):
        return path
    there = after / Path(path).relative_to(before)
    return str(there) if _matches(there) else path


def from_home(path: str) -> Path:
    """The path, with `~` and `~USER` at its start as that home folder; `~` of no known user is part of a name."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def private_folder(folder: Path) -> Path:
    """Create a folder and its parents with access for the owner only, whatever the umask.

    An existing folder is not changed, since it may be shared on purpose; but `.evalflow` is restricted.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    for one in (folder, *folder.parents):
        if one.name == OWN_FOLDER:
            _tighten(one, 0o700)
    return folder


BINARY = getattr(os, "O_BINARY", 0)
"""The flag that keeps Windows from changing line ends."""


def private_file(path: Path, flags: int) -> int:
    """Like `os.open`, but follows no link and gives access to the owner only, whatever the umask or the creator."""
    file = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | BINARY, 0o600)
    _tighten(path, 0o600)
    return file


def private_database(path: Path) -> None:
    """Create SQLite's file, if missing, with access for the owner only; SQLite gives its log the same rights.

    An existing file is not opened: closing it would end the locks that SQLite holds on it in this process.
    """
    private_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        if not path.exists():
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600))
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        _tighten(file, 0o600)


def _tighten(path: Path, mode: int) -> None:
    """Remove others' rights; a file of another user, who shares it, is not changed."""
    with contextlib.suppress(OSError):
        if os.name != "nt" and path.stat().st_mode & 0o077:
            path.chmod(mode)


def _matches(path: Path) -> bool:
    if path.exists():
        return True
    return any(c in path.name for c in "*?[") and any(path.parent.glob(path.name))


def _distinct(folders: list[Path]) -> list[Path]:
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def new_run_id(overrides: Sequence[str]) -> str:
    """A new id of the time, the overrides, and four random characters: 2026-11-21T14-03-22Z_rag_faithfulness_x7k2."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    values = {key: value for key, _, value in (override.partition("=") for override in overrides)}
    parts = [slug(values[key], 40) for key in _NAMED if values.get(key)]
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(4))
    return "_".join([now, *filter(None, parts), suffix])


def sweep_slug(overrides: Sequence[str], swept: Collection[str]) -> str:
    """The folder name of a job: its values of the swept overrides, at most 80 characters."""
    return (
        slug("_".join(o.replace('"', "") for o in overrides if o.partition("=")[0].lstrip("+~") in swept), 80) or "job"
    )


def slug(text: str, length: int) -> str:
    """`text` as a file name: letters, digits, dot, dash, equals sign and underscore."""
    return re.sub(r"[^A-Za-z0-9.=_-]+", "-", text).strip("-._")[:length].rstrip("-._")


def shown(path: Path) -> str:
    """The path for messages: relative if it is below the working directory."""
    here = Path.cwd()
    for one, folder in ((path, here), (path.resolve(), here.resolve())):
        if one.is_relative_to(folder):
            return str(one.relative_to(folder))
    return str(path)


@contextmanager
def completed(path: Path) -> Generator[Path]:
    """A path next to `path` to write to. It replaces `path` when the block ends, and is deleted on an error.

    So readers of `path` see the old file meanwhile, and neither a crash nor a full disk leaves half a file.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path, *, newline: str | None = None) -> Generator[TextIOWrapper]:
    """A UTF-8 text file that replaces `path` (see `completed`); half a surrogate pair becomes a question mark."""
    with completed(path) as draft, draft.open("w", encoding="utf-8", errors="replace", newline=newline) as file:
        yield file


def write_atomically(path: Path, text: str) -> None:
    """Write a file of UTF-8 text; see `replacing`."""
    with replacing(path) as file:
        file.write(text)


def safe_text(text: str) -> str:
    """`text`, with an apostrophe in front if a spreadsheet would read it as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
