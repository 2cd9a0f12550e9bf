"""Passkeys: created through a one-time link or on the account page, and verified at each sign-in.

A browser gets options with a random challenge, and returns the challenge signed by the person's device. `webauthn`
checks that the signature is for this challenge and server, and that the device verified its user (PIN, fingerprint).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from evalflow.addons.studio.store import people
from evalflow.addons.studio.store.people import Passkey
from evalflow.addons.studio.store.rows import storable
from evalflow.addons.studio.work.access import Actor, SignedOutError, open_to_all, requires
from evalflow.addons.studio.work.identities import keep_until_back, take_back
from evalflow.addons.studio.work.people import LINK, LINK_TTL, account_state
from evalflow.addons.studio.work.sessions import Identity, expect_no_token, own_id, start_session
from evalflow.addons.studio.work.sign_in_limits import expect_free, forgive, note_challenge, note_refusal
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    from webauthn.helpers.structs import (
        PublicKeyCredentialCreationOptions,
        PublicKeyCredentialDescriptor,
        PublicKeyCredentialRequestOptions,
    )

ANSWER_TTL = timedelta(minutes=5)
"""Time limit for the person to use their device."""


@dataclass(frozen=True, slots=True)
class Browser:
    """The browser that sends a response.

    Attributes:
        origin: The server's URL as browsers see it.
        address, agent: The browser's address and User-Agent.
    """

    origin: str
    address: str
    agent: str

    @property
    def server(self) -> str:
        """The host name that passkeys are bound to."""
        return urlsplit(self.origin).hostname or ""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge for the browser: the key for a cookie, and the JSON options for `navigator.credentials`."""

    key: str
    options: str


class RefusedPasskeyError(SignedOutError):
    """A device's response does not prove an identity. The message gives no reason; the audit has it."""

    def __init__(self) -> None:
        hint = "try again, or ask an owner of the server for a link"
        UserError.__init__(self, Problem("this passkey was not accepted", hint=hint))


@open_to_all
def ask_to_enter(space: Workspace, browser: Browser) -> Challenge:
    """Ask for any passkey of this server, to sign in. Raises TooManyTriesError."""
    expect_free(space, browser.address)
    return _ask_for(space, browser, "enter", [])


@open_to_all
def enter(space: Workspace, browser: Browser, key: str, answer: Mapping[str, Any]) -> str:
    """Verify a response, and start a session for the passkey's owner; returns its key.

    Raises:
        RefusedPasskeyError: The response is invalid, or the account is disabled.
        TooManyTriesError: Too many attempts have failed.
    """
    expect_free(space, browser.address)
    passkey = space.read(people.passkey, str(answer.get("id", ""))[:2000])
    account = passkey.user_name if passkey else None
    expect_free(space, browser.address, account)
    user = space.read(people.user, account) if account else None
    reason = "passkey unknown" if passkey is None or user is None else "account disabled" if user.is_disabled else None
    reason = reason or (_fault(space, browser, key, "enter", answer, passkey) if passkey else None)
    if reason or user is None:
        note_refusal(space, browser.address, account, reason or "passkey unknown")
        raise RefusedPasskeyError
    forgive(space, user.name)
    return start_session(space, user, browser.address, browser.agent, "passkey")


@requires("account")
def ask_to_confirm(space: Workspace, browser: Browser) -> Challenge:
    """Ask the person of a session to use a passkey again. Raises UserError if they have none."""
    own = space.read(people.passkeys_of, own_id(space))
    if not own:
        raise UserError(Problem("you have no passkey yet", hint="sign out and in again, and make one on your account"))
    return _ask_for(space, browser, "confirm", [_descriptor(passkey) for passkey in own])


@requires("account")
def confirm(space: Workspace, browser: Browser, key: str, answer: Mapping[str, Any]) -> None:
    """Verify a response and record a fresh authentication in the session. Raises RefusedPasskeyError."""
    expect_free(space, browser.address, space.identify().name)
    passkey = space.read(people.passkey, str(answer.get("id", ""))[:2000])
    mine = passkey if passkey and passkey.user_id == own_id(space) else None
    reason = _fault(space, browser, key, "confirm", answer, mine) if mine else "passkey unknown"
    if reason:
        note_refusal(space, browser.address, space.identify().name, reason)
        raise RefusedPasskeyError
    identity = space.identify
    if isinstance(identity, Identity) and identity.kind == "session" and identity.row and identity.row.id is not None:
        with space.changing("confirm", "user", identity().name, ["passkey"]) as connection:
            people.confirm_session(connection, identity.row.id)


