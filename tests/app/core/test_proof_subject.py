"""What a fixture file must have, and where it is looked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.proof_subject import FixtureCase, read_fixture
from evalflow.config.schema import MetricConfig
from evalflow.errors import UserError
from evalflow.metrics.registry import METRIC_KINDS

LIKERT = {"kind": "rubric", "prompt": "rubric/grade.jinja", "scale": {"type": "likert", "min": 1, "max": 5}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def metric(fixture: str | None = "fixtures/mine.jsonl") -> MetricConfig:
    return METRIC_KINDS.config("rubric").model_validate({**LIKERT, "fixture": fixture})


def write(path: str, labels: Sequence[Any], name: str = "mine") -> None:
    rows = [{"id": f"c{at}", "answer": "A", "labels": {name: one}, "why": "So it is."} for at, one in enumerate(labels)]
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read(config: MetricConfig, *conf_folders: Path) -> Sequence[FixtureCase]:
    return read_fixture("mine", config, bounded=True, conf_folders=conf_folders)


def test_labels_are_scores_on_the_metrics_own_scale() -> None:
    write("data/fixtures/mine.jsonl", [1, 5, "3", 2, "undefined", 4.5])
    found = read(metric())
    assert [one.score for one in found] == [0.0, 1.0, 0.5, 0.25, None, 0.875]
    assert {one.why for one in found} == {"So it is."}


@pytest.mark.parametrize("place", ["data/fixtures/mine.jsonl", "fixtures/mine.jsonl"])
def test_it_is_found_in_the_data_folder_or_beside_conf(place: str, tmp_path: Path) -> None:
    write(f"other/{place}", [1, 2, 3, 4, 5, 5])
    assert len(read(metric(), tmp_path / "elsewhere" / "conf", tmp_path / "other" / "conf")) == 6
    write(place, [1] * 7)
    assert len(read(metric(), tmp_path / "other" / "conf")) == 7, "the working directory's comes first"


@pytest.mark.parametrize(
    ("labels", "name", "said"),
    [
        ([1, 2, 3], "mine", ["3 of 3 cases have a label of mine, and 6 are needed"]),
        ([1] * 6, "mien", ["0 of 6 cases have a label of mine", "its labels are of mien; label more"]),
        ([1, 2, 3, 4, 5, 7, "good"], "mine", ["mine.jsonl:6: the label of mine: 7 is not in 1..5", "'good'", ":7"]),
        ([1, 2, 3, 4, 5, None], "mine", ["None is not a number", '"undefined"']),
        ([1, 2, 3, 4, 5, [1, 2]], "mine", ["[1, 2] is not a number"]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(labels: Sequence[Any], name: str, said: Sequence[str]) -> None:
    write("data/fixtures/mine.jsonl", labels, name)
    with pytest.raises(UserError) as raised:
        read(metric())
    assert [one for one in said if one not in str(raised.value)] == []


@pytest.mark.parametrize(
    ("fixture", "said"),
    [
        (None, "mine has no fixture"),
        ("fixtures/mine.jsonl", "write it to data/fixtures/mine.jsonl"),
        ("/nowhere/mine.jsonl", "no such file: /nowhere/mine.jsonl"),
    ],
)
def test_a_metric_without_a_file_is_told_where_to_put_it(fixture: str | None, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(metric(fixture))
