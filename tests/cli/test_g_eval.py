"""G-Eval and rubrics as a user runs them, with a scripted endpoint as the judge."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.cli import run_command
from evalflow.testing import Endpoint, Request, malformed, reply
from evalflow.testing.replies import Computed
from tests.cli.conftest import Program, judge_arguments

ROWS = [{"id": f"c{i}", "question": f"Question {i}?", "answer": f"Answer {i}.", "reference": "So."} for i in range(3)]
STEPS = ["Read the reference.", 'Compare "facts": all of them.']
LIKELY = {"8": {"8": 0.6, "9": 0.25, "7": 0.1, "The": 0.05}}
EXPECTED = (8 * 0.6 + 9 * 0.25 + 7 * 0.1) / 0.95
PRICE = "judge.price={input_per_million: 1.0, output_per_million: 10.0}"


def judge(request: Request) -> Any:
    if request.schema_name == "Steps":
        return reply({"steps": STEPS}, usage=(100, 10))
    return reply({"reason": "It says so.", "score": 8}, alternatives=LIKELY, usage=(50, 5))


def arguments(program: Program, url: str, *more: str, metric: str = "factual_accuracy") -> list[str]:
    path = program.write("mine.jsonl", *ROWS)
    data = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", f"metric={metric}"]
    return [*data, *judge_arguments(url), "judge.logprobs=true", "judge.strict=false", PRICE, *more]


def scores(program: Program) -> pl.DataFrame:
    return pl.read_parquet(program.latest / "scores.parquet")


def test_samples_in_place_of_token_probabilities_are_said_where_one_looks(program: Program) -> None:
    def silent(request: Request) -> Any:
        body = json.loads(json.dumps(judge(request).body(request)))
        for choice in body["choices"]:
            choice["logprobs"] = None
        return Computed(make=lambda _: body)

    with Endpoint(silent) as endpoint:
        done = program(*arguments(program, endpoint.url, "metric.factual_accuracy.samples=4", "limit=2"))
        assert done.returncode == 0, done.stderr
        assert Counter(request.schema_name for request in endpoint.requests) == {"Steps": 1, "Score": 2 * 2}
    said = "after one for the probabilities, which judge.logprobs=false saves"
    assert "such a score samples 4 replies and pays for each, in one request if the endpoint takes n=4" in done.stderr
    assert done.stderr.count(f"{said}\n") == 1
    assert [note for note in program.manifest["notes"] if note.endswith(said)] == program.manifest["notes"]
    assert said in done.stdout.replace("\n", " ")
    assert (program.latest / "evalflow.log").read_text(encoding="utf-8").count(said) == 1
    assert said in (program.latest / "report.html").read_text(encoding="utf-8")


def test_the_steps_are_written_once_shown_and_kept_and_all_of_it_is_counted(program: Program) -> None:
    with Endpoint(judge) as endpoint:
        words = arguments(program, endpoint.url, "repeats.judge=2", "metric.factual_accuracy.verbose=true")
        checked = program("check", *words)
        assert "about 7, 1 of them to prepare" in checked.stdout
        assert endpoint.count == 0
        done = program(*words)
        assert done.returncode == 0, done.stderr
        assert Counter(request.schema_name for request in endpoint.requests) == {"Steps": 1, "Score": 6}
        assert 'steps:\n  - "Read the reference."\n  - "Compare \\"facts\\": all of them."\n' in done.stderr
        assert "metric.factual_accuracy.steps_from=outputs/runs/" in done.stderr.replace("\n", "")
        assert done.stderr.count("factual_accuracy by openai:scripted: 0.795, weighted") == 6
        assert "reason: It says so.; score: 8" in done.stderr

        (entry,) = json.loads((program.latest / "prepared.json").read_text(encoding="utf-8")).values()
        assert entry["steps"] == STEPS
        assert all(f"2. {STEPS[1]}" in request.text for request in endpoint.requests[1:])
        manifest = program.manifest
        assert (manifest["requests"], manifest["input_tokens"], manifest["output_tokens"]) == (7, 400, 40)
        assert manifest["cost_usd"] == pytest.approx(800e-6)

        frame = scores(program)
        assert frame["score"].to_list() == [pytest.approx((EXPECTED - 1) / 9)] * 6
        assert [float(value) for value in frame["value"]] == [pytest.approx(EXPECTED)] * 6
        assert set(frame["path"]) == {"weighted"}
        assert frame["reason"][0].endswith("[weighted by token probabilities, 95.0% of them on grades]")
        assert set(frame["threshold"]) == {0.5}

        journal = program.latest / "scores.jsonl"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        assert endpoint.count == 7
        assert (program.manifest["input_tokens"], program.manifest["output_tokens"]) == (400, 40)
        assert "its steps" not in resumed.stderr


def test_a_resumed_run_keeps_to_its_steps_though_the_judge_would_write_others(program: Program) -> None:
    def fickle(request: Request) -> Any:
        if request.schema_name == "Steps":
            return {"steps": [f"Step of request {request.number}."]}
        return malformed() if broken and "Question 2?" in request.text else judge(request)

    broken = True
    with Endpoint(fickle) as endpoint:
        assert program(*arguments(program, endpoint.url, "cache.mode=off")).returncode == 3
        broken = False
        done = program("resume", "--retry-errors")
        assert done.returncode == 0, done.stderr
        asked = Counter(request.schema_name for request in endpoint.requests)
        assert asked["Steps"] == 1
        assert {"Step of request 0." in r.text for r in endpoint.requests if r.schema_name == "Score"} == {True}


def test_a_run_compares_with_its_repeat_from_the_cache_and_with_one_that_took_its_steps(
    program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(program.folder)
    with Endpoint(judge) as endpoint:
        words = arguments(program, endpoint.url)
        assert run_command(words) == 0
        first = str(program.latest)
        for more in ((), (f"metric.factual_accuracy.steps_from={first}",)):
            assert run_command([*words, *more]) == 0
            files = [(Path(run) / "prepared.json").read_text(encoding="utf-8") for run in (first, program.latest)]
            assert files[0] != files[1]
            assert run_command(["compare", first]) == 0, capsys.readouterr().err


def test_another_judge_can_grade_by_the_steps_of_the_latest_run(program: Program) -> None:
    with Endpoint(judge) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 0
        asked = endpoint.count
        more = ["metric.factual_accuracy.steps_from=outputs/latest", "judge.logprobs=false", "judge.name=other"]
        words = arguments(program, endpoint.url, *more, "metric.factual_accuracy.samples=4")
        assert "about 12\n" in program("check", *words).stdout
        done = program(*words)
        assert done.returncode == 0, done.stderr
        assert {request.schema_name for request in endpoint.requests[asked:]} == {"Score"}
        assert endpoint.count - asked == 3
        assert {request.body["temperature"] for request in endpoint.requests[asked:]} == {1.0}
        assert scores(program)["reason"][0] == "It says so. [mean of 4 samples: 8 in 4]"
        (entry,) = json.loads((program.latest / "prepared.json").read_text(encoding="utf-8")).values()
        assert (entry["steps"], entry["copied_from"], entry["judge"]) == (STEPS, "outputs/latest", "openai:scripted")


def test_steps_of_the_latest_run_are_still_found_when_that_is_the_run_itself(program: Program) -> None:
    borrowing = ("metric.factual_accuracy.steps_from=outputs/latest", "judge.name=other")
    with Endpoint(judge) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 0
        first = program.latest
        assert program(*arguments(program, endpoint.url, *borrowing)).returncode == 0
        kept = program.manifest["config"]["metric"]["factual_accuracy"]["steps_from"]
        assert Path(kept) == first
        (program.latest / "prepared.json").write_text("{}\n")
        (program.latest / "scores.jsonl").write_text("")
        asked = endpoint.count
        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        assert endpoint.count == asked
    (entry,) = json.loads((program.latest / "prepared.json").read_text(encoding="utf-8")).values()
    assert (entry["steps"], entry["copied_from"]) == (STEPS, str(first))


def test_a_metric_that_cannot_be_built_any_more_is_told_by_its_key(program: Program) -> None:
    with Endpoint(judge) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 0
        shutil.copytree(program.latest, program.folder / "kept")
        borrowing = "metric.factual_accuracy.steps_from=kept"
        assert program(*arguments(program, endpoint.url, borrowing)).returncode == 0
        shutil.rmtree(program.folder / "kept")
        resumed = program("resume")
    assert resumed.returncode == 2
    assert resumed.stderr.startswith("error: metric.factual_accuracy.steps_from: cannot read ")


def test_optional_inputs_that_no_case_has_are_pointed_out(program: Program) -> None:
    words = arguments(program, "http://127.0.0.1:9/v1", "metric.factual_accuracy.optional=[metadata.tone,question]")
    done = program("check", *words)
    assert done.returncode == 0, done.stderr
    assert "metric factual_accuracy: no case of rag has metadata.tone" in " ".join(done.stdout.split())
    assert "rag has question" not in done.stdout


def test_criteria_and_steps_can_stand_on_the_command_line(program: Program) -> None:
    criteria = "The answer is polite, and brief."
    more = [f'metric.factual_accuracy.criteria="{criteria}"', 'metric.factual_accuracy.steps=["Read it.","Weigh it."]']
    strict = ["metric.factual_accuracy.strict=true"]
    with Endpoint(lambda _: {"reason": "So.", "score": True}) as endpoint:
        done = program(*arguments(program, endpoint.url, *more, *strict))
        assert done.returncode == 0, done.stderr
        assert endpoint.count == 3
        assert criteria in endpoint.requests[0].text
        assert "2. Weigh it." in endpoint.requests[0].text
    assert scores(program).select("score", "value", "threshold", "passed", "path").unique().rows() == [
        (1.0, "true", 1.0, True, "direct")
    ]


def test_overlapping_ranges_are_refused_before_anything_is_sent(program: Program) -> None:
    ranges = "[{score_range: [1, 5], expected_outcome: poor}, {score_range: [5, 10], expected_outcome: good}]"
    with Endpoint(judge) as endpoint:
        done = program(*arguments(program, endpoint.url, f"metric.factual_accuracy.rubric={ranges}"))
        assert (done.returncode, endpoint.count) == (2, 0)
    assert "the score ranges 1..5 (poor) and 5..10 (good) overlap" in done.stderr
    assert not (program.folder / "outputs" / "latest").exists()


def test_the_embedded_judge_is_refused_with_what_to_do(program: Program) -> None:
    done = program("check", "dataset=rag", "metric=factual_accuracy")
    assert done.returncode == 2
    assert "the embedded judge is not a language model" in done.stderr
    assert "judge=openai" in done.stderr


def test_a_judge_that_is_the_target_is_said_to_be_partial(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)
    words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=factual_accuracy"]
    live = ["generate=true", "target=vllm", "target.model=org/Same", "target.base_url=http://127.0.0.1:9/v1"]
    own = program("check", *words, *live, "judge.logprobs=true", "--json")
    assert own.returncode == 0, own.stderr
    facts = json.loads(own.stdout)
    assert list(facts["judges"]) == ["target:org/Same"]
    assert any("self-preference" in notice for notice in facts["notices"])
    assert "the embedded judge" in program("check", *words, *live, "judge=embedded").stderr
    assert "the embedded judge" in program("check", *words, *live, EVALFLOW_JUDGE="embedded").stderr
    other = program("check", *words, *live, "judge=vllm", "judge.model=other", "judge.base_url=http://127.0.0.1:9/v1")
    assert "self-preference" not in other.stdout


def test_a_copy_brings_its_prompts_along(program: Program) -> None:
    assert program("new", "metric", "mine", "--from", "factual_accuracy").returncode == 0
    text = (program.folder / "conf" / "metric" / "mine.yaml").read_text(encoding="utf-8")
    assert "prompt: mine/score.jinja\nsteps_prompt: mine/steps.jinja\n" in text
    assert (program.folder / "prompts" / "mine" / "steps.jinja").is_file()
    shown = program("show", "mine")
    assert "You will grade many answers by one criterion" in shown.stdout


SCALES = [
    ("boolean", True, 1.0, "true", "maybe"),
    ("{type: likert, min: 1, max: 5, anchors: {1: bad, 5: good}}", 4, 0.75, "4", 6),
    ("percentage", 62.5, 0.625, "62.5", 101),
    ("{type: label, values: {'poor': 0, 'fair': 0.4, 'good': 1}}", "fair", 0.4, '"fair"', "excellent"),
]


@pytest.mark.parametrize(("scale", "grade", "score", "value", "outside"), SCALES)
def test_a_rubric_keeps_its_own_value_and_asks_again_for_what_is_off_the_scale(
    scale: str, grade: Any, score: float, value: str, outside: Any, program: Program
) -> None:
    file = program.folder / "conf" / "metric" / "graded.yaml"
    file.parent.mkdir(parents=True)
    head = "# @package metric.graded\nkind: rubric\ndescription: How good it is.\nneeds: [question, answer]\n"
    file.write_text(f"{head}scale: {scale}\n", encoding="utf-8")
    seen: Counter[str] = Counter()

    def script(request: Request) -> Any:
        case = next(row["id"] for row in ROWS if row["question"] in request.text)
        seen[case] += 1
        off = case == "c2" or (case == "c1" and seen[case] == 1)
        return {"reason": "So.", "score": outside if off else grade}

    with Endpoint(script) as endpoint:
        done = program(*arguments(program, endpoint.url, metric="graded"))
    assert done.returncode == 3, done.stderr
    assert scores(program).select("status", "score", "value", "path", "error_type").rows() == [
        ("scored", pytest.approx(score), value, "direct", None),
        ("scored", pytest.approx(score), value, "reasked", None),
        ("error", None, None, None, "schema"),
    ]
    assert seen == {"c0": 1, "c1": 2, "c2": 3}