@requires("account", confirmed=True)
def ask_to_add(space: Workspace, browser: Browser) -> Challenge:
    """Ask the person of a session to create a passkey."""
    expect_no_token(space)
    own_id(space)
    return _ask_for_new(space, browser, "add", _user(space, space.identify().name))


@requires("account", confirmed=True)
def add(space: Workspace, browser: Browser, key: str, answer: Mapping[str, Any]) -> None:
    """Add a passkey to your own account. Raises RefusedPasskeyError."""
    _add(space, browser, key, "add", answer, _user(space, space.identify().name))


@open_to_all
def link_owner(space: Workspace, browser: Browser, code: str) -> people.User:
    """The user of a one-time link, which stays valid. Raises UserError for an invalid link."""
    expect_free(space, browser.address)
    content = space.read(people.code, code, LINK_TTL)
    rows = space.read(people.every_user) if content and content["kind"] == LINK else []
    user = next((row for row in rows if content and account_state(row) == content["account"]), None)
    if user is None or user.is_disabled:
        note_refusal(space, browser.address, user and user.name, "link not valid")
        raise _not_valid()
    return user


@open_to_all
def ask_to_join(space: Workspace, browser: Browser, code: str) -> Challenge:
    """Ask the user of a one-time link to create a passkey."""
    return _ask_for_new(space, browser, "join", link_owner(space, browser, code))


@open_to_all
def join(space: Workspace, browser: Browser, code: str, key: str, answer: Mapping[str, Any]) -> str:
    """Use up a link: add a passkey and start a session; returns its key. Raises RefusedPasskeyError or UserError."""
    user = link_owner(space, browser, code)
    acting = replace(space, identify=lambda: Actor(user.id, user.name, address=browser.address))
    _add(acting, browser, key, "join", answer, user, code)
    return start_session(space, user, browser.address, browser.agent, "link and passkey")


@open_to_all
def enter_by_link(space: Workspace, browser: Browser, code: str) -> str:
    """Use up a link without creating a passkey; returns the key of a session.

    Raises:
        UserError: The link is invalid, or is for an owner, who needs a passkey.
    """
    user = link_owner(space, browser, code)
    if user.is_owner:
        raise UserError(Problem("an owner signs in with a passkey", "link", "make one with this link"))
    _take(space, browser, code, user)
    return start_session(space, user, browser.address, browser.agent, "link")


@requires("account")
def own_passkeys(space: Workspace) -> list[Passkey]:
    """Your own passkeys, newest first; ForbiddenError for a token."""
    expect_no_token(space)
    return space.read(people.passkeys_of, own_id(space))


@requires("account", confirmed=True)
def remove_passkey(space: Workspace, passkey: int) -> None:
    """Remove one of your own passkeys. Raises TakenError for the last one of an owner."""
    expect_no_token(space)
    actor, user_id = space.identify(), own_id(space)
    with space.changing("delete", "passkey", str(passkey)) as connection:
        if not people.delete_passkey(connection, user_id, passkey):
            raise not_found("passkey", str(passkey), [])
        if actor.is_owner and not people.passkeys_of(connection, user_id):
            raise TakenError(Problem("an owner needs a passkey", "passkey", "add another one first"))


def _user(space: Workspace, name: str) -> people.User:
    user = space.read(people.user, name)
    if user is None:
        raise SignedOutError
    return user


def _taken(space: Workspace, purpose: str, key: str) -> bytes | None:
    """Return and delete the challenge stored under a key for that purpose."""
    content = take_back(space, key, f"passkey {purpose}", ANSWER_TTL)
    return _bytes(content["challenge"]) if content else None


