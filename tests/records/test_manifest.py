"""Facts that are looked up in a run's manifest."""

from __future__ import annotations

from typing import Any

from tests.manifests import manifest_of


def test_a_dataset_is_found_by_its_name_in_results() -> None:
    config: dict[str, Any] = {
        "dataset": {"fees_new": {"name": "fees", "title": "City fees", "path": "new.jsonl"}, "rag": {"name": None}}
    }
    manifest = manifest_of({"fees": {}, "rag": {}}, config=config)
    assert manifest.dataset_config("fees")["path"] == "new.jsonl"
    assert manifest.dataset_titles == ["City fees", "rag"]
    assert manifest.dataset_config("fees_new") == {}
    assert manifest.dataset_title("elsewhere") == "elsewhere"
