"""The people of a server. The owner adds, changes, disables and deletes them, and sends them one-time links."""

from __future__ import annotations

import re
import secrets
from datetime import timedelta
from functools import partial

from evalflow.addons.studio.store import definitions, people
from evalflow.addons.studio.store.people import User
from evalflow.addons.studio.store.rows import from_row, storable
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.definitions import DefinitionStore
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.errors import Problem, UserError, check_all

LINK = "link"
"""The kind of one-time codes in links."""
LINK_TTL = timedelta(days=1)
"""How long a one-time link is valid."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}\Z")
_EMAIL = re.compile(r"[^@\s\x00\ud800-\udfff]{1,64}@[^@\s\x00\ud800-\udfff]{1,250}\Z")


USERS = DefinitionStore("user", partial(from_row, User, passkeys=0))


@requires("own")
def list_users(space: Workspace) -> list[User]:
    """All users by name."""
    return space.read(people.every_user)


@requires("own")
def get_user(space: Workspace, name: str) -> User:
    """One user."""
    person = space.read(people.user, name)
    if person is None:
        raise not_found("user", name, [user.name for user in space.read(people.every_user)])
    return person


@requires("own", confirmed=True)
def add_user(
    space: Workspace, name: str, *, full_name: str = "", email: str | None = None, is_owner: bool = False
) -> User:
    """Add a user; `sign_in_link` lets them in."""
    check_all(lambda: _check_name(name), lambda: _one_line(full_name), lambda: _email(email))
    values = {"name": name, "full_name": _one_line(full_name), "email": _email(email)}
    with space.changing("create", "user", name, ["is_owner"] if is_owner else []) as connection:
        if definitions.id_of(connection, "user", name):
            raise TakenError(Problem(f"there already is a user {name!r}", "name", "choose another name"))
        new = {**values, "is_owner": is_owner, "is_disabled": False, "stays_signed_in": False}
        definitions.add(connection, "user", new)
    return get_user(space, name)


@requires("own", confirmed=True)
def update_user(
    space: Workspace,
    name: str,
    expected: int,
    *,
    full_name: str | None = None,
    email: str | None = None,
    is_owner: bool | None = None,
    is_disabled: bool | None = None,
    stays_signed_in: bool | None = None,
) -> User:
    """Change a user; None leaves a value unchanged, and an empty `email` removes it.

    A disabled user's sessions end. The last owner can be neither disabled nor made an ordinary user.
    """
    user = get_user(space, name)
    check_all(lambda: _one_line(full_name or ""), lambda: _email(email or None))
    given = {"full_name": full_name, "email": email, "is_owner": is_owner, "is_disabled": is_disabled}
    given |= {"stays_signed_in": stays_signed_in}
    values: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    if full_name is not None:
        values["full_name"] = _one_line(full_name)
    if email is not None:
        values["email"] = _email(email or None)
    with USERS.changing(space, user, expected, values) as connection:
        _expect_owner(user, people.owners(connection))
        if is_disabled:
            people.end_sessions(connection, user.id)
    return get_user(space, name)


@requires("own", confirmed=True)
def delete_user(space: Workspace, name: str, expected: int) -> None:
    """Delete a user with their sessions, tokens and roles. Their work stays, and the audit still names them."""
    user = get_user(space, name)
    with space.changing("delete", "user", name) as connection:
        USERS.remove(connection, user, expected)
        _expect_owner(user, people.owners(connection))


@requires("own", confirmed=True)
def sign_in_link(space: Workspace, name: str) -> str:
    """Make the code of a link with which a user can sign in once, within `LINK_TTL`, and create a passkey.

    Creating a passkey invalidates all earlier links.
    """
    user = get_user(space, name)
    code = secrets.token_urlsafe(32)
    with space.changing("create link", "user", name) as connection:
        people.put_code(connection, code, {"kind": LINK, "account": account_state(user)}, LINK_TTL)
    return code


def account_state(user: User) -> str:
    """A digest of an account and its passkeys. The row id is not enough: SQLite reuses ids of deleted rows."""
    return people.digest(f"{user.name} {user.created_at} {user.passkeys}")


@requires("own")
def has_owner(space: Workspace) -> bool:
    """Whether an owner of the server can sign in."""
    return space.read(people.owners) > 0


def _expect_owner(user: User, left: int) -> None:
    if user.is_owner and not left:
        what = "the server would have no owner"
        raise TakenError(Problem(what, "user", "make somebody else an owner first"))


def _check_name(name: str) -> None:
    if not _NAME.match(name):
        hint = "1 to 100 lower-case letters, digits and . _ -, such as ann.smith"
        raise UserError(Problem(f"{name!r} cannot be the name of a user", "name", hint))


def _one_line(text: str) -> str:
    line = storable(" ".join(text.split()))
    if len(line) > 200:
        raise UserError(Problem("a name has at most 200 characters", "full_name"))
    return line


def is_email(text: str) -> bool:
    """Whether a text looks like an e-mail address."""
    return _EMAIL.match(text) is not None


def _email(email: str | None) -> str | None:
    if email is not None and not is_email(email):
        raise UserError(Problem(f"{email!r} is not an e-mail address", "email", "such as ann@example.org"))
    return email
