"""The value of a run that goes to a sweeper of Hydra which optimises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

SWEEPER = '''
from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn


class Asking(Sweeper):
    """Runs a job, and writes down what it returns."""

    def __init__(self, values):
        self.values = values

    def setup(self, *, hydra_context, task_function, config):
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            config=config, hydra_context=hydra_context, task_function=task_function
        )

    def sweep(self, arguments):
        arguments = [one for one in arguments if "interval" not in one]
        with open("asked.txt", "a") as file:
            for number, value in enumerate(self.values):
                [done] = self.launcher.launch([[*arguments, f"metric.exact_match.threshold={value}"]], number)
                print(done.status.name, done._return_value, file=file)


STORED = {"_target_": "hydra_plugins.asking.Asking", "values": [0.1, 0.9]}
ConfigStore.instance().store("asking", STORED, "hydra/sweeper")
'''
WORDS = (
    "-m",
    "dataset=one",
    "metric=exact_match",
    "metric.exact_match.threshold=interval(0,1)",
    "hydra/sweeper=asking",
)


@pytest.fixture
def asking(program: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    plugin = program.folder / "path" / "hydra_plugins" / "asking.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(SWEEPER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(program.folder / "path"))
    rows = [{"id": name, "question": "?", "answer": name, "reference": "a"} for name in "abcd"]
    program.write("one.jsonl", *rows)
    dataset = program.folder / "conf" / "dataset" / "one.yaml"
    dataset.parent.mkdir(parents=True)
    dataset.write_text("# @package dataset.one\npath: one.jsonl\n", encoding="utf-8")
    return program


def returned(program: Program) -> list[str]:
    return Path(program.folder, "asked.txt").read_text(encoding="utf-8").splitlines()


def test_a_sweeper_gets_the_value_of_the_objective(asking: Program) -> None:
    done = asking.process(*WORDS, "objective=exact_match")
    assert done.returncode == 0, done.stderr
    assert returned(asking) == ["COMPLETED 0.25"] * 2
    [sweep] = (asking.folder / "outputs" / "sweeps").iterdir()
    assert len(json.loads((sweep / "run.json").read_text(encoding="utf-8"))["jobs"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "hydra/sweeper=asking: the sweeper optimises a metric, but the run has none"),
        (("objective=exact_macth",), "did you mean 'exact_match'?"),
        (("objective=exact_match", "dataset=[one,rag]"), "an objective is one number, and one and rag have one each"),
    ],
    ids=["no objective", "a mistyped metric", "two datasets"],
)
def test_a_run_without_a_value_has_failed_for_the_sweeper(asking: Program, words: tuple[str, ...], said: str) -> None:
    done = asking.process(*WORDS, *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert {line.split()[0] for line in returned(asking)} == {"FAILED"}


def test_an_objective_changes_nothing_of_a_run_by_itself(asking: Program) -> None:
    assert asking("dataset=one", "metric=exact_match", "objective=exact_match").returncode == 0
    refused = asking("dataset=one", "metric=exact_match", "objective=f1")
    assert refused.returncode == 2
    assert "there is no metric 'f1' in this run" in refused.stderr


def test_values_between_two_need_such_a_sweeper(asking: Program) -> None:
    done = asking("-m", "dataset=one", "metric=exact_match", "seed=interval(1,3)")
    assert done.returncode == 2
    assert "seed=interval(1,3): a range needs a sweeper that optimises" in " ".join(done.stderr.split())
    done = asking("-m", "dataset=one", "metric=exact_match", "seed=1,2", "hydra/sweeper=optuna")
    assert done.returncode == 2
    assert "pip install hydra-optuna-sweeper" in " ".join(done.stderr.split())
