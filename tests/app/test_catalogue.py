"""Metrics as `list` shows them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evalflow.app.catalogue import metric_facts, metric_table
from evalflow.app.core.options import Catalogue, Option, find_option, options
from evalflow.metrics.registry import calls_of


def printed(listed: list[Option]) -> list[str]:
    out = StringIO()
    Console(width=80, file=out).print(metric_table(listed, Catalogue(options(None))))
    return out.getvalue().splitlines()


def own(**values: Any) -> Option:
    return Option("metric", "own", Path("own.yaml"), {"description": "Its own.", **values})


def test_families_stand_over_their_metrics_in_80_columns() -> None:
    lines = printed(options(None, "metric"))
    assert max(len(line) for line in lines) <= 80
    starts = [line.strip() for line in lines]
    recall = next(i for i, line in enumerate(starts) if line.startswith("context_recall "))
    assert starts.index("context") < recall < starts.index("conversation")
    assert starts[recall].split()[1:] == ["question,", "reference,", "2", "no"]


@pytest.mark.parametrize(
    ("values", "low", "high", "once"),
    [
        ({"kind": "check"}, 0, 0, 0),
        ({"kind": "rubric"}, 1, 1, 0),
        ({"kind": "judge", "steps": [{}, {}, {}]}, 3, 3, 0),
        ({"kind": "g_eval"}, 1, 10, 1),
        ({"kind": "g_eval", "samples": 3, "steps": ["Look."]}, 1, 3, 0),
        ({"kind": "g_eval", "strict": True, "steps_from": "outputs/latest"}, 1, 1, 0),
        ({"kind": "similarity"}, 1, 1, 0),
        ({"kind": "checks"}, 0, None, 0),
        ({"kind": "graph", "start": "a", "nodes": {"a": {"prompt": "p", "next": "b"}, "b": {"prompt": "p"}}}, 2, 2, 0),
    ],
)
def test_calls_of_each_kind(values: dict[str, Any], low: int, high: int | None, once: int) -> None:
    calls = calls_of(values)
    assert calls is not None
    assert (calls.low, calls.high, calls.once) == (low, high, once)


def test_a_file_that_does_not_tell_is_listed_all_the_same() -> None:
    for values in ({}, {"kind": "nobody"}):
        assert metric_facts(own(**values), Catalogue([]))["calls"] is None
        lines = [line.split() for line in printed([own(**values)]) if line.strip()]
        assert ["own", "?", "some"] in lines
        assert ["others"] in lines


@pytest.mark.parametrize(
    ("yaml", "row", "fault"),
    [
        ("path: cases.jsonl\nfields: {nope: x}\n", '{"question": "Q"}', "'nope' is no case field"),
        ("path: cases.jsonl\nfeilds: {}\n", '{"question": "Q"}', "unknown key dataset.mine.feilds"),
        ("path: missing.jsonl\n", "", "no such file"),
        ("path: cases.jsonl\n", '{"question": "Q', "cases.jsonl:1"),
        ("path: [\n", "", "mine.yaml:3: this is not valid YAML"),
    ],
)
def test_what_is_broken_in_a_dataset_is_said_in_place_of_a_command(
    yaml: str, row: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("conf/dataset").mkdir(parents=True)
    Path("conf/dataset/mine.yaml").write_text(f"# @package dataset.mine\n{yaml}", encoding="utf-8")
    Path("cases.jsonl").write_text(row + "\n", encoding="utf-8")
    everything = options(None)
    suggested = Catalogue(everything).suggest(find_option("mine", everything))
    assert suggested.command is None
    assert fault in suggested.note
