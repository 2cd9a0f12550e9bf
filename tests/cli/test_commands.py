"""cases, report, open, list, show and new."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from evalflow.app.catalogue import keys_of
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.testing import Endpoint
from tests.cli.conftest import Program, faithful_judge, judge_arguments
from tests.cli.test_run import CASES, CLAIMS
from tests.datasets.workbooks import workbook


@pytest.fixture
def scored(program: Program) -> Program:
    """A folder with one finished run."""
    path = program.write("mine.jsonl", *CASES)
    with Endpoint(faithful_judge(CLAIMS)) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            *judge_arguments(endpoint.url),
        )
    assert done.returncode == 0, done.stderr
    return program


def ids(program: Program, *arguments: str) -> list[str]:
    done = program("cases", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [case["id"] for case in json.loads(done.stdout)["cases"]]


def test_cases_are_chosen_by_outcome_tag_and_id(scored: Program) -> None:
    assert ids(scored) == ["c1", "c2", "c3", "c4", "c5"]
    assert ids(scored, "--failed") == ["c1", "c3"]
    assert ids(scored, "--tag", "T") == ["c1", "c2"]
    assert ids(scored, "--tag", "T > B") == ids(scored, "--tag", "T>B") == ["c2"]
    assert ids(scored, "--id", "c4") == ["c4"]
    assert ids(scored, "--limit", "2") == ["c1", "c2"]
    assert ids(scored, "outputs/latest", "--metric", "faithfulness") == ["c1", "c2", "c3", "c4", "c5"]


def test_a_case_is_shown_with_everything_behind_its_score(scored: Program) -> None:
    done = scored("cases", "--failed")
    for text in ("Q one?", "Alpha beta.", "alpha", "about beta", "contradicted", "0.500"):
        assert text in done.stdout
    [case] = json.loads(scored("cases", "--id", "c1", "--json").stdout)["cases"]
    assert [step["id"] for step in case["scores"][0]["steps"]] == ["claims", "verdicts"]


@pytest.mark.parametrize(
    ("option", "word"), [("--id", "c99"), ("--metric", "faithfulnes"), ("--tag", "T > X"), ("--limit", "-1")]
)
def test_what_the_run_does_not_have_is_told(scored: Program, option: str, word: str) -> None:
    done = scored("cases", option, word)
    assert done.returncode == 2
    assert word in done.stderr


def test_a_report_can_be_made_again_and_a_new_threshold_is_free(scored: Program) -> None:
    before = {p.name: p.read_bytes() for p in scored.latest.iterdir() if p.suffix in (".csv", ".jsonl", ".html")}
    for name in ("report.html", "results.csv", "summary.csv", "scores.parquet"):
        (scored.latest / name).unlink()
    done = scored("report")
    assert done.returncode == 0, done.stderr
    after = {p.name: p.read_bytes() for p in scored.latest.iterdir() if p.suffix in (".csv", ".jsonl", ".html")}
    assert after == before
    assert "→" not in done.stdout
    changed = scored("report", "metric.faithfulness.threshold=0.1", "gate={faithfulness: {mean: '>= 0.99'}}")
    assert re.search(r"faithfulness mean openai:scripted, pass rate: .+ → 67", changed.stdout)
    assert "exit code: 0 → 3" in changed.stdout


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["report", "metric.faithfullness.threshold=1"], "did you mean 'faithfulness'?"),
        (["report", "metric.faithfulness.thresold=1"], "did you mean 'threshold'?"),
        (["report", "metric.faithfulness.needs=[]"], "these can: gate, judge.thresholds, max_error_rate, baseline,"),
        (["resume", "budget.used=1"], "did you mean 'usd'?"),
    ],
)
def test_an_error_on_a_key_of_a_finished_run_names_the_keys_that_exist(
    scored: Program, words: list[str], known: str
) -> None:
    done = scored(*words)
    assert done.returncode == 2
    assert known in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["dataset", "rag"], "a key and its value are joined by =\n  hint: write dataset=rag"),
        (["metric"], "there is no verb 'metric'\n  hint: write metric=NAME"),
        (["metrics"], "there is no verb 'metrics'\n  hint: write metric=NAME; `list metric` shows the names"),
        (["checks", "metric=checks"], "there is no verb 'checks'\n  hint: did you mean 'check'?"),
        (["case", "--failed"], "there is no verb 'case'\n  hint: did you mean 'cases'?"),
        (["dataset=rag", "metric=bias", "--verbose", "--multirn"], "run does not take --verbose"),
        (["dataset=rag", "metric=bias", "--verbose", "--multirn"], "did you mean '--multirun'?"),
    ],
)
def test_what_is_no_verb_and_no_flag_says_what_is(program: Program, words: list[str], told: str) -> None:
    done = program(*words)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("columns", ["40", "60"])
def test_a_list_is_cut_nowhere(program: Program, columns: str) -> None:
    done = program("list", COLUMNS=columns)
    assert "…" not in done.stdout


def test_without_a_run_the_next_step_is_told(program: Program) -> None:
    for verb in ("cases", "report", "open"):
        done = program(verb)
        assert done.returncode == 2
        assert "python -m evalflow dataset=rag" in done.stderr


def test_a_forgotten_metric_is_told_with_a_live_target_too(program: Program) -> None:
    done = program("check", "dataset=rag", "generate=true", "target=vllm", "target.model=m")
    assert (done.returncode, "no metric is chosen" in done.stderr) == (2, True), done.stderr


def test_files_that_cannot_be_read_are_listed_and_a_place_that_cannot_be_written_is_told(program: Program) -> None:
    folder = program.folder / "conf" / "dataset"
    folder.mkdir(parents=True)
    (folder / "odd.yaml").write_bytes(b"# @package dataset.odd\npath: \xff\n")
    done = program("list", "dataset")
    assert (done.returncode, "odd" in done.stdout) == (0, True), done.stderr
    (program.folder / "conf" / "metric").write_text("")
    refused = program("new", "metric", "mine")
    assert (refused.returncode, "conf/metric: cannot be written: " in refused.stderr) == (2, True), refused.stderr


def test_shown_yaml_can_be_copied(program: Program) -> None:
    text = (Path(__file__).parents[2] / "conf" / "metric" / "faithfulness.yaml").read_text(encoding="utf-8")
    assert text in program("show", "faithfulness", COLUMNS="40").stdout


def test_a_new_dataset_shows_what_each_column_holds(program: Program) -> None:
    (program.folder / "theirs.csv").write_text("Nr.;Bot says;Team\n7;Yes.;web\n", encoding="utf-8")
    done = program("new", "dataset", "theirs", "--path", "theirs.csv")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[4:7] == [["Nr.", "id", "7"], ["Bot", "says", "answer", "Yes."], ["Team", "–", "web"]]
    assert "none was recognised as the question" in done.stdout
    assert "question: Team" in done.stdout
    (program.folder / "empty.csv").write_text("", encoding="utf-8")
    refused = program("new", "dataset", "none", "--path", "empty.csv")
    assert (refused.returncode, "no row has a value" in refused.stderr) == (2, True)
    assert not (program.folder / "conf" / "dataset" / "none.yaml").exists()


def test_open_says_where_the_report_is(scored: Program) -> None:
    done = scored("open", BROWSER="true")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("report.html")


def test_list_and_show_speak_json(program: Program) -> None:
    rows = json.loads(program("list", "metric", "--json").stdout)
    assert {"faithfulness", "relevance", "bias"} <= {row["name"] for row in rows}
    facts = {row["name"]: row for row in rows}
    assert facts["context_recall"]["needs"] == ["question", "reference", "contexts"]
    assert (facts["context_recall"]["family"], facts["context_recall"]["calls"]["high"]) == ("context", 2)
    shown = json.loads(program("show", "faithfulness", "--json").stdout)
    assert shown["yaml"].startswith("# @package metric.faithfulness")
    assert "faithfulness/verdicts.jinja" in shown["prompts"]
    done = program("show", "faithfulnes")
    assert done.returncode == 2
    assert "'faithfulness'" in done.stderr


def test_a_new_metric_passes_the_check_and_is_not_overwritten(program: Program) -> None:
    made = program("new", "metric", "tone")
    assert made.returncode == 0
    [told] = [line for line in made.stdout.splitlines() if line.startswith("next")]
    command = shlex.split(told.removeprefix("next").partition("   (")[0])
    assert command[:3] == ["python", "-m", "evalflow"]
    checked = program(*command[3:], "limit=2")
    assert checked.returncode == 0, checked.stderr
    again = program("new", "metric", "tone")
    assert again.returncode == 2
    assert "there already" in again.stderr


def test_a_copied_metric_has_its_own_prompts(program: Program) -> None:
    assert program("new", "metric", "my_faithfulness", "--from", "faithfulness").returncode == 0
    assert (program.folder / "prompts" / "my_faithfulness" / "verdicts.jinja").is_file()
    text = (program.folder / "conf" / "metric" / "my_faithfulness.yaml").read_text(encoding="utf-8")
    assert text.startswith("# @package metric.my_faithfulness\n")
    assert "prompt: my_faithfulness/claims.jinja" in text
    assert "\nfixture: null\n" in text, "its cases are labelled for the other metric"
    done = program("dataset=rag", "metric=my_faithfulness", "limit=2")
    assert done.returncode == 0, done.stderr


def test_a_kind_of_metric_is_shown_with_its_keys_and_an_example(program: Program) -> None:
    shown = program("show", "g_eval", COLUMNS="120")
    assert shown.returncode == 0, shown.stderr
    for text in ("criteria", "What is graded, in words", "# @package metric.", "new metric my_"):
        assert text in shown.stdout
    facts = json.loads(program("show", "generated_questions", "--json").stdout)
    keys = {key["key"]: key for key in facts["keys"]}
    assert facts["metrics"] == ["answer_relevancy"]
    assert (keys["questions"]["default"], keys["kind"]["required"]) == (3, True)
    assert "'g_eval'" in program("show", "g_evla").stderr


SHOWN = """\
close_to
  Says whether two numbers are close: they differ by at most `tolerance`, or by `relative` as a share of the other.
    field: The case field, or a dotted path into one, such as latency_s or metadata.language; null: the field that the
    metric or the check names.
    against: A case field that holds it, or a list of them; instead of `value`.
    value: The other number.
    tolerance: The largest difference.
    relative: The largest difference as a share of the other number: 0.05 allows 5 %.
    {"op": "close_to", "value": 3.14, "tolerance": 0.01}
