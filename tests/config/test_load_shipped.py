"""Every YAML file that ships can be chosen, and passes the check."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from evalflow.app.core.assemble import assemble, settings_of
from evalflow.app.core.cases import RunCases
from evalflow.app.core.inspect import inspect
from evalflow.app.core.options import Option, options
from evalflow.config.load import compose
from evalflow.config.schema import DatasetConfig, MetricConfig
from evalflow.llm.registry import JUDGE_KINDS
from evalflow.targets.registry import TARGET_KINDS

pytestmark = pytest.mark.slow

CONF = Path(__file__).parents[2] / "conf"

LLM = ("judge=vllm", "judge.model=m", "judge.base_url=http://127.0.0.1:9/v1")
TOPICS = ("topics_in_order", "topics_any_order", "topic_primary", "topic_primary_in_either", "topic_any")
AGENT_JUDGES = (
    "argument_correctness",
    "goal_accuracy",
    "plan_adherence",
    "plan_quality",
    "step_efficiency",
    "tool_choice",
    "tool_result_use",
)
DATASET = {
    "checks": "conversations",
    "jailbreak_guardrails": "jailbreak_guardrails",
    **dict.fromkeys(
        ("case_guidelines", "misuse", "role_adherence", "role_violation", "tone_match", "topic_adherence"),
        "conversations",
    ),
    "simulated_user": "scenarios",
    **dict.fromkeys(("tool_correctness", "tool_f1", "tool_limits", "trajectory_match", *AGENT_JUDGES), "agent"),
    "output_guardrails": "output_guardrails",
    "output_guardrails_triggered": "output_guardrails",
    "question_router": "question_router",
    "retrieval": "retrieval",
    "retrieval_pages": "retrieval",
    "sql_equivalence": "text_to_sql",
    **dict.fromkeys(TOPICS, "topic_tagger"),
}
WANTED = {
    "agent": ["target.model=m", "target.base_url=http://127.0.0.1:9/v1", "target.tools={look: {argv: [ls]}}"],
    "command": ["target.argv=[ls]"],
    "http": ["target.url=http://127.0.0.1:9/"],
    "python": ["target.call=os:getpid"],
}


def names(group: str) -> list[str]:
    return [option.name for option in options(None, group)]


@pytest.mark.parametrize("option", options(None, "metric"), ids=lambda option: option.name)
def test_metric(option: Option) -> None:
    metric, chosen = option.name, option.selection.strip("'")
    overrides = [f"dataset={DATASET.get(metric, 'rag')}", f"metric={chosen}", "limit=3", *LLM]
    if DATASET.get(metric) == "conversations":
        overrides.append("generate=demo")  # those cases have no recorded answers
    if metric == "simulated_user":
        overrides += ["generate=true", "target=vllm", "target.model=m", "simulator=scripted"]
    found = inspect(assemble(settings_of(compose(overrides))))
    assert found.cells >= 3  # a case brings several checks along


@pytest.mark.parametrize("dataset", names("dataset"))
def test_dataset(dataset: str) -> None:
    settings = settings_of(compose([f"dataset={dataset}", "metric=bias", "generate=demo", *LLM]))
    assert sum(1 for _ in RunCases(settings.run)) >= 8


@pytest.mark.parametrize("experiment", names("experiment"))
def test_experiment(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    settings = settings_of(compose([f"experiment={experiment}"]))
    assert inspect(assemble(settings)).cells > 0


def test_every_option_says_what_it_is() -> None:
    silent = [f"{option.group}/{option.name}" for option in options(None) if not option.description]
    assert silent == []


def test_metric_files_begin_with_their_package_line() -> None:
    for group in ("metric", "dataset"):
        for option in options(None, group):
            assert option.text.startswith(f"# @package {group}.{option.name}\n"), option.file


def test_every_file_can_be_chosen() -> None:
    chosen = {option.file for option in options(None)}
    groups = {option.group for option in options(None)}
    files = {file for group in groups for file in (CONF / group).rglob("*") if file.is_file()}
    assert {file for file in files if not file.name.startswith("_")} == chosen


def fixed_keys(group: str, kind: str) -> set[str]:
    """The keys that a file of the group has whatever else is in it; those of single metric kinds may be left out."""
    models: dict[str, type[BaseModel]] = {"dataset": DatasetConfig, "metric": MetricConfig}
    if group == "judge":
        models["judge"] = JUDGE_KINDS.config(kind)
    if group == "target":
        models["target"] = TARGET_KINDS.config(kind)
    # Another column name or title, fewer datasets, an order of tests, or what to prove is the business of few files; it
    # takes a `+` elsewhere.
    rare = {"title", *(("name", "datasets", "test_order", "faults") if group in ("dataset", "metric") else ())}
    return set(models[group].model_fields) - rare


@pytest.mark.parametrize("group", ["dataset", "metric", "judge", "target"])
@pytest.mark.slow
def test_every_fixed_key_stands_in_its_file_so_that_no_plus_is_needed(group: str) -> None:
    several = group in ("dataset", "metric")
    together = compose([f"{group}=[{','.join(names(group))}]"]).values[group] if several else {}
    for name in names(group):
        if several:
            assert fixed_keys(group, together[name].get("kind")) - set(together[name]) == set(), name
            continue
        live = name not in ("embedded", "recorded")
        given = [f"{group}.model=m", f"{group}.base_url=http://127.0.0.1:9/v1"] if live else []
        given = WANTED[name] if group == "target" and name in WANTED else given
        given = ["judge.members.second.model=m"] if name in ("panel", "cascade") else given
        given += ["target=openai"] if (group, name) == ("judge", "target") else []
        values = compose([f"{group}={name}", *given]).values[group]
        assert fixed_keys(group, values.get("kind")) - set(values) == set(), name
