"""Signing in with an identity that a provider has proved: whose account it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalflow.addons.studio.store.rows import now
from evalflow.addons.studio.work import audit, identities, passkeys, people, sessions
from evalflow.addons.studio.work.access import ForbiddenError
from evalflow.addons.studio.work.audit import AuditFilter
from evalflow.addons.studio.work.identities import ProvidedIdentity, sign_in_by_identity
from evalflow.addons.studio.work.passkeys import Browser
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
    link = people.sign_in_link(space, "ann")
    assert identities.take_back(space, link) is None
    assert passkeys.link_owner(space, Browser("https://e.example", "", ""), link).name == "ann"


def test_an_owner_comes_with_a_second_factor_alone(space: Workspace) -> None:
    people.add_user(space, "lea", email="lea@example.org", is_owner=True)
    with pytest.raises(ForbiddenError, match="second factor"):
        enter(space, LEA)
    assert enter(space, replace(LEA, has_second_factor=True)) == "lea"
    refused = [one for one in audit.list_changes(space, AuditFilter()).items if one.action == "refuse sign-in"]
    assert [(one.by, one.address, one.fields) for one in refused] == [("lea", "10.0.0.1", ["oidc: no second factor"])]


def test_a_proof_counts_from_when_the_provider_has_seen_it(space: Workspace) -> None:
    people.add_user(space, "lea", email="lea@example.org")
    for proved_at, is_fresh in (("", True), (now(-sessions.CONFIRMED_TTL), False)):
        key = sign_in_by_identity(space, replace(LEA, proved_at=proved_at), "10.0.0.1", "", signs_up=False)
        assert sessions.identity_of(space, "session", key, "").is_confirmed() is is_fresh
