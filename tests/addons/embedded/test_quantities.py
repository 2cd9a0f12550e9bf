from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.embedded.quantities import Quantity, quantities


def one(text: str) -> Quantity:
    (found,) = quantities(text)
    return found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1,200 people", "1.200 Personen"),
        ("12 200 habitants", "12'200"),
        ("€1.200,50", "EUR 1,200.50"),
        ("twenty-five", "25"),
        ("two hundred and five thousand", "205,000"),
        ("a dozen", "twelve"),
        ("drei Tage", "72 hours"),
        ("deux semaines", "14 days"),
        ("cinco años", "5 years"),
        ("one month", "30 days"),
        ("4½ hours", "four and a half hours"),
        ("a quarter of an hour", "15 minutes"),
        ("1.5 km", "1,500 metres"),
        ("0.5 kg", "500 g"),
        ("20 cents", "€0.20"),
        ("5 per cent", "5 %"),
        ("about 3.5 million", "3,512,000"),
        ("£4million", "£4,000,000"),
        ("−5 °C", "minus 5 °C"),
        ("6:30 pm", "18:30"),
        ("18 Uhr", "6 pm"),
        ("12 May 2024", "2024-05-12"),
        ("12.05.2024", "May 12th, 2024"),
        ("12 May", "12 May 2024"),
        ("3 März 2020", "3 mars 2020"),
        ("12/31/24", "31 December 2024"),
        ("Wednesday", "Tuesday to Friday"),
        ("14", "14 days"),
    ],
)
def test_the_same_amount_in_two_forms(first: str, second: str) -> None:
    assert one(first).agrees(one(second))
    assert one(second).agrees(one(first))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("€12", "€6"),
        ("12 months", "24 months"),
        ("40 km", "40 m"),
        ("10 °C", "-10 °C"),
        ("6:30 am", "6:30 pm"),
        ("12 May 2024", "13 May 2024"),
        ("12 May 2024", "12 May 2023"),
        ("Monday", "Tuesday to Friday"),
        ("20 cents", "€20"),
    ],
)
def test_other_amounts_of_the_same_kind_compete(first: str, second: str) -> None:
    assert one(first).competes(one(second))


@pytest.mark.parametrize(("first", "second"), [("5 kg", "5 km"), ("5 %", "€5"), ("18:00", "18 May"), ("Monday", "1")])
def test_amounts_of_different_kinds_neither_agree_nor_compete(first: str, second: str) -> None:
    assert not one(first).agrees(one(second))
    assert not one(first).competes(one(second))


@pytest.mark.parametrize("text", ["a week", "one of them", "ein Hund", "half of it", "every month"])
def test_some_state_no_amount_by_themselves(text: str) -> None:
    assert [found.stated for found in quantities(text)] == [False]


@pytest.mark.parametrize("text", ["E07", "once a", "You may march on.", "Einwohner", "B2B", ""])
def test_what_is_no_amount(text: str) -> None:
    assert [found for found in quantities(text) if found.stated] == []


def test_a_day_that_may_be_a_month_is_left_open() -> None:
    assert one("3/4/2024").agrees(one("3 April 2024"))
    assert one("3/4/2024").agrees(one("4 March 2024"))
    assert one("3/4/2024").competes(one("4 March 2023"))


def test_they_come_in_the_order_of_the_text() -> None:
    found = [quantity.surface for quantity in quantities("On 3 May at 9:00, two of the 40 pay €5 each.")]
    assert found == ["3 May", "9:00", "two", "40", "€5"]


@given(st.text(alphabet="0123456789 .,:/-%€$kmhtwoandhalfmay½'\n", max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    for found in quantities(text):
        assert found.agrees(found) or not found.bare
