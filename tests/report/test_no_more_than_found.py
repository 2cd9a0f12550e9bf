"""No layout says *better*, *worse* or *passed* if the finding does not: over random small runs, in every layout."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from evalflow.config.schema import MetricConfig
from evalflow.records.manifest import Manifest
from evalflow.report.comparison import Comparison, print_comparison
from evalflow.report.comparison_page import write_comparison
from evalflow.report.console import print_gates, print_summary
from evalflow.report.gate_sentences import AboutGates, of_gate, of_gates, without_value
from evalflow.report.markdown import write_comparison_markdown
from evalflow.report.sentences import of_run
from evalflow.report.wording import headline_rows
from evalflow.summary.changed import WhatChanged
from evalflow.summary.compare import ComparisonRow, adjusted, compare_cases
from evalflow.summary.gates import Gate, GateResult, evaluate_gates
from evalflow.summary.pairing import Traits, pair_scores
from evalflow.summary.rows import GateOutcome
from evalflow.summary.summarise import summarise
from evalflow.summary.verdicts import Condition
from tests.manifests import manifest_of
from tests.report.conftest import make_scores
from tests.report.outcomes import gate_outcome
from tests.summary.conftest import Declared

pytestmark = pytest.mark.slow

PAIR = ("old", "new")
NAMES = ("tone", "fee", "length")
Grid = Mapping[str, Sequence[float | None]]
"""Scores of each metric, None for a case in error, undefined or skipped."""
STATES = ("error", "undefined", "skipped")


@st.composite
def runs(draw: Any) -> tuple[Grid, Grid, Mapping[str, bool], Mapping[str, float | None]]:
    """Two runs of the same cases, and of each metric whether higher is better and its threshold."""
    names = NAMES[: draw(st.integers(1, 3))]
    count = draw(st.sampled_from([1, 2, 5, 12, 30]))
    shift = draw(st.sampled_from([-0.4, 0.0, 0.0, 0.1, 0.5]))
    one = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0, None]) if draw(st.booleans()) else st.sampled_from([0.0, 1.0])
    before = {name: draw(st.lists(one, min_size=count, max_size=count)) for name in names}
    kept = draw(st.floats(0, 1))
    after = {
        name: [
            None if score is None else min(1.0, max(0.0, score + (shift if i >= kept * count else 0.0)))
            for i, score in enumerate(scores)
        ]
        for name, scores in before.items()
    }
    if draw(st.sampled_from([False] * 9 + [True])):
        after = {name: [None] * count for name in names}
    higher = {name: draw(st.booleans()) for name in names}
    return before, after, higher, {name: draw(st.sampled_from([None, 0.5, 0.5])) for name in names}


def frame(grid: Grid, higher: Mapping[str, bool], limits: Mapping[str, float | None]) -> pl.LazyFrame:
    cells: list[dict[str, Any]] = []
    for name, scores in grid.items():
        for i, score in enumerate(scores):
            limit = limits[name]
            passed = None if score is None or limit is None else (score >= limit if higher[name] else score <= limit)
            cell = {"case_id": f"c{i}", "metric": name, "judge": None, "score": score, "passed": passed}
            cells.append({**cell, "threshold": limit, "status": STATES[i % 3] if score is None else "scored"})
    return make_scores(cells)


def compared(found: tuple[Grid, Grid, Mapping[str, bool], Mapping[str, float | None]]) -> Comparison | None:
    before, after, higher, limits = found
    traits = {name: Traits(up, bounded=True) for name, up in higher.items()}
    a, b = (frame(grid, higher, limits) for grid in (before, after))
    rows = compare_cases(pair_scores(a, b, traits), PAIR, traits)
    if not rows:
        return None
    config = {"metric": {name: {} for name in higher}, "gate": None}
    about = manifest_of(datasets={"rag": {}}, metrics={name: {} for name in higher}, config=config)
    changed = [WhatChanged(PAIR, answers=len(before["tone"]), other_answers=1)]
    manifests: dict[str, Manifest] = dict.fromkeys(PAIR, about)
    return Comparison(manifests, adjusted(rows, "holm"), "holm", None, [], [], {}, changed=changed)


def truth(row: ComparisonRow) -> str:
    """What may be said of a row, decided here once more: by its adjusted p-value and its interval."""
    low, high, p = row.difference.low, row.difference.high, row.p_adjusted
    if (
        p is None
        or p >= 0.05
        or not row.difference.difference
        or (low is not None and high is not None and low <= 0 <= high)
    ):
        return ""
    return "better" if (row.difference.difference > 0) == row.higher_is_better else "worse"


def layouts(found: Comparison, folder: Path) -> Iterator[str]:
    """All that says how two runs compare, as plain text."""
    out = StringIO()
    print_comparison(Console(file=out, width=200), found)
    yield out.getvalue()
    write_comparison_markdown(folder / "compare.md", found)
    yield (folder / "compare.md").read_text(encoding="utf-8")
    write_comparison(folder / "compare.html", found)
    page = (folder / "compare.html").read_text(encoding="utf-8").partition("<body")[2]
    yield html.unescape(re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL))
    yield found.sentence
    yield json.dumps(found.document())


@settings(max_examples=60, deadline=None)
@given(runs())
def test_no_layout_of_a_comparison_goes_beyond_its_rows(
    found: tuple[Grid, Grid, Mapping[str, bool], Mapping[str, float | None]],
) -> None:
    comparison = compared(found)
    if comparison is None:
        return
    known = {truth(row) for row in comparison.rows}
    with TemporaryDirectory() as folder:
        for text in layouts(comparison, Path(folder)):
            said = re.sub(r"lower is better|higher is better|Below 0 is worse", "", text)
            for word in ("better", "worse"):
                assert word in known or not re.search(rf"\b{word}\b", said), (word, text)
    assert [{"cannot_tell": ""}.get(row.verdict, row.verdict) for row in comparison.rows] == [
        truth(row) for row in comparison.rows
    ]


def said_of(results: Sequence[GateResult]) -> list[GateOutcome]:
    about = AboutGates([], (), "again")
    found: list[GateOutcome] = []
    for one in results:
        sentences = [(row.passed, of_gate(one.gate, row, about)) for row in one.rows] or [
            (None, without_value(one.gate, ""))
        ]
        found += [gate_outcome(name=str(one.gate), passed=passed, **said.document()) for passed, said in sentences]
    return found


@settings(max_examples=60, deadline=None)
@given(runs(), st.sampled_from([0.0, 0.3, 0.5, 0.9]), st.sampled_from([">=", "<="]), st.booleans())
def test_no_layout_of_a_gate_goes_beyond_its_interval(
    found: tuple[Grid, Grid, Mapping[str, bool], Mapping[str, float | None]], limit: float, sign: Any, point: bool
) -> None:
    grid, _, higher, limits = found
    metrics: dict[str, Any] = {
        name: Declared(name, MetricConfig(kind="x", direction="higher_is_better" if up else "lower_is_better"))
        for name, up in higher.items()
    }
    summary = summarise(frame(grid, higher, limits), metrics)
    gates = [Gate(name, what, Condition(sign, limit), point=point) for name in grid for what in ("mean", "pass_rate")]
    gates += [Gate("cases", "pass_rate", Condition(sign, limit), point=point)]
    results = evaluate_gates(gates, summary.frame)
    for row in (row for result in results for row in result.rows):
        ends = [row.value] if point else [row.low, row.high]
        known = [end for end in ends if end is not None]
        few = row.n - row.n_skipped and row.n_undefined > 0.1 * (row.n - row.n_skipped) + 1e-9
        holds = [end >= limit - 1e-9 if sign == ">=" else end <= limit + 1e-9 for end in known]
        decided = len(known) == len(ends) and not few
        assert row.passed is (True if decided and all(holds) else False if decided and not any(holds) else None)
    rows, out = said_of(results), StringIO()
    print_gates(Console(file=out, width=400), rows)
    outcomes = [row["passed"] for row in rows]
    for line, passed in zip(out.getvalue().splitlines(), outcomes, strict=True):
        assert line.startswith({True: "gate passed", False: "gate FAILED", None: "gate undecided"}[passed])
    assert ("passed" in of_gates(rows)) == all(outcomes)
    assert ("undecided" in of_gates(rows)) == (None in outcomes)
    heads = of_run(headline_rows(summary.frame), {row["name"].split()[0] for row in rows})
    print_summary(Console(file=out, width=200), manifest_of(), summary.frame, {})
    assert not any(re.search(r"\b(better|worse|passed)\b", str(head)) for head in heads)
