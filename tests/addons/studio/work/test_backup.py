"""A workspace in use is written to one file, and is what it was after a restore elsewhere, also of an older schema."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from evalflow.addons.studio.store import runs
from evalflow.addons.studio.work import backup, bots
from evalflow.addons.studio.work.backup import back_up, restore
from evalflow.addons.studio.work.runs import get_run, list_runs
from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.errors import EvalflowError, InfrastructureError, UserError
from tests.addons.studio.store.test_database import HEAD, with_one_more

JOURNAL = '{"case_id": "c1"}\n'


def fill(space: Workspace) -> None:
    """A bot, and a run that a worker is at, with its files."""
    bots.create_bot(space, "desk", {"kind": "recorded"})
    folder = space.runs / "r1"
    folder.mkdir(parents=True)
    (folder / "scores.jsonl").write_text(JOURNAL, encoding="utf-8")
    (folder / "process.lock").write_text("here", encoding="utf-8")
    row: dict[str, Any] = {"project_id": space.project_id, "run_id": "r1", "title": "", "bot": "desk"}
    row |= {"origin": "workspace", "state": "queued", "composition": {}, "arguments": [], "folder": "outputs/runs/r1"}
    with space.database.writing() as connection:
        runs.create(connection, row)
        assert runs.claim(connection, runs.queued(connection)[0].id, "elsewhere:1:1", 1.0)
    for name, content in {"token": "secret", "open.html": "secret"}.items():
        (space.root / ".evalflow").mkdir(exist_ok=True)
        (space.root / ".evalflow" / name).write_text(content, encoding="utf-8")
    with closing(sqlite3.connect(space.root / ".evalflow" / "cache.db")) as cache:
        cache.execute("CREATE TABLE replies (key TEXT)")


@pytest.fixture(name="urls", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def _urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str | None, str | None]:
    """The URLs of a database to fill, and of an empty one for the restore."""
    if request.param == "sqlite":
        return None, None
    if shutil.which("pg_dump") is None:
        pytest.skip("NO PG_DUMP: backups of PostgreSQL are not tested; apt-get install postgresql-client")
    postgres: str = request.getfixturevalue("postgres")
    made: list[str] = []
    engine = create_engine(postgres.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for name in (f"before_{uuid4().hex}", f"after_{uuid4().hex}"):
            connection.execute(text(f"CREATE DATABASE {name}"))
            made.append(postgres.replace("/postgres?", f"/{name}?"))
    engine.dispose()
    return made[0], made[1]


@pytest.fixture(name="go")
def _go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Make a folder, and work in it."""

    def go(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        return folder

    return go


def test_a_workspace_in_use_is_restored_elsewhere(
    urls: tuple[str | None, str | None], tmp_path: Path, go: Callable[[str], Path]
) -> None:
    file = tmp_path / "backup.tar.gz"
    go("before")
    with closing(open_workspace(urls[0])) as space:
        fill(space)
        back_up(file, urls[0])
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        names = set(archive.getnames())
    kept = {".evalflow/cache.db", ".evalflow/token", "outputs/runs/r1/scores.jsonl"}
    assert names == {"backup.json", "database", *kept}
    after = go("after")
    restore(file, urls[1])
    with closing(open_workspace(urls[1])) as space:
        assert "desk" in [bot.name for bot in bots.list_bots(space)]
        run = get_run(space, "r1")
        assert (run.state, run.folder) == ("queued", after / "outputs" / "runs" / "r1")
        assert (run.folder / "scores.jsonl").read_text(encoding="utf-8") == JOURNAL
    for path in (".evalflow/token", ".evalflow/cache.db"):
        assert (after / path).stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match="there is a workspace already"):
        restore(file, urls[1])
    if urls[1]:
        empty = go("empty")
        with pytest.raises(UserError, match="into an empty database"):
            restore(file, urls[1])
        assert list(empty.iterdir()) == []


