"""The page for sceptics: its figures stand in the pages that it names as their source."""

from __future__ import annotations

import re

import pytest

from tests.docs.test_readme import ROOT

PAGE = (ROOT / "docs" / "sceptic.md").read_text(encoding="utf-8")
BENCH = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
SECTIONS = {text.partition("\n")[0]: text for text in BENCH.split("\n### ")}


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("tool", ["evalflow", "deepeval", "inspect", "promptfoo", "ragas"])
def test_times_and_memory_are_those_of_the_benchmark(tool: str) -> None:
    of_tool = [row for row in rows(SECTIONS["peers"]) if row[0].startswith(tool) and len(row) == 5]
    [[_, _, _, memory, seconds]] = of_tool
    shown = [row for row in rows(PAGE) if row[0].lower().startswith(tool) and row[1:] == [seconds, memory]]
    assert len(shown) == 1


def test_calls_and_tokens_are_those_of_the_benchmark() -> None:
    [row] = [row for row in rows(SECTIONS["prompt_peers"]) if row[0] == "`faithfulness`"]
    shown = {row[0].partition(" ")[0]: ", ".join(row[1:]) for row in rows(PAGE) if len(row) == 3}
    assert [shown[tool] for tool in ("evalflow", "deepeval", "ragas")] == row[1:]


@pytest.mark.parametrize(
    ("section", "figure"),
    [
        ("calibration_real", "0.3639"),
        ("calibration_real", "0.539 (0.467 to 0.611)"),
        ("calibration_real", "off by 0.136"),
        ("calibration_real", "kappa, sensitivity, specificity | 0.6792"),
        ("calibration", "| means | 0.06 | 5.1% ± 0.5% (100.0%) | 4.9% ± 0.5% (100.0%) |"),
        ("looks", "**9.8%** / **11.1%**"),
        ("looks", "2.4% / 1.1%"),
        ("looks", "**7.1%** / 0.6%"),
        ("looks", "the largest holds 17 %"),
        ("the hardest cells", "**36.9 ± 1.1 %** with 20 cases, 6.5 ± 0.6 % with 50"),
        ("the hardest cells", "up to 77 ± 0.9 %"),
        ("faults", "| evalflow, load 4 | 0 | 17.1 |"),
        ("faults", "| evalflow, load 9 | 0 | 21.4 |"),
        ("people", "| 30 s | 6.3 | 57 | 475 |"),
    ],
)
def test_the_benchmark_still_says_what_the_page_rounds(section: str, figure: str) -> None:
    assert figure in SECTIONS[section]
    assert f"bench/README.md#{section.replace(' ', '-')}" in PAGE


def test_the_versions_of_the_measured_tools_are_named() -> None:
    measured = set(re.findall(r"(?:deepeval|promptfoo|ragas) \d[\d.]*\d", SECTIONS["peers"]))
    assert measured
    assert all(name in PAGE for name in measured)
