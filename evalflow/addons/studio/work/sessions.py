"""Sessions of browsers and tokens of programs: whose they are, and when they end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast, get_args

from evalflow.addons.studio.store import people
from evalflow.addons.studio.store.rows import from_row, now, storable
from evalflow.addons.studio.work.access import ROLES, Actor, ForbiddenError, Role, SignedOutError, open_to_all, requires
from evalflow.addons.studio.work.people import User as Account
from evalflow.addons.studio.work.space import NotFoundError, Workspace, not_found
from evalflow.errors import Problem, UserError

SESSION_TTL, IDLE_TTL = timedelta(hours=12), timedelta(minutes=30)
"""How long a session lasts from sign-in, and without a request or an event of an open page."""
LONG_SESSION_TTL, LONG_IDLE_TTL = timedelta(days=14), timedelta(days=3)
"""The same for people who only label, where an owner has said so."""
CONFIRMED_TTL = timedelta(minutes=10)
"""How long a proof of who somebody is counts for what a stolen session must not do."""
TOKEN_PREFIX = "evalflow_"  # noqa: S105 - what tokens begin with, so that scanners for secrets find them
LONGEST_TOKEN_DAYS = 366
FRESH_S = 1.0
"""Seconds that the facts about an actor are reused before the database is asked again."""
_Roles = Mapping[int, Mapping[int, str]]
"""By user and project."""


@dataclass(slots=True)
class Identity:
    """The person behind a session, a token or a proxy's header, looked up once a second; see `Workspace.identify`.

    Attributes:
        kind, key: Which session or token, by its digest, or which user, by name.
        address: Where the request came from.
        row: Of the database, when it was last asked; None if there is no such thing (any more).
        first: Who it was when it was first asked.
    """

    space: Workspace
    kind: people.Holder
    key: str
    address: str
    row: people.KeyHolder | None = field(default=None, init=False)
    first: Actor | None = field(default=None, init=False)
    _known: tuple[float, Actor | None] = field(default=(-FRESH_S, None), init=False)

    def __call__(self) -> Actor:
        """The actor. Raises SignedOutError if the session or token is not valid any more."""
        at, actor = self._known
        if time.monotonic() - at >= FRESH_S:
            with self.space.database.reading() as connection:
                self.row = people.holders(connection, self.kind, [self.key]).get(self.key)
                roles = people.roles(connection, [self.row.user_id]) if self.row else {}
            actor = _actor(self.row, roles, self.address)
            self._known = (time.monotonic(), actor)
            self.first = self.first or actor
        if actor is None:
            raise SignedOutError
        return actor

    def is_confirmed(self) -> bool:
        """Whether the person proved their identity in the last minutes; always true for a token or a proxy's header."""
        if self.kind != "session":
            return True
        holder = self.space.read(people.holders, self.kind, [self.key]).get(self.key)
        return holder is not None and _lasts(holder.confirmed_at, CONFIRMED_TTL)

    def is_of(self, other: Identity) -> bool:
        """Whether both are of the same session, token or user."""
        return (self.kind, self.key) == (other.kind, other.key)


@open_to_all
def changed_identities(space: Workspace, identities: Sequence[Identity]) -> list[Identity]:
    """Those that have ended, or whose person has other rights than at first; a few queries for all together."""
    key_holders: dict[tuple[str, str], people.KeyHolder] = {}
    with space.database.reading() as connection:
        for kind in get_args(people.Holder):
            keys = list({one.key for one in identities if one.kind == kind})
            if keys:
                of_kind = people.holders(connection, kind, keys)
                key_holders |= {(kind, key): holder for key, holder in of_kind.items()}
        roles = people.roles(connection, list({holder.user_id for holder in key_holders.values()}))
    return [one for one in identities if one.first != _actor(key_holders.get((one.kind, one.key)), roles, one.address)]


