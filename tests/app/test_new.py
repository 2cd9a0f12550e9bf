"""The files that `new` writes are good as they stand."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from evalflow.app.core.assemble import composed_settings
from evalflow.app.new import new_dataset, new_experiment, new_metric
from evalflow.config.schema import DatasetConfig, FieldValue
from evalflow.datasets import read
from evalflow.errors import UserError
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case, Message

pytestmark = pytest.mark.slow
FIELDS_OF_BATCHES: dict[str, FieldValue] = {
    "messages": "$.body.messages",
    "answer": "$.response.body.choices[0].message.content",
}


def test_the_prompt_of_a_new_metric_asks_for_what_is_replied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_metric("politeness", None, Console(file=StringIO())) == 0
    values = yaml.safe_load(Path("conf/metric/politeness.yaml").read_text(encoding="utf-8"))
    config = METRIC_KINDS.config(values["kind"]).model_validate(values)
    metric = build_metric("politeness", config, Prompts([tmp_path / "prompts"]))
    case = Case(dataset="d", index=0, id="c", messages=(Message("user", "Why?"),))
    [ask] = metric.preview(case, Answer(dataset="d", index=0, case_id="c", target="t", answer="So."))
    prompt = ask.messages[0].content
    assert list(ask.reply_model.model_fields) == ["reason", "score"]
    assert "Write the reason first" in prompt
    assert "Then give the score, a whole\nnumber from 1 to 5:\n1: does not do it at all\n" in prompt
    assert "grade," not in prompt


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> str:
    monkeypatch.chdir(folder)
    (folder / name).write_text(text, encoding="utf-8")
    console = Console(file=StringIO(), width=200)
    assert new_dataset("mine", name, None, console) == 0
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_new_dataset_is_shown_by_its_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = (
        "query,expected,answer,stars,context,retrieval_context\n"
        "a?,007,7,4,ideal,\"['x', 'y']\"\n"
        "b?,1.50,,5,ideal,\"['z']\"\n"
        ",,,,,\n"
        "b?,1.50,,5,ideal,\"['z']\"\n"
    )
    said = written(tmp_path, monkeypatch, "mine.csv", file)
    assert "query              question             a? · b?" in said
    assert "expected           expected, reference  007 · 1.50" in said
    assert 'retrieval_context  contexts             ["x", "y"] · ["z"]' in said
    assert "3 rows read, 3 cases made of them" in said
    assert "empty rows left out: 1" in said
    assert "rows that repeat an earlier one: mine.csv:5 (as mine.csv:3)" in said
    assert "contexts are those of retrieval_context; left out as vars: context" in said
    assert "of 3 cases: no answer in 2" in said
    (line,) = [line.strip() for line in said.splitlines() if "type: number" in line]
    values = yaml.safe_load(Path("conf/dataset/mine.yaml").read_text(encoding="utf-8"))
    values["fields"] |= yaml.safe_load(line)
    assert [case.vars["stars"] for case in read("mine", DatasetConfig.model_validate(values))] == [4, 5, 5]


def test_rows_that_are_no_cases_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ['{"question": "a?", "chat_history": "hi"}\n'] * 5 + ['{"question": "a?", "answer": "b"}\n']
    said = written(tmp_path, monkeypatch, "mine.jsonl", "".join(rows))
    assert "6 rows read, 1 case made of them" in said
    assert "a run refuses the file until 5 rows can be read; the first problems:" in said
    assert "next" not in said
    assert "mine.jsonl:3: history (column 'chat_history'): expected a list" in said
    assert "mine.jsonl:4" not in said


def test_a_file_that_begins_with_empty_rows_is_refused_with_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError) as refused:
        written(tmp_path, monkeypatch, "late.jsonl", "{}\n" * 10_000 + '{"question": "a?"}\n')
    (problem,) = refused.value.problems
    assert (problem.what, problem.where) == ("no row has a value", "late.jsonl")
    assert problem.hint.startswith("at most the first 10,000 rows were read; remove the empty ones")


def test_columns_that_nothing_is_recognised_in_can_be_mapped_as_the_note_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = written(tmp_path, monkeypatch, "mine.jsonl", '{"n": 1, "what: so": "a?"}\n')
    line = next(line.strip() for line in said.splitlines() if line.strip().startswith("question: "))
    file = Path("conf/dataset/mine.yaml")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("fields:\n", f"fields:\n  {line}\n"), encoding="utf-8")
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert [case.question for case in read("mine", DatasetConfig.model_validate(values))] == ["a?"]


def test_a_log_of_a_chat_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = '{"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}], "day": "Mon"}\n'
    said = written(tmp_path, monkeypatch, "mine.jsonl", row)
    assert "$.messages[:-1]         messages" in said
    assert "$.messages[-1].content  answer      So." in said
    assert "1 row read, 1 case made of them" in said
    assert "reference: day" not in said
    values = yaml.safe_load(Path("conf/dataset/mine.yaml").read_text(encoding="utf-8"))
    [case] = read("mine", DatasetConfig.model_validate(values))
    assert (case.question, case.answer, len(case.messages)) == ("Why?", "So.", 1)


def test_a_new_experiment_is_the_run_of_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "dataset=rag",
        "metric=[faithfulness,relevance]",
        'gate={faithfulness: {mean: ">= 0.6"}}',
        "judge.thresholds={faithfulness: 0.6}",
        "+metric.faithfulness.judge.title=Ours",
        "limit=20",
    ]
    console = Console(file=StringIO(), width=200)
    assert new_experiment("nightly", words, console) == 0
    assert "check experiment=nightly" in console.file.getvalue()  # type: ignore[attr-defined]
    file, typed = composed_settings(["experiment=nightly"], None), composed_settings(words, None)
    assert file.run == typed.run
    with pytest.raises(UserError, match="there already is an experiment"):
        new_experiment("nightly", words, console)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dataset=rag", "metric=faithfulness", "judge=a,b"], "-m experiment=mine judge=a,b"),
        (["experiment=agent"], "an experiment cannot extend another one"),
        (["~dataset"], "an experiment cannot extend another one"),
        (["dataset=rag"], "no metric is chosen"),
        (["datset=rag", "metric=faithfulness"], "did you mean dataset=rag?"),
        (["dataset=rag", "metric=[a"], "there is no metric"),
    ],
)
def test_words_that_are_no_run_write_no_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        new_experiment("mine", words, Console(file=StringIO()))
    assert said in " ".join(map(str, refused.value.problems))
    assert not Path("conf").exists()


def test_results_of_a_batch_are_joined_with_what_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {"custom_id": "a", "body": {"model": "m", "messages": [{"role": "user", "content": "Why?"}]}}
    reply = {"custom_id": "a", "response": {"body": {"choices": [{"message": {"content": "So."}}]}}}
    (tmp_path / "SENT.jsonl").write_text(f"{json.dumps(sent)}\n", encoding="utf-8")
    said = written(tmp_path, monkeypatch, "it's.jsonl", f"{json.dumps(reply)}\n")
    assert "the results of a batch have no questions" in said
    assert "columns without a case field are not used" in said
    [line] = [line for line in said.splitlines() if "polars" in line]
    subprocess.run(shlex.split(line), check=True)
    [line] = [line for line in said.splitlines() if "new dataset batch --path batch.jsonl" in line]
    subprocess.run([sys.executable, *shlex.split(line)[1:]], check=True)
    made = yaml.safe_load(Path("conf/dataset/batch.yaml").read_text(encoding="utf-8"))
    [case] = read("batch", DatasetConfig.model_validate(made))
    assert (case.question, case.answer) == ("Why?", "So.")
    Path("conf/dataset/mine.yaml").unlink()
    again = written(tmp_path, monkeypatch, "it's.jsonl", f"{json.dumps(reply)}\n")
    assert "new dataset batch1 --path batch1.jsonl" in again, "nothing is overwritten"
    [case] = read("both", DatasetConfig(path="batch.jsonl", fields=FIELDS_OF_BATCHES))
    assert (case.question, case.answer) == ("Why?", "So.")


def test_a_custom_id_does_not_make_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = written(tmp_path, monkeypatch, "own.csv", "custom_id,answer,day\na,So.,Mon\n")
    assert "the results of a batch" not in said
    assert "none was recognised as the question" in said


def test_a_bot_is_asked_if_there_are_questions_without_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = written(tmp_path, monkeypatch, "asked.csv", "question,ideal_answer\nWhy?,So.\nWho?,Me.\n")
    [proposed] = [line for line in said.splitlines() if line.startswith("next")]
    assert "check dataset=mine metric=factual_correctness generate=true target=http target.url=" in proposed
