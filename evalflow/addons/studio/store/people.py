"""People: their identities, sessions, tokens, passkeys, one-time codes, failed sign-ins. Keys are stored as digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, literal, select, update

from evalflow.addons.studio.store.rows import Hidden, Row, add, every, every_as, now, one_as, storable, upsert
from evalflow.addons.studio.store.server_tables import (
    failed_sign_ins,
    identities,
    members,
    one_time_codes,
    passkeys,
    sessions,
    tokens,
    users,
)

Holder = Literal["session", "token", "user"]
AHEAD = timedelta(minutes=5)
"""How far ahead the clock of another server may be. What is later than that was before the clock was set back."""


@dataclass(frozen=True, slots=True)
class User:
    """A person with an account.

    Attributes:
        id: The row's.
        name: Unique; the audit records it.
        full_name: Shown to others; may be empty.
        email: Links an identity provider's account with the same verified address; may be None.
        is_owner: Whether they administer the server.
        is_disabled: If true, they can neither sign in nor use tokens.
        stays_signed_in: If true, they get long sessions while they only label.
        passkeys: The number of their passkeys.
        version: Counts changes.
    """

    id: Hidden[int]
    name: str
    full_name: str
    email: str | None
    is_owner: bool
    is_disabled: bool
    stays_signed_in: bool
    passkeys: int
    version: int
    created_at: str
    updated_at: str


_PASSKEYS = select(func.count()).where(passkeys.c.user_id == users.c.id).scalar_subquery()
_PASSKEYS_OF = select(passkeys, users.c.name.label("user_name")).join(users, users.c.id == passkeys.c.user_id)
_USERS = select(users, _PASSKEYS.label("passkeys"))


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey of a user. `name`: the browser that created it; `used_at`: None if never used."""

    id: int
    name: str
    created_at: str
    used_at: str | None
    user_id: Hidden[int]
    user_name: Hidden[str]
    credential: Hidden[str]
    public_key: Hidden[str]
    sign_count: Hidden[int]


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The person who acts by a session, a token or a name.

    Attributes:
        stays_signed_in: See `User`.
        id, used_at: The session or token, and when it was last used.
        created_at, confirmed_at: When the session started, and when its person last authenticated.
        project_id, role: What a token is limited to.
    """

    user_id: int
    user_name: str
    is_owner: bool
    stays_signed_in: bool
    id: int | None = None
    used_at: str | None = None
    created_at: str = ""
    confirmed_at: str = ""
    project_id: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class SignInFailures:
    """The count of failed sign-ins under a key. `last_at`: in seconds since 1970."""

    failures: int = 0
    last_at: float = 0.0


def digest(key: str) -> str:
    """Return the stored form of a random key."""
    return hashlib.sha256(key.encode()).hexdigest()


def every_user(connection: Connection) -> list[User]:
    """All users by name."""
    return every_as(User, connection, _USERS.order_by(users.c.name))


def user(connection: Connection, name: str) -> User | None:
    """The user of that name."""
    return one_as(User, connection, _USERS.where(users.c.name == storable(name)))


def user_of_identity(connection: Connection, issuer: str, subject: str) -> User | None:
    """The user linked to that subject of an identity provider."""
    query = _USERS.join(identities, identities.c.user_id == users.c.id)
    query = query.where(identities.c.issuer == issuer, identities.c.subject == subject)
    return one_as(User, connection, query)


def users_with_email(connection: Connection, email: str) -> list[User]:
    """The users with that e-mail address, ignoring case."""
    return every_as(User, connection, _USERS.where(func.lower(users.c.email) == email.lower()))


def has_identity(connection: Connection, user_id: int, issuer: str) -> bool:
    """Whether a user is linked to an identity of that issuer."""
    query = select(identities.c.subject).where(identities.c.user_id == user_id, identities.c.issuer == issuer)
    return connection.scalar(query.limit(1)) is not None


def link_identity(connection: Connection, user_id: int, issuer: str, subject: str) -> None:
    """Link an identity to a user, who can then sign in with it."""
    connection.execute(insert(identities).values(issuer=issuer, subject=subject, user_id=user_id))


def has_users(connection: Connection) -> bool:
    """Whether there is any account."""
    return connection.scalar(select(users.c.id).limit(1)) is not None


def owners(connection: Connection) -> int:
    """The number of owners who can sign in."""
    query = select(func.count()).where(users.c.is_owner, ~users.c.is_disabled)
    return connection.scalar(query) or 0


def roles(connection: Connection, user_ids: Sequence[int]) -> dict[int, dict[int, str]]:
    """The roles of users: by user, and then by project id."""
    query = select(members.c.user_id, members.c.project_id, members.c.role).where(members.c.user_id.in_(user_ids))
    by_user: dict[int, dict[int, str]] = {}
    for user_id, project_id, role in connection.execute(query):
        by_user.setdefault(user_id, {})[project_id] = role
    return by_user


def add_session(
    connection: Connection, key: str, user_id: int, address: str, agent: str, expires_at: str, confirmed_at: str
) -> None:
    """Add a session, and delete expired ones. `confirmed_at`: when its person authenticated."""
    moment = now()
    values = {"user_id": user_id, "address": address, "agent": agent, "created_at": moment, "seen_at": moment}
    values |= {"confirmed_at": confirmed_at, "expires_at": expires_at}
    connection.execute(insert(sessions).values(**values, key_hash=digest(key)))
    connection.execute(delete(sessions).where(sessions.c.expires_at < moment))


def holders(connection: Connection, kind: Holder, keys: Sequence[str]) -> dict[str, KeyHolder]:
    """Return the key holders by key: unexpired sessions and tokens by digest, users by name; nobody disabled."""
    columns = [users.c.id, users.c.name, users.c.is_owner, users.c.stays_signed_in]
    if kind == "user":
        query = select(users.c.name, *columns).where(users.c.name.in_([storable(key) for key in keys]))
    elif kind == "session":
        of_session = [sessions.c.id, sessions.c.seen_at, sessions.c.created_at, sessions.c.confirmed_at]
        query = select(sessions.c.key_hash, *columns, *of_session).join(users, users.c.id == sessions.c.user_id)
        query = query.where(sessions.c.key_hash.in_(keys), sessions.c.expires_at > now())
    else:
        no_session = [literal("").label("created_at"), literal("").label("confirmed_at")]
        of_token = [tokens.c.id, tokens.c.used_at, *no_session, tokens.c.project_id, tokens.c.role]
        query = select(tokens.c.key_hash, *columns, *of_token).join(users, users.c.id == tokens.c.user_id)
        query = query.where(tokens.c.key_hash.in_(keys), tokens.c.expires_at > now(), tokens.c.created_at <= now(AHEAD))
    return {key: KeyHolder(*values) for key, *values in connection.execute(query.where(~users.c.is_disabled))}


def note_use(connection: Connection, kind: Literal["session", "token"], row: int) -> None:
    """Record that a session or a token was used now."""
    table, column = (sessions, "seen_at") if kind == "session" else (tokens, "used_at")
    connection.execute(update(table).where(table.c.id == row).values({column: now()}))


def confirm_session(connection: Connection, session_id: int) -> None:
    """Record that the person of a session has authenticated just now."""
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(confirmed_at=now()))


def add_passkey(connection: Connection, values: Mapping[str, Any]) -> int:
    """Add a passkey; returns its id."""
    return add(connection, passkeys, {**values, "created_at": now()})


def passkeys_of(connection: Connection, user_id: int) -> list[Passkey]:
    """The passkeys of a user, newest first."""
    query = _PASSKEYS_OF.where(passkeys.c.user_id == user_id)
    return every_as(Passkey, connection, query.order_by(passkeys.c.id.desc()))


def passkey(connection: Connection, credential: str) -> Passkey | None:
    """A passkey by its credential id."""
    return one_as(Passkey, connection, _PASSKEYS_OF.where(passkeys.c.credential == storable(credential)))


def use_passkey(connection: Connection, passkey_id: int, before: int, sign_count: int) -> bool:
    """Record a use of a passkey. False if its counter is no longer `before`: another use was faster."""
    statement = update(passkeys).where(passkeys.c.id == passkey_id, passkeys.c.sign_count == before)
    return connection.execute(statement.values(sign_count=sign_count, used_at=now())).rowcount == 1


def delete_passkey(connection: Connection, user_id: int, passkey_id: int) -> bool:
    """Delete a passkey of a user; returns whether there was one."""
    statement = delete(passkeys).where(passkeys.c.id == passkey_id, passkeys.c.user_id == user_id)
    return connection.execute(statement).rowcount == 1


def sessions_of(connection: Connection, user_id: int) -> list[Row]:
    """A user's unexpired sessions, newest first."""
    query = select(sessions).where(sessions.c.user_id == user_id, sessions.c.expires_at > now())
    return every(connection, query.order_by(sessions.c.id.desc()))


