"""Signing in: passwords with growing delays against guessing, sessions of browsers, and tokens of programs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast, get_args

from sqlalchemy import Connection

from evalflow.addons.studio.store import definitions, people
from evalflow.addons.studio.store.rows import from_row, now, storable
from evalflow.addons.studio.work.access import ROLES, Actor, ForbiddenError, Role, SignedOutError, open_to_all, requires
from evalflow.addons.studio.work.people import User as Account
from evalflow.addons.studio.work.people import account_state, as_user, password_hash, weak_password
from evalflow.addons.studio.work.space import NotFoundError, Workspace, not_found
from evalflow.errors import Problem, UserError

SESSION_TTL = timedelta(days=14)
"""How long a session lasts from sign-in."""
IDLE_TTL = timedelta(days=3)
"""How long a session lasts without a request."""
TOKEN_PREFIX = "evalflow_"  # noqa: S105 - what tokens begin with, so that scanners for secrets find them
LONGEST_TOKEN_DAYS = 366
FRESH_S = 1.0
"""Seconds for which an actor is believed before the database is asked again."""
FREE_TRIES = 3
"""Wrong passwords that cost no time."""
FORGET_S = 24 * 3600.0
"""Seconds after the last failure when failures are forgotten."""
_Roles = Mapping[int, Mapping[int, str]]
"""By user and project."""
_MAX_DELAY_S = {"pair": 60.0, "address": 30.0, "account": 10.0}
"""Of sign-ins to one account from one address, from one address, and to one account. The last one is short, since
strangers can cause it for everybody."""


@dataclass(slots=True)
class Identity:
    """Who a session, a token or a proxy's header stands for, asked again once a second; see `Workspace.identify`.

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
                self.row = people.holders(connection, self.kind, [self.key], now(-IDLE_TTL)).get(self.key)
                roles = people.roles(connection, [self.row.user_id]) if self.row else {}
            actor = _actor(self.row, roles, self.address)
            self._known = (time.monotonic(), actor)
            self.first = self.first or actor
        if actor is None:
            raise SignedOutError
        return actor

    def is_of(self, other: Identity) -> bool:
        """Whether both are of the same session, token or user."""
        return (self.kind, self.key) == (other.kind, other.key)


@open_to_all
def changed_identities(space: Workspace, identities: Sequence[Identity]) -> list[Identity]:
    """Those that have ended, or whose person has other rights than at first; a few queries for all together."""
    found: dict[tuple[str, str], people.KeyHolder] = {}
    with space.database.reading() as connection:
        for kind in get_args(people.Holder):
            keys = list({one.key for one in identities if one.kind == kind})
            if keys:
                of_kind = people.holders(connection, kind, keys, now(-IDLE_TTL))
                found |= {(kind, key): holder for key, holder in of_kind.items()}
        roles = people.roles(connection, list({holder.user_id for holder in found.values()}))
    return [one for one in identities if one.first != _actor(found.get((one.kind, one.key)), roles, one.address)]


def _actor(holder: people.KeyHolder | None, roles: _Roles, address: str) -> Actor | None:
    """The person of a session, or of a token: with its project only, and a role not above their own."""
    if holder is None:
        return None
    own_roles = cast("dict[int, Role]", roles.get(holder.user_id, {}))
    actor = Actor(holder.user_id, holder.user_name, is_owner=holder.is_owner, roles=own_roles, address=address)
    if holder.project_id is None:
        return actor
    project, role = holder.project_id, cast("Role", holder.role)
    own = actor.rights(project)
    lower = (name for name in (role, *reversed(get_args(Role))) if ROLES[name] <= ROLES[role] & own)
    allowed = next(lower, None)
    return replace(actor, is_owner=False, roles={project: allowed} if allowed else {})


@open_to_all
def identity_of(space: Workspace, kind: people.Holder, key: str, address: str) -> Identity:
    """The person of a browser's session or a program's token, by its key, or whom a trusted proxy names."""
    return Identity(space, kind, key if kind == "user" else people.digest(key), address)


@open_to_all
def begin_sign_in(space: Workspace, name: str, address: str) -> float:
    """Count an attempt as failed, until `sign_in` finds its password right; returns the seconds to wait before that.

    Each attempt counts those that are still being checked, so that many at once wait as long as one after the other.
    The wait doubles with each failure, up to a bound.
    """
    keys, moment = _failure_keys(name, address), time.time()
    with space.database.writing() as connection:
        found = people.failures(connection, list(keys.values()))
        known = {kind: found[key] for kind, key in keys.items() if key in found and _is_recent(found[key])}
        counts = {key: known[kind].failures + 1 if kind in known else 1 for kind, key in keys.items()}
        people.note_failure(connection, counts, moment)
    return max((_delay(kind, counted) for kind, counted in known.items()), default=0.0)


