"""A key on the command line that is in no file: the nearest right name, or the line with the plus, and all at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evalflow.app.core.assemble import composed_settings, settings_of
from evalflow.config.load import HydraJob, compose, launch
from evalflow.config.misnamed import ELSEWHERE
from evalflow.errors import Problem, UserError

pytestmark = pytest.mark.slow

CHOSEN = ("dataset=rag", "metric=faithfulness")
KEY = "judge.thresholds.faithfulness"


def problems(*overrides: str) -> list[Problem]:
    """What is told of a command line."""
    with pytest.raises(UserError) as caught:
        composed_settings([*CHOSEN, *overrides], None)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("override", "what", "nearest"),
    [
        ("sed=1", "unknown key sed", "seed=1"),
        ("mertic=bias", "unknown key mertic", "metric=bias"),
        ("repeats.jugde=2", "unknown key repeats.jugde", "judge"),
        ("metric.faithfulness.treshold=0.9", "unknown key metric.faithfulness.treshold", "threshold"),
        ("metric.faithfulness.score.equls=x", "unknown key metric.faithfulness.score.equls", "equals"),
        (
            "metric.fathfulness.threshold=1",
            "metric.fathfulness.threshold: no metric 'fathfulness' is chosen",
            "faithfulness",
        ),
        ("dataset.rga.path=x", "dataset.rga.path: no dataset 'rga' is chosen", "rag"),
        ("judge.calibratd=true", "unknown key judge.calibratd", "calibrated"),
    ],
)
def test_a_slip_of_the_pen_is_told_with_the_nearest_right_name(override: str, what: str, nearest: str) -> None:
    [problem] = problems(override)
    right = nearest if "=" in nearest else repr(nearest)
    assert (problem.what, problem.where, problem.hint) == (what, "command line", f"did you mean {right}?")


def test_a_value_that_is_still_missing_does_not_hide_the_key() -> None:
    [problem] = problems("judge=vllm", "judge.modle=x")
    assert problem.what == "unknown key judge.modle"
    assert "'model'" in problem.hint


def test_all_of_them_are_told_at_once_with_all_else() -> None:
    told = [problem.what for problem in problems("sed=1", "metric.faithfulness.treshold=1", "limit=x", "foo.bar=1")]
    assert told == [
        "unknown key sed",
        "unknown key foo",
        "unknown key metric.faithfulness.treshold",
        "limit: must be a whole number, not 'x'",
    ]


def test_a_plus_is_told_for_a_key_that_could_stand_there_and_then_is_taken() -> None:
    override = f"{KEY}=0.9"
    assert problems(override, "sed=1")[1:] == [
        Problem(
            "judge.thresholds.faithfulness is not in its file",
            "command line",
            f"to add it, write a +: +{override}",
        )
    ]
    judge = composed_settings([*CHOSEN, f"+{override}"], None).run.judge
    assert judge.thresholds == {"faithfulness": 0.9}


def test_no_plus_is_proposed_for_a_gate_that_has_to_be_written_in_another_way() -> None:
    [problem] = problems("gate.m=0.2")
    assert problem.key == "gate.m"
    assert "++gate.m={mean:" in problem.hint


def test_no_plus_is_told_for_a_field_that_no_case_has() -> None:
    told = problems("dataset.rag.fields.anwser=x")
    assert [(one.what, one.hint) for one in told] == [
        (
            "'anwser' is not a case field",
            "did you mean 'answer'?; to read it as vars.anwser: anwser: {column: x, type: text}",
        )
    ]


def test_the_value_of_an_unknown_key_is_not_repeated() -> None:
    assert "sk-secret" not in str(problems("judge=openai", "judge.model=m", "judge.api_key=sk-secret"))


def test_a_key_of_hydra_names_the_way_to_see_them_all() -> None:
    assert problems("hydra.run.dirr=x") == [
        Problem("unknown key hydra.run.dirr", "command line", "`--cfg hydra` shows Hydra's own keys")
    ]


@pytest.mark.parametrize("arguments", [["sed=1"], ["-m", "sed=1,2"], ["limit=1,2", "-m", "sed=1"]])
def test_runs_and_sweeps_tell_the_same(arguments: list[str], tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jobs: list[HydraJob] = []
    with pytest.raises(UserError) as caught:
        launch([*CHOSEN, *arguments], jobs.append, None, "id", settings_of)
    assert [problem.hint for problem in caught.value.problems] == ["did you mean seed=1?"]
    assert jobs == []


def test_a_key_that_only_a_later_job_lacks_is_named(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jobs: list[HydraJob] = []
    arguments = ["-m", "dataset=rag", "metric=bias,coherence", "metric.bias.threshold=0.5"]
    with pytest.raises(UserError, match=r"there is no key metric\.bias\.threshold to change"):
        launch(arguments, jobs.append, None, "id", settings_of)
    assert jobs == []


@pytest.mark.parametrize("judges", ["embedded,openai", "openai,embedded"])
def test_a_key_of_one_judge_of_a_sweep_goes_into_a_file_that_the_message_shows(
    judges: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs: list[HydraJob] = []
    with pytest.raises(UserError) as caught:
        launch([*CHOSEN, "-m", f"judge={judges}", "judge.model=secret"], jobs.append, None, "id", settings_of)
    [problem] = caught.value.problems
    assert jobs == []
    assert problem.what == "not every judge of the sweep has the key judge.model"
    assert "secret" not in str(problem)
    [path] = re.findall(r"conf/judge/\w+\.yaml", problem.hint)
    (tmp_path / path).parent.mkdir(parents=True)
    lines = [line.strip() for line in problem.hint.splitlines() if line.startswith("    ")]
    (tmp_path / path).write_text("\n".join(lines).replace("VALUE", "m"), encoding="utf-8")
    sweep = re.findall(r"judge=\S+$", problem.hint)
    launch([*CHOSEN, "-m", *sweep], jobs.append, None, "id", settings_of)
    assert sorted(str(job.read().values["judge"].get("model")) for job in jobs) == ["None", "m"]


def test_without_a_validation_the_key_alone_is_named() -> None:
    with pytest.raises(UserError, match="there is no key sed to change"):
        compose([*CHOSEN, "sed=1"])


def test_an_unknown_choice_names_the_nearest() -> None:
    assert problems("metric=fathfulness") == [
        Problem("there is no metric 'fathfulness'", "metric=fathfulness", "did you mean 'faithfulness'?")
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("contextual_relevancy", "context_relevance"), ("tool_call_f1", "tool_f1"), ("Factuality", None)],
)
def test_a_name_of_another_tool_leads_to_the_metric_that_means_it(name: str, meant: str | None) -> None:
    [problem] = problems(f"metric={name}")
    assert problem.hint == f"what other tools call so is {meant or 'factual_correctness'!r}"


def test_each_name_of_another_tool_is_of_a_metric_that_ships_and_no_metric_itself() -> None:
    shipped = {file.stem for file in (Path(__file__).parents[2] / "conf" / "metric").glob("*.yaml")}
    assert set(ELSEWHERE.values()) <= shipped
    assert not shipped & set(ELSEWHERE)


def test_a_word_that_is_no_override_is_repeated() -> None:
    [problem] = problems("faithfulness")
    assert problem.what == "cannot read 'faithfulness'"


def test_a_key_in_quotes_is_shown_as_it_can_be_written() -> None:
    [problem] = problems('gate={"tag:Safety": {mean: ">= 0.5"}}')
    assert problem.hint.endswith(r"takes a backslash: tag\:Safety")
    settings = composed_settings([*CHOSEN, r'gate={tag\:Safety: {mean: ">= 0.5"}}'], None)
    assert settings.run.gate == {"tag:Safety": {"mean": ">= 0.5"}}


def test_a_variable_that_is_not_set_is_named_with_its_key() -> None:
    [problem] = problems("judge=vllm", "judge.model=m", "judge.base_url=${oc.env:NOT_SET_ANYWHERE}")
    assert (problem.where, problem.what) == ("judge.base_url", "the environment variable NOT_SET_ANYWHERE is not set")
