"""docs/security.md names tests that exist, and leaves out no requirement of levels 1 and 2."""

from __future__ import annotations

import re

from tests.docs.test_readme import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


LAST = (
    *("1.1.2", "1.2.9", "1.3.11", "1.4.3", "1.5.2"),
    *("2.1.3", "2.2.3", "2.3.4", "2.4.1"),
    *("3.2.2", "3.3.4", "3.4.6", "3.5.5", "3.7.2"),
    *("4.1.3", "4.2.1", "4.3.2", "4.4.4"),
    *("5.1.1", "5.2.3", "5.3.2", "5.4.3"),
    *("6.1.3", "6.2.12", "6.3.4", "6.4.4", "6.5.5", "6.6.3", "6.8.4"),
    *("7.1.3", "7.2.4", "7.3.2", "7.4.5", "7.5.2", "7.6.2"),
    *("8.1.2", "8.2.3", "8.3.1", "8.4.1"),
    *("9.1.3", "9.2.4"),
    *("10.1.2", "10.2.2", "10.3.4", "10.4.11", "10.5.5", "10.6.2", "10.7.3"),
    *("11.1.2", "11.2.3", "11.3.3", "11.4.4", "11.5.1", "11.6.1"),
    *("12.1.3", "12.2.2", "12.3.4"),
    *("13.1.1", "13.2.5", "13.3.2", "13.4.5"),
    *("14.1.2", "14.2.4", "14.3.3"),
    *("15.1.3", "15.2.3", "15.3.7"),
    *("16.1.1", "16.2.5", "16.3.4", "16.4.3", "16.5.3"),
    *("17.1.1", "17.2.4", "17.3.2"),
)
"""The last requirement of levels 1 and 2 of each section; those of level 3 follow it."""


def test_every_requirement_is_there() -> None:
    named: set[str] = set()
    for cell in re.findall(r"(?m)^\| (\d[\d., to]*) \|", PAGE):
        for part in cell.split(", "):
            first, _, last = part.partition(" to ")
            section, _, number = first.rpartition(".")
            named |= {f"{section}.{at}" for at in range(int(number), int((last or first).rpartition(".")[2]) + 1)}
    for last in LAST:
        section, _, number = last.rpartition(".")
        assert {f"{section}.{at}" for at in range(1, int(number) + 1)} <= named, section


def test_each_requirement_that_is_met_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) > 40
    for row in rows:
        _, _, _, state, shown, _ = (cell.strip() for cell in row.split("|"))
        assert state in ("met", "not met", "not applicable"), row
        assert shown, row
        assert state != "met" or "::" in shown or "](" in shown, row
        assert not re.search(r"``|`[^`]*\]\([^`]*`", shown), f"code quotes within code quotes: {row}"
        assert "::" not in re.sub(r"`[\w.]+::\w+`", "", shown), f"a test without code quotes of its own: {row}"
    named = re.findall(r"`([\w.]+)::(\w+)`", PAGE)
    assert len(named) > 40
    for module, name in named:
        text = (ROOT / "tests" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert f"def {name}(" in text, (module, name)
