"""Invite a person into a project: create the account if needed, set the role, and make a sign-in link."""

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
    """An invited person. `code`: for the sign-in link; None if they already have a passkey."""

    user: str
    role: Role
    code: str | None


@requires("admin")
def invite(space: Workspace, person: str, role: Role, review: str = "") -> Invited:
    """Add a person to the workspace's project, and to a review if one is named.

    `person`: a user name, or a full name from which one is made. Only the server's owner can invite a person without an
    account. With a review, a member whose role may label keeps it.
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
        named_review = reviews.get_review(space, review)
        if name not in named_review.people:
            reviews.change_people(space, review, named_review.version, [*named_review.people, name])
    is_new = known is None or not known.passkeys
    return Invited(name, given, people.sign_in_link(space, name) if is_new and may(space, "own") else None)


def user_name(person: str) -> str:
    """Make a user name from a person's full name.

    Example:
        >>> user_name("Ann-Marie  Müller")
        'ann-marie.muller'
    """
    plain = unicodedata.normalize("NFKD", person.strip()).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_NAMES.sub(".", plain).strip("._-")
