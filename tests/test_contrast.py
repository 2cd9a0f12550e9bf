"""Every text and every edge of a field has contrast, on the pages of the application and in documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import evalflow

ROOT = Path(evalflow.__file__).parent
APPLICATION = ROOT / "addons" / "studio" / "web" / "assets" / "theme.css"
DOCUMENTS = ROOT / "report" / "templates" / "page.css"
TEXTS = ["ink", "muted", "accent", "pass", "fail", "warn"]
GROUNDS = ["bg", "paper", "soft"]
TINTS = ["tint", "pass-tint", "fail-tint"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_application_has_contrast(dark: bool) -> None:
    values = _colours(APPLICATION, dark)
    pairs = [*_pairs(GROUNDS + TINTS), ("on-accent", "accent")]
    assert not [pair for pair in pairs if _contrast(values, *pair) < 4.5]  # WCAG 2.2, 1.4.3
    assert not [ground for ground in GROUNDS if _contrast(values, "edge", ground) < 3]  # 1.4.11


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_documents_have_contrast(dark: bool) -> None:
    values = _colours(DOCUMENTS, dark)
    assert not [pair for pair in _pairs(GROUNDS) if _contrast(values, *pair) < 4.5]


def _pairs(grounds: list[str]) -> list[tuple[str, str]]:
    return [(text, ground) for text in TEXTS for ground in grounds]


def _colours(sheet: Path, dark: bool) -> dict[str, str]:
    """The colours of a style sheet by name: those of its first block that has some, or of its second for dark pages."""
    blocks = re.findall(r"\{([^{}]*--ink:[^{}]*)\}", sheet.read_text(encoding="utf-8"))
    assert len(blocks) == 2
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", blocks[dark]))


def _contrast(values: dict[str, str], *names: str) -> float:
    """From 1 to 21: the contrast ratio of two colours, as WCAG 2.2 defines it."""
    darker, lighter = sorted(_luminance(values[name]) for name in names)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """From 0 to 1: the relative luminance of an sRGB colour, as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
