"""Errors that belong to no field: where they stand, and where they lead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nicegui import Client, ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.page import page
from starlette.requests import Request

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import dialog
from evalflow.addons.studio.web.ui.faults import FaultSummary, has_faults, path_of, tell_fault
from evalflow.addons.studio.web.ui.parts import button
from evalflow.addons.studio.work.space import StaleError
from evalflow.errors import InfrastructureError, Problem, Subject, UserError


@pytest.fixture(name="content", autouse=True)
def _content(monkeypatch: pytest.MonkeyPatch) -> Iterator[ui.element]:
    monkeypatch.setattr(Client, "run_javascript", lambda *_: None)  # without a browser, nothing scrolls
    client = Client(page("/"), request=Request({"type": "http", "path": "/", "root_path": "", "headers": []}))
    with client, ui.element("div").classes("page"), ui.element("div") as content:
        yield content
    client.delete()


def said(place: ui.element) -> list[str]:
    shown = [one for one in place.descendants() if isinstance(one, FaultSummary)]
    return [part.text for one in shown for part in one.descendants() if isinstance(part, TextElement) and part.text]


def fail(problem: Problem | UserError, fields: dict[str, forms.Field] | None = None) -> None:
    with forms.faults_shown(fields):
        raise problem if isinstance(problem, UserError) else UserError(problem)


def test_an_error_stands_before_the_buttons_until_the_next_attempt(content: ui.element) -> None:
    ui.label("above")
    with ui.element("div").classes("actions") as row:
        button("Save")
        fail(Problem("the endpoint is down", hint="is it running?"))
        fail(Problem("still down"))
    assert [type(one) for one in content.default_slot.children] == [ui.label, FaultSummary, ui.element]
    assert said(content) == ["Still down"]
    with row, forms.faults_shown():
        pass
    assert not has_faults(content)


def test_an_error_of_a_row_stands_before_what_is_built_anew(content: ui.element) -> None:
    with ui.element("div").props("aria-live=polite") as rows, ui.element("table"), ui.element("td"):
        fail(Problem("somebody else ended it"))
    rows.clear()
    assert said(content) == ["Somebody else ended it"]


def test_an_error_in_a_dialog_stays_in_it(content: ui.element) -> None:
    with dialog("Delete it?") as asked:
        fail(Problem("it is in use"))
    assert has_faults(asked)
    assert not any(isinstance(one, FaultSummary) for one in content.default_slot.children)


def test_an_error_of_a_deleted_row_stands_below_the_heading(content: ui.element) -> None:
    with ui.element("div") as row:
        row.delete()
        fail(Problem("it is gone"))
    assert said(content) == ["It is gone"]


def test_what_repairs_it_is_linked(content: ui.element) -> None:
    see = (Subject("metric", "polite", "fees"), Subject("import", "", "mine"), Subject("bots", "", project="other"))
    fail(Problem("it is in use", see=see))
    links = [one.props["href"] for one in content.descendants() if one.tag == "a"]
    assert links == ["/bots/fees/metrics/polite", "/datasets/mine/import", "/p/other/"]
    assert path_of(Subject("judge", "a b/ü")) == "/judges/a%20b%2F%C3%BC"


def test_a_problem_with_a_link_is_told_once_and_its_field_marked(content: ui.element) -> None:
    one, other = (forms.line(forms.About(label)) for label in ("Cases", "Bot"))
    problems = [Problem("no cases", key="cases", see=(Subject("dataset", "mine"),)), Problem("no bot", key="bot")]
    fail(UserError([*problems, Problem("too late")]), {"cases": one, "bot": other})
    assert (one.error, other.error) == ("", "No bot")
    assert one.props["error"]
    assert said(content)[0] == "3 problems"
    assert "See “Bot”" in said(content)
    assert "See “Cases”" not in said(content)


def test_a_conflict_offers_what_is_there_now(content: ui.element) -> None:
    fail(StaleError(Problem("someone changed it"), 3))
    assert [one.text for one in content.descendants() if isinstance(one, ui.button)] == ["Load the page again"]


def test_the_hint_of_an_outage_is_a_sentence_of_its_own(content: ui.element) -> None:
    with forms.faults_shown():
        raise InfrastructureError("the database does not answer", "is it running?")
    assert said(content) == ["The database does not answer", "Is it running?"]


def test_the_key_of_a_request_is_not_said(content: ui.element) -> None:
    tell_fault(UserError(Problem("others were given every free answer", "review", "ask again")))
    assert said(content) == ["Others were given every free answer", "Ask again."]
