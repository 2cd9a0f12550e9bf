"""The verbs of a server: serve it, work on its queue, back it up, and manage who may sign in and what may be called."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalflow.addons.studio.public import add_public_options, expect_no_public_options, public_settings
from evalflow.cli.manual import DONE_CODES, Manual
from evalflow.cli.parsing import Verb, VerbParser, Work, console
from evalflow.errors import command

if TYPE_CHECKING:
    from rich.console import Console

    from evalflow.addons.studio.work.space import Workspace

log = logging.getLogger("evalflow")

_WORKER = Manual(
    "Carry out the runs that the application has queued, until it is stopped.",
    "Takes runs from the queue of the workspace in this folder, one process for each.\n\n"
    "exit codes: 0 stopped, 2 the database cannot be used",
    (("worker --at-once 2", "two runs at the same time"),),
    "deploy.md",
    overview="  worker [--database-url URL]       carry out the runs that the application has queued",
)
_SERVE = Manual(
    "Serve the application: pages, and a REST API under /api/v1.",
    "Data is in .evalflow/ of the working directory, unless --database-url names a server.\n\n"
    "exit codes: 0 stopped, 2 it could not start",
    (
        ("serve --open", "the application on this machine"),
        ("serve --public https://NAME --proxy 127.0.0.1/32", "for people who sign in"),
    ),
    "application.md",
    overview=(
        "  serve [--port P] [--open]         the application, on this machine only\n"
        "  serve --public https://NAME ...   the same for several people, who sign in"
    ),
)
_USERS = Manual(
    "The people who may sign in to `serve --public`.",
    f"Changes the workspace in this folder; `users ACTION --help` has the options.\n\n{DONE_CODES}",
    (
        ("users add ana --owner", "the first account"),
        ("users list", "all accounts"),
        ("users disable ana", "end her sessions, and refuse her"),
    ),
    "deploy.md",
    overview="  users add NAME [--owner]          who may sign in; also list, link, disable, delete",
)
_CONNECTIONS = Manual(
    "The addresses that bots and judges may call where people sign in.",
    f"Changes the workspace in this folder; `connections ACTION --help` has the options.\n\n{DONE_CODES}",
    (
        ("connections add openai https://api.openai.com/v1 --key OPENAI_API_KEY", "an address with its key"),
        ("connections list", "all of them"),
    ),
    "connections.md",
    overview=(
        "  connections add NAME URL --key VARIABLE\n"
        "                                    what bots and judges may call then; also list, delete"
    ),
)
_BACKUP = Manual(
    "Write the workspace (database, runs, tokens, paid replies) into one file, also while it is used.",
    f"Works while the application is used.\n\n{DONE_CODES}",
    (("backup workspace.tar.gz", "everything, in one file"),),
    "deploy.md",
    overview="  backup FILE                       the whole workspace in one file, also while it is used",
)
_RESTORE = Manual(
    "Restore a backup into the working directory and its database, both empty.",
    f"Refuses a folder or database that holds something.\n\n{DONE_CODES}",
    (("restore workspace.tar.gz", "in an empty folder"),),
    "deploy.md",
    overview="  restore FILE                      a backup, into an empty folder",
)


def _worker(parser: VerbParser) -> Work:
    parser.add_database()
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="runs under way at the same time (1)")
    parser.add_flag("--attached", "end also when standard input does, as `serve` needs it")
    _add_log(parser)

    def carry_out(options: Namespace) -> int:
        from evalflow.addons.studio.work.worker import work

        if options.log == "json":
            log_json_lines()
        tell = log.info if options.log == "json" else partial(_tell, console(stderr=True))
        return work(options.database_url, options.at_once, tell, attached=options.attached)

    return carry_out


def _server(parser: VerbParser) -> Work:
    """Serve the application, on loopback or in public."""
    parser.add_argument("--host", metavar="H", help="the address to listen on; a loopback one (127.0.0.1) or --public")
    port = "the port (8000; with a certificate, the one of --public); 0 for any free one"
    parser.add_argument("--port", type=int, metavar="P", help=port)
    parser.add_database()
    parser.add_flag("--open", "show it in a browser")
    free = "answer without a token: for a container of your own, where nobody else reaches the port"
    parser.add_flag("--no-token", free)
    add_public_options(parser)
    _add_log(parser)
    return _serve


def _serve(options: Namespace) -> int:
    from evalflow.addons.studio.web.serve import serve, serve_public

    if options.log == "json":
        log_json_lines()
    tell = partial(_tell, console())
    if options.public is not None:
        address, oidc = public_settings(options)
        return serve_public(address, options.database_url, tell=tell, oidc=oidc, log=options.log)
    expect_no_public_options(options)
    host, port = options.host or "127.0.0.1", 8000 if options.port is None else options.port
    asks = not options.no_token
    return serve(host, port, options.database_url, opens=options.open, tell=tell, asks_token=asks, log=options.log)


def _add_log(parser: VerbParser) -> None:
    about = "how to write the log to standard error: text, or json, one object a line with every request (text)"
    parser.add_argument("--log", choices=("text", "json"), default="text", help=about)


def _users(parser: VerbParser) -> Work:
    """Add, list and change the people who may sign in."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|add|link|disable|enable|delete")
    listing = actions.add_parser("list", help="all of them")
    listing.set_defaults(change=_list_users)
    adding = actions.add_parser("add", help="add one, and print a link by which they sign in")
    adding.add_flag("--owner", "they manage the server")
    adding.add_argument("--full-name", default="", metavar="TEXT", help="as shown to others")
    adding.add_argument("--email", metavar="ADDRESS", help="links an identity provider's account")
    linking = actions.add_parser("link", help="a link to sign in by, once")
    disabling = actions.add_parser("disable", help="end their sessions, and refuse them")
    enabling = actions.add_parser("enable", help="let them in again")
    deleting = actions.add_parser("delete", help="remove the account; what they made stays")
    changes = {
        adding: _add_user,
        linking: _print_link,
        disabling: _set_disabled,
        enabling: _set_disabled,
        deleting: _delete_user,
    }
    for action, change in changes.items():
        action.add_argument("name", help="what the audit calls them")
        action.add_argument("--public", default="", metavar="https://NAME", help="the server's address, for links")
        action.set_defaults(change=change)
    for action in (listing, *changes):
        action.add_database()
    return _in_workspace


