"""People: their identities, sessions, tokens, one-time codes, and failed sign-ins. Keys are stored as digests only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, select, update

from evalflow.addons.studio.store.rows import Row, add, every, every_as, now, one_as, storable, upsert
from evalflow.addons.studio.store.server_tables import (
    failed_sign_ins,
    identities,
    members,
    one_time_codes,
    sessions,
    tokens,
    users,
)

Holder = Literal["session", "token", "user"]


@dataclass(frozen=True)
class User:
    """A person with an account.

    Attributes:
        name: Unique; what they sign in with, and what the audit names.
        full_name: As shown to others; may be empty.
        email: Links an identity provider's account with the same verified address; None if they have none.
        is_owner: Whether they manage the server.
        is_disabled: Whether they can neither sign in nor use tokens.
        has_password: Whether they can sign in with a password.
        version: Counts changes.
    """

    name: str
    full_name: str
    email: str | None
    is_owner: bool
    is_disabled: bool
    has_password: bool
    version: int
    created_at: str
    updated_at: str


@dataclass(frozen=True)
class StoredUser(User):
    """A row of the table of users, with what only signing in needs."""

    id: int
    password_hash: str | None


_USERS = select(users, users.c.password_hash.is_not(None).label("has_password"))


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Who may act by a session, a token or a name.

    Attributes:
        id, used_at: The session or token, and when it was last used.
        project_id, role: What a token is limited to.
    """

    user_id: int
    user_name: str
    is_owner: bool
    id: int | None = None
    used_at: str | None = None
    project_id: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class SignInFailures:
    """The failed sign-ins that are counted under a key. `last_at`: in seconds since 1970."""

    failures: int = 0
    last_at: float = 0.0


def digest(key: str) -> str:
    """The stored form of a key that was drawn at random."""
    return hashlib.sha256(key.encode()).hexdigest()


def every_user(connection: Connection) -> list[StoredUser]:
    """All users by name."""
    return every_as(StoredUser, connection, _USERS.order_by(users.c.name))


def user(connection: Connection, name: str) -> StoredUser | None:
    """The user of that name."""
    return one_as(StoredUser, connection, _USERS.where(users.c.name == storable(name)))


def user_of_identity(connection: Connection, issuer: str, subject: str) -> StoredUser | None:
    """The user whom an identity provider knows under that subject."""
    query = _USERS.join(identities, identities.c.user_id == users.c.id)
    query = query.where(identities.c.issuer == issuer, identities.c.subject == subject)
    return one_as(StoredUser, connection, query)


def users_with_email(connection: Connection, email: str) -> list[StoredUser]:
    """The users with that e-mail address, in any case."""
    return every_as(StoredUser, connection, _USERS.where(func.lower(users.c.email) == email.lower()))


def has_identity(connection: Connection, user_id: int, issuer: str) -> bool:
    """Whether a user has an identity of that issuer."""
    query = select(identities.c.subject).where(identities.c.user_id == user_id, identities.c.issuer == issuer)
    return connection.scalar(query.limit(1)) is not None


def link_identity(connection: Connection, user_id: int, issuer: str, subject: str) -> None:
    """Let a user sign in with an identity."""
    connection.execute(insert(identities).values(issuer=issuer, subject=subject, user_id=user_id))


def has_users(connection: Connection) -> bool:
    """Whether anybody has an account."""
    return connection.scalar(select(users.c.id).limit(1)) is not None


def owners(connection: Connection) -> int:
    """The number of owners who can sign in."""
    query = select(func.count()).where(users.c.is_owner, ~users.c.is_disabled)
    return connection.scalar(query) or 0


def roles(connection: Connection, user_ids: Sequence[int]) -> dict[int, dict[int, str]]:
    """The roles of users: by user, and then by project id."""
    query = select(members.c.user_id, members.c.project_id, members.c.role).where(members.c.user_id.in_(user_ids))
    found: dict[int, dict[int, str]] = {}
    for user_id, project_id, role in connection.execute(query):
        found.setdefault(user_id, {})[project_id] = role
    return found


def add_session(connection: Connection, key: str, user_id: int, address: str, agent: str, expires_at: str) -> None:
    """Add a session, and delete those that ended long ago."""
    moment = now()
    values = {"user_id": user_id, "address": address, "agent": agent, "created_at": moment, "seen_at": moment}
    connection.execute(insert(sessions).values(**values, key_hash=digest(key), expires_at=expires_at))
    connection.execute(delete(sessions).where(sessions.c.expires_at < moment))


def holders(connection: Connection, kind: Holder, keys: Sequence[str], idle_since: str) -> dict[str, KeyHolder]:
    """Who may act, by key: sessions and tokens by digest, unless expired, and users by name; none of a disabled user.

    Sessions that were last used before `idle_since` are left out.
    """
    columns = [users.c.id, users.c.name, users.c.is_owner]
    if kind == "user":
        query = select(users.c.name, *columns).where(users.c.name.in_([storable(key) for key in keys]))
    elif kind == "session":
        query = select(sessions.c.key_hash, *columns, sessions.c.id, sessions.c.seen_at)
        query = query.join(users, users.c.id == sessions.c.user_id).where(sessions.c.seen_at > idle_since)
        query = query.where(sessions.c.key_hash.in_(keys), sessions.c.expires_at > now())
    else:
        of_token = [tokens.c.id, tokens.c.used_at, tokens.c.project_id, tokens.c.role]
        query = select(tokens.c.key_hash, *columns, *of_token).join(users, users.c.id == tokens.c.user_id)
        query = query.where(tokens.c.key_hash.in_(keys), tokens.c.expires_at > now())
    return {key: KeyHolder(*values) for key, *values in connection.execute(query.where(~users.c.is_disabled))}


