"""Every line that is printed as a next step runs as it is printed."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.options import Catalogue, Option, options
from evalflow.cli import run_command
from evalflow.stats import simulation
from evalflow.testing import Endpoint, Request

pytestmark = pytest.mark.slow

Said = Callable[..., str]
OPTIONS = options(None)
CATALOGUE = Catalogue(OPTIONS)
QUESTIONS = [{"question": f"Q{n}?", "my answer, {as} it is": "A.", "reference": "A."} for n in range(3)]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command line in a folder of its own, and gives all that it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simulation, "RUNS", 40)  # nobody reads the numbers of a plan here
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.setenv(name, "none")
    for name in ("GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.setenv(name, "none")

    def run(*words: str, code: int | None = 0) -> str:
        capsys.readouterr()
        returned = run_command(list(words))
        out, err = capsys.readouterr()
        assert code is None or returned == code, f"{shlex.join(words)} ended with {returned}:\n{err}"
        return out + err

    return run


def printed(text: str) -> list[list[str]]:
    """The words of each command line in a text, without the remark that follows it in brackets."""
    lines = re.findall(r"python -m evalflow (.*?)(?:   \(.*\))?$", text, re.MULTILINE)
    assert lines, f"no next step in: {text}"
    return [shlex.split(line) for line in lines]


def hints(text: str) -> Sequence[str]:
    """The quoted overrides that hints propose."""
    lines = re.findall(r"(?:map it(?:, or another column)?|to add it, write a \+): (.*)$", text, re.MULTILINE)
    assert lines, f"no hint in: {text}"
    return [word for line in lines for word in shlex.split(line)]


def test_a_name_of_several_groups_is_shown_by_each_command_that_is_proposed(said: Said) -> None:
    commands = printed(said("show", "openai", code=2))
    assert ["show", "judge/openai"] in commands
    for words in commands:
        said(*words)


def test_a_mode_is_proposed_if_no_reply_could_be_read_in_this_one(said: Said) -> None:
    def judge(request: Request) -> str | dict[str, Any]:
        return "All is well." if "response_format" in request.body else {"reason": "polite", "score": 4}

    with Endpoint(judge) as endpoint:
        run = ("dataset=rag", "metric=coherence", "limit=2", "judge=vllm", "judge.model=m")
        gate = 'gate={coherence: {mean: ">= 0.5"}}'
        text = said(*run, gate, f"judge.base_url={endpoint.url}", code=3)
        by_gate, by_run = [words for words in printed(text) if words[-1] == "judge.mode=md_json"]
        assert by_gate == by_run
        assert "--retry-errors" not in text
        assert "2 scores" in said(*by_run, code=3)  # two cases do not decide the gate, but none fails
        assert json.loads(Path("outputs/latest/run.json").read_text(encoding="utf-8"))["scores"]["error"] == 0


@pytest.mark.parametrize(
    "words", [["calibrate"], ["cases"], ["calibrate", "--sample", "5"], ["plan", "--detect", "0.1"]]
)
def test_a_run_without_scores_is_to_be_finished(words: list[str], said: Said) -> None:
    judge = ("judge=vllm", "judge.model=m", "judge.base_url=http://127.0.0.1:9/v1")
    said("dataset=rag", "metric=coherence", "limit=2", *judge, code=5)
    text = said(*words, code=2)
    assert "the run ended before its first score" in text
    assert "empty" not in text
    [finish] = printed(text)
    assert finish[0] == "resume"


def test_a_column_that_a_path_reads_is_not_proposed_for_another_field(said: Said) -> None:
    turns = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "A."}]
    Path("log.jsonl").write_text(json.dumps({"messages": turns}) + "\n", encoding="utf-8")
    said("new", "dataset", "log", "--path", "log.jsonl")
    text = said("dataset=log", "metric=faithfulness", code=2)
    assert "faithfulness needs contexts, but no case of log has it\n" in text
    assert "contexts=messages" not in text


def test_errors_that_would_occur_again_are_not_retried_unchanged(said: Said) -> None:
    metric = Path("conf/metric/mark.yaml")
    metric.parent.mkdir(parents=True)
    metric.write_text(
        "# @package metric.mark\nkind: recorded\nfield: vars.mark\nscale: {type: boolean}\n", encoding="utf-8"
    )
    rows = [{"question": f"Q{n}?", "answer": "A.", "mark": 7} for n in range(3)]
    Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said("new", "dataset", "mine", "--path", "cases.jsonl")
    text = said("dataset=mine", "metric=mark", 'gate={mark: {mean: ">= 0.5"}}', code=3)
    assert "remove their cause, then run it again: python -m evalflow" in text
    assert re.search(
        r"^remove their cause, then run it again:\nagain  python -m evalflow dataset=mine", text, re.MULTILINE
    )
    assert "--retry-errors" not in text
    assert "retry  " not in text


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: f"{option.group}/{option.name}")
def test_what_show_proposes_runs(option: Option, said: Said) -> None:
    suggested = CATALOGUE.suggest(option)
    shown = said("show", f"{option.group}/{option.name}")
    if suggested.command is None:
        assert (option.group, option.name) in {
            ("metric", "cost"),
            ("metric", "latency"),
            ("target", "agent"),
            ("target", "command"),
            ("target", "python"),
        }
        assert suggested.note in shown
        return
    assert suggested.command in shown
    [words] = printed(suggested.command)
    said("check", *(word for word in words if word != "check"))


def test_a_dataset_fits_only_by_what_its_cases_have_or_an_experiment_pairs(said: Said) -> None:
    listed = {one["name"]: one for one in json.loads(said("list", "metric", "--json"))}
    facts = {name: (one["works_without_key"], one["dataset"], one["generate"]) for name, one in listed.items()}
    assert facts["faithfulness"] == (True, "rag", None)
    assert facts["coherence"] == (False, "rag", None)
    assert facts["checks"] == (None, "conversations", "demo")
    assert facts["topic_any"] == (True, "topic_tagger", None)
    assert facts["tool_correctness"] == (True, "agent", None)
    assert facts["role_adherence"] == (False, "conversations", "demo")


def test_what_a_metric_takes_is_shown_with_it(said: Said) -> None:
    faithfulness, coherence, exact = (said("show", name) for name in ("faithfulness", "coherence", "exact_match"))
    assert "fields of a case: question, answer, contexts; dataset rag has it\n" in faithfulness
    assert "for one score: 2\nno language model is needed" in faithfulness
    assert "a language model is needed: judge=NAME" in coherence
    assert "fields of a case: answer, reference; dataset rag has it\nno judge is asked" in exact
    assert "dataset conversations has it with generate=demo" in said("show", "role_adherence")


def test_what_needs_a_model_is_refused_without_one(said: Said) -> None:
    asking = defaultdict[tuple[str, ...], set[str]](set)
    for option in OPTIONS:
        matches = CATALOGUE.matches(option) if option.group == "metric" else []
        if matches and CATALOGUE.keyless(option) is False:
            match = matches[0]
            words = (f"dataset={match.dataset}", *(["generate=demo"] if match.demo else []))
            asking[words].add(option.name)
    assert sum(map(len, asking.values())) > 30
    for words, names in asking.items():
        text = said("check", *words, f"metric=[{','.join(names)}]", code=2)
        refused = re.findall(
            r"^(?:error: )?metric\.(\w+): .*the embedded judge is not a language model", text, re.MULTILINE
        )
        assert set(refused) == names


def test_new_files_are_shown_at_work(said: Said) -> None:
    for words in (("metric", "mine"), ("metric", "own", "--from", "turn_relevance")):
        for line in printed(said("new", *words)):
            said(*line)
    Path("a b.jsonl").write_text('{"question": "Q?", "answer": "A.", "reference": "A."}\n', encoding="utf-8")
    for line in printed(said("new", "dataset", "few", "--path", "a b.jsonl")):
        said(*line)
    for line in printed(said("show", "rubric")):
        said(*line)


def test_keys_that_a_file_lacks_and_columns_with_odd_names_are_mapped_as_the_hint_says(said: Said) -> None:
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS), encoding="utf-8")
    for fields in ("null", "{answer: nothing}"):
        words = ("dataset=rag", "dataset.rag.path=q.jsonl", f"dataset.rag.fields={fields}", "metric=exact_match")
        said("check", *words, *hints(said("check", *words, code=2)))
    own = ("dataset=rag", "metric=faithfulness", 'metric.faithfulness.judge.name="it\'s mine"')
    said("check", *own[:2], *hints(said("check", *own, code=2)))


def test_after_a_sweep_each_verb_names_the_runs_that_it_can_take(said: Said) -> None:
    said("-m", "dataset=rag", "metric=relevance", "limit=6", "seed=1,2")
    for words in (("plan", "--width", "0.1"), ("cases",), ("resume",)):
        for line in printed(said(*words, code=2)):
            said(*line)


def test_a_run_that_another_setting_would_mend_is_started_again_with_it(said: Said) -> None:
    words = ("dataset=rag", "metric=coherence", "limit=2", "judge=vllm", "judge.model=m", "judge.attempts=1")
    grade = {"reason": "Clear.", "score": 4}
    with Endpoint(lambda _: grade) as endpoint:
        said(*words, "judge.base_url=http://127.0.0.1:9/v1", code=5)
        for setting in (f"judge.base_url={endpoint.url}", f"judge.base_url='{endpoint.url}'"):
            [again] = printed(said("resume", setting, code=2))
            said(*again)


def test_without_a_run_the_first_one_is_proposed(said: Said) -> None:
    for line in printed(said("cases", code=2)):
        said(*line)
