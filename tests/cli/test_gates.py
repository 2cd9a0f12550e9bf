"""Gates that intervals decide, on tags, and against a baseline, as a pipeline sees them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evalflow.cli import run_command
from evalflow.testing import Endpoint
from tests.cli.conftest import Program, judge_arguments
from tests.cli.test_compare import cases, evaluate

WORDS = ("dataset=rag", "dataset.rag.path=mine.jsonl", "dataset.rag.fields=null", "metric=exact_match")


@pytest.fixture
def baseline(program: Program) -> str:
    """A run that is right 10 times of 40; the file `mine.jsonl` is right 30 times of 40."""
    program.write("mine.jsonl", *cases(30, 40))
    return evaluate(program, "before", cases(10, 40))


def test_an_undecided_gate_exits_3_and_says_what_would_decide_it(program: Program) -> None:
    program.write("mine.jsonl", *cases(30, 40))
    done = program(*WORDS, "gate={exact_match: {mean: '>= 0.7'}}")
    assert done.returncode == 3, done.stderr
    assert "gate undecided  exact_match mean >= 0.7: 0.75 [0.5981, 0.8581]" in done.stdout
    assert "about 323 cases would decide if the result stays the same" in done.stdout
    page = (program.latest / "summary.md").read_text(encoding="utf-8")
    assert "## exact\\_match on rag" in page
    assert "| **undecided** |" in page
    assert "| exact\\_match | 0.750 | 0.598 to 0.858 | 75 % | 40 | 0 | 0 | 0 |" in page
    suites = ElementTree.parse(program.latest / "junit.xml").getroot()
    assert suites[0].get("errors") == "1"
    assert [case.get("name") for case in suites[0].iter("testcase")] == ["exact_match mean >= 0.7"]

    again = program("report", "gate={exact_match: {mean: '>= 0.7', point: true}}")
    assert again.returncode == 0, again.stderr
    assert program.manifest["exit_code"] == 0
    assert "| passed |" in (program.latest / "summary.md").read_text(encoding="utf-8")


def test_a_gate_says_what_it_rests_on_and_too_many_undefined_scores_leave_it_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    unknown: dict[str, None] = {}
    rows = [
        {
            "id": f"c{i}",
            "question": "Q?",
            "expected": {"primary": "x", "secondary": None} if i < 55 else unknown,
            "actual": {"primary": "x" if i % 9 else "y", "secondary": None},
        }
        for i in range(100)
    ]
    Program(tmp_path).write("mine.jsonl", *rows)
    words = [*WORDS[:-1], "metric=topic_any"]
    assert run_command([*words, "gate={topic_any: {mean: '>= 0.5'}}"]) == 3, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "gate undecided  topic_any mean >= 0.5: 0.8" in shown
    assert "rests on 55 of 100 scores (45 undefined)" in shown
    assert "more scores of this run are undefined than max_undefined_rate: 0.1 allows" in shown
    page = (tmp_path / "outputs/latest/report.html").read_text(encoding="utf-8")
    assert "rests on 55 of 100 scores (45 undefined)" in page
    assert run_command(["report", "gate={topic_any: {mean: '>= 0.5', max_undefined_rate: 0.45}}"]) == 0
    assert json.loads(Path("outputs/latest/run.json").read_text(encoding="utf-8"))["exit_code"] == 0


def test_a_tag_is_gated_from_yaml(program: Program) -> None:
    program.write("mine.jsonl", *cases(30, 40, tags=["Safety > Jailbreak"]))
    (program.folder / "conf/experiment").mkdir(parents=True)
    (program.folder / "conf/metric").mkdir()
    text = '# @package _global_\ngate:\n  "tag:Safety": {pass_rate: ">= 0.95"}\n  exact_match@Other: {mean: ">= 0.1"}\n'
    (program.folder / "conf/experiment/strict.yaml").write_text(text)
    done = program(*WORDS, "experiment=strict")
    assert done.returncode == 1, done.stderr
    assert "gate FAILED  tag:Safety pass_rate >= 0.95: 0.75 [" in done.stdout
    assert "gate undecided  exact_match@Other mean >= 0.1: no scored case with the tag 'Other'" in done.stdout


@pytest.mark.parametrize(("rows", "code"), [("mine.jsonl", 0), ("before.jsonl", 3), ("worse.jsonl", 1)])
def test_a_baseline(program: Program, baseline: str, rows: str, code: int) -> None:
    program.write("worse.jsonl", *cases(0, 40))
    words = [word.replace("mine.jsonl", rows) for word in WORDS]
    done = program(*words, f"baseline={baseline}", "gate={exact_match: {mean: {not_worse_by: 0.02}}}")
    assert done.returncode == code, done.stdout + done.stderr
    assert "exact_match mean not worse than the baseline by 0.02: " in done.stdout


def test_excluded_results_are_named_and_decide_nothing(program: Program, baseline: str) -> None:
    """The file is right in 30 of 40 cases, and one of the others is excluded: 30 / 39."""
    gates = "gate={exact_match: {mean: '>= 0.5', pass_rate: {not_worse_by: 0.02}}}"
    assert program(*WORDS, f"baseline={baseline}", gates).returncode == 0
    before = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    key = {"dataset": "rag", "target": "recorded", "target_repeat": 0, "metric": "exact_match"}
    own = {"case_id": "c39", "reason": "typo", "by": "anna", "at": "2026-11-23T10:00:00Z"}
    (program.latest / "exclusions.json").write_text(json.dumps([key | own]), encoding="utf-8")
    done = program("report")
    sentence = "1 result excluded by anna: 0.769 ("
    assert f"exact_match: {sentence}" in done.stdout, done.stderr
    after = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    assert (after["rows"], program.manifest["exit_code"]) == (before["rows"], 0)
    [detail] = [one for one in after["details"] if "excluded" in one]
    assert detail["excluded"]["value"] == pytest.approx(30 / 39)
    suite = (program.latest / "summary.md").read_text(encoding="utf-8")
    assert sentence in suite
    assert "1 result excluded by anna, and counted here" in suite
    done = program("compare", baseline, str(program.latest.resolve()))
    assert f"B: exact_match: {sentence}" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("n", "code"), [(150, 0), (60, 3)])
def test_a_baseline_whose_answers_are_the_same(program: Program, n: int, code: int) -> None:
    """The rule of three: of n cases none differs, so the difference is with 95 % confidence below 3 / n."""
    before = evaluate(program, "before", cases(n // 2, n))
    words = [word.replace("mine.jsonl", "before.jsonl") for word in WORDS]
    done = program(*words, f"baseline={before}", "gate={exact_match: {pass_rate: {not_worse_by: 0.02}}}")
    assert done.returncode == code, done.stdout + done.stderr
    assert ("about 149 cases would decide" in done.stdout) is (code == 3)


def test_a_judges_metric_is_the_one_of_the_baseline(program: Program) -> None:
    """Its scale has anchors, whose numbers run.json keeps as text."""
    rows = ({"id": f"c{i}", "question": f"Q{i}?", "answer": f"A{i}."} for i in range(4))
    program.write("mine.jsonl", *rows)
    with Endpoint(lambda _: {"reason": "so it seems", "score": 4}) as endpoint:
        words = (*WORDS[:-1], "metric=coherence", *judge_arguments(endpoint.url))
        assert program(*words).returncode == 0
        gate = "gate={coherence: {mean: {not_worse_by: 0.9}}}"
        done = program(*words, f"baseline={program.latest}", gate)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gate passed  coherence mean not worse than the baseline by 0.9" in done.stdout


def test_figures_are_held_against_a_baseline(program: Program) -> None:
    sample = ("dataset=jailbreak_guardrails", "metric=jailbreak_guardrails")
    assert program(*sample).returncode == 0
    before = f"baseline={program.latest.resolve()}"
    gate = "gate={jailbreak_guardrails: {recall: {not_worse_by: 0.3}, accuracy: {not_worse_by: 0.3}, f1: '>= 0.1'}}"
    done = program(*sample, before, gate)
    assert done.returncode == 0, done.stdout + done.stderr
    done = program(*sample, before, "gate={jailbreak_guardrails: {f1: {not_worse_by: 0.05}}}")
    assert done.returncode == 3
    assert "cases would decide if the result stays the same" in done.stdout
    done = program(*sample, before, "gate={jailbreak_guardrails: {n: {not_worse_by: 1}}}")
    assert done.returncode == 2
    assert "n cannot be compared with a baseline" in done.stderr


def test_one_class_is_held_against_a_baseline(program: Program) -> None:
    sample = ("dataset=question_router", "metric=question_router")
    assert program(*sample).returncode == 0
    known = "recall\\[genuine_rag\\]: {not_worse_by: 0.4}"
    unknown = 'recall\\[x\\]: {not_worse_by: 0.4}, f1\\[x\\]: ">= 0.1"'
    done = program(*sample, f"baseline={program.latest.resolve()}", f"gate={{question_router: {{{known}, {unknown}}}}}")
    assert done.returncode == 3, done.stderr
    assert "passed  question_router recall[genuine_rag] not worse than the baseline by 0.4: 0 [-0.2589" in done.stdout
    assert "by 0.4: no scored case of this class or label in common with the baseline" in done.stdout
    assert "f1[x] >= 0.1: no scored case of this class or label" in done.stdout


def test_a_baseline_that_cannot_be_compared_with_is_refused_before_anything_runs(
    program: Program, baseline: str
) -> None:
    gate = "gate={exact_match: {mean: {not_worse_by: 0.02}}}"
    done = program(*WORDS, gate)
    assert (done.returncode, "there is no baseline to compare with" in done.stderr) == (2, True)
    done = program(*WORDS, gate, "baseline=nowhere")
    assert done.returncode == 2
    assert "baseline=nowhere: the baseline cannot be read: this is not a folder of a run" in done.stderr
    done = program("check", *WORDS, "baseline=openai")
    assert done.returncode == 2
    assert "baseline=openai: openai is a target, but a baseline is a run" in done.stderr
    assert "target=openai generate=true, and name that run's folder" in done.stderr
    manifest = Path(baseline) / "run.json"
    known = json.loads(manifest.read_text())
    known["config"]["metric"]["exact_match"]["combine"] = "any"
    manifest.write_text(json.dumps(known))
    done = program(*WORDS, gate, f"baseline={baseline}")
    assert done.returncode == 2
    assert "metric exact_match has other settings: combine" in done.stderr
    manifest.write_text(json.dumps(known | {"schema": 0}))
    done = program(*WORDS, gate, f"baseline={baseline}")
    assert (done.returncode, "another version of evalflow" in done.stderr) == (2, True)
    done = program(*WORDS, "gate={exact_match: {mean: {not_worse: 0.02}}}")
    assert done.returncode == 2
    assert 'write a condition such as ">= 0.8", or {not_worse_by: 0.02}' in done.stderr
    assert [path.name for path in program.folder.glob("outputs/runs/*")] == [Path(baseline).name]


def test_a_pass_rate_that_no_threshold_decides_is_refused_before_the_run(program: Program) -> None:
    program.write("mine.jsonl", *cases(1, 2))
    words = [*WORDS[:3], "metric=relevance", "gate={relevance: {pass_rate: '>= 0.5'}}"]
    done = program("check", *words)
    assert done.returncode == 2
    assert "gate.relevance.pass_rate: there is no pass_rate: relevance has no threshold" in done.stderr
    assert "the judge embedded, which is not calibrated" in done.stderr
    assert "'judge.thresholds={relevance: 0.5}'" in done.stderr
    assert program("check", *words, "judge.thresholds={relevance: 0.5}").returncode == 0


def test_a_pass_rate_of_a_metric_without_a_threshold_is_refused(program: Program) -> None:
    program.write("mine.jsonl", *cases(1, 2))
    done = program("check", *WORDS, "metric.exact_match.threshold=null", "gate={exact_match: {pass_rate: '>= 0.5'}}")
    assert done.returncode == 2
    assert "exact_match has no threshold" in done.stderr


def test_the_lowest_case_can_be_gated_and_bounds_are_named_as_such(program: Program) -> None:
    rows = [{"id": f"c{i}", "question": "?", "answer": "yes" if i else "no", "reference": "yes"} for i in range(9)]
    program.write("nine.jsonl", *rows)
    (program.folder / "conf/dataset").mkdir(parents=True)
    (program.folder / "conf/dataset/nine.yaml").write_text("# @package dataset.nine\npath: nine.jsonl\n")
    for gate, code, said in (
        ('{exact_match: {lowest: ">= 0.5"}}', 1, "gate FAILED  exact_match lowest >= 0.5: 0 ("),
        ('{exact_match: {bound_low: ">= 0.8"}}', 0, "gate passed  exact_match bound_low >= 0.8: 0.8889"),
        ('{exact_match: {worst: ">= 0.5"}}', 2, "known: bound_high, bound_low, "),
        ("{exact_match: {lowest: {not_worse_by: 0.1}}}", 2, "lowest cannot be compared with a baseline"),
    ):
        done = program("dataset=nine", "metric=exact_match", f"gate={gate}")
        assert done.returncode == code, done.stdout + done.stderr
        assert said in done.stdout + done.stderr
