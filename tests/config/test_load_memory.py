"""What a process remembers of configuration files never hides a change of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.config import hydra_plugins
from evalflow.config.load import compose
from evalflow.config.validate import Composed
from evalflow.errors import UserError

pytestmark = pytest.mark.slow


@pytest.fixture
def threshold(tmp_path: Path) -> Path:
    file = tmp_path / "metric" / "mine.yaml"
    file.parent.mkdir()
    return file


def write(file: Path, value: str) -> None:
    file.write_text(f"# @package metric.mine\nkind: match\nthreshold: {value}\n", encoding="utf-8")


def composed(file: Path) -> Composed:
    return compose(["dataset=rag", "metric=mine"], file.parent.parent)


def test_an_edit_of_the_same_length_is_seen(threshold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydra_plugins, "_SETTLED_NS", 0)
    write(threshold, "0.1")
    assert composed(threshold).values == composed(threshold).values
    write(threshold, "0.2")
    assert composed(threshold).values["metric"]["mine"]["threshold"] == 0.2


def test_an_edit_of_one_of_the_first_files_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydra_plugins, "_SETTLED_NS", 0)
    file = tmp_path / "judge" / "mine.yaml"
    file.parent.mkdir()
    for model in ("one", "two", "one"):
        file.write_text(f"kind: openai\nmodel: {model}\nbase_url: http://127.0.0.1:9/v1\n", encoding="utf-8")
        for _ in range(2):
            found = compose(["dataset=rag", "metric=coherence", "judge=mine"], tmp_path)
            assert found.values["judge"]["model"] == model
    with pytest.raises(UserError, match="mine"):
        compose(["dataset=rag", "metric=coherence", "judge=mine"])


def test_a_file_put_in_the_place_of_another_is_seen(threshold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydra_plugins, "_SETTLED_NS", 0)
    write(threshold, "0.1")
    composed(threshold)
    other = threshold.with_name("other.yaml")
    write(other, "0.2")
    other.replace(threshold)
    assert composed(threshold).values["metric"]["mine"]["threshold"] == 0.2


def test_a_file_that_just_changed_is_read_each_time(threshold: Path) -> None:
    write(threshold, "0.1")
    composed(threshold)
    assert ("user", str(threshold.parent.parent), "metric/mine") not in hydra_plugins._READ


def test_one_composition_changes_nothing_in_the_next(tmp_path: Path) -> None:
    words = ["dataset=rag", "metric=faithfulness"]
    first = compose(words)
    compose([*words, "metric.faithfulness.threshold=0.9", "hydra.run.dir=x", "judge.name=other"])
    first.values["metric"]["faithfulness"].clear()
    assert compose(words).values["metric"]["faithfulness"]["threshold"] != 0.9
    assert compose(words).storable == first.storable


def test_a_file_that_is_refused_is_refused_again(threshold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydra_plugins, "_SETTLED_NS", 0)
    threshold.write_text("# @package metric.mine\n_target_: os.system\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(UserError, match="_target_"):
            composed(threshold)
