"""Bots, metrics and datasets are kept as the command line would take them, and nobody's change is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.cases import cases_at
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import NotFoundError, StaleError, TakenError, Workspace
from evalflow.addons.studio.work.uploads import CaseFile, columns_of, examine_upload, upload_cases
from evalflow.errors import UserError

MODEL: dict[str, Any] = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
POLITE: dict[str, Any] = {"kind": "g_eval", "criteria": "Polite?", "needs": ["question", "answer"]}


def test_a_bot_is_defined_changed_and_deleted(space: Workspace) -> None:
    made = bots.create_bot(space, "helper", MODEL, "Helps.")
    assert (made.version, made.origin, made.config) == (1, "workspace", MODEL)
    changed = bots.update_bot(space, "helper", 1, config={**MODEL, "model": "n"}, new_name="aide")
    assert (changed.name, changed.version, changed.config["model"]) == ("aide", 2, "n")
    with pytest.raises(NotFoundError):
        bots.get_bot(space, "helper")
    bots.delete_bot(space, "aide", 2)
    assert "aide" not in [bot.name for bot in bots.list_bots(space)]


def test_a_lost_update_is_refused_with_what_changed(space: Workspace) -> None:
    bots.create_bot(space, "helper", MODEL)
    bots.update_bot(space, "helper", 1, config={**MODEL, "model": "theirs"})
    with pytest.raises(StaleError, match=r"version 2, not 1; it differs from yours in config\.model") as stale:
        bots.update_bot(space, "helper", 1, config={**MODEL, "model": "mine"})
    assert stale.value.current == 2
    with pytest.raises(StaleError):
        bots.delete_bot(space, "helper", 1)
    assert bots.get_bot(space, "helper").config["model"] == "theirs"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kind": "command", "argv": ["sh"]}, "kind 'command' cannot be defined here"),
        ({"kind": "python", "call": "os:system"}, "kind 'python' cannot be defined here"),
        ({}, "kind None cannot be"),
        ({**MODEL, "modle": "m"}, "did you mean 'model'"),
        ({**MODEL, "api_key": "sk-123"}, "unknown key target.api_key"),
        ({**MODEL, "base_url": "http://u:secret@h/v1"}, "password would be kept"),
        ({"kind": "http", "url": "http://h/ask?lang=en&api_key=abc"}, "secret would be kept"),
        ({"kind": "http", "url": "http://h/ask?key=abc"}, "secret would be kept"),
        ({"kind": "http", "url": "http://h", "headers": {"Authorization": "Bearer x"}}, "secret would be kept"),
        ({**MODEL, "prompt": "{{ reference }}"}, "reference"),
        ({**MODEL, "system_prompt": "{% if %}"}, "target.system_prompt"),
        ({**MODEL, "system_prompt": "a\0b"}, "character that no YAML can hold"),
        ({**MODEL, "model": "???"}, "has no value"),
        ({**MODEL, "timeout_s": float("nan")}, "is not JSON"),
    ],
)
def test_a_bot_that_would_not_run_is_refused(space: Workspace, config: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        bots.create_bot(space, "helper", config)
    assert "sk-123" not in str(refused.value)


@pytest.mark.parametrize("name", ["new", "import", "export", "add"])
def test_a_name_that_an_address_has_is_refused(space: Workspace, name: str) -> None:
    bots.create_bot(space, "helper", MODEL)
    attempts = (
        lambda: bots.create_bot(space, name, MODEL),
        lambda: bots.update_bot(space, "helper", 1, new_name=name),
        lambda: bots.copy_bot(space, "helper", name),
        lambda: metrics.create_metric(space, "helper", MetricDraft(name, POLITE)),
        lambda: metrics.replace_metrics(space, "helper", [MetricDraft(name, POLITE)], {}),
        lambda: datasets.create_dataset(space, name),
        lambda: cases.copy_dataset(space, "rag", name),
    )
    for attempt in attempts:
        with pytest.raises(UserError, match=f"'{name}' cannot be a name: an address"):
            attempt()


def test_what_conf_declares_is_shown_and_copied_but_not_changed(space: Workspace) -> None:
    listed = {bot.name: bot for bot in bots.list_bots(space)}
    assert listed["openai"].origin == "conf"
    assert not {"command", "python"} & listed.keys()
    with pytest.raises(TakenError, match="copy it"):
        bots.update_bot(space, "openai", 0, description="mine")
    with pytest.raises(TakenError, match="already is a bot"):
        bots.create_bot(space, "openai", MODEL)
    with pytest.raises(UserError, match=r"target\.model is required"):
        bots.copy_bot(space, "ollama", "local")
    copy = bots.copy_bot(space, "ollama", "local", {"model": "llama"})
    assert (copy.config["base_url"], copy.config["timeout_s"]) == ("http://127.0.0.1:11434/v1", 300)


def test_the_configuration_of_a_bot_is_saved_whole_or_not_at_all(space: Workspace) -> None:
    bots.create_bot(space, "helper", MODEL)
    saved = metrics.replace_metrics(space, "helper", [MetricDraft("a", POLITE), MetricDraft("b", POLITE)], {})
    assert [(one.name, one.version) for one in saved] == [("a", 1), ("b", 1)]
    with pytest.raises(UserError, match="criteria"):
        metrics.replace_metrics(space, "helper", [MetricDraft("a", {"kind": "g_eval"})], {"a": 1, "b": 1})
    strict = {**POLITE, "strict": True}
    saved = metrics.replace_metrics(
        space, "helper", [MetricDraft("a", strict), MetricDraft("c", POLITE)], {"a": 1, "b": 1}
    )
    assert [(one.name, one.version) for one in saved] == [("a", 2), ("c", 1)]
    with pytest.raises(StaleError):
        metrics.replace_metrics(space, "helper", [], {"a": 1, "c": 1})


def test_a_metric_of_the_library_is_copied_with_its_prompts(space: Workspace) -> None:
    bots.create_bot(space, "helper", MODEL)
    copy = metrics.copy_metric(space, "faithfulness", "helper", "honest")
    assert set(copy.prompts) == {"honest/claims.jinja", "honest/verdicts.jinja"}
    again = metrics.copy_metric(space, "honest", "helper", "frank", of="helper")
    assert again.definition["steps"][0]["prompt"] == "frank/claims.jinja"
    graph = metrics.copy_metric(space, "answerability", "helper", "decided")
    assert set(graph.prompts) == {f"decided/{part}.jinja" for part in ("answerable", "reaction", "supported")}
    assert graph.definition["nodes"]["declines"]["prompt"] == "decided/reaction.jinja"
    changed = {**copy.prompts, "honest/claims.jinja": "{{ nonsense }}"}
    with pytest.raises(UserError, match="nonsense"):
        metrics.update_metric(space, "helper", MetricDraft("honest", copy.definition, changed), 1)


@pytest.mark.parametrize(
    ("definition", "prompts", "message"),
    [
        ({"kind": "judgement"}, {}, "no metric kind 'judgement'; |did you mean"),
        ({**POLITE, "treshold": 1}, {}, "did you mean 'threshold'"),
        ({**POLITE, "threshold": 2}, {}, "threshold"),
        ({**POLITE, "judge": {"base_url": "http://u:secret@h/v1"}}, {}, "password would be kept"),
        ({**POLITE, "prompt": "m/mine.jinja"}, {}, "m/mine.jinja"),
        ({**POLITE, "prompt": "m/mine.jinja"}, {"m/mine.jinja": "{{ secrets }}"}, "secrets"),
        (POLITE, {"../../etc/cron.jinja": "x"}, "cannot be the name of a prompt"),
        (POLITE, {"other/x.jinja": "x"}, "cannot be the name of a prompt"),
    ],
)
def test_a_metric_that_check_would_refuse_is_refused(
    space: Workspace, definition: dict[str, Any], prompts: dict[str, str], message: str
) -> None:
    bots.create_bot(space, "helper", MODEL)
    with pytest.raises(UserError, match=message):
        metrics.create_metric(space, "helper", MetricDraft("m", definition, prompts))


def test_cases_are_paged_filtered_and_changed(space: Workspace) -> None:
    datasets.create_dataset(space, "mine")
    rows = [{"id": f"c{i}", "question": f"What is {i}?", "tags": ["A > B"] if i % 2 else ["C"]} for i in range(1200)]
    assert cases.add_cases(space, "mine", rows) == 1200
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = cases.list_cases(space, "mine", cursor, 500)
        seen += [case.body["id"] for case in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == [f"c{i}" for i in range(1200)]
    assert cases_at(space, "mine", 0, tag="A").total == 600
    assert [case.body["id"] for case in cases.list_cases(space, "mine", text="IS 1199").items] == ["c1199"]
    assert cases.dataset_tags(space, "mine") == [("A", 600), ("A > B", 600), ("C", 600)]
    first = cases.list_cases(space, "mine", limit=1).items[0]
    changed = cases.update_case(space, "mine", first.id, 1, {**first.body, "reference": "zero"})
    assert (changed.version, changed.body["reference"]) == (2, "zero")
    with pytest.raises(StaleError, match=r"version 2, not 1; it differs from yours in reference"):
        cases.update_case(space, "mine", first.id, 1, {**first.body, "reference": "nought"})
    assert cases.tag_cases(space, "mine", [first.id], add=["X>Y"], remove=["C"]) == 1
    assert cases.get_case(space, "mine", first.id).body["tags"] == ["X > Y"]
    assert cases.delete_cases(space, "mine", [first.id]).count == 1
    assert cases_at(space, "mine", 0).total == 1199


def test_wrong_rows_and_known_ids_are_refused_together(space: Workspace) -> None:
    datasets.create_dataset(space, "mine")
    with pytest.raises(UserError, match=r"rows:2") as refused:
        cases.add_cases(space, "mine", [{"question": "q"}, {"question": [3]}, {"question": "r", "tags": 5}])
    assert len(refused.value.problems) == 2
    cases.add_cases(space, "mine", [{"id": "a", "question": "q"}])
    with pytest.raises(TakenError, match="'a'"):
        cases.add_cases(space, "mine", [{"id": "b", "question": "q"}, {"id": "a", "question": "q"}])
    assert cases_at(space, "mine", 0).total == 1


def test_a_file_is_previewed_and_taken_in(space: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("query,ideal\nWhat?,That.\nWho?,Them.\n", encoding="utf-8")
    found = [(column.name, column.field, column.example) for column in columns_of(space, CaseFile(path))]
    assert found == [("query", "question", "What?"), ("ideal", "reference", "That.")]
    fields = {"question": "query", "reference": "ideal"}
    datasets.create_dataset(space, "mine")
    examined = examine_upload(space, "mine", CaseFile(path), fields, 1)
    assert (examined.good, [case["reference"] for case in examined.first]) == (2, ["That."])
    assert cases_at(space, "mine", 0).total == 0
    assert upload_cases(space, "mine", CaseFile(path), fields) == 2
    path.write_text('query,ideal\n"What?,That.\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"mine\.csv"):
        upload_cases(space, "mine", CaseFile(path), fields)


def test_a_dataset_of_conf_is_copied_with_its_cases(space: Workspace) -> None:
    copy = cases.copy_dataset(space, "rag", "mine")
    assert (copy.origin, copy.cases) == ("workspace", 60)
    with pytest.raises(TakenError, match="conf/"):
        cases.add_cases(space, "rag", [])
