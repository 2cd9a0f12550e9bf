"""/users for the owner; /me, /passkeys, /sessions and /tokens for everybody."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from evalflow.addons.studio.store.schema import INTEGER_END
from evalflow.addons.studio.web.api.deps import Expected, Headers, Name, Paging, RequestBody, Space
from evalflow.addons.studio.work import passkeys, people, sessions
from evalflow.addons.studio.work.access import Role
from evalflow.addons.studio.work.space import Page

users_router = APIRouter(prefix="/users", tags=["people"])
router = APIRouter(tags=["people"])

Id = Annotated[int, Path(ge=1, lt=INTEGER_END)]


class NewUser(RequestBody):
    """A user to add; `POST /users/{user}/link` lets them sign in."""

    name: str = Field(max_length=200, description="Lower-case letters, digits and . _ -; it never changes.")
    full_name: str = Field(default="", max_length=1000)
    email: str | None = Field(default=None, max_length=1000, description="Links an identity provider's account.")
    is_owner: bool = False


class UserChange(RequestBody):
    """Changes to a user; fields that are left out are unchanged."""

    full_name: str | None = Field(default=None, max_length=1000)
    email: str | None = Field(default=None, max_length=1000, description="Empty removes it.")
    is_owner: bool | None = None
    is_disabled: bool | None = Field(default=None, description="true also ends the user's sessions.")
    stays_signed_in: bool | None = Field(default=None, description="For two weeks, as long as they only label.")


class OneTimeLink(BaseModel):
    """A link to sign in by, once; it is not shown again."""

    path: str = Field(description="Below the server's address.")
    days: int = Field(description="How long it is valid.")


class Me(BaseModel):
    """Who you are, and your role in the project of the address; an owner needs none."""

    name: str
    full_name: str
    email: str | None
    is_owner: bool
    passkeys: int
    project: str
    role: Role | None


class NewToken(RequestBody):
    """A token to make for the project of the address."""

    name: str = Field(max_length=1000, description="What it is for.")
    role: Role = Field(description="At most your own; if yours becomes lower, so does the token's.")
    days: int = Field(ge=1, le=sessions.LONGEST_TOKEN_DAYS, description="How long it is valid.")


class MadeToken(BaseModel):
    """A token and its key, which is not shown again."""

    token: sessions.Token
    key: str


@users_router.get("")
def read_users(space: Space, paging: Paging) -> Page[people.User]:
    """All users, by name."""
    return paging.of(people.list_users(space), lambda one: (one.name,))


@users_router.post("", status_code=201)
def post_user(space: Space, new: NewUser, headers: Headers) -> people.User:
    """Add a user without a role."""
    user = people.add_user(space, **new.model_dump())
    return headers.locate(user, user.name)


@users_router.get("/{user}")
def read_user(space: Space, user: Name, headers: Headers) -> people.User:
    """One user."""
    return headers.tag(people.get_user(space, user))


@users_router.patch("/{user}")
def patch_user(space: Space, user: Name, change: UserChange, expected: Expected, headers: Headers) -> people.User:
    """Change a user; it takes effect at once."""
    return headers.tag(people.update_user(space, user, expected, **change.model_dump()))


@users_router.delete("/{user}", status_code=204)
def remove_user(space: Space, user: Name, expected: Expected) -> None:
    """Delete a user with their sessions, tokens and roles; what they made stays."""
    people.delete_user(space, user, expected)


@users_router.post("/{user}/link", status_code=201)
def post_link(space: Space, user: Name) -> OneTimeLink:
    """Make a link by which a user signs in, once."""
    code = people.sign_in_link(space, user)
    return OneTimeLink(path=f"/link?code={code}", days=people.LINK_TTL.days)


@router.get("/me")
def read_me(space: Space) -> Me:
    """Who you are."""
    own, role = sessions.own_account(space), space.identify().roles.get(space.project_id)
    named = {field: getattr(own, field) for field in ("name", "full_name", "email", "is_owner", "passkeys")}
    return Me(**named, project=space.project, role=role)


@router.get("/passkeys")
def read_passkeys(space: Space, paging: Paging) -> Page[passkeys.Passkey]:
    """Your own passkeys, the newest first. Only a browser adds one."""
    return paging.of(passkeys.own_passkeys(space), lambda one: (-one.id,))


@router.delete("/passkeys/{passkey}", status_code=204)
def remove_passkey(space: Space, passkey: Id) -> None:
    """Remove one of your passkeys."""
    passkeys.remove_passkey(space, passkey)


@router.get("/sessions")
def read_sessions(space: Space, paging: Paging) -> Page[sessions.Session]:
    """Your own sessions, the newest first."""
    return paging.of(sessions.own_sessions(space), lambda one: (-one.id,))


@router.delete("/sessions/{session}", status_code=204)
def remove_session(space: Space, session: Id) -> None:
    """End one of your sessions."""
    sessions.end_own_session(space, session)


@router.get("/tokens")
def read_tokens(space: Space, paging: Paging) -> Page[sessions.Token]:
    """The tokens of the project, the newest first: your own, or all for an admin; not with a token."""
    return paging.of(sessions.list_tokens(space), lambda one: (-one.id,))


@router.post("/tokens", status_code=201)
def post_token(space: Space, new: NewToken) -> MadeToken:
    """Make a token. The answer is the only one with its key."""
    token, key = sessions.create_token(space, new.name, new.role, new.days)
    return MadeToken(token=token, key=key)


@router.delete("/tokens/{token}", status_code=204)
def remove_token(space: Space, token: Id) -> None:
    """Revoke a token: your own, or anyone's for an admin; not with a token."""
    sessions.revoke_token(space, token)