def _delay(kind: str, counted: people.SignInFailures) -> float:
    over = counted.failures - FREE_TRIES
    if over <= 0 or not _is_recent(counted):
        return 0.0
    return min(_MAX_DELAY_S[kind], 0.5 * 2.0 ** min(over - 1, 10))


def _is_recent(counted: people.SignInFailures) -> bool:
    return abs(time.time() - counted.last_at) <= FORGET_S


def _failure_keys(name: str, address: str) -> dict[str, str]:
    return {"pair": f"pair {name} {address}", "address": f"address {address}", "account": f"account {name}"}


@open_to_all
def sign_in(space: Workspace, name: str, password: str, address: str, agent: str) -> str:
    """Check a password and start a session; returns its key. Call `begin_sign_in` before, and wait as long as it says.

    Raises:
        SignedOutError: The name or the password is wrong, or the account is disabled. It does not say which.
    """
    from pwdlib import PasswordHash

    hasher = PasswordHash.recommended()
    row = space.read(people.user, name)
    known = row.password_hash if row and not row.is_disabled else None
    if known is None:
        hasher.hash(password)  # an unknown name takes as long as a known one
    fits, newer = hasher.verify_and_update(password, known) if known else (False, None)
    keys = _failure_keys(name, address)
    if row is None or known is None or not fits:
        raise SignedOutError
    with space.database.writing() as connection:
        others = people.failures(connection, [keys["address"]]).get(keys["address"])
        if others is not None:  # of other accounts; this attempt was none
            people.note_failure(connection, {keys["address"]: max(0, others.failures - 1)}, others.last_at)
        people.forget_failures(connection, [keys["pair"], keys["account"]], time.time() - FORGET_S)
        if newer is not None and definitions.change(connection, "user", row.id, row.version, {"password_hash": newer}):
            row = replace(row, password_hash=newer)
    return start_session(space, row, address, agent, "password")


@open_to_all
def start_session(space: Workspace, row: people.StoredUser, address: str, agent: str, way: str) -> str:
    """Start a session for a user who has proved who they are; returns its key. `way`: for the audit.

    Raises:
        SignedOutError: The password was changed, or the account disabled, since the row was read.
    """
    key = secrets.token_urlsafe(32)
    acting = replace(space, identify=lambda: Actor(row.id, row.name, address=address))
    with acting.changing("sign in", "user", row.name, [way]) as connection:
        now_it_is = people.user(connection, row.name)
        if now_it_is is None or _proof_of(now_it_is) != _proof_of(row):
            raise SignedOutError
        people.add_session(connection, key, row.id, address, agent[:200], now(SESSION_TTL))
    return key


def _proof_of(user: people.StoredUser) -> tuple[int, str | None, bool]:
    return user.id, user.password_hash, user.is_disabled


@requires("account")
def sign_out(space: Workspace, key: str) -> None:
    """End the session of a browser."""
    with space.changing("sign out", "user", space.identify().name) as connection:
        people.end_session_of_key(connection, key)


@open_to_all
def note_use(space: Workspace, identity: Identity) -> None:
    """Note that a session or token is in use: at most every five minutes, or every minute."""
    holder, kind = identity.row, identity.kind
    if holder is None or holder.id is None or kind == "user":
        return
    if (holder.used_at or "") >= now(-timedelta(minutes=5 if kind == "session" else 1)):
        return
    with space.database.writing(in_turn=False) as connection:
        people.note_use(connection, kind, holder.id)


@open_to_all
def choose_password(space: Workspace, code: str, password: str) -> str:
    """Set the password of the user whom a one-time link was made for; returns their name. Their sessions end.

    Raises:
        UserError: The link is not valid any more, or the password is too easy to guess (the link then stays valid).
    """
    with space.database.reading() as connection:
        row = _user_of(connection, people.code(connection, code))
    hashed = password_hash(password, row.name)
    acting = replace(space, identify=lambda: Actor(row.id, row.name))
    with acting.changing("set password", "user", row.name, ["by link"]) as connection:
        _user_of(connection, people.take_code(connection, code))
        definitions.change(connection, "user", row.id, row.version, {"password_hash": hashed})
        people.end_sessions(connection, row.id)
    return row.name


