"""An own bot with its first case and metric, saved at once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from evalflow.addons.studio.work.bots import list_bots
from evalflow.addons.studio.work.cases import case_rows
from evalflow.addons.studio.work.datasets import list_datasets
from evalflow.addons.studio.work.first_case import RECORDED, FirstCase, save_first_case
from evalflow.addons.studio.work.metrics import list_metrics
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from tests.postgres import ON_SQLITE

pytestmark = ON_SQLITE

CONFIG = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


def test_bot_case_and_metric_are_saved_and_named_in_the_run(space: Workspace) -> None:
    case = FirstCase("What is the fee?", "3 pounds", "It says the same.")
    first = save_first_case(space, "fees", CONFIG, case)
    again = save_first_case(space, "fees", CONFIG, FirstCase("What is the fee?", "3 pounds"))
    assert (first.bot, first.datasets, first.metrics, first.judge) == (
        "fees",
        ["first_cases"],
        ["good_answer"],
        "target",
    )
    assert (again.bot, again.datasets, again.judge) == ("fees_2", ["first_cases_2"], "embedded")
    (row,) = case_rows(space, "first_cases")
    assert (row["messages"], row["reference"]) == ([{"role": "user", "content": "What is the fee?"}], "3 pounds")
    (judged,), (contained,) = list_metrics(space, "fees"), list_metrics(space, "fees_2")
    assert judged.definition["needs"] == ["question", "answer", "reference"]
    assert contained.name == "contains_expected"


def test_criteria_alone_need_no_expected_answer(space: Workspace) -> None:
    save_first_case(space, "fees", CONFIG, FirstCase("Hello?", criteria="It is polite."))
    (metric,) = list_metrics(space, "fees")
    assert metric.definition["needs"] == ["question", "answer"]


def test_a_pasted_answer_is_scored_without_its_bot(space: Workspace) -> None:
    case = FirstCase("What is the fee?", "3 pounds", answer="It costs 3 pounds.")
    contained = save_first_case(space, "Pasted answers", RECORDED, case)
    judged = save_first_case(
        space, "Pasted answers", RECORDED, FirstCase("Hello?", criteria="It is polite.", answer="Hi"), "openai"
    )
    assert (contained.bot, contained.judge, judged.judge) == ("pasted_answers", "embedded", "openai")
    (row,) = case_rows(space, contained.datasets[0])
    assert row["answer"] == "It costs 3 pounds."


@pytest.mark.parametrize(
    ("title", "config", "case", "key"),
    [
        ("fees", {**CONFIG, "base_url": "nowhere"}, FirstCase("Hello?", "Hi"), "target.base_url"),
        ("\t", CONFIG, FirstCase("Hello?", "Hi"), "bot.title"),
        ("fees", CONFIG, FirstCase("Hello?"), "reference"),
        ("fees", CONFIG, FirstCase(" ", "Hi"), "question"),
        ("fees", RECORDED, FirstCase("Hello?", "Hi"), "answer"),
        ("fees", RECORDED, FirstCase("Hello?", criteria="It is polite.", answer="Hi"), "judge"),
        ("fees", CONFIG, FirstCase("Hello?", criteria="It says the same as the Expected Answer."), "reference"),
    ],
)
def test_what_is_wrong_saves_nothing(
    space: Workspace, title: str, config: Mapping[str, object], case: FirstCase, key: str
) -> None:
    with pytest.raises(UserError) as refused:
        save_first_case(space, title, config, case)
    assert key in {problem.key or problem.where for problem in refused.value.problems}
    assert [bot for bot in list_bots(space) if bot.origin == "workspace"] == []
    assert [one for one in list_datasets(space) if one.origin == "workspace"] == []