def end_session(connection: Connection, user_id: int, session_id: int) -> bool:
    """End a session of a user; returns whether there was one."""
    statement = delete(sessions).where(sessions.c.id == session_id, sessions.c.user_id == user_id)
    return connection.execute(statement).rowcount == 1


def end_sessions(connection: Connection, user_id: int) -> None:
    """End all sessions of a user."""
    connection.execute(delete(sessions).where(sessions.c.user_id == user_id))


def end_session_of_key(connection: Connection, key: str) -> None:
    """End the session with that key, if there is one."""
    connection.execute(delete(sessions).where(sessions.c.key_hash == digest(key)))


def add_token(connection: Connection, key: str, values: Mapping[str, Any]) -> int:
    """Add a token; returns its id."""
    return add(connection, tokens, {**values, "key_hash": digest(key), "created_at": now()})


def tokens_of(connection: Connection, project_id: int, user_id: int | None) -> list[Row]:
    """The tokens of a project (of one user, or of all) with the users' names, newest first."""
    query = select(tokens, users.c.name.label("user_name")).join(users, users.c.id == tokens.c.user_id)
    query = query.where(tokens.c.project_id == project_id).order_by(tokens.c.id.desc())
    return every(connection, query if user_id is None else query.where(tokens.c.user_id == user_id))