def test_files_with_several_names_are_restored_under_each(tmp_path: Path, go: Callable[[str], Path]) -> None:
    """Tools that copy or deduplicate folders make hard links."""
    before = go("before")
    with closing(open_workspace()) as space:
        fill(space)
    (before / "outputs" / "runs" / "r1" / "same.jsonl").hardlink_to(before / "outputs" / "runs" / "r1" / "scores.jsonl")
    back_up(tmp_path / "backup.tar.gz", None)
    with tarfile.open(tmp_path / "backup.tar.gz") as archive:
        assert all(member.isreg() for member in archive)
    after = go("after")
    restore(tmp_path / "backup.tar.gz", None)
    for name in ("same.jsonl", "scores.jsonl"):
        assert (after / "outputs" / "runs" / "r1" / name).read_text(encoding="utf-8") == JOURNAL


def test_a_hard_link_within_an_archive_is_restored(tmp_path: Path, go: Callable[[str], Path]) -> None:
    go("before")
    with closing(open_workspace()) as space:
        fill(space)
    back_up(tmp_path / "good.tar.gz", None)
    link = _member("outputs/runs/r1/same.jsonl", tarfile.LNKTYPE, "outputs/runs/r1/scores.jsonl")
    _with_member(tmp_path / "good.tar.gz", tmp_path / "linked.tar.gz", link)
    after = go("after")
    restore(tmp_path / "linked.tar.gz", None)
    assert (after / "outputs" / "runs" / "r1" / "same.jsonl").read_text(encoding="utf-8") == JOURNAL


