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
WARN_SHARE = 0.14
"""The most of `--warn` that is mixed into the ground of a warning."""
TINTS = ["tint", "pass-tint", "fail-tint"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_application_has_contrast(dark: bool) -> None:
    values = _colours(APPLICATION, dark)
    values["warn-tint"] = _mixed(values["warn"], values["paper"], WARN_SHARE)
    pairs = [*_pairs(GROUNDS + TINTS), ("on-accent", "accent"), ("warn", "warn-tint"), ("ink", "warn-tint")]
    assert not [pair for pair in pairs if _contrast(values, *pair) < 4.5]  # WCAG 2.2, 1.4.3
    assert not [ground for ground in GROUNDS if _contrast(values, "edge", ground) < 3]  # 1.4.11


def test_every_text_and_ground_of_the_application_is_one_of_these() -> None:
    """So that the pairs above are all that a page can show; what shows no text is not a ground."""
    texts, grounds = set[str](), set[str]()
    for sheet in APPLICATION.parent.glob("*.css"):
        for name, value in re.findall(r"(?<![\w-])(color|background(?:-color)?): ([^;}]+)", sheet.read_text("utf-8")):
            (texts if name == "color" else grounds).add(value.removesuffix(" !important").strip())
    assert texts <= {*map(_variable, [*TEXTS, "on-accent", "edge", "bg"]), "inherit"}
    grounds -= {"none", "inherit", "transparent", "rgb(10 12 18 / 45%)"}
    grounds -= {f"color-mix(in srgb, var(--warn) {share}%, var(--paper))" for share in (12, round(100 * WARN_SHARE))}
    grounds -= {"color-mix(in srgb, var(--accent) 14%, transparent)"}  # while a file is dragged
    assert grounds <= {*map(_variable, [*GROUNDS, *TINTS, "accent", "ink", "line"])}


def test_nothing_but_colours_differs_between_the_colours() -> None:
    """So that a page that fits its screen in one of them fits in the other, too."""
    sheets = {sheet.name: sheet.read_text("utf-8") for sheet in APPLICATION.parent.glob("*.css")}
    light, dark = (
        re.findall(r"([a-z-]+): ([^;]+);", block)
        for block in re.findall(r"data-colours[^{]*\{([^{}]*)\}", sheets[APPLICATION.name])
    )
    assert [name for name, _ in light] == [name for name, _ in dark]
    assert [name for name, _ in dark if not name.startswith("--")] == ["color-scheme"]
    assert all(re.match(r"#[0-9a-f]{6}$|rgb\(", value) for name, value in dark if name.startswith("--"))
    assert {name for name, sheet in sheets.items() if "data-colours" in sheet} == {APPLICATION.name, "print.css"}


def _variable(name: str) -> str:
    return f"var(--{name})"


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


def _mixed(colour: str, other: str, share: float) -> str:
    """What `color-mix` makes of this share of a colour and the rest of another one."""
    pairs = ((int(one[at : at + 2], 16) for one in (colour, other)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(first * share + second * (1 - share)):02x}" for first, second in pairs)


def _luminance(colour: str) -> float:
    """From 0 to 1: the relative luminance of an sRGB colour, as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
