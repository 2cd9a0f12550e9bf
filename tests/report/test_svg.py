"""Scales, ticks and markup of our drawings."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from evalflow.report.svg import Drawing, Scale, shortened, text_width, x_axis, y_axis


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-0.12, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-25, 40, ["−20", "−10", "0", "10", "20", "30", "40"]),
        (800, 1600, ["800", "1,000", "1,200", "1,400", "1,600"]),
        (0, 0.00042, ["0.0000", "0.0001", "0.0002", "0.0003", "0.0004"]),
        (0, 5e-9, ["0", "1e−09", "2e−09", "3e−09", "4e−09", "5e−09"]),
    ],
)
def test_ticks_stand_at_round_numbers(low: float, high: float, labels: list[str]) -> None:
    scale = Scale(low, high, 0, 100)
    assert [scale.label(tick) for tick in scale.ticks()] == labels


def test_a_scale_around_values_ends_at_ticks() -> None:
    scale = Scale.around([0.43, 0.88], 0, 100)
    assert (scale.low, scale.high) == pytest.approx((0.4, 0.9))
    assert scale(0.4) == pytest.approx(0)
    assert scale(0.9) == pytest.approx(100)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e6, 1e-9])
def test_a_single_value_stands_inside_its_scale(value: float) -> None:
    scale = Scale.around([value], 0, 100)
    assert 0 < scale(value) < 100


def test_counts_have_no_ticks_between_them() -> None:
    scale = Scale.around((0, 1), 0, 100, count=3, least_step=1)
    assert [scale.label(tick) for tick in scale.ticks()] == ["0", "1"]


def test_a_long_label_is_cut() -> None:
    assert shortened("short", 100) == "short"
    cut = shortened("a label that is much too long", 100)
    assert cut.endswith("…")
    assert text_width(cut) <= 100
    assert text_width("漢字") > text_width("ab")


def test_markup_is_escaped_and_holds_all_that_is_drawn() -> None:
    drawing = Drawing()
    scale = Scale(0, 1, 0, 100)
    x_axis(drawing, scale, 50, "<x>", top=0)
    y_axis(drawing, Scale(0, 10, 50, 0), 100, "up & down")
    drawing.text(300, -40, "far <b>out</b>", anchor="start", bold=True, angle=-40)
    svg = drawing.markup('say "it" <now>')
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == 'say "it" <now>'
    assert {"<x>", "up & down", "far <b>out</b>"} <= {text.text for text in root.iter("text")}
    left, top, width, height = (float(part) for part in root.attrib["viewBox"].split())
    assert left < 0
    assert top < -40
    assert left + width > 300
    assert top + height > 50
    assert not re.search(r"style=|NaN|nan|inf", svg)
