"""What `make test-live` would say: with a judge that tells the truth, with one that lies, and without a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalflow.testing import Endpoint, Request, numbered_results
from tests.cli.conftest import judge_arguments
from tests.cli.test_check_examples import EXAMPLES
from tests.test_pytest_plugin import Session, pytest_in

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OPTIONS = ("-m", "live", "-rs", "-q", "-p", "no:cacheprovider")
EXAMPLES_FILE = "tests/cli/test_check_examples.py"


def verdict(request: Request, *, lie: str = "") -> Any:
    """What people say of the example in a request; the opposite for the answer `lie`."""
    [example] = [one for one in EXAMPLES if one.answer in request.text]
    return {"reason": "So it is.", "passed": example.holds != (example.answer == lie)}


def live(*tests: str, **env: str) -> Session:
    return pytest_in(ROOT, *OPTIONS, *(tests or [EXAMPLES_FILE]), PYTEST_PLUGINS="anyio.pytest_plugin", **env)


def test_an_honest_judge_passes() -> None:
    with Endpoint(verdict) as endpoint:
        done = live(EVALFLOW_TEST_JUDGE=" ".join(judge_arguments(endpoint.url)))
        assert endpoint.count == len(EXAMPLES)
    assert done.code == 0, done.stdout
    assert "1 passed" in done.stdout


def test_a_judge_that_lies_once_fails_and_the_example_is_named() -> None:
    lie = EXAMPLES[5]
    with Endpoint(lambda request: verdict(request, lie=lie.answer)) as endpoint:
        done = live(EVALFLOW_TEST_JUDGE=" ".join(judge_arguments(endpoint.url)))
    assert done.code == 1
    assert f"{lie.identifier} of {lie.answer!r} is 1.0, not 0.0: So it is." in done.stdout
    assert done.stdout.count(": So it is.") == done.stdout.count(f"{lie.answer!r} is 1.0, not 0.0: So it is.")


def test_without_a_key_nothing_is_asked_and_it_is_said() -> None:
    done = live()
    assert done.code == 0
    assert "1 skipped" in done.stdout
    assert "OPENAI_API_KEY IS NOT SET: no real judge was asked" in done.stdout


@pytest.mark.parametrize("lies", [False, True])
def test_a_fixture_is_scored_and_what_is_not_as_people_say_is_named(lies: bool) -> None:
    lines = (ROOT / "data/fixtures/grounded.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if "contradiction" in row["labels"] and row["contexts"]]
    answers = {row["answer"]: row["id"] for row in rows if row["answer"]}
    script = yaml.safe_load((ROOT / "tests/metrics/fixtures/contradiction.yaml").read_text(encoding="utf-8"))

    def judge(request: Request) -> Any:
        [case] = [case for answer, case in answers.items() if answer in request.text]
        said = ["not_contradicted" if lies else verdict for verdict in script[case]["verdicts"]]
        return numbered_results({"reason": "So it is.", "verdict": verdict} for verdict in said)

    with Endpoint(judge) as endpoint:
        test = "tests/cli/test_fixtures_live.py::test_a_real_judge_scores_as_people_do[contradiction]"
        done = live(test, EVALFLOW_TEST_JUDGE=" ".join(judge_arguments(endpoint.url)))
        assert endpoint.count == len(answers)
    assert ("1 passed" in done.stdout) == (not lies), done.stdout
    assert ("garden-contradiction: 0.0, people 1.0: The answer says the opposite of the rule." in done.stdout) == lies
