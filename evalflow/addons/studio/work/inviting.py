"""Invite somebody into a project: an account if they have none, the role, and a link with which they sign in."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.addons.studio.store import people as stored
from evalflow.addons.studio.work import people, reviews
from evalflow.addons.studio.work.access import Role, may, requires
from evalflow.addons.studio.work.projects import set_role
from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    from evalflow.addons.studio.work.space import Workspace

_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Invited:
    """Who was invited. `code` is of the link to sign in; None if they have a passkey already."""

    user: str
    role: Role
    code: str | None


@requires("admin")
def invite(space: Workspace, person: str, role: Role, review: str = "") -> Invited:
    """Make a person a member of the workspace's project, and of a review if one is named.

    `person` is the name that they sign in with, or a full name, from which it is made. Only the owner of the server can
    invite who has no account. A member keeps a role that may label, if the review needs no more.
    """
    if not person.strip():
        raise UserError(Problem("this field is required", "person", key="person"))
    name = user_name(person)
    known = space.read(stored.user, name)
    if known is None:
        if not may(space, "own"):
            what, hint = f"nobody here is called {person.strip()!r}", "the owner of the server adds people; ask them"
            raise UserError(Problem(what, "person", hint, "person"))
        people.add_user(space, name, full_name=person.strip() if person.strip() != name else "")
    labelling = {one.name for one in reviews.labellers(space)} if review else set[str]()
    given = role if name in labelling else set_role(space, name, role).role
    if review:
        found = reviews.get_review(space, review)
        if name not in found.people:
            reviews.change_people(space, review, found.version, [*found.people, name])
    is_new = known is None or not known.passkeys
    return Invited(name, given, people.sign_in_link(space, name) if is_new and may(space, "own") else None)


def user_name(person: str) -> str:
    """The name to sign in with that is made of a person's full name.

    Example:
        >>> user_name("Ann-Marie  Müller")
        'ann-marie.muller'
    """
    plain = unicodedata.normalize("NFKD", person.strip()).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_NAMES.sub(".", plain).strip("._-")
