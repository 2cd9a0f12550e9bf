"""Sign-in with an identity that a provider has verified: find, link or create the account."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from evalflow.addons.studio.store import definitions, people
from evalflow.addons.studio.store.rows import storable
from evalflow.addons.studio.work.access import Actor, ForbiddenError, open_to_all
from evalflow.addons.studio.work.sessions import start_session
from evalflow.addons.studio.work.sign_in_limits import note_refusal
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem

BACK_TTL = timedelta(minutes=10)
"""Time limit for the visit to the provider."""
_KIND = "oidc"
NO_SECOND_FACTOR = Problem(
    "an owner of the server signs in with a second factor, and nothing says that you have used one",
    hint="sign in with a passkey, or start the server with --second-factor if everybody needs one to come here",
)
"""Why an owner cannot sign in through a provider or a proxy."""


@dataclass(frozen=True, slots=True)
class ProvidedIdentity:
    """A person as described by an OpenID Connect provider.

    Attributes:
        issuer, subject: The provider, and its permanent id of the person.
        email: Their address; None unless verified by the provider.
        user_name, full_name: Suggestions for a new account; not verified.
        has_second_factor: Whether the provider reports more than a password.
        proved_at: When the person last authenticated at the provider; empty if it does not say.
    """

    issuer: str
    subject: str
    email: str | None
    user_name: str
    full_name: str
    has_second_factor: bool = False
    proved_at: str = ""


@open_to_all
def keep_until_back(
    space: Workspace, content: Mapping[str, str], kind: str = _KIND, lasts: timedelta = BACK_TTL
) -> str:
    """Store the state of a sign-in while the browser asks a provider, or a device; returns the key for the browser."""
    key = secrets.token_urlsafe(32)
    with space.database.writing(in_turn=False) as connection:
        people.put_code(connection, key, {**content, "kind": kind}, lasts)
    return key


@open_to_all
def take_back(space: Workspace, key: str, kind: str = _KIND, lasts: timedelta = BACK_TTL) -> Mapping[str, str] | None:
    """Return and delete the state that `keep_until_back` stored under that key; None if there is none."""
    with space.database.writing(in_turn=False) as connection:
        content = people.code(connection, key, lasts)
        return people.take_code(connection, key, lasts) if content and content["kind"] == kind else None


@open_to_all
def sign_in_by_identity(
    space: Workspace, identity: ProvidedIdentity, address: str, agent: str, *, signs_up: bool
) -> str:
    """Start a session for an identity; returns its key.

    An unknown identity is linked to the only account with its verified e-mail address, unless that account has another
    identity of this provider: companies reassign addresses of people who left. `signs_up`: without such an account,
    create one without a role.

    Raises:
        ForbiddenError: There is no account for it, the account is disabled, or an owner lacks a second factor.
    """
    row = space.read(people.user_of_identity, identity.issuer, identity.subject)
    if row is None:
        row = _linked(space, identity, address) or (_signed_up(space, identity, address) if signs_up else None)
    if row is None:
        named = f"account with the address {identity.email}" if identity.email else "account for you"
        note_refusal(space, address, None, "oidc: no account")
        raise ForbiddenError(Problem(f"there is no {named}", hint="ask the owner of this server to add you"))
    if row.is_disabled:
        note_refusal(space, address, row.name, "oidc: account disabled")
        raise ForbiddenError(Problem("your account is disabled", hint="ask the owner of this server"))
    if row.is_owner and not identity.has_second_factor:
        note_refusal(space, address, row.name, "oidc: no second factor")
        raise ForbiddenError(NO_SECOND_FACTOR)
    return start_session(space, row, address, agent, "oidc", identity.proved_at)


def _linked(space: Workspace, identity: ProvidedIdentity, address: str) -> people.User | None:
    if identity.email is None:
        return None
    with space.database.reading() as connection:
        users = people.users_with_email(connection, identity.email)
        row = users[0] if len(users) == 1 else None
        if row is None or row.is_disabled or people.has_identity(connection, row.id, identity.issuer):
            return None
    with _acting(space, row.id, row.name, address).changing(
        "link identity", "user", row.name, ["by e-mail"]
    ) as connection:
        people.link_identity(connection, row.id, identity.issuer, identity.subject)
    return row


def _signed_up(space: Workspace, identity: ProvidedIdentity, address: str) -> people.User | None:
    """Create an account. Returns None if another account has the address: that needs a decision by a person."""
    with space.database.reading() as connection:
        if identity.email and people.users_with_email(connection, identity.email):
            return None
        taken = {user.name for user in people.every_user(connection)}
    wanted = re.sub(r"[^a-z0-9._-]+", "-", identity.user_name.partition("@")[0].lower()).strip("._-")[:90] or "user"
    name = next(one for one in (wanted, *(f"{wanted}-{n}" for n in range(2, len(taken) + 3))) if one not in taken)
    values = {"name": name, "full_name": storable(" ".join(identity.full_name.split()))[:200], "email": identity.email}
    unset = {"is_owner": False, "is_disabled": False, "stays_signed_in": False}
    with _acting(space, None, name, address).changing("create", "user", name, ["sign-up"]) as connection:
        user_id = definitions.add(connection, "user", {**values, **unset})
        people.link_identity(connection, user_id, identity.issuer, identity.subject)
        return people.user(connection, name)


def _acting(space: Workspace, user: int | None, name: str, address: str) -> Workspace:
    return replace(space, identify=lambda: Actor(user, name, address=address))