def _user_of(connection: Connection, content: Mapping[str, object] | None) -> people.StoredUser:
    rows = people.every_user(connection) if content and content["kind"] == "password" else []
    found = next((row for row in rows if content and account_state(row) == content["account"]), None)
    if found is None:
        raise UserError(Problem("this link is not valid any more", "link", "ask the owner of the server for another"))
    return found


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
    """A key for programs: for one project, with a role that never exceeds its owner's present one.

    Attributes:
        user: Whose it is.
        expires_at: When it ends, ISO 8601.
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
    return as_user(row)


@requires("account")
def change_password(space: Workspace, old: str, new: str) -> None:
    """Change your own password, which ends all other sessions.

    Raises:
        ForbiddenError: A token changes no password.
        UserError: The old password is wrong, was wrong too often just now, or the new one is too easy to guess.
    """
    from pwdlib import PasswordHash

    _expect_no_token(space)
    with space.database.writing() as connection:
        row = people.user(connection, space.identify().name)
        tries = f"change {space.identify().name}"
        counted = people.failures(connection, [tries]).get(tries, people.SignInFailures())
        if 0 <= time.time() - counted.last_at < (wait_s := _delay("pair", counted)):
            raise UserError(Problem("too many wrong passwords", "old", f"wait {wait_s:g} s, and try again"))
        # Counted before it is checked, so that many requests at once get no more tries, and no more memory.
        people.note_failure(connection, {tries: counted.failures + 1}, time.time())
    if row is None or not row.password_hash or not PasswordHash.recommended().verify(old, row.password_hash):
        weak = weak_password(new, space.identify().name)
        raise UserError([Problem("this is not your password", "old"), *([weak] if weak else [])])
    hashed = password_hash(new, row.name)
    with space.changing("set password", "user", row.name) as connection:
        people.forget_failures(connection, [tries], time.time() - FORGET_S)
        definitions.change(connection, "user", row.id, row.version, {"password_hash": hashed})
        people.end_sessions(connection, row.id, but=_own_session(space))


@requires("account")
def own_sessions(space: Workspace) -> list[Session]:
    """One's own sessions, the newest first; ForbiddenError for a token."""
    _expect_no_token(space)
    this = _own_session(space)
    rows = space.read(people.sessions_of, _own_id(space))
    return [from_row(Session, row, is_this=row["key_hash"] == this) for row in rows]


@requires("account")
def end_own_session(space: Workspace, session: int) -> None:
    """End one of your own sessions; ForbiddenError for a token."""
    _expect_no_token(space)
    with space.changing("end session", "user", space.identify().name) as connection:
        if not people.end_session(connection, _own_id(space), session):
            raise not_found("session", str(session), [])


@requires("account")
def list_tokens(space: Workspace) -> list[Token]:
    """The tokens of the project, the newest first: your own, or all for an admin."""
    rows = space.read(people.tokens_of, space.project_id, _whose(space))
    return [from_row(Token, row, user=row["user_name"]) for row in rows]


@requires("account")
def create_token(space: Workspace, name: str, role: Role, days: float) -> tuple[Token, str]:
    """Make a token for the project; returns it and its key, which cannot be shown again.

    Raises:
        ForbiddenError: A token cannot make others, which would outlive it.
        UserError: The role has rights that the person does not have, or another value cannot be.
    """
    actor = space.identify()
    _expect_no_token(space)
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
    values = {"user_id": _own_id(space), "project_id": space.project_id, "name": title, "role": role}
    with space.changing("create", "token", title, [f"role {role}", f"{days:g} days"]) as connection:
        made = people.add_token(connection, key, {**values, "expires_at": expires_at})
    return Token(made, title, actor.name, role, now(), None, expires_at), key


@requires("account")
def revoke_token(space: Workspace, token: int) -> None:
    """Revoke a token of the project: your own, or anyone's for an admin."""
    with space.changing("revoke", "token", str(token)) as connection:
        if not people.delete_token(connection, space.project_id, token, _whose(space)):
            raise not_found("token", str(token), [])


def _own_session(space: Workspace) -> str | None:
    """The digest of the session that the request came with; None if it came with something else."""
    identity = space.identify
    return identity.key if isinstance(identity, Identity) and identity.kind == "session" else None


def _expect_no_token(space: Workspace) -> None:
    """A token is for the work in its project; with a stolen one nobody gets at the account."""
    if isinstance(space.identify, Identity) and space.identify.kind == "token":
        raise ForbiddenError(
            Problem("a token manages no account", hint="sign in, and do it on the page of your account")
        )


def _own_id(space: Workspace) -> int:
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
