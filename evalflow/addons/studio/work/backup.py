"""`backup` and `restore`: one archive with a workspace's database, run folders and internal files.

A snapshot of the database is taken first; the folders follow, even while runs write to them. Journals only grow, so
they hold at least what the snapshot has read of them. A restore resumes runs that were in progress. One that is killed
leaves the folder `UNFINISHED`, and while that is there nothing opens the workspace.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evalflow.addons.studio.store import open_database
from evalflow.addons.studio.store.database import copy_sqlite, parse_url, sqlite_file
from evalflow.addons.studio.store.snapshot import Snapshot, expect_place, load_snapshot, settle, take_snapshot
from evalflow.addons.studio.work.space import UNFINISHED, refuse_unfinished
from evalflow.errors import EvalflowError, InfrastructureError, Problem, UserError, command
from evalflow.paths import OWN_FOLDER, completed, private_file
from evalflow.version import __version__

FORMAT = 1
_ABOUT, _DATABASE = "backup.json", "database"
_FILE = "evalflow.db"
OUTPUTS = "outputs"
_LEFT_OUT = (".lock", ".part", "-wal", "-shm", "-journal", ".backup", ".draft", "open.html")
"""Suffixes of skipped files: locks, incomplete files, files of an open database, and its older copies."""


def back_up(file: Path, url: str | None, *, has_cache: bool = True) -> int:
    """Write an archive of the working directory's workspace, which may be in use; returns the size in bytes.

    `has_cache`: include the cached replies.

    Raises:
        UserError: There is no database, or the file exists.
        InfrastructureError: The archive or the snapshot cannot be written.
    """
    root = Path.cwd()
    refuse_unfinished(root)
    if file.exists():
        raise UserError(Problem("it is there already", str(file), "name a new file"))
    try:
        with completed(file) as draft, TemporaryDirectory(dir=file.parent, prefix=".evalflow-backup-") as work:
            target = private_file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            snapshot = take_snapshot(url or f"sqlite:///{root / OWN_FOLDER / _FILE}", Path(work) / _DATABASE)
            about = {"format": FORMAT, "evalflow": __version__, "snapshot": asdict(snapshot)}
            with (
                os.fdopen(target, "wb") as out,
                tarfile.open(fileobj=out, mode="w:gz", compresslevel=6, dereference=True) as archive,
            ):
                _add_text(archive, _ABOUT, json.dumps(about))
                _add(archive, Path(work) / _DATABASE, _DATABASE)
                for path, name in _files(root):
                    if path.name == "cache.db":
                        if has_cache:
                            copy_sqlite(path, copy := Path(work) / path.name)
                            _add(archive, copy, name)
                            copy.unlink()
                    else:
                        _add(archive, path, name)
        return file.stat().st_size
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be written: {error.strerror or error}") from None


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    """The files to archive besides the database, with their names in the archive."""
    for folder in (root / OWN_FOLDER, root / OUTPUTS):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.name.endswith(_LEFT_OUT) or name == f"{OWN_FOLDER}/{_FILE}":
                continue
            if path.is_file() and not path.is_symlink():  # the next run recreates the link `outputs/latest`
                yield path, name


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file, up to its current size if it grows; skip it if it is gone."""
    try:
        with path.open("rb") as file:
            about = archive.gettarinfo(arcname=name, fileobj=file)
            about.mode = 0o600
            archive.addfile(about, file)
    except FileNotFoundError:
        return


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(text.encode())
    archive.addfile(about, io.BytesIO(text.encode()))


def restore(file: Path, url: str | None) -> Snapshot:
    """Restore an archive into the working directory and its database, both empty, and migrate an older schema.

    Raises:
        UserError: The file is not a backup, a newer version made it, or the target is not empty.
        InfrastructureError: The database does not answer, or the disk is full.
    """
    root = Path.cwd()
    refuse_unfinished(root)
    _expect_empty(root)
    mask = os.umask(0o077)
    try:
        with file.open("rb") as source, tarfile.open(fileobj=source, mode="r|gz") as archive:
            snapshot = _about(archive, file)
            url = url or f"sqlite:///{root / OWN_FOLDER / _FILE}"
            expect_place(url, snapshot)
            with _put_in_place(root, archive) as database:
                _load(url, database)
    except (tarfile.TarError, EOFError) as error:
        raise UserError(Problem(f"it is not a backup, or damaged: {error}", str(file), "name another file")) from None
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be restored: {error.strerror or error}") from None
    finally:
        os.umask(mask)
    return snapshot


def _own_member(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member, if `backup` could have written it, now or before it stored hard links as files."""
    if member.name.startswith(("/", "\\")) or not (member.isfile() or member.isdir() or member.islnk()):
        raise tarfile.ReadError(f"{member.name!r} is an absolute path, a symbolic link or a device")
    return member


@contextmanager
def _put_in_place(root: Path, archive: tarfile.TarFile) -> Generator[Path]:
    """Extract the folders of an archive to the workspace for a block, which gets the snapshot of the database.

    All of it is removed after an error.
    """
    work = root / UNFINISHED
    work.mkdir()
    try:
        rest = (_own_member(member) for member in archive if member.name != _ABOUT)
        archive.extractall(work, rest, filter="data")  # refuses names that lead out of the folder
        for name in (OWN_FOLDER, OUTPUTS):
            if (root / name).is_dir():
                (root / name).rmdir()
            if (work / name).is_dir():
                (work / name).rename(root / name)
        yield work / _DATABASE
    except BaseException:
        for name in (OWN_FOLDER, OUTPUTS):
            shutil.rmtree(root / name, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work)


def _load(url: str, source: Path) -> None:
    """Load the snapshot of the database, and migrate it. A file is removed after an error, wherever it is."""
    file = sqlite_file(parse_url(url))
    try:
        load_snapshot(url, source)
        try:
            with closing(open_database(url)) as opened:
                settle(opened)
        except EvalflowError as error:
            if file is not None:
                raise
            why = str(error).partition("\n")[0]
            what = f"the backup was loaded, but its database cannot be used: {why}"
            raise InfrastructureError(what, "empty the database, and restore again") from None
    except BaseException:
        if file is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)
        raise


def _expect_empty(root: Path) -> None:
    for name in (OWN_FOLDER, OUTPUTS):
        if any((root / name).glob("*")):
            hint = f"restore into an empty folder: mkdir restored && cd restored && {command('restore', 'FILE')}"
            raise UserError(Problem("there is a workspace already", str(root / name), hint))


def _about(archive: tarfile.TarFile, file: Path) -> Snapshot:
    """Read the archive's first member: the snapshot's description."""
    first = archive.next()
    text = archive.extractfile(first) if first is not None and first.name == _ABOUT else None
    try:
        about: dict[str, Any] = json.load(text) if text is not None else {}
        if about["format"] != FORMAT:
            what = f"it was made by a newer version of evalflow ({about.get('evalflow')})"
            raise UserError(Problem(what, str(file), "install that version"))
        return Snapshot(**about["snapshot"])
    except (ValueError, KeyError, TypeError):
        raise UserError(Problem("it is not a backup", str(file), "name a file that `backup` wrote")) from None
