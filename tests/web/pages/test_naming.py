"""Names made of titles, and how the field of a name shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.config.schema import IDENTIFIER
from evalflow.web.ui.forms import name_of

from ..conftest import Server
from .test_datasets import field, press, seen

Visit = Callable[..., Any]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Factual Accuracy", "factual_accuracy"),
        ("  Fees & refunds (2026)! ", "fees_refunds_2026"),
        ("Genauigkeit für Straßen", "genauigkeit_fur_strassen"),
        ("G-Eval: a/b", "g_eval_a_b"),
        ("a__name_", "a__name_"),
        ("3 fees", ""),
        ("Точность", ""),
        ("&", ""),
        ("", ""),
    ],
)
def test_a_title_gives_a_name(title: str, name: str) -> None:
    assert name_of(title) == name


@given(st.text())
def test_what_is_given_is_a_name_or_nothing_and_stays_as_it_is(title: str) -> None:
    name = name_of(title)
    assert not name or IDENTIFIER.match(name)
    assert name_of(name) == name


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_title_is_typed_and_its_name_seen_and_changed(visit: Visit, pages: Server, width: int) -> None:
    page = visit("/datasets/new", width)
    name = field(page, "Name")
    name.press_sequentially("Fees & Refunds")
    seen(page, "File name: fees_refunds")
    place = page.get_by_role("button", name="Create", exact=True).bounding_box()
    name.press("Tab")
    page.wait_for_function("document.querySelector('input[type=text]').value === 'fees_refunds'")
    page.get_by_text("File name: fees_refunds").wait_for(state="detached")
    assert page.get_by_role("button", name="Create", exact=True).bounding_box() == place  # a click would miss it
    name.fill(f"Fees {width}")
    press(page, "Create")
    page.wait_for_url(re.compile(f"/datasets/fees_{width}$"))
    assert pages.ask("GET", f"/api/v1/datasets/fees_{width}").status == 200


@pytest.mark.browser
def test_a_title_without_a_name_is_refused_as_it_was_written(visit: Visit) -> None:
    page = visit("/datasets/new")
    field(page, "Name").fill("Точность")
    press(page, "Create")
    seen(page, "'Точность' cannot be a name")
    assert field(page, "Name").input_value() == "Точность"