"""


def test_the_operations_of_rules_and_the_checks_of_cases_are_shown_with_their_keys(program: Program) -> None:
    lines = program("show", "check", COLUMNS="120").stdout.splitlines()
    assert SHOWN in "".join(f"{line.rstrip()}\n" for line in lines)
    assert '{"command": "tone", "options": {"words": ["stupid"]}}' in program("show", "checks", COLUMNS="120").stdout
    parts = {
        name: part for part in json.loads(program("show", "checks", "--json").stdout)["parts"] for name in part["names"]
    }
    assert list(parts["group"]["keys"]) == ["checks", "threshold"]
    assert parts["rule"]["keys"] == {}
    assert parts["less_than"] == parts["equals"]


@pytest.mark.parametrize("kind", METRIC_KINDS.names())
def test_every_key_of_every_kind_says_what_it_means(kind: str) -> None:
    assert [key["key"] for key in keys_of(kind) if not key["meaning"]] == []


@pytest.mark.parametrize("name", ["My-Metric", "1st", "a b"])
def test_a_name_that_cannot_be_a_key_is_refused(program: Program, name: str) -> None:
    done = program("new", "metric", name)
    assert done.returncode == 2
    assert not (program.folder / "conf").exists()


def test_a_new_dataset_gets_a_proposed_mapping(program: Program) -> None:
    path = program.write("theirs.jsonl", {"query": "q", "response": "a", "ground_truth": "a"})
    assert program("new", "dataset", "theirs", "--path", path).returncode == 0
    done = program("dataset=theirs", "metric=exact_match")
    assert done.returncode == 0, done.stderr
    assert Path(program.manifest["datasets"]["theirs"]["files"][0]).is_absolute()


def test_a_new_dataset_is_a_sheet_whose_columns_mean_something_in_yaml(program: Program) -> None:
    rows = [["Query", "response", "Ground truth"], ["q", "a", "a"]]
    workbook(program.folder / "the cases.xlsx", {"Notes": [["a note"]], "#1 new": rows})
    refused = program("new", "dataset", "theirs", "--path", "the cases.xlsx")
    assert (refused.returncode, "2 sheets: Notes, #1 new" in refused.stderr) == (2, True)
    assert program("new", "dataset", "theirs", "--path", "the cases.xlsx", "--sheet", "#1 new").returncode == 0
    done = program("dataset=theirs", "metric=exact_match")
    assert (done.returncode, "1 scored" in done.stdout or "1.000" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("cases", "--nonsense"), "nonsense"),
        (("list", "nonsense"), "nonsense"),
        (("new", "dataset", "x"), "--path"),
        (("chekc", "dataset=rag"), "'check'"),
        (("check", "-m", "dataset=rag", "metric=exact_match"), "-m"),
    ],
)
def test_wrong_arguments_end_with_2(program: Program, arguments: tuple[str, ...], word: str) -> None:
    done = program(*arguments)
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr
