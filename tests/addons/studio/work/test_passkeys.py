"""Passkeys and one-time links: who comes in by them, what is refused, and what the audit says of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evalflow.addons.studio.store import people as stored
from evalflow.addons.studio.store.rows import now
from evalflow.addons.studio.work import audit, identities, passkeys, people, sessions, sign_in_limits
from evalflow.addons.studio.work.access import SignedOutError, UnconfirmedError
from evalflow.addons.studio.work.audit import AuditFilter
from evalflow.addons.studio.work.passkeys import Browser, Challenge, RefusedPasskeyError
from evalflow.addons.studio.work.sign_in_limits import LIMITS, TooManyTriesError, network_of
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.errors import UserError
from tests.addons.studio.device import Device
from tests.addons.studio.work.test_sessions import change

ORIGIN = "https://evalflow.example"
HERE = Browser(ORIGIN, "10.0.0.1", "a browser")
LASTS = "UPDATE one_time_codes SET expires_at = :then"


def join(space: Workspace, name: str, device: Device | None = None) -> tuple[Device, str]:
    """Make a passkey with a link; returns its device, and the key of the session."""
    device, code = device or Device(ORIGIN), people.sign_in_link(space, name)
    asked = passkeys.ask_to_join(space, HERE, code)
    return device, passkeys.join(space, HERE, code, asked.key, device.make(json.loads(asked.options)))


def enter(space: Workspace, device: Device, browser: Browser = HERE) -> str:
    asked = passkeys.ask_to_enter(space, browser)
    key = passkeys.enter(space, browser, asked.key, device.sign(json.loads(asked.options)))
    return sessions.identity_of(space, "session", key, "")().name


def refusals(space: Workspace) -> list[tuple[str, str]]:
    """Who was refused and why, the first first."""
    rows = audit.list_changes(space, AuditFilter()).items
    return [(row.by, row.fields[0]) for row in reversed(rows) if row.action == "refuse sign-in"]


def test_a_link_makes_a_passkey_that_signs_in(space: Workspace) -> None:
    people.add_user(space, "ann")
    device, key = join(space, "ann")
    own = replace(space, identify=sessions.identity_of(space, "session", key, ""))
    assert own.identify().name == "ann"
    assert [enter(space, device) for _ in range(2)] == ["ann", "ann"]
    (passkey,) = passkeys.own_passkeys(own)
    assert (passkey.name, passkey.used_at is not None, people.get_user(space, "ann").passkeys) == ("a browser", True, 1)
    assert refusals(space) == []


def _of_another_page(device: Device) -> None:
    device.origin = "https://evalflow.example.evil.example"


def _of_another_device(device: Device) -> None:
    device.key = Device(ORIGIN).key


def _without_its_person(device: Device) -> None:
    device.verifies = False


def _of_a_copy(device: Device) -> None:
    device.count = 0


@pytest.mark.parametrize("spoil", [_of_another_page, _of_another_device, _without_its_person, _of_a_copy])
def test_an_answer_that_proves_nothing_is_refused(space: Workspace, spoil: Callable[[Device], None]) -> None:
    people.add_user(space, "ann")
    device, _ = join(space, "ann")
    enter(space, device)
    spoil(device)
    with pytest.raises(RefusedPasskeyError):
        enter(space, device)
    assert refusals(space) == [("ann", "passkey not valid")]


def test_a_challenge_counts_once_and_for_its_purpose(space: Workspace) -> None:
    people.add_user(space, "ann")
    device, key = join(space, "ann")
    own = replace(space, identify=sessions.identity_of(space, "session", key, ""))
    asked = passkeys.ask_to_enter(space, HERE)
    answer = device.sign(json.loads(asked.options))
    passkeys.enter(space, HERE, asked.key, answer)
    confirming = passkeys.ask_to_confirm(own, HERE)
    cases: list[tuple[Challenge, dict[str, Any]]] = [
        (asked, answer),
        (confirming, device.sign(json.loads(confirming.options))),
    ]
    for challenge, sent in cases:
        with pytest.raises(RefusedPasskeyError):
            passkeys.enter(space, HERE, challenge.key, sent)
    assert refusals(space) == [("ann", "challenge not valid")] * 2


def test_a_link_is_used_up_once(space: Workspace) -> None:
    people.add_user(space, "ann")
    older, code = (people.sign_in_link(space, "ann") for _ in range(2))
    assert passkeys.link_owner(space, HERE, code).name == "ann"
    key = passkeys.enter_by_link(space, HERE, code)
    assert sessions.identity_of(space, "session", key, "")().name == "ann"
    join(space, "ann")
    for used in (code, older, "x"):
        with pytest.raises(UserError, match="not valid any more"):
            passkeys.enter_by_link(space, HERE, used)
    assert refusals(space) == [("unknown", "link not valid")] * 3


def test_a_clock_that_is_set_back_makes_no_link_and_no_challenge_last_longer(space: Workspace) -> None:
    """As seen from then, they end later than any that is made now."""
    people.add_user(space, "ann")
    code = people.sign_in_link(space, "ann")
    change(space, LASTS, then=now(people.LINK_TTL + timedelta(minutes=1)))
    assert passkeys.link_owner(space, HERE, code).name == "ann", "the clock of another server may be ahead"
    change(space, LASTS, then=now(people.LINK_TTL + timedelta(hours=3)))
    with pytest.raises(UserError, match="not valid any more"):
        passkeys.enter_by_link(space, HERE, code)
    device, _ = join(space, "ann")
    asked = passkeys.ask_to_enter(space, HERE)
    change(space, LASTS, then=now(timedelta(hours=3)))
    with pytest.raises(RefusedPasskeyError):
        passkeys.enter(space, HERE, asked.key, device.sign(json.loads(asked.options)))
    key = identities.keep_until_back(space, {"state": "s"})
    change(space, LASTS, then=now(timedelta(hours=3)))
    assert identities.take_back(space, key) is None


def test_the_end_of_an_account_ends_its_links(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    people.add_user(space, "ann")
    code = people.sign_in_link(space, "ann")
    people.update_user(space, "ann", 1, is_disabled=True)
    with pytest.raises(UserError, match="not valid any more"):
        passkeys.ask_to_join(space, HERE, code)
    people.delete_user(space, "ann", 2)
    for name in ("bob", "ann"):  # SQLite gives bob the id that ann had
        people.add_user(space, name)
    with pytest.raises(UserError, match="not valid any more"):
        passkeys.enter_by_link(space, HERE, code)


def test_an_owner_needs_a_passkey(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    code = people.sign_in_link(space, "olga")
    with pytest.raises(UserError, match="an owner signs in with a passkey"):
        passkeys.enter_by_link(space, HERE, code)
    device, key = join(space, "olga")
    own = replace(space, identify=sessions.identity_of(space, "session", key, ""))
    (passkey,) = passkeys.own_passkeys(own)
    with pytest.raises(TakenError, match="an owner needs a passkey"):
        passkeys.remove_passkey(own, passkey.id)
    assert enter(space, device) == "olga"


def test_a_passkey_used_again_confirms_who_it_is(space: Workspace) -> None:
    people.add_user(space, "ann")
    device, key = join(space, "ann")
    own = replace(space, identify=sessions.identity_of(space, "session", key, ""))
    change(space, "UPDATE sessions SET confirmed_at = :then", then=now(-sessions.CONFIRMED_TTL))
    with pytest.raises(UnconfirmedError):
        passkeys.ask_to_add(own, HERE)
    people.add_user(space, "eve")
    other, _ = join(space, "eve")
    for used, is_right in ((other, False), (device, True)):
        asked = passkeys.ask_to_confirm(own, HERE)
        answer = used.sign(json.loads(asked.options))
        if is_right:
            passkeys.confirm(own, HERE, asked.key, answer)
        else:
            with pytest.raises(RefusedPasskeyError):
                passkeys.confirm(own, HERE, asked.key, answer)
    asked = passkeys.ask_to_add(own, HERE)
    second = Device(ORIGIN)
    passkeys.add(own, HERE, asked.key, second.make(json.loads(asked.options)))
    assert [enter(space, one) for one in (device, second)] == ["ann", "ann"]
    passkeys.remove_passkey(own, passkeys.own_passkeys(own)[0].id)
    with pytest.raises(RefusedPasskeyError):
        enter(space, second)


def test_a_disabled_account_and_an_unknown_passkey_are_refused_alike(space: Workspace) -> None:
    people.add_user(space, "olga", is_owner=True)
    people.add_user(space, "ann")
    device, _ = join(space, "ann")
    people.update_user(space, "ann", people.get_user(space, "ann").version, is_disabled=True)
    told: set[str] = set()
    for one in (device, Device(ORIGIN)):
        with pytest.raises(SignedOutError) as refused:
            enter(space, one)
        told.add(str(refused.value))
    assert len(told) == 1
    assert refusals(space) == [("ann", "account disabled"), ("unknown", "passkey unknown")]


def test_a_network_that_fails_often_waits_and_others_do_not(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    people.add_user(space, "ann")
    device, _ = join(space, "ann")
    stranger = Device(ORIGIN)
    for n in range(LIMITS["network"]):
        with pytest.raises(RefusedPasskeyError):
            enter(space, stranger, replace(HERE, address=f"2001:db8::{n:x}"))
    for _ in range(2):
        with pytest.raises(TooManyTriesError):
            enter(space, device, replace(HERE, address="2001:db8::ffff"))
    assert len(refusals(space)) == LIMITS["network"], "who must wait writes no rows"
    assert enter(space, device, replace(HERE, address="2001:db8:0:1::1")) == "ann"
    monkeypatch.setattr(sign_in_limits, "FORGET_S", -1.0)
    assert enter(space, device, replace(HERE, address="2001:db8::1")) == "ann"


def test_an_account_that_is_tried_often_waits(space: Workspace) -> None:
    people.add_user(space, "ann")
    device, _ = join(space, "ann")
    thief = Device(ORIGIN, id=device.id)
    for n in range(LIMITS["account"]):
        with pytest.raises(RefusedPasskeyError):
            enter(space, thief, replace(HERE, address=f"10.6.6.{n}"))
    with pytest.raises(TooManyTriesError):
        enter(space, device)


def test_nobody_fills_the_database_with_challenges(space: Workspace) -> None:
    with space.database.writing() as connection:
        stored.note_failure(connection, {"challenges 10.6.6.6": LIMITS["challenges"]}, time.time())
    with pytest.raises(TooManyTriesError):
        passkeys.ask_to_enter(space, replace(HERE, address="10.6.6.6"))
    passkeys.ask_to_enter(space, HERE)


@pytest.mark.parametrize(
    ("address", "network"),
    [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("2001:db8::1", "2001:db8::/64"), ("", "")],
)
def test_one_household_is_one_network(address: str, network: str) -> None:
    assert network_of(address) == network
