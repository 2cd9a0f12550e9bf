"""Metrics as `list` shows them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evalflow.app.catalogue import metric_facts, metric_table, print_option
from evalflow.app.core.options import Catalogue, Option, bases_of, find_option, options
from evalflow.app.new import new_dataset
from evalflow.metrics.registry import calls_of


def printed(listed: list[Option], width: int = 80) -> list[str]:
    out = StringIO()
    Console(width=width, file=out).print(metric_table(listed, width))
    return out.getvalue().splitlines()


def test_each_metric_has_a_line_under_its_family() -> None:
    listed = options(None, "metric")
    lines = [line.strip() for line in printed(listed, 300)]
    recall = next(index for index, line in enumerate(lines) if line.startswith("context_recall "))
    assert lines.index("context") < recall < lines.index("conversation")
    for option in listed:
        found = [line for line in lines if line.split()[:1] == [option.name] and option.description in line]
        assert len(found) == 1
        assert found[0].endswith(", ".join(option.needs) or option.description)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_console_cuts_what_metrics_measure_and_need_but_no_name(width: int) -> None:
    listed = options(None, "metric")
    lines = printed(listed, width)
    assert max(len(line) for line in lines) <= width
    families = {option.values.get("family") for option in listed}
    folded = sum(len(option.name) > width * 3 // 8 - 3 for option in listed)  # versions of rich differ by a character
    assert len([line for line in lines if line.strip()]) <= len(listed) + len(families) + folded + 4
    assert any("…" in line for line in lines)
    names = "".join(line[1 : 1 + width * 3 // 8].rstrip() for line in lines).replace(" ", "")
    assert [option.name for option in listed if option.name not in names] == []


@pytest.mark.parametrize(
    ("values", "low", "high", "once"),
    [
        ({"kind": "check"}, 0, 0, 0),
        ({"kind": "rubric"}, 1, 1, 0),
        ({"kind": "judge", "steps": [{}, {}, {}]}, 3, 3, 0),
        ({"kind": "g_eval"}, 1, 1, 1),
        ({"kind": "g_eval", "weighting": "probability"}, 1, 10, 1),
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


@pytest.mark.parametrize("kind", ["", "kind: nobody\n"])
def test_a_file_that_does_not_tell_is_listed_anyway(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(f"description: Its own.\n{kind}")
    own = Option("metric", "own", file)
    assert metric_facts(own, Catalogue([]))["calls"] is None
    lines = [line.split() for line in printed([own]) if line.strip()]
    assert ["own", "Its", "own."] in lines
    assert ["others"] in lines


@pytest.mark.parametrize(
    ("yaml", "row", "fault"),
    [
        ("path: cases.jsonl\nfields: {nope: x}\n", '{"question": "Q"}', "'nope' is not a case field"),
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


def test_a_metric_is_tried_on_your_own_cases_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "conf" / "dataset"
    folder.mkdir(parents=True)
    (folder / "zoo.yaml").write_text("# @package dataset.zoo\npath: zoo.jsonl\n", encoding="utf-8")
    (tmp_path / "zoo.jsonl").write_text('{"question": "Q?", "answer": "A."}\n', encoding="utf-8")
    everything = options(None)
    suggested = Catalogue(everything).suggest(find_option("metric/relevance", everything)).command or ""
    assert "dataset=zoo metric=relevance" in suggested
    suggested = Catalogue(everything).suggest(find_option("metric/faithfulness", everything)).command or ""
    assert "dataset=rag metric=faithfulness" in suggested
    monkeypatch.setattr("evalflow.app.core.options.share_dir", lambda: tmp_path)  # a checkout, where both are in conf/
    new_dataset("ours", "zoo.jsonl", None, Console(file=StringIO()))
    suggested = Catalogue(options(None)).suggest(find_option("metric/relevance", options(None))).command or ""
    assert "dataset=ours metric=relevance" in suggested


def test_the_keys_that_an_option_inherits_are_shown_with_it() -> None:
    out = StringIO()
    print_option("http", None, Console(width=200, file=out), as_json=False)
    shown = out.getvalue()
    assert "it extends target/_service.yaml" in shown
    assert "finish_reason: null" in shown


def test_files_that_extend_each_other_are_named_once(tmp_path: Path) -> None:
    for name, base in (("one", "two"), ("two", "one")):
        file = tmp_path / "target" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"defaults: [{base}, _self_]\nkind: http\n", encoding="utf-8")
    assert [base.name for base in bases_of(find_option("one", options(tmp_path)), tmp_path)] == ["two"]
