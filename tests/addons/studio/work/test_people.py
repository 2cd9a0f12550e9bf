"""Accounts: who is added, changed and removed, that an owner is always left, and links to choose a password."""

from __future__ import annotations

import pytest

from evalflow.addons.studio.work import people, sessions
from evalflow.addons.studio.work.access import SignedOutError
from evalflow.addons.studio.work.space import NotFoundError, StaleError, TakenError, Workspace
from evalflow.errors import UserError

PASSWORD = "correct horse battery"


def enter(space: Workspace, name: str, password: str = PASSWORD) -> str:
    return sessions.sign_in(space, name, password, "10.0.0.1", "a browser")


def test_people_are_added_changed_and_deleted(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    people.add_user(space, "ann", full_name=" Ann  Smith ", email="ann@example.org")
    with pytest.raises(TakenError, match="already is a user 'ann'"):
        people.add_user(space, "ann")
    assert [(user.name, user.full_name, user.has_password) for user in people.list_users(space)] == [
        ("ann", "Ann Smith", False),
        ("olga", "", False),
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


@pytest.mark.parametrize("password", ["short", "olga-the-great", "x" * 1025])
def test_a_password_that_is_easy_to_guess_is_refused(space: Workspace, password: str) -> None:
    name = "olga-the-great"
    people.add_user(space, name)
    with pytest.raises(UserError, match="password"):
        people.set_password(space, name, password)


def test_a_link_sets_a_password_once(space: Workspace) -> None:
    people.add_user(space, "ann")
    people.set_password(space, "ann", "the old password")
    key = enter(space, "ann", "the old password")
    code = people.password_link(space, "ann")
    with pytest.raises(UserError, match="too easy"):
        sessions.choose_password(space, code, "short")
    assert sessions.choose_password(space, code, PASSWORD) == "ann"
    with pytest.raises(UserError, match="not valid any more"):
        sessions.choose_password(space, code, "another password")
    with pytest.raises(SignedOutError):  # whoever knew the old password is out
        sessions.identity_of(space, "session", key, "")()
    enter(space, "ann")


def test_a_new_password_and_the_end_of_the_account_end_older_links(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    people.add_user(space, "ann")
    older, newer = (people.password_link(space, "ann") for _ in range(2))
    sessions.choose_password(space, newer, PASSWORD)
    of_deleted = people.password_link(space, "ann")
    people.delete_user(space, "ann", people.get_user(space, "ann").version)
    for name in ("bob", "ann"):  # SQLite gives bob the id that ann had
        people.add_user(space, name)
    for code in (older, of_deleted):
        with pytest.raises(UserError, match="not valid any more"):
            sessions.choose_password(space, code, "the password of a thief")
