"""The fixture of every shipped metric: with a judge that sees what people see, its scores are those of people.

`fixtures/METRIC.yaml` has what such a judge replies, by case and step: a list of words stands for verdicts, one for
each item. Where metrics ask the same, `same_as: METRIC` names the file of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.proof_subject import FixtureCase, read_fixture
from evalflow.config.yaml_text import safe_yaml
from evalflow.metrics.kinds.composite import CompositeMetric, Part, combine
from evalflow.protocols import Metric
from evalflow.records import Ask, Outcome, Reply
from evalflow.targets.recorded import recorded_answer
from tests.metrics.conftest import SHIPPED, Bench

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "fixtures"
ROUNDED = 0.005
"""People's scores are written with two decimals."""
NAMES = [path.stem for path in SHIPPED]
STEPS = {"steps": ["Compare the facts."]}
"""What a judge of G-Eval writes down before it sees a case."""
Said = tuple[Ask, Reply]


@cache
def fixture(name: str) -> Sequence[FixtureCase]:
    metric = shipped(name)
    return read_fixture(name, metric.config, bounded=metric.bounded, conf_folders=[ROOT / "conf"])


@cache
def script(name: str) -> Mapping[str, Mapping[str, Any]]:
    """What the judge of a metric says, by case and step."""
    file = SCRIPTS / f"{name}.yaml"
    said = safe_yaml(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return script(said["same_as"]) if "same_as" in said else said


@cache
def bench() -> Bench:
    """One for all, so that each prompt is compiled once."""
    return Bench()


@cache
def shipped(name: str) -> Metric:
    return bench().shipped(name)


@cache
def outcomes(name: str) -> Mapping[str, tuple[Outcome, Sequence[Said]]]:
    """By case the outcome, and what was asked and replied."""
    return {one.case.id: scored(shipped(name), one) for one in fixture(name)}


def scored(metric: Metric, one: FixtureCase, of: str | None = None) -> tuple[Outcome, Sequence[Said]]:
    """The outcome, and what was asked and replied; the replies are those `of` a composite, if it has any."""
    if isinstance(metric, CompositeMetric):
        own = metric.name if script(metric.name) else None
        parts = {part: scored(shipped(part), one, own) for part in metric.parts}
        found = {part: Part(status=had.status, score=had.score, reason=had.reason) for part, (had, _) in parts.items()}
        return combine(metric.config, found), [said for _, asked in parts.values() for said in asked]
    replies = script(of or metric.name).get(one.case.id, {})
    said = {
        step: bench().verdicts(reply) if isinstance(reply, list) and reply and isinstance(reply[0], str) else reply
        for step, reply in replies.items()
    }
    judge = bench().judge({"steps": STEPS, **said})
    (bound,) = bench().prepare(metric, judge).bind(one.case)
    judge.asked.clear()
    judge.replies.clear()
    outcome = bench().score(bound, judge, case=one.case, answer=recorded_answer(one.case, "recorded", 0))
    return outcome, list(zip(judge.asked, judge.replies, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_people(name: str) -> None:
    wrong: list[str] = []
    for one in fixture(name):
        outcome, _ = outcomes(name)[one.case.id]
        said = outcome.score if outcome.status == "scored" else outcome.status
        expected = "undefined" if one.score is None else pytest.approx(one.score, abs=ROUNDED)
        if said != expected:
            wrong.append(f"{one.case.id} is {said}, not {one.score}: {outcome.reason or outcome.error}")
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_it_has_the_hard_cases_and_says_why(name: str) -> None:
    metric, cases = shipped(name), fixture(name)
    tags = {tag for one in cases for tag in one.case.tags}
    asks = metric.asks or bool(metric.parts)
    assert tags >= ({"empty", "injection", "other language"} if asks else {"empty"})
    scores = [one.score for one in cases if one.score is not None]
    if metric.bounded:
        assert {min(scores), max(scores)} == {0.0, 1.0}, "the best and the worst score"
    assert [one.case.id for one in cases if not one.why.endswith(".") or not one.case.tags] == []


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS.glob("*.yaml")])
def test_every_reply_is_of_a_case_and_asked_for(name: str) -> None:
    said = safe_yaml((SCRIPTS / f"{name}.yaml").read_text(encoding="utf-8"))
    if "same_as" not in said:
        found = outcomes(name)
        assert set(said) == set(found)
        unasked = {case: set(said[case]) - {ask.step for ask, _ in asked} for case, (_, asked) in found.items()}
        assert {case: steps for case, steps in unasked.items() if steps} == {}