def _ask_for(space: Workspace, browser: Browser, purpose: str, known: list[PublicKeyCredentialDescriptor]) -> Challenge:
    from webauthn import generate_authentication_options
    from webauthn.helpers.structs import UserVerificationRequirement

    options = generate_authentication_options(
        rp_id=browser.server, allow_credentials=known, user_verification=UserVerificationRequirement.REQUIRED
    )
    return _challenge(space, browser, purpose, options)


def _ask_for_new(space: Workspace, browser: Browser, purpose: str, user: people.User) -> Challenge:
    from webauthn import generate_registration_options
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    known = space.read(people.passkeys_of, user.id)
    options = generate_registration_options(
        rp_id=browser.server,
        rp_name="evalflow",
        user_id=bytes.fromhex(people.digest(f"{user.name} {user.created_at}")),
        user_name=user.name,
        user_display_name=user.full_name or user.name,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[_descriptor(row) for row in known],
    )
    return _challenge(space, browser, purpose, options)


def _challenge(
    space: Workspace,
    browser: Browser,
    purpose: str,
    options: PublicKeyCredentialCreationOptions | PublicKeyCredentialRequestOptions,
) -> Challenge:
    from webauthn import options_to_json

    note_challenge(space, browser.address)
    key = keep_until_back(space, {"challenge": _text(options.challenge)}, f"passkey {purpose}", ANSWER_TTL)
    return Challenge(key, options_to_json(options))


def _fault(
    space: Workspace, browser: Browser, key: str, purpose: str, answer: Mapping[str, Any], passkey: Passkey
) -> str | None:
    """Verify a response and record the use of its passkey; returns why it is invalid, or None."""
    from webauthn import verify_authentication_response
    from webauthn.helpers.exceptions import WebAuthnException

    challenge = _taken(space, purpose, key)
    if challenge is None:
        return "challenge not valid"
    try:
        verified = verify_authentication_response(
            credential=dict(answer),
            expected_challenge=challenge,
            expected_rp_id=browser.server,
            expected_origin=browser.origin,
            credential_public_key=_bytes(passkey.public_key),
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError):
        return "passkey not valid"
    with space.database.writing(in_turn=False) as connection:
        used = people.use_passkey(connection, passkey.id, passkey.sign_count, verified.new_sign_count)
    return None if used else "passkey not valid"


def _add(
    space: Workspace,
    browser: Browser,
    key: str,
    purpose: str,
    answer: Mapping[str, Any],
    user: people.User,
    code: str | None = None,
) -> None:
    """Add the passkey of a response, and use up the link through which it was created."""
    from webauthn import verify_registration_response
    from webauthn.helpers.exceptions import WebAuthnException

    challenge = _taken(space, purpose, key)
    try:
        if challenge is None:
            raise ValueError("no challenge")
        verified = verify_registration_response(
            credential=dict(answer),
            expected_challenge=challenge,
            expected_rp_id=browser.server,
            expected_origin=browser.origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError):
        note_refusal(space, browser.address, user.name, "new passkey not valid")
        raise RefusedPasskeyError from None
    if code is not None:
        _take(space, browser, code, user)
    values = {"user_id": user.id, "public_key": _text(verified.credential_public_key), "used_at": None}
    values |= {"sign_count": verified.sign_count, "name": storable(browser.agent[:200])}
    with space.changing("create", "passkey", user.name, []) as connection:
        if people.passkey(connection, credential := _text(verified.credential_id)):
            raise RefusedPasskeyError
        people.add_passkey(connection, {**values, "credential": credential})


def _take(space: Workspace, browser: Browser, code: str, user: people.User) -> None:
    """Use up a link. Of two callers at once, one gets a UserError."""
    acting = replace(space, identify=lambda: Actor(user.id, user.name, address=browser.address))
    with acting.changing("use link", "user", user.name) as connection:
        if people.take_code(connection, code, LINK_TTL) is None:
            raise _not_valid()


def _not_valid() -> UserError:
    hint = "ask an owner of the server for another"
    return UserError(Problem("this link is not valid any more", "link", hint))


def _descriptor(passkey: Passkey) -> PublicKeyCredentialDescriptor:
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    return PublicKeyCredentialDescriptor(id=_bytes(passkey.credential))


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
