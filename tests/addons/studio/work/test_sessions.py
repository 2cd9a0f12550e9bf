"""Sessions and tokens: whose they are, what they allow, when they end, and what guessing costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, text

from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.store import people as table
from evalflow.addons.studio.store.rows import add, now
from evalflow.addons.studio.store.server_tables import members
from evalflow.addons.studio.work import bots, people, sessions
from evalflow.addons.studio.work.access import Actor, ForbiddenError, Role, SignedOutError
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import UserError

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalflow.addons.studio.work.sessions.FRESH_S", 0.0)


def add_member(space: Workspace, name: str, role: Role) -> int:
    people.add_user(space, name)
    people.set_password(space, name, PASSWORD)
    row = people.USERS.get(space, name)
    with space.database.writing() as connection:
        add(connection, members, {"project_id": space.project_id, "user_id": row["id"], "role": role})
    return row["id"]


def signed_in(space: Workspace, name: str) -> tuple[Workspace, str]:
    key = sessions.sign_in(space, name, PASSWORD, "10.0.0.1", "a browser")
    return replace(space, identify=sessions.identity_of(space, "session", key, "10.0.0.1")), key


def change(space: Workspace, statement: str, **values: object) -> None:
    with space.database.writing() as connection:
        connection.execute(text(statement), values)


def test_a_session_has_the_persons_present_rights(space: Workspace) -> None:
    add_member(space, "ann", "viewer")
    own, _ = signed_in(space, "ann")
    assert own.identify() == Actor(1, "ann", roles={space.project_id: "viewer"}, address="10.0.0.1")
    with pytest.raises(ForbiddenError):
        bots.create_bot(own, "b", {"kind": "recorded"})
    change(space, "UPDATE members SET role = 'editor'")
    bots.create_bot(own, "b", {"kind": "recorded"})


def _end_by_disabling(space: Workspace, own: Workspace, key: str) -> None:
    people.update_user(space, "ann", people.get_user(space, "ann").version, is_disabled=True)


def _end_by_signing_out(space: Workspace, own: Workspace, key: str) -> None:
    sessions.sign_out(own, key)


def _end_by_revoking(space: Workspace, own: Workspace, key: str) -> None:
    (session,) = sessions.own_sessions(own)
    sessions.end_own_session(own, session.id)


def _end_by_time(space: Workspace, own: Workspace, key: str) -> None:
    change(space, "UPDATE sessions SET expires_at = '2020-01-01'")


def _end_by_idling(space: Workspace, own: Workspace, key: str) -> None:
    change(space, "UPDATE sessions SET seen_at = '2020-01-01'")


def _end_by_deleting(space: Workspace, own: Workspace, key: str) -> None:
    people.delete_user(space, "ann", people.get_user(space, "ann").version)


@pytest.mark.parametrize(
    "end",
    [_end_by_disabling, _end_by_signing_out, _end_by_revoking, _end_by_time, _end_by_idling, _end_by_deleting],
)
def test_a_session_that_ended_lets_nobody_in(
    space: Workspace, end: Callable[[Workspace, Workspace, str], None]
) -> None:
    people.add_user(space, "olga", is_owner=True)
    add_member(space, "ann", "viewer")
    own, key = signed_in(space, "ann")
    end(space, own, key)
    with pytest.raises(SignedOutError):
        own.identify()


def test_keys_are_not_in_the_database(space: Workspace) -> None:
    add_member(space, "ann", "viewer")
    own, key = signed_in(space, "ann")
    token, secret = sessions.create_token(own, "nightly", "viewer", 1)
    with space.database.reading() as connection:
        stored = str([*table.sessions_of(connection, 1), *table.tokens_of(connection, space.project_id, None)])
    assert key not in stored
    assert secret not in stored
    assert table.digest(secret) in stored
    assert token.name == "nightly"


@pytest.mark.parametrize(
    ("own_role", "role", "later", "allowed"),
    [
        ("editor", "editor", "editor", "editor"),
        ("admin", "viewer", "admin", "viewer"),
        ("admin", "admin", "viewer", "viewer"),
        ("editor", "editor", "annotator", "annotator"),
        ("editor", "viewer", "annotator", None),
    ],
)
def test_a_token_never_exceeds_its_owners_present_role(
    space: Workspace, own_role: Role, role: Role, later: Role, allowed: Role | None
) -> None:
    user = add_member(space, "ann", own_role)
    own, _ = signed_in(space, "ann")
    _, secret = sessions.create_token(own, "nightly", role, 30)
    change(space, "UPDATE members SET role = :role WHERE user_id = :user", role=later, user=user)
    actor = sessions.identity_of(space, "token", secret, "")()
    assert (actor.is_owner, actor.roles.get(space.project_id)) == (False, allowed)


def test_a_token_of_the_owner_is_no_owner(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    people.set_password(space, "olga", PASSWORD)
    own, _ = signed_in(space, "olga")
    _, secret = sessions.create_token(own, "nightly", "admin", 30)
    with pytest.raises(ForbiddenError):
        people.list_users(replace(space, identify=sessions.identity_of(space, "token", secret, "")))


def test_tokens_end_and_are_revoked(space: Workspace) -> None:
    add_member(space, "ann", "editor")
    add_member(space, "ben", "viewer")
    ann, ben = signed_in(space, "ann")[0], signed_in(space, "ben")[0]
    token, secret = sessions.create_token(ann, "nightly", "editor", 30)
    with pytest.raises(UserError, match="allows less than editor"):
        sessions.create_token(ben, "mine", "editor", 30)
    for name, days in (("", 1), ("x", 0), ("x", 367)):
        with pytest.raises(UserError):
            sessions.create_token(ann, name, "viewer", days)
    with pytest.raises(UserError):
        sessions.revoke_token(ben, token.id)
    identity = sessions.identity_of(space, "token", secret, "")
    assert identity().name == "ann"
    sessions.revoke_token(ann, token.id)
    with pytest.raises(SignedOutError):
        identity()
    assert sessions.list_tokens(ann) == []


def test_guessing_gets_slower_and_the_owner_gets_in(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    add_member(space, "ann", "viewer")
    delays: list[float] = []
    for i in range(12):
        delays.append(sessions.begin_sign_in(space, "ann", "10.6.6.6"))
        with pytest.raises(SignedOutError):
            sessions.sign_in(space, "ann", f"wrong {i}", "10.6.6.6", "")
    assert delays == [0, 0, 0, 0, 0.5, 1, 2, 4, 8, 16, 32, 60]
    assert sessions.begin_sign_in(space, "ann", "10.0.0.1") == 10  # the account's own, which everybody may wait for
    signed_in(space, "ann")
    assert sessions.begin_sign_in(space, "ben", "10.6.6.6") == 30
    assert sessions.begin_sign_in(space, "ben", "10.0.0.1") == 0
    assert sessions.begin_sign_in(space, "ann", "10.0.0.1") == 0
    monkeypatch.setattr("evalflow.addons.studio.work.sessions.FORGET_S", -1.0)
    assert sessions.begin_sign_in(space, "ann", "10.6.6.6") == 0


def test_guesses_at_once_wait_as_long_as_one_after_the_other(space: Workspace) -> None:
    add_member(space, "ann", "viewer")
    with ThreadPoolExecutor(12) as pool:  # each from an address of its own, before any password is checked
        delays = list(pool.map(lambda i: sessions.begin_sign_in(space, "ann", f"10.6.6.{i}"), range(12)))
    assert sorted(delays) == [0, 0, 0, 0, 0.5, 1, 2, 4, 8, 10, 10, 10]


def test_signing_in_is_no_failure_of_an_address(space: Workspace) -> None:
    for name in ("ann", "ben"):
        add_member(space, name, "viewer")
    for _ in range(10):
        assert sessions.begin_sign_in(space, "ann", "10.0.0.1") == 0
        signed_in(space, "ann")
    assert sessions.begin_sign_in(space, "ben", "10.0.0.1") == 0


def test_an_unknown_name_and_a_disabled_account_are_refused_alike(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    add_member(space, "ann", "viewer")
    people.update_user(space, "ann", people.get_user(space, "ann").version, is_disabled=True)
    said: set[str] = set()
    for name in ("ann", "nobody", "olga"):
        with pytest.raises(SignedOutError) as refused:
            sessions.sign_in(space, name, PASSWORD, "10.0.0.1", "")
        said.add(str(refused.value))
    assert len(said) == 1


def test_ones_own_password_is_changed_and_other_sessions_end(space: Workspace) -> None:
    add_member(space, "ann", "viewer")
    own, _ = signed_in(space, "ann")
    other, _ = signed_in(space, "ann")
    with pytest.raises(UserError, match="not your password"):
        sessions.change_password(own, "wrong", "another long one")
    sessions.change_password(own, PASSWORD, "another long one")
    assert own.identify().name == "ann"
    with pytest.raises(SignedOutError):
        other.identify()
    assert sessions.own_account(own).has_password


def test_where_there_are_no_accounts_there_is_none_of_ones_own(space: Workspace) -> None:
    for work in (sessions.own_account, sessions.own_sessions):
        with pytest.raises(NotFoundError, match="no account"):
            work(space)


def test_sessions_and_tokens_in_use_are_noted(space: Workspace) -> None:
    add_member(space, "ann", "viewer")
    own, _ = signed_in(space, "ann")
    hour_ago = now(-timedelta(hours=1))
    change(space, "UPDATE sessions SET seen_at = :then", then=hour_ago)
    _, secret = sessions.create_token(own, "nightly", "viewer", 1)
    for identity in (own.identify, sessions.identity_of(space, "token", secret, "")):
        assert isinstance(identity, sessions.Identity)
        identity()
        sessions.note_use(space, identity)
    assert sessions.own_sessions(own)[0].seen_at > hour_ago
    assert (sessions.list_tokens(own)[0].used_at or "") > hour_ago


def test_what_ended_or_changed_is_found_for_all_at_once(space: Workspace) -> None:
    for name in ("ann", "ben", "eve"):
        add_member(space, name, "viewer")
    people.add_user(space, "olga", is_owner=True)
    own, _ = signed_in(space, "ann")
    _, secret = sessions.create_token(own, "nightly", "viewer", 1)
    opened = {
        "ann": own.identify,
        "token": sessions.identity_of(space, "token", secret, ""),
        "ben": signed_in(space, "ben")[0].identify,
        "eve": sessions.identity_of(space, "user", "eve", ""),
    }
    identities = {name: one for name, one in opened.items() if isinstance(one, sessions.Identity) and one()}

    def changed() -> list[str]:
        found = sessions.changed_identities(space, list(identities.values()))
        return [name for name, identity in identities.items() if identity in found]

    assert (len(identities), changed()) == (4, [])
    people.update_user(space, "ben", people.get_user(space, "ben").version, is_disabled=True)
    assert changed() == ["ben"]
    change(space, "UPDATE members SET role = 'editor' WHERE user_id = 3")
    assert changed() == ["ben", "eve"]
    change(space, "DELETE FROM members WHERE user_id = 1")
    assert changed() == ["ann", "token", "ben", "eve"]


def test_whoever_has_a_stolen_session_guesses_the_password_slowly(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_member(space, "ann", "viewer")
    own, _ = signed_in(space, "ann")
    moments = [time.time()]
    monkeypatch.setattr(time, "time", lambda: moments[-1])
    with ThreadPoolExecutor(12) as pool:
        tries = [pool.submit(sessions.change_password, own, f"guess {n}", "another long one") for n in range(12)]
    said = [str(one.exception()) for one in tries]
    assert len([one for one in said if "not your password" in one]) == sessions.FREE_TRIES + 1
    assert len([one for one in said if "too many wrong passwords" in one]) == 12 - sessions.FREE_TRIES - 1
    assert sessions.begin_sign_in(space, "ann", "10.0.0.1") == 0
    moments.append(moments[0] + 60)
    sessions.change_password(own, PASSWORD, "another long one")
    with pytest.raises(UserError, match="not your password"):
        sessions.change_password(own, PASSWORD, "another long one")


def test_a_token_manages_no_account(space: Workspace) -> None:
    add_member(space, "ann", "admin")
    own, _ = signed_in(space, "ann")
    _, secret = sessions.create_token(own, "nightly", "admin", 1)
    program = replace(space, identify=sessions.identity_of(space, "token", secret, ""))
    (session,) = sessions.own_sessions(own)
    for work in (
        lambda: sessions.create_token(program, "another", "viewer", 1),
        lambda: sessions.change_password(program, PASSWORD, "another long one"),
        lambda: sessions.own_sessions(program),
        lambda: sessions.end_own_session(program, session.id),
    ):
        with pytest.raises(ForbiddenError, match="a token manages no account"):
            work()


def test_whoever_signs_in_while_the_password_is_changed_stays_out(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_member(space, "ann", "viewer")
    forget = table.forget_failures

    def change_meanwhile(connection: Connection, keys: Sequence[str], before: float) -> None:
        forget(connection, keys, before)
        values = {"password_hash": people.password_hash("another long one", "ann")}
        definitions.change(connection, "user", 1, people.USERS.get(space, "ann")["version"], values)

    monkeypatch.setattr(table, "forget_failures", change_meanwhile)
    with pytest.raises(SignedOutError):
        signed_in(space, "ann")
    assert table_sessions(space) == []


def table_sessions(space: Workspace) -> list[dict[str, object]]:
    with space.database.reading() as connection:
        return table.sessions_of(connection, 1)
