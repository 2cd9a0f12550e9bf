"""Somebody is invited with the least role that serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalflow.addons.studio.work import people, projects, reviews
from evalflow.addons.studio.work.access import Actor
from evalflow.addons.studio.work.inviting import invite, user_name
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from tests.addons.studio.web.finished import finish_runs
from tests.addons.studio.work.test_reviews import add_people, person
from tests.postgres import ON_SQLITE

pytestmark = ON_SQLITE


def test_a_new_person_gets_an_account_a_role_and_a_link(space: Workspace) -> None:
    found = invite(space, " Ann Smith ", "viewer")
    assert (found.user, found.role) == ("ann.smith", "viewer")
    assert found.code
    assert people.get_user(space, "ann.smith").full_name == "Ann Smith"
    assert invite(space, "ann.smith", "editor").role == "editor"  # known, so that the role changes alone
    assert len(people.list_users(space)) == 1


@pytest.mark.slow
def test_a_review_takes_them_in_with_a_role_that_may_label(space: Workspace) -> None:
    run = finish_runs(space).better
    add_people(space, {"eve": "editor", "vic": "viewer"})
    request = ReviewRequest(name="r", run_id=run, metrics=["exact"], size=4, people=["eve"])
    reviews.create_review(space, request)
    for name in ("Ann Smith", "vic", "eve"):
        invite(space, name, "annotator", "r")
    assert reviews.get_review(space, "r").people == ["eve", "ann.smith", "vic"]
    roles = {member.name: member.role for member in projects.list_members(space)}
    assert roles == {"ann.smith": "annotator", "eve": "editor", "vic": "annotator"}


def test_an_admin_invites_those_who_have_an_account(space: Workspace) -> None:
    people.add_user(space, "ann")
    admin = person(space, "ada", "admin")
    assert invite(admin, "ann", "annotator").code is None
    with pytest.raises(UserError, match="nobody here is called 'Bea'"):
        invite(admin, "Bea", "annotator")
    owner = replace(space, identify=lambda: Actor(1, "ada", is_owner=True))
    assert invite(owner, "Bea", "annotator").code
    with pytest.raises(UserError, match="required"):
        invite(owner, " ", "annotator")


def test_names_to_sign_in_are_made_of_full_names(space: Workspace) -> None:
    known = {"Ann Smith": "ann.smith", "José  Núñez": "jose.nunez", "ann_s-1.x": "ann_s-1.x"}
    assert {full: user_name(full) for full in known} == known
    with pytest.raises(UserError, match="cannot be the name of a user"):
        invite(space, "会议", "viewer")