def _actor(holder: people.KeyHolder | None, roles: _Roles, address: str) -> Actor | None:
    """The person of a session, or of a token: with its project only, and a role not above their own."""
    if holder is None:
        return None
    own_roles = cast("dict[int, Role]", roles.get(holder.user_id, {}))
    if holder.created_at:
        longest, idle = _limits(holder, own_roles)
        if not (_lasts(holder.created_at, longest) and _lasts(holder.used_at or "", idle)):
            return None
    actor = Actor(holder.user_id, holder.user_name, is_owner=holder.is_owner, roles=own_roles, address=address)
    if holder.project_id is None:
        return actor
    project, role = holder.project_id, cast("Role", holder.role)
    own = actor.rights(project)
    lower = (name for name in (role, *reversed(get_args(Role))) if ROLES[name] <= ROLES[role] & own)
    allowed = next(lower, None)
    return replace(actor, is_owner=False, roles={project: allowed} if allowed else {}, is_program=True)


def _lasts(since: str, longest: timedelta) -> bool:
    """Whether something that began then, for so long, has not ended, nor begun in the future."""
    return now(-longest) < since <= now(people.AHEAD)


def _limits(holder: people.KeyHolder, roles: Mapping[int, Role]) -> tuple[timedelta, timedelta]:
    """How long a session lasts from sign-in, and idle."""
    only_labels = not holder.is_owner and set(roles.values()) == {"annotator"}
    return (LONG_SESSION_TTL, LONG_IDLE_TTL) if holder.stays_signed_in and only_labels else (SESSION_TTL, IDLE_TTL)


@open_to_all
def identity_of(space: Workspace, kind: people.Holder, key: str, address: str) -> Identity:
    """The person of a browser's session or a program's token, by its key, or whom a trusted proxy names."""
    return Identity(space, kind, key if kind == "user" else people.digest(key), address)


@open_to_all
def start_session(space: Workspace, row: people.User, address: str, agent: str, way: str, proved_at: str = "") -> str:
    """Start a session for a user who has proved who they are; returns its key. `way`: for the audit.

    `proved_at`: when, if that was before now.

    Raises:
        SignedOutError: The account was deleted or disabled since the row was read.
    """
    key = secrets.token_urlsafe(32)
    acting = replace(space, identify=lambda: Actor(row.id, row.name, address=address))
    with acting.changing("sign in", "user", row.name, [way]) as connection:
        now_it_is = people.user(connection, row.name)
        if now_it_is is None or now_it_is.is_disabled or now_it_is.created_at != row.created_at:
            raise SignedOutError
        longest = LONG_SESSION_TTL if row.stays_signed_in else SESSION_TTL
        people.add_session(connection, key, row.id, address, agent[:200], now(longest), proved_at or now())
    return key


@requires("account")
def sign_out(space: Workspace, key: str) -> None:
    """End the session of a browser."""
    with space.changing("sign out", "user", space.identify().name) as connection:
        people.end_session_of_key(connection, key)


@open_to_all
def note_use(space: Workspace, identity: Identity) -> None:
    """Note that a session or token is in use: at most every five minutes, or every minute."""
    holder, kind = identity.row, identity.kind
    if holder is None or holder.id is None or kind == "user" or not is_due(identity):
        return
    with space.database.writing(in_turn=False) as connection:
        people.note_use(connection, kind, holder.id)


def is_due(identity: Identity) -> bool:
    """Whether the use of a session or token, as it was last read, is to be noted again."""
    used_at = identity.row and identity.row.used_at
    return (used_at or "") < now(-timedelta(minutes=5 if identity.kind == "session" else 1))


@open_to_all
def note_event(identity: Identity) -> None:
    """Note that somebody uses an open page. Raises SignedOutError if their session has ended."""
    identity()
    note_use(identity.space, identity)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is signed in. `agent` is what it calls itself; `is_this`: it sent the request."""

    id: int
    is_this: bool
    address: str
    agent: str
    created_at: str
    seen_at: str


@dataclass(frozen=True, slots=True)
class Token:
    """A key for programs, for one project. Its role never exceeds the current role of its owner.

    Attributes:
        user: The owner's name.
        expires_at: When it expires, ISO 8601.
        used_at: When it was last used, to the minute; None: never.
    """

    id: int
    name: str
    user: str
    role: Role
    created_at: str
    used_at: str | None
    expires_at: str


@requires("account")
def own_account(space: Workspace) -> Account:
    """The account of the person who acts. Raises NotFoundError if they have none."""
    row = space.read(people.user, space.identify().name)
    if row is None:
        raise _no_account()
    return row


@requires("account")
def own_sessions(space: Workspace) -> list[Session]:
    """One's own sessions, the newest first; ForbiddenError for a token."""
    expect_no_token(space)
    this = _own_session(space)
    rows = space.read(people.sessions_of, own_id(space))
    return [from_row(Session, row, is_this=row["key_hash"] == this) for row in rows]