def _connections(parser: VerbParser) -> Work:
    """Add, list and delete the addresses that bots and judges may call once there are accounts."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|add|delete")
    listing = actions.add_parser("list", help="all of them")
    adding = actions.add_parser("add", help="add one")
    adding.add_argument("name", help="what bots and judges name it by: connection: NAME")
    adding.add_argument("address", help="such as https://api.openai.com/v1; all that is below it belongs to it")
    adding.add_argument("--key", metavar="VARIABLE", help="the environment variable of the server with the key")
    networks = "where it may lead to: public (the default), or a network such as 10.20.0.0/16; may be repeated"
    adding.add_argument("--network", action="append", metavar="NETWORK", help=networks)
    deleting = actions.add_parser("delete", help="delete one that nothing uses")
    deleting.add_argument("name")
    changes = {listing: _list_connections, adding: _add_connection, deleting: _delete_connection}
    for action, change in changes.items():
        action.add_database()
        action.set_defaults(change=change)
    return _in_workspace


def _in_workspace(options: Namespace) -> int:
    from evalflow.addons.studio.work.space import open_workspace

    with closing(open_workspace(options.database_url)) as space:
        for line in options.change(space, options):
            _tell(console(), line)
    return 0


def _back_up(parser: VerbParser) -> Work:
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file, such as evalflow.tar.gz; keep it secret")
    parser.add_database()
    parser.add_flag("--no-cache", "without the paid replies")

    def work(options: Namespace) -> int:
        from evalflow.addons.studio.work.backup import back_up

        size = back_up(options.file.absolute(), options.database_url, has_cache=not options.no_cache)
        _tell(console(), f"wrote  {options.file} ({size / 1e6:,.1f} MB)")
        return 0

    return work


def _restore(parser: VerbParser) -> Work:
    parser.add_argument("file", type=Path, metavar="FILE", help="what `backup` wrote")
    parser.add_database()

    def work(options: Namespace) -> int:
        from evalflow.addons.studio.work.backup import restore

        restore(options.file.absolute(), options.database_url)
        _tell(console(), f"ready  start it again: {command('serve')}")
        return 0

    return work


def _list_connections(space: Workspace, _: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.connections import list_connections

    for one in list_connections(space):
        key = f"key in {one.api_key_env}" if one.api_key_env else "no key"
        missing = " (not set here)" if one.is_key_set is False else ""
        yield f"{one.name}  {one.address}  {key}{missing}  to {', '.join(one.networks)}"


def _add_connection(space: Workspace, options: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.connections import ConnectionDraft, create_connection

    draft = ConnectionDraft(options.address, options.key, options.network or ["public"])
    yield f"added  {create_connection(space, options.name, draft).name}"


def _delete_connection(space: Workspace, options: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.connections import delete_connection, get_connection

    delete_connection(space, options.name, get_connection(space, options.name).version)
    yield f"deleted  {options.name}"


def _list_users(space: Workspace, _: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.people import list_users

    for user in list_users(space):
        marks = [word for word, is_so in (("owner", user.is_owner), ("disabled", user.is_disabled)) if is_so]
        marks += [] if user.passkeys else ["no passkey"]
        yield f"{user.name}  {user.full_name or user.email or ''}  {', '.join(marks)}".rstrip()


def _add_user(space: Workspace, options: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.people import add_user

    add_user(space, options.name, full_name=options.full_name, email=options.email, is_owner=options.owner)
    yield f"added  {options.name}"
    yield from _print_link(space, options)


def _print_link(space: Workspace, options: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.people import sign_in_link

    link = f"{options.public.rstrip('/')}/link?code={sign_in_link(space, options.name)}"
    below = "" if options.public else ", below the server's address"
    yield f"link   {link}"
    yield f"       valid once, for a day{below}"


def _set_disabled(space: Workspace, options: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.people import get_user, update_user

    version = get_user(space, options.name).version
    update_user(space, options.name, version, is_disabled=options.action == "disable")
    yield f"{options.action}d  {options.name}"


def _delete_user(space: Workspace, options: Namespace) -> Iterator[str]:
    from evalflow.addons.studio.work.people import delete_user, get_user

    delete_user(space, options.name, get_user(space, options.name).version)
    yield f"deleted  {options.name}"


def _tell(screen: Console, line: str) -> None:
    screen.print(line, markup=False, soft_wrap=True)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields of the event.

    Of an error it has the kind and the places in the code, not the message: that may hold the text of a case.
    """

    def format(self, record: logging.LogRecord) -> str:
        event = record.getMessage() if isinstance(record.msg, str) else type(record.msg).__name__
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "event": event, **getattr(record, "fields", {})}
        if record.exc_info and record.exc_info[0]:
            line["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, ensure_ascii=False, default=str)


def log_json_lines() -> None:
    """Write the log of this process to standard error as JSON lines, requests included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("evalflow").setLevel(logging.INFO)
    logging.getLogger("nicegui").propagate = True
    for name in ("engineio.server", "socketio.server"):
        logging.getLogger(name).setLevel(logging.ERROR)  # without a level they would also write lines of their own


WORKER = Verb(_WORKER, _worker)
SERVE = Verb(_SERVE, _server)
USERS = Verb(_USERS, _users)
CONNECTIONS = Verb(_CONNECTIONS, _connections)
BACKUP = Verb(_BACKUP, _back_up)
RESTORE = Verb(_RESTORE, _restore)
