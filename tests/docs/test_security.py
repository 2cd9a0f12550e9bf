"""docs/security.md names tests that exist."""

from __future__ import annotations

import re

from tests.docs.test_readme import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_each_requirement_that_is_met_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) > 40
    for row in rows:
        _, _, _, state, shown, _ = (cell.strip() for cell in row.split("|"))
        assert state in ("met", "not met", "not applicable"), row
        assert shown, row
        assert state != "met" or "::" in shown or "](" in shown, row
    named = re.findall(r"`([\w.]+)::(\w+)`", PAGE)
    assert len(named) > 40
    for module, name in named:
        text = (ROOT / "tests" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert f"def {name}(" in text, (module, name)