@requires("account", confirmed=True)
def end_own_session(space: Workspace, session: int) -> None:
    """End one of your own sessions; ForbiddenError for a token."""
    expect_no_token(space)
    with space.changing("end session", "user", space.identify().name) as connection:
        if not people.end_session(connection, own_id(space), session):
            raise not_found("session", str(session), [])


@requires("account")
def list_tokens(space: Workspace) -> list[Token]:
    """The tokens of the project, the newest first: your own, or all for an admin; ForbiddenError for a token."""
    expect_no_token(space)
    rows = space.read(people.tokens_of, space.project_id, _whose(space))
    return [from_row(Token, row, user=row["user_name"]) for row in rows]


@requires("account", confirmed=True)
def create_token(space: Workspace, name: str, role: Role, days: float) -> tuple[Token, str]:
    """Make a token for the project; returns it and its key, which cannot be shown again.

    Raises:
        ForbiddenError: A token cannot make others, which would outlive it.
        UserError: The role has rights that the person does not have, or another value cannot be.
    """
    actor = space.identify()
    expect_no_token(space)
    problems: list[Problem] = []
    title = storable(" ".join(name.split()))
    if not 0 < len(title) <= 100:
        problems.append(Problem("a token needs a name", "name", "1 to 100 characters: what it is for"))
    if not ROLES[role] <= actor.rights(space.project_id):
        what = f"your own role in {space.project} allows less than {role}"
        problems.append(Problem(what, "role", "choose a role that is not above your own"))
    if not 1 <= days <= LONGEST_TOKEN_DAYS or days % 1:
        problems.append(Problem(f"{days:g} days is not possible", "days", f"a whole number, 1 to {LONGEST_TOKEN_DAYS}"))
    if problems:
        raise UserError(problems)
    key = TOKEN_PREFIX + secrets.token_urlsafe(32)
    expires_at = now(timedelta(days=days))
    values = {"user_id": own_id(space), "project_id": space.project_id, "name": title, "role": role}
    with space.changing("create", "token", title, [f"role {role}", f"{days:g} days"]) as connection:
        made = people.add_token(connection, key, {**values, "expires_at": expires_at})
    return Token(made, title, actor.name, role, now(), None, expires_at), key


@requires("account", confirmed=True)
def revoke_token(space: Workspace, token: int) -> None:
    """Revoke a token of the project: your own, or anyone's for an admin; ForbiddenError for a token."""
    expect_no_token(space)
    with space.changing("revoke", "token", str(token)) as connection:
        if not people.delete_token(connection, space.project_id, token, _whose(space)):
            raise not_found("token", str(token), [])


def _own_session(space: Workspace) -> str | None:
    """The digest of the session that the request came with; None if it came with something else."""
    identity = space.identify
    return identity.key if isinstance(identity, Identity) and identity.kind == "session" else None


@open_to_all
def expect_no_token(space: Workspace) -> None:
    """A token is for the work in its project; with a stolen one nobody gets at the account."""
    if isinstance(space.identify, Identity) and space.identify.kind == "token":
        raise ForbiddenError(
            Problem("a token manages no account", hint="sign in, and do it on the page of your account")
        )


@open_to_all
def own_id(space: Workspace) -> int:
    """The id of the person who acts. Raises NotFoundError if they have no account."""
    user = space.identify().user
    if user is None:
        raise _no_account()
    return user


def _no_account() -> NotFoundError:
    return NotFoundError(Problem("you have no account here", hint="only a public server has accounts"))


def _whose(space: Workspace) -> int | None:
    """None for an admin, whose concern are all tokens of the project."""
    actor = space.identify()
    return None if "admin" in actor.rights(space.project_id) else actor.user
