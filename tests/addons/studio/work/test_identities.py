"""Signing in with an identity that a provider has proved: whose account it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalflow.addons.studio.work import identities, people, sessions
from evalflow.addons.studio.work.access import ForbiddenError
from evalflow.addons.studio.work.identities import ProvidedIdentity, sign_in_by_identity
from evalflow.addons.studio.work.space import Workspace

LEA = ProvidedIdentity("https://l.example", "1", "Lea@example.org", "lea@example.org", "Lea")


def enter(space: Workspace, identity: ProvidedIdentity, *, signs_up: bool = False) -> str:
    key = sign_in_by_identity(space, identity, "10.0.0.1", "a browser", signs_up=signs_up)
    return sessions.identity_of(space, "session", key, "")().name


def test_the_only_account_with_the_address_is_linked_once(space: Workspace) -> None:
    people.add_user(space, "lea", email="lea@example.org")
    for changed in (LEA, replace(LEA, email=None), replace(LEA, email="other@example.org")):
        assert enter(space, changed) == "lea"
    for other in (replace(LEA, subject="2"), replace(LEA, subject="2", email=None)):
        with pytest.raises(ForbiddenError, match="there is no account"):
            enter(space, other)
    assert enter(space, replace(LEA, issuer="https://other.example")) == "lea"


def test_an_address_of_two_accounts_is_nobodys(space: Workspace) -> None:
    for name in ("lea", "lia"):
        people.add_user(space, name, email="lea@example.org")
    for signs_up in (False, True):
        with pytest.raises(ForbiddenError):
            enter(space, LEA, signs_up=signs_up)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("Lea.Smith@x", "lea.smith"), ("", "user"), ("._ü", "user"), ("a\x00b", "a-b"), ("x" * 300, "x" * 90)],
)
def test_a_new_account_gets_a_name_that_is_free(space: Workspace, wanted: str, name: str) -> None:
    for subject, given in (("1", name), ("2", f"{name}-2"), ("3", f"{name}-3"), ("2", f"{name}-2")):
        new = ProvidedIdentity("https://l.example", subject, None, wanted, "A\x00 \ud800name")
        assert enter(space, new, signs_up=True) == given
    assert not people.get_user(space, name).is_owner


def test_what_is_kept_until_a_browser_is_back_is_taken_once(space: Workspace) -> None:
    key = identities.keep_until_back(space, {"state": "s"})
    assert (identities.take_back(space, key) or {})["state"] == "s"
    assert identities.take_back(space, key) is None
    people.add_user(space, "ann")
    link = people.password_link(space, "ann")
    assert identities.take_back(space, link) is None
    assert sessions.choose_password(space, link, "correct horse battery") == "ann"
