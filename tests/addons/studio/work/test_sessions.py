"""Sessions and tokens: whose they are, what they allow, and when they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from evalflow.addons.studio.store import people as table
from evalflow.addons.studio.store.rows import add, now
from evalflow.addons.studio.store.server_tables import members
from evalflow.addons.studio.work import bots, connections, passkeys, people, projects, sessions
from evalflow.addons.studio.work.access import Actor, ForbiddenError, Role, SignedOutError, UnconfirmedError
from evalflow.addons.studio.work.connections import ConnectionDraft
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import UserError
from tests.addons.studio.signing_in import signed_in


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalflow.addons.studio.work.sessions.FRESH_S", 0.0)


def add_member(space: Workspace, name: str, role: Role) -> int:
    people.add_user(space, name)
    user = people.USERS.get(space, name).id
    with space.database.writing() as connection:
        add(connection, members, {"project_id": space.project_id, "user_id": user, "role": role})
    return user


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


def test_where_there_are_no_accounts_there_is_none_of_ones_own(space: Workspace) -> None:
    for work in (sessions.own_account, sessions.own_sessions):
        with pytest.raises(NotFoundError, match="no account"):
            work(space)


def test_sessions_and_tokens_in_use_are_noted(space: Workspace) -> None:
    add_member(space, "ann", "viewer")
    own, _ = signed_in(space, "ann")
    before = now(-timedelta(minutes=20))
    _, secret = sessions.create_token(own, "nightly", "viewer", 1)
    change(space, "UPDATE sessions SET seen_at = :then", then=before)
    for identity in (own.identify, sessions.identity_of(space, "token", secret, "")):
        assert isinstance(identity, sessions.Identity)
        identity()
        sessions.note_use(space, identity)
    assert sessions.own_sessions(own)[0].seen_at > before
    assert (sessions.list_tokens(own)[0].used_at or "") > before


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


def test_a_token_manages_no_account(space: Workspace) -> None:
    add_member(space, "ann", "admin")
    own, _ = signed_in(space, "ann")
    token, secret = sessions.create_token(own, "nightly", "admin", 1)
    program = replace(space, identify=sessions.identity_of(space, "token", secret, ""))
    (session,) = sessions.own_sessions(own)
    for work in (
        lambda: sessions.create_token(program, "another", "viewer", 1),
        lambda: sessions.list_tokens(program),
        lambda: sessions.revoke_token(program, token.id),
        lambda: passkeys.own_passkeys(program),
        lambda: sessions.own_sessions(program),
        lambda: sessions.end_own_session(program, session.id),
    ):
        with pytest.raises(ForbiddenError, match="a token manages no account"):
            work()


def test_a_clock_that_is_set_back_makes_no_session_token_and_proof_last_longer(space: Workspace) -> None:
    """As seen from then, they have begun in the future."""
    people.add_user(space, "olga", is_owner=True)
    later = now(timedelta(hours=3))
    for column in ("created_at", "seen_at"):
        own, _ = signed_in(space, "olga")
        change(space, f"UPDATE sessions SET {column} = :later", later=later)
        with pytest.raises(SignedOutError):
            own.identify()
    own, _ = signed_in(space, "olga")
    change(space, "UPDATE sessions SET confirmed_at = :later", later=later)
    with pytest.raises(UnconfirmedError):
        people.add_user(own, "ben")
    change(space, "UPDATE sessions SET confirmed_at = :soon", soon=now(timedelta(minutes=1)))
    people.add_user(own, "ben")
    _, secret = sessions.create_token(own, "nightly", "viewer", 1)
    token = sessions.identity_of(space, "token", secret, "")
    assert token().name == "olga"
    change(space, "UPDATE tokens SET created_at = :later", later=later)
    with pytest.raises(SignedOutError):
        token()


def test_the_tokens_of_a_person_wait_for_each_other_and_no_page_waits_for_them(space: Workspace) -> None:
    add_member(space, "ann", "editor")
    own, _ = signed_in(space, "ann")
    secrets = [sessions.create_token(own, name, "editor", 1)[1] for name in ("nightly", "weekly")]
    programs = {sessions.identity_of(space, "token", secret, "")().queue for secret in secrets}
    assert len(programs) == 1
    assert own.identify().queue not in programs


def test_a_stolen_session_cannot_do_what_asks_for_the_person_again(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    own, _ = signed_in(space, "olga")
    people.add_user(own, "ann")
    change(space, "UPDATE sessions SET confirmed_at = :then", then=now(-sessions.CONFIRMED_TTL))
    draft = ConnectionDraft("https://api.openai.com/v1")
    for work in (
        lambda: sessions.create_token(own, "nightly", "viewer", 1),
        lambda: sessions.revoke_token(own, 1),
        lambda: people.add_user(own, "ben"),
        lambda: people.sign_in_link(own, "ann"),
        lambda: people.update_user(own, "ann", 1, is_owner=True),
        lambda: people.delete_user(own, "ann", 1),
        lambda: projects.set_role(own, "ann", "viewer"),
        lambda: connections.create_connection(own, "openai", draft),
        lambda: passkeys.remove_passkey(own, 1),
        lambda: sessions.end_own_session(own, 1),
    ):
        with pytest.raises(UnconfirmedError):
            work()
    assert people.list_users(own)


@pytest.mark.parametrize(
    ("role", "stays", "seen", "created", "is_in"),
    [
        ("editor", True, 29, 29, True),
        ("editor", True, 31, 31, False),
        ("editor", True, 1, 12 * 60 + 1, False),
        ("viewer", False, 31, 31, False),
        ("annotator", False, 31, 31, False),
        ("annotator", True, 2 * 24 * 60, 13 * 24 * 60, True),
        ("annotator", True, 4 * 24 * 60, 13 * 24 * 60, False),
        ("annotator", True, 1, 15 * 24 * 60, False),
    ],
)
def test_only_those_who_label_stay_signed_in_for_long(
    space: Workspace, role: Role, stays: bool, seen: int, created: int, is_in: bool
) -> None:
    """`seen` and `created`: minutes ago."""
    add_member(space, "ann", role)
    people.update_user(space, "ann", 1, stays_signed_in=stays)
    own, _ = signed_in(space, "ann")
    moments = {"seen": now(-timedelta(minutes=seen)), "created": now(-timedelta(minutes=created))}
    change(space, "UPDATE sessions SET seen_at = :seen, created_at = :created", **moments)
    if is_in:
        assert own.identify().name == "ann"
    else:
        with pytest.raises(SignedOutError):
            own.identify()
