"""Verdicts are given in one module, and said in the modules of words; all others lay out what these give."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import evalflow

pytestmark = pytest.mark.slow

PACKAGE = Path(evalflow.__file__).parent
DECIDES = {"summary/verdicts.py"}
WORDS = {
    "report/comparison_sentences.py",
    "report/gate_sentences.py",
    "report/members.py",
    "report/ranking_sentences.py",
}
SAYS = {
    **dict.fromkeys(("addons/studio/web/pages/compare.py", "report/comparison.py"), "colours and signs of verdicts"),
    "report/page.py": "the words for what a metric sees of changed answers",
    **dict.fromkeys(
        (
            "addons/studio/web/pages/compare_cases.py",
            "summary/case_changes.py",
        ),
        "one case has a lower or higher score, which is a fact",
    ),
    **dict.fromkeys(
        (
            "addons/studio/web/pages/results.py",
            "addons/studio/web/ui/score.py",
            "addons/studio/work/check_process.py",
            "metrics/kinds/composite.py",
            "report/cases.py",
        ),
        "one score passes or fails by its threshold (`records.passes`)",
    ),
    **dict.fromkeys(
        (
            "addons/studio/web/api/reviews.py",
            "addons/studio/web/pages/desk.py",
            "addons/studio/web/ui/grading.py",
            "addons/studio/work/review_desk.py",
            "app/core/labels.py",
            "records/scores.py",
        ),
        "a person cannot tell",
    ),
    "metrics/kinds/pairwise.py": "the field of a judge's reply",
}
"""Modules that use words of verdicts for something else, or only show them."""
COMPARES = {
    **dict.fromkeys(("addons/studio/store/results.py", "addons/studio/store/scores.py"), "a filter by score"),
    "addons/studio/web/ui/grading.py": "the ends of a scale",
    "report/comparison_sentences.py": "how an interval is phrased whose ends have different signs",
    "report/charts.py": "the ends of a scale",
    "app/plan.py": "the range of an argument",
    **dict.fromkeys(("stats/inverse.py", "stats/prediction.py", "stats/quantiles.py"), "a probability, and a search"),
    "stats/simulation.py": "how often a planned comparison finds a difference",
    "stats/stopping.py": "looks that are simulated",
}
"""Modules that compare p-values, levels or bounds, and decide nothing by them."""
FINDINGS = ("addons/studio/", "api/", "app/", "cli/", "report/", "stats/", "summary/", "addons/interop/mcp_server.py")
"""Where findings are made and shown; elsewhere `low` and `high` are ends of scales."""
VERDICTS = {"better", "worse", "cannot_tell", "cannot tell", "undecided", "not worse", "key_suspect", "no_agreement"}
OUTCOMES = {"passed", "failed", "passes", "fails"}
NUMBERS = {"p", "p_value", "p_values", "p_adjusted", "alpha", "LEVEL", "SAMPLING_LEVEL"}
BOUNDS = {"low", "high", "ci_low", "ci_high"}
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def says(tree: ast.Module) -> Iterator[str]:
    """The words of verdicts that a module's text has as strings, and those it chooses by a yes or no."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in VERDICTS:
            yield node.value
        chosen: list[ast.expr] = []
        if isinstance(node, ast.Dict) and any(isinstance(getattr(key, "value", None), bool) for key in node.keys):
            chosen = node.values
        elif isinstance(node, ast.IfExp):
            chosen = [node.body, node.orelse]
        words = {str(one.value) for part in chosen for one in ast.walk(part) if isinstance(one, ast.Constant)}
        if {"passed", "failed"} <= words or {"passes", "fails"} <= words:
            yield from sorted(words & OUTCOMES)


def compares(tree: ast.Module) -> Iterator[str]:
    """The comparisons of p-values and levels, and those of an interval's bound with something else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(one, ORDER) for one in node.ops):
            names = {last_name(side) for side in (node.left, *node.comparators)}
            if names & NUMBERS or (names & BOUNDS and names - BOUNDS):
                yield ast.unparse(node)


def last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        key = node.slice
        return str(key.value) if isinstance(key, ast.Constant) else last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def trees() -> dict[str, ast.Module]:
    files = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}


@pytest.mark.parametrize(
    ("code", "words", "comparisons"),
    [
        ('verdict = "worse"', ["worse"], 0),
        ('said = "passed" if gate else "failed"', ["failed", "passed"], 0),
        ('said = {True: ("passes", 1), False: ("fails", 2)}', ["fails", "passes"], 0),
        ('state = "failed" if broken else "done"', [], 0),
        ("clear = row.p_adjusted < 0.05", [], 1),
        ('clear = row["ci_low"] > 0', [], 1),
        ("assert low < high", [], 0),
    ],
)
def test_words_and_comparisons_are_seen(code: str, words: list[str], comparisons: int) -> None:
    tree = ast.parse(code)
    assert (sorted(says(tree)), len(list(compares(tree)))) == (words, comparisons)


def test_only_the_modules_of_verdicts_decide_and_say() -> None:
    said: dict[str, list[str]] = {}
    compared: dict[str, list[str]] = {}
    for path, tree in trees().items():
        if path in DECIDES:
            continue
        if found := sorted(set(says(tree))):
            said[path] = found
        if path.startswith(FINDINGS) and (found := list(compares(tree))):
            compared[path] = found
    others = {path: words for path, words in said.items() if path not in WORDS | SAYS.keys()}
    assert others == {}, "give the verdict in summary/verdicts.py, and say it in a module of WORDS"
    others = {path: found for path, found in compared.items() if path not in COMPARES}
    assert others == {}, "ask summary/verdicts.py, which knows the level and how bounds count"
    assert SAYS.keys() | WORDS <= said.keys(), "a module that no longer uses words of verdicts"
    assert COMPARES.keys() <= compared.keys(), "a module that no longer compares"


def test_pages_of_documents_say_no_verdict_of_their_own() -> None:
    for path in (PACKAGE / "report" / "templates").glob("*.jinja"):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in VERDICTS | OUTCOMES for mark in "\"'" if f"{mark}{word}{mark}" in text], path
