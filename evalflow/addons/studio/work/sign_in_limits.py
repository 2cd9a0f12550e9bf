"""Failed sign-ins: each is in the audit, and an account or a network with many of them must wait."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from dataclasses import replace

from evalflow.addons.studio.store import people
from evalflow.addons.studio.work.access import Actor, open_to_all
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem, UserError

FORGET_S = 15 * 60.0
"""Seconds after the last failure until all are forgotten."""
LIMITS: Mapping[str, int] = {"network": 30, "account": 20, "challenges": 600}
"""Failures of a network and of an account, and passkeys that a network may ask for, before it must wait."""
UNKNOWN = "unknown"
"""Who failed to sign in, if no account was named."""


class TooManyTriesError(UserError):
    """The account or the network has failed too often just now."""

    def __init__(self) -> None:
        hint = f"wait {FORGET_S / 60:g} minutes"
        super().__init__(Problem("too many attempts to sign in have failed from here or for this account", hint=hint))


@open_to_all
def expect_free(space: Workspace, address: str, account: str | None = None) -> None:
    """Check that neither the network of an address nor an account must wait. Raises TooManyTriesError."""
    keys = _keys(address, account)
    failures = space.read(people.failures, list(keys))
    if any(
        failures[key].failures >= LIMITS[kind]
        for key, kind in keys.items()
        if key in failures and _counts(failures[key])
    ):
        raise TooManyTriesError


@open_to_all
def note_challenge(space: Workspace, address: str) -> None:
    """Count that somebody asks for a passkey, each of which is a row. Raises TooManyTriesError."""
    key = f"challenges {network_of(address)}"
    with space.database.writing(in_turn=False) as connection:
        counted = people.failures(connection, [key]).get(key, people.SignInFailures())
        if _counts(counted) and counted.failures >= LIMITS["challenges"]:
            raise TooManyTriesError
        people.forget_failures(connection, [], time.time() - FORGET_S)
        first = counted.last_at if _counts(counted) else time.time()
        people.note_failure(connection, {key: counted.failures + 1 if _counts(counted) else 1}, first)


@open_to_all
def note_refusal(space: Workspace, address: str, account: str | None, reason: str) -> None:
    """Count a sign-in that was refused, and write it into the audit; nothing for those who must wait."""
    keys = _keys(address, account)
    acting = replace(space, identify=lambda: Actor(None, account or UNKNOWN, address=address))
    with acting.changing("refuse sign-in", "user", account or UNKNOWN, [reason]) as connection:
        failures = people.failures(connection, list(keys))
        counts = {key: failures[key].failures + 1 if key in failures and _counts(failures[key]) else 1 for key in keys}
        people.note_failure(connection, counts, time.time())


@open_to_all
def forgive(space: Workspace, account: str) -> None:
    """Forget the failures of an account whose person has signed in."""
    with space.database.writing(in_turn=False) as connection:
        people.forget_failures(connection, [f"account {account}"], time.time() - FORGET_S)


def network_of(address: str) -> str:
    """The address, or the /64 of an IPv6 address, of which one household has all."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip if ip.version == 4 or mapped else ipaddress.ip_network((ip, 64), strict=False))


def _counts(counted: people.SignInFailures) -> bool:
    return abs(time.time() - counted.last_at) <= FORGET_S


def _keys(address: str, account: str | None) -> dict[str, str]:
    """The keys that failures are counted under, with their kinds."""
    of_account = {f"account {account}": "account"} if account else {}
    return {f"network {network_of(address)}": "network", **of_account}