def delete_token(connection: Connection, project_id: int, token_id: int, user_id: int | None) -> bool:
    """Delete a token of a project if it belongs to that user (None: to anyone); returns whether there was one."""
    statement = delete(tokens).where(tokens.c.id == token_id, tokens.c.project_id == project_id)
    statement = statement if user_id is None else statement.where(tokens.c.user_id == user_id)
    return connection.execute(statement).rowcount == 1


def put_code(connection: Connection, key: str, content: Mapping[str, Any], lasts: timedelta) -> None:
    """Store a one-time code with its content, and delete expired codes."""
    connection.execute(delete(one_time_codes).where(one_time_codes.c.expires_at < now()))
    values = {"key_hash": digest(key), "content": dict(content), "expires_at": now(lasts)}
    connection.execute(insert(one_time_codes).values(**values))


def code(connection: Connection, key: str, lasts: timedelta) -> dict[str, Any] | None:
    """The content of a one-time code of those that last so long, if it is valid."""
    expires_at = one_time_codes.c.expires_at
    query = select(one_time_codes.c.content).where(one_time_codes.c.key_hash == digest(key))
    return connection.scalar(query.where(expires_at > now(), expires_at <= now(lasts + AHEAD)))


def take_code(connection: Connection, key: str, lasts: timedelta) -> dict[str, Any] | None:
    """Return the content of a one-time code and invalidate it. Of two callers at once, one gets None."""
    content = code(connection, key, lasts)
    if content is None:
        return None
    taken = connection.execute(delete(one_time_codes).where(one_time_codes.c.key_hash == digest(key)))
    return content if taken.rowcount == 1 else None


def failures(connection: Connection, keys: Sequence[str]) -> dict[str, SignInFailures]:
    """The count of failed sign-ins of each key."""
    hashes = {digest(key): key for key in keys}
    query = select(failed_sign_ins.c.key_hash, failed_sign_ins.c.failures, failed_sign_ins.c.last_at)
    rows = connection.execute(query.where(failed_sign_ins.c.key_hash.in_(list(hashes))))
    return {hashes[key]: SignInFailures(*counted) for key, *counted in rows}


def note_failure(connection: Connection, counts: Mapping[str, int], moment: float) -> None:
    """Set the number of failures of each key. `moment`: now, in seconds since 1970."""
    for key, count in counts.items():
        values = {"key_hash": digest(key), "failures": count, "last_at": moment}
        connection.execute(upsert(connection, failed_sign_ins).values(**values))


def forget_failures(connection: Connection, keys: Sequence[str], before: float) -> None:
    """Delete the counts of these keys, and every count older than `before`."""
    hashes = [digest(key) for key in keys]
    condition = failed_sign_ins.c.key_hash.in_(hashes) | (failed_sign_ins.c.last_at < before)
    connection.execute(delete(failed_sign_ins).where(condition))