def note_use(connection: Connection, kind: Literal["session", "token"], row: int) -> None:
    """Note that a session or a token is in use."""
    table, column = (sessions, "seen_at") if kind == "session" else (tokens, "used_at")
    connection.execute(update(table).where(table.c.id == row).values({column: now()}))


def sessions_of(connection: Connection, user_id: int) -> list[Row]:
    """A user's sessions that have not expired, the newest first."""
    query = select(sessions).where(sessions.c.user_id == user_id, sessions.c.expires_at > now())
    return every(connection, query.order_by(sessions.c.id.desc()))


def end_session(connection: Connection, user_id: int, session_id: int) -> bool:
    """End a session of a user; returns whether there was one."""
    found = delete(sessions).where(sessions.c.id == session_id, sessions.c.user_id == user_id)
    return connection.execute(found).rowcount == 1


def end_sessions(connection: Connection, user_id: int, *, but: str | None = None) -> None:
    """End all sessions of a user, except the one with the digest `but`."""
    found = delete(sessions).where(sessions.c.user_id == user_id)
    connection.execute(found if but is None else found.where(sessions.c.key_hash != but))


def end_session_of_key(connection: Connection, key: str) -> None:
    """End the session with that key, if there is one."""
    connection.execute(delete(sessions).where(sessions.c.key_hash == digest(key)))


def add_token(connection: Connection, key: str, values: Mapping[str, Any]) -> int:
    """Add a token; returns its id."""
    return add(connection, tokens, {**values, "key_hash": digest(key), "created_at": now()})


def tokens_of(connection: Connection, project_id: int, user_id: int | None) -> list[Row]:
    """The tokens of a project with their users' names, the newest first; those of one user, or of all."""
    query = select(tokens, users.c.name.label("user_name")).join(users, users.c.id == tokens.c.user_id)
    query = query.where(tokens.c.project_id == project_id).order_by(tokens.c.id.desc())
    return every(connection, query if user_id is None else query.where(tokens.c.user_id == user_id))


def delete_token(connection: Connection, project_id: int, token_id: int, user_id: int | None) -> bool:
    """Delete a token of a project, if it is the user's (None: anyone's); returns whether there was one."""
    found = delete(tokens).where(tokens.c.id == token_id, tokens.c.project_id == project_id)
    found = found if user_id is None else found.where(tokens.c.user_id == user_id)
    return connection.execute(found).rowcount == 1


def put_code(connection: Connection, key: str, content: Mapping[str, Any], expires_at: str) -> None:
    """Store what a one-time code stands for, and delete expired ones."""
    connection.execute(delete(one_time_codes).where(one_time_codes.c.expires_at < now()))
    values = {"key_hash": digest(key), "content": dict(content), "expires_at": expires_at}
    connection.execute(insert(one_time_codes).values(**values))


def code(connection: Connection, key: str) -> dict[str, Any] | None:
    """What a one-time code stands for, if it is valid."""
    query = select(one_time_codes.c.content).where(
        one_time_codes.c.key_hash == digest(key), one_time_codes.c.expires_at > now()
    )
    return connection.scalar(query)


def take_code(connection: Connection, key: str) -> dict[str, Any] | None:
    """What a one-time code stands for; it is valid no more. Of two who take it at once, one gets None."""
    found = code(connection, key)
    if found is None:
        return None
    taken = connection.execute(delete(one_time_codes).where(one_time_codes.c.key_hash == digest(key)))
    return found if taken.rowcount == 1 else None


def failures(connection: Connection, keys: Sequence[str]) -> dict[str, SignInFailures]:
    """The failed sign-ins counted under each key."""
    hashes = {digest(key): key for key in keys}
    query = select(failed_sign_ins.c.key_hash, failed_sign_ins.c.failures, failed_sign_ins.c.last_at)
    found = connection.execute(query.where(failed_sign_ins.c.key_hash.in_(list(hashes))))
    return {hashes[key]: SignInFailures(*counted) for key, *counted in found}


def note_failure(connection: Connection, counts: Mapping[str, int], moment: float) -> None:
    """Set the number of failures of each key. `moment`: now, in seconds since 1970."""
    for key, count in counts.items():
        values = {"key_hash": digest(key), "failures": count, "last_at": moment}
        connection.execute(upsert(connection, failed_sign_ins).values(**values))


def forget_failures(connection: Connection, keys: Sequence[str], before: float) -> None:
    """Delete the counts of these keys, and all that are older than `before`."""
    hashes = [digest(key) for key in keys]
    found = failed_sign_ins.c.key_hash.in_(hashes) | (failed_sign_ins.c.last_at < before)
    connection.execute(delete(failed_sign_ins).where(found))
