"""Accounts: who is added, changed and removed, that an owner is always left, and who stays."""

from __future__ import annotations

import pytest

from evalflow.addons.studio.work import people
from evalflow.addons.studio.work.space import NotFoundError, StaleError, TakenError, Workspace
from evalflow.errors import UserError


def test_people_are_added_changed_and_deleted(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    people.add_user(space, "ann", full_name=" Ann  Smith ", email="ann@example.org")
    with pytest.raises(TakenError, match="already is a user 'ann'"):
        people.add_user(space, "ann")
    assert [(user.name, user.full_name, user.passkeys) for user in people.list_users(space)] == [
        ("ann", "Ann Smith", 0),
        ("olga", "", 0),
    ]
    people.update_user(space, "ann", 1, email="", full_name="Ann")
    with pytest.raises(StaleError):
        people.update_user(space, "ann", 1, full_name="late")
    assert people.get_user(space, "ann").email is None
    people.delete_user(space, "ann", 2)
    with pytest.raises(NotFoundError):
        people.get_user(space, "ann")


@pytest.mark.parametrize(
    ("name", "email", "what"),
    [("Ann", None, "cannot be the name"), ("", None, "cannot be"), ("ann", "none", "not an e-mail address")],
)
def test_what_is_no_account_is_refused(space: Workspace, name: str, email: str | None, what: str) -> None:
    with pytest.raises(UserError, match=what):
        people.add_user(space, name, email=email)


def test_an_owner_is_always_left(space: Workspace) -> None:
    for name in ("olga", "otto"):
        people.add_user(space, name, is_owner=True)
    people.update_user(space, "otto", 1, is_owner=False)
    with pytest.raises(TakenError, match="no owner"):
        people.update_user(space, "olga", 1, is_owner=False)
    with pytest.raises(TakenError, match="no owner"):
        people.update_user(space, "olga", 1, is_disabled=True)
    with pytest.raises(TakenError, match="no owner"):
        people.delete_user(space, "olga", 1)
    assert people.get_user(space, "olga").is_owner
