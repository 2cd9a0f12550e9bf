"""Judges that are made of others, as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.assemble import assemble, composed_settings
from evalflow.config.judges import CascadeConfig, EmbeddedJudgeConfig, OpenAIJudgeConfig, PanelConfig
from evalflow.errors import UserError
from evalflow.llm.panel import Panel

pytestmark = pytest.mark.slow

RUN = ["dataset=rag", "metric=faithfulness"]
PANEL = ["judge=panel", "judge.members.first.api_key_env=null", "judge.members.second.model=two"]
CASCADE = ["judge=cascade", "judge.members.first.api_key_env=null", "judge.members.second.model=two"]


def openai(model: str, **keys: Any) -> OpenAIJudgeConfig:
    return OpenAIJudgeConfig(kind="openai", model=model, **keys)


def judge_of(*overrides: str, folder: Path | None = None) -> Panel:
    judge = assemble(composed_settings([*RUN, *overrides], folder)).pairs[0].judge
    assert isinstance(judge, Panel)
    return judge


def problems(*overrides: str) -> str:
    with pytest.raises(UserError) as found:
        assemble(composed_settings([*RUN, *overrides], None))
    return "\n".join(str(problem) for problem in found.value.problems)


def test_the_form_of_the_documentation_is_read(tmp_path: Path) -> None:
    (tmp_path / "judge").mkdir()
    text = "defaults: [openai@members.first, ollama@members.second]\nkind: panel\nvote: mean\n"
    (tmp_path / "judge" / "mine.yaml").write_text(text)
    judge = judge_of("judge=mine", *PANEL[1:], folder=tmp_path)
    assert (judge.info.name, [member.info.name for member in judge.members]) == (
        "mine",
        ["first:gpt-4.1-mini", "second:two"],
    )
    assert judge.info.nature == "panel of 2, mean: LLM gpt-4.1-mini; LLM two"


def test_a_cascade_asks_in_its_order() -> None:
    judge = judge_of(*CASCADE)
    assert [member.info.name for member in judge.members] == ["second:two", "first:gpt-4.1-mini"]
    assert judge.info.nature == "cascade below 0.8: LLM two, then LLM gpt-4.1-mini"


def test_each_key_of_a_member_can_be_changed() -> None:
    plain, changed = judge_of(*PANEL), judge_of(*PANEL, "judge.members.first.model=other", "judge.name=ours")
    assert (changed.info.name, changed.members[0].info.name) == ("ours", "first:other")
    assert changed.info.identity != plain.info.identity
    assert judge_of(*PANEL, "judge.vote=median").info.identity != plain.info.identity
    assert judge_of(*PANEL, "judge.name=ours").info.identity == plain.info.identity


def test_a_metric_changes_single_keys_of_members() -> None:
    own = judge_of(*PANEL, "+metric.faithfulness.judge={members: {second: {model: three}}}")
    assert [member.info.name for member in own.members] == ["first:gpt-4.1-mini", "second:three"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["judge.vote=most"], "judge.vote"),
        (
            ["judge.members.first.temprature=1"],
            "first.temprature\n  hint: did you mean 'temperature'?",
        ),
        (["judge.members.first.timeout_s=-1"], "judge.members.first.timeout_s"),
        (["judge.quorum=3"], "a quorum of 3 is more than the 2 members"),
        (["judge.vote=weighted"], "vote: weighted and weights go together"),
        (["judge.vote=weighted", "judge.weights={first: 1}"], "weights must name each member once: first, second"),
        (["judge.vote=weighted", "judge.weights={first: 1, secnd: 1}"], "'secnd', which is not a member; did you mean"),
        (["judge.vote=weighted", "judge.weights={first: 0, second: 1}"], "judge.weights"),
    ],
)
def test_what_a_panel_cannot_mean_is_refused(overrides: list[str], said: str) -> None:
    assert said in problems(*PANEL, *overrides)


def test_the_problems_of_all_members_are_told_at_once() -> None:
    said = problems(
        "judge=panel",
        "judge.members.second.model=two",
        "judge.members.second.api_key_env=NO_SUCH_KEY_A",
        "judge.members.first.api_key_env=NO_SUCH_KEY_B",
    )
    assert "NO_SUCH_KEY_A" in said
    assert "NO_SUCH_KEY_B" in said


def test_an_order_names_each_member_once() -> None:
    assert "order names 'third', which is not a member" in problems(*CASCADE, "judge.order=[first,third]")
    assert "order must name each member once" in problems(*CASCADE, "judge.order=[first]")


def test_the_same_judge_has_one_voice() -> None:
    same = ["judge.members.second.model=gpt-4.1-mini", "judge.members.second.base_url=null"]
    same += ["judge.members.second.strict=true", "judge.members.second.logprobs=true"]
    assert "the members first and second are the same judge, whose opinion would count twice" in problems(*PANEL, *same)
    assert "are both called 'ours'" in problems(
        *PANEL, "judge.members.first.name=ours", "judge.members.second.name=ours"
    )


def test_one_judge_is_no_panel_and_a_panel_is_no_member() -> None:
    inner = PanelConfig(kind="panel", members={"a": openai("a"), "b": openai("b")})
    with pytest.raises(ValueError, match="needs two members"):
        PanelConfig(kind="panel", members={"a": openai("a")})
    with pytest.raises(ValueError, match="the member b is itself made of members"):
        CascadeConfig(kind="cascade", escalate_below=0.5, members={"a": openai("a"), "b": inner})


def test_thresholds_mean_nothing_where_they_mean_nothing_for_a_member() -> None:
    for second, calibrated in ((EmbeddedJudgeConfig(kind="embedded"), False), (openai("b"), True)):
        config = PanelConfig.model_validate({"kind": "panel", "members": {"a": openai("a"), "b": second}})
        assert config.calibrated is calibrated


def test_a_secret_of_a_member_is_never_kept() -> None:
    said = problems(*PANEL, "judge.members.first.base_url=http://me:hunter22@127.0.0.1:9/v1")
    assert "judge.members.first.base_url" in said
    assert "a password would be kept with the run" in said
