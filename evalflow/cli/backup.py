"""The verbs `backup` and `restore`."""

from __future__ import annotations

from pathlib import Path

from evalflow.cli.parsing import console, parser_of

_URL = "the database, if it is not .evalflow/evalflow.db in the working directory"


def back_up_workspace(words: list[str]) -> int:
    """Write an archive of the workspace."""
    from evalflow.app.backup import back_up

    about = "Write the workspace (database, runs, tokens, paid replies) into one file, also while it is used."
    parser = parser_of("backup", about)
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file, such as evalflow.tar.gz; keep it secret")
    parser.add_argument("--database-url", metavar="URL", help=_URL)
    parser.add_argument("--no-cache", action="store_true", help="without the paid replies")
    options = parser.parse_args(words)
    size = back_up(options.file.absolute(), options.database_url, has_cache=not options.no_cache)
    console().print(f"wrote  {options.file} ({size / 1e6:,.1f} MB)", markup=False, soft_wrap=True)
    return 0


def restore_workspace(words: list[str]) -> int:
    """Restore an archive."""
    from evalflow.app.backup import restore

    parser = parser_of("restore", "Restore a backup into the working directory and its database, both empty.")
    parser.add_argument("file", type=Path, metavar="FILE", help="what `backup` wrote")
    parser.add_argument("--database-url", metavar="URL", help=_URL)
    options = parser.parse_args(words)
    restore(options.file.absolute(), options.database_url)
    console().print("ready  start it again: python -m evalflow serve", markup=False, soft_wrap=True)
    return 0
