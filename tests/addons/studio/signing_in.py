"""People who have signed in, without a device: their sessions are made in the store."""

from __future__ import annotations

from dataclasses import replace

from evalflow.addons.studio.store import people
from evalflow.addons.studio.work.sessions import identity_of, start_session
from evalflow.addons.studio.work.space import Workspace


def session_key(space: Workspace, name: str, address: str = "10.0.0.1") -> str:
    """The key of a new session of somebody."""
    row = space.read(people.user, name)
    assert row is not None, name
    return start_session(space, row, address, "a browser", "passkey")


def signed_in(space: Workspace, name: str) -> tuple[Workspace, str]:
    """The workspace for a new session of somebody, and its key."""
    key = session_key(space, name)
    return replace(space, identify=identity_of(space, "session", key, "10.0.0.1")), key