def test_a_backup_of_an_older_schema_is_migrated(
    tmp_path: Path, go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "backup.tar.gz"
    go("before")
    with closing(open_workspace()) as space:
        bots.create_bot(space, "desk", {"kind": "recorded"})
    back_up(file, None)
    go("after")
    with_one_more(tmp_path / "migrations")
    monkeypatch.setattr("evalflow.addons.studio.store.database.FOLDER", tmp_path / "migrations")
    assert restore(file, None).revision == HEAD
    with closing(open_workspace()) as space:
        assert "desk" in [bot.name for bot in bots.list_bots(space)]
        assert list(list_runs(space).items) == []


def test_a_restore_whose_migration_fails_says_what_to_empty(
    urls: tuple[str | None, str | None], tmp_path: Path, go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL keeps what was loaded; a file is removed, also one that is not in the workspace."""
    file, url = tmp_path / "backup.tar.gz", urls[1] or f"sqlite:///{tmp_path / 'elsewhere.db'}"
    go("before")
    with closing(open_workspace(urls[0])):
        back_up(file, urls[0])
    after = go("after")
    with_one_more(tmp_path / "migrations", "    op.execute('no SQL')\n")
    with monkeypatch.context() as patch:
        patch.setattr("evalflow.addons.studio.store.database.FOLDER", tmp_path / "migrations")
        with pytest.raises(EvalflowError) as failed:
            restore(file, url)
    assert list(after.iterdir()) == []
    if urls[1]:
        assert "the backup was loaded, but its database cannot be used" in str(failed.value)
        assert "hint: empty the database, and restore again" in str(failed.value)
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        engine.dispose()
    restore(file, url)


def test_a_restore_that_is_killed_leaves_nothing_that_looks_like_a_workspace(
    tmp_path: Path, go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of it ends the process, which has no time to clean up."""
    file = tmp_path / "backup.tar.gz"
    go("before")
    with closing(open_workspace()) as space:
        fill(space)
    back_up(file, None)
    for step in ("load_snapshot", "open_database", "settle"):
        folder = go(step)
        if (pid := os.fork()) == 0:
            monkeypatch.setattr(backup, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            try:
                restore(file, None)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert (folder / "outputs" / "runs" / "r1").is_dir()
        for attempt in (open_workspace, lambda: restore(file, None), lambda: back_up(tmp_path / "new.tar.gz", None)):
            with pytest.raises(UserError, match="a restore has not ended here"):
                attempt()
        for name in (".evalflow-restore", ".evalflow", "outputs"):
            shutil.rmtree(folder / name)
        restore(file, None)
        with closing(open_workspace()) as space:
            assert get_run(space, "r1").state == "queued"


def archive_of(tmp_path: Path, **about: Any) -> Path:
    (tmp_path / "backup.json").write_text(json.dumps(about), encoding="utf-8")
    with tarfile.open(tmp_path / "made.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "backup.json", "backup.json")
    return tmp_path / "made.tar.gz"


def test_what_cannot_be_restored_leaves_nothing_behind(tmp_path: Path, go: Callable[[str], Path]) -> None:
    newer = {"kind": "sqlite", "revision": "9999"}
    empty = go("empty")
    refusals: list[tuple[Path, type[EvalflowError], str]] = [
        (archive_of(tmp_path, format=1, root="/", snapshot=newer), UserError, "another version.*9999"),
        (tmp_path / "nothing.tar.gz", InfrastructureError, "No such file"),
    ]
    (tmp_path / "text.tar.gz").write_text("text", encoding="utf-8")
    refusals.append((tmp_path / "text.tar.gz", UserError, "it is not a backup"))
    for file, error, what in refusals:
        with pytest.raises(error, match=what):
            restore(file, None)
    with pytest.raises(UserError, match="newer version"):
        restore(archive_of(tmp_path, format=2), None)
    with pytest.raises(UserError, match="of a postgresql database"):
        restore(
            archive_of(tmp_path, format=1, root="/", snapshot={**newer, "kind": "postgresql", "revision": HEAD}), None
        )
    with pytest.raises(UserError, match="there is no database"):
        back_up(tmp_path / "new.tar.gz", None)
    assert list(empty.iterdir()) == []
    assert not (tmp_path / "new.tar.gz").exists()


def _member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


def _with_member(file: Path, to: Path, member: tarfile.TarInfo) -> None:
    with tarfile.open(file) as good, tarfile.open(to, "w:gz") as made:
        for one in good:
            made.addfile(one, good.extractfile(one))
        made.addfile(member)


@pytest.mark.parametrize(
    "member",
    [
        _member("/outputs/runs/r1/run.json"),
        _member("../outside"),
        _member("outputs/../../outside"),
        _member("outputs/runs", tarfile.SYMTYPE, "/etc"),
        _member("outputs/runs/token", tarfile.LNKTYPE, "/etc/passwd"),
        _member("outputs/null", tarfile.CHRTYPE),
        _member("outputs/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda member: f"{member.name} {member.type!r}",
)
def test_an_archive_that_leads_elsewhere_is_refused(
    tmp_path: Path, go: Callable[[str], Path], member: tarfile.TarInfo
) -> None:
    with closing(open_workspace()):
        pass
    back_up(tmp_path / "good.tar.gz", None)
    empty = go("empty")
    _with_member(tmp_path / "good.tar.gz", tmp_path / "bad.tar.gz", member)
    with pytest.raises(UserError, match=re.escape(member.name)) as error:
        restore(tmp_path / "bad.tar.gz", None)
    assert error.value.problems[0].hint == "name another file"
    assert list(empty.iterdir()) == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("most", [100_000, 700_000])
def test_a_disk_that_is_full_is_named_and_nothing_is_left(go: Callable[[str], Path], most: int) -> None:
    """Whether the copy of the database no longer fits, or the archive."""
    folder = go("full")
    open_workspace().close()
    (folder / "outputs").mkdir()
    (folder / "outputs" / "noise").write_bytes(random.Random(1).randbytes(2_000_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises(InfrastructureError, match=r"cannot (copy|be written)"):
            back_up(folder / "new.tar.gz", None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(one.name for one in folder.iterdir()) == [".evalflow", "outputs"]
