"""`compare`: two runs, the pairs of a sweep, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint
from tests.cli.conftest import Program, judge_arguments


def cases(right: int, n: int = 12, **fields: Any) -> list[dict[str, Any]]:
    """Cases of which the first `right` are answered as the reference says."""
    return [
        {"id": f"c{i}", "question": f"Q{i}?", "reference": "yes", "answer": "yes" if i < right else "no", **fields}
        for i in range(n)
    ]


def evaluate(program: Program, name: str, rows: list[dict[str, Any]], *more: str) -> str:
    path = program.write(f"{name}.jsonl", *rows)
    done = program("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=exact_match", *more)
    assert done.returncode == 0, done.stderr
    return str(program.latest)


@pytest.fixture
def two(program: Program) -> tuple[str, str]:
    """A run that is right 2 times of 12, and one that is right 11 times of 13, the last case being its own."""
    return evaluate(program, "a", cases(2)), evaluate(program, "b", cases(11, 13))


def test_two_runs(program: Program, two: tuple[str, str]) -> None:
    done = program("compare", *two)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("b.jsonl is better than a.jsonl: ")
    assert f"A  Recorded answers in a.jsonl, {Path(two[0]).name}" in done.stdout
    [row] = [line for line in done.stdout.splitlines() if line.startswith(" exact_match")]
    assert row.split()[-1] == "better"
    assert len(row) <= 80
    assert "12 cases compared; left out: 1 only in B" in done.stdout
    assert "family of 1 comparison, p-values adjusted together by Holm" in done.stdout
    assert "0 from pass to fail, 9 from fail to pass\n" in done.stdout
    assert "got worse" not in done.stdout  # which only listed cases would show
    page = (Path(two[1]) / "compare.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("<figure>") == 1
    assert "Q3?" in page

    backwards = json.loads(program("compare", two[1], two[0], "--margin", "0.1", "--json").stdout)
    [row] = backwards["rows"]
    assert (row["n"], row["verdict"], row["method"], row["not_worse"]) == (12, "worse", "newcombe_mcnemar", False)
    assert row["difference"] == pytest.approx(-0.75)
    assert row["p_value"] == pytest.approx(2 / 2**9)
    assert {
        "dataset",
        "metric",
        "statistic",
        "judge",
        "value_a",
        "value_b",
        "ci_low",
        "ci_high",
        "p_adjusted",
        "detectable_difference",
    } <= set(row)
    assert backwards["family"] == {"size": 1, "adjust": "holm", "level": 0.05, "test_order": {}}
    assert backwards["flips"][0]["worsened"] == 9
    assert backwards["flips"][0]["cases"][0]["change"] == -1


def test_labels_in_both_runs_correct_the_difference(program: Program, two: tuple[str, str]) -> None:
    """The metric finds B better in 30 of 40 cases; people found all but the first of each run's answers right."""
    runs = [evaluate(program, name, cases(right, 40)) for name, right in (("a", 5), ("b", 35))]
    labelled = [i for i in range(40) if i % 4 != 3]
    people = [{"case_id": f"c{i}", "metric": "exact_match", "value": i > 0, "by": "ann"} for i in labelled]
    program.write("labels.jsonl", *people)
    done = program("compare", *runs, "--labels", "labels.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    assert (row["n"], row["n_labels"], row["verdict"]) == (30, 30, "cannot_tell")
    assert row["judged"]["difference"] == pytest.approx(0.75)
    text = program("compare", *runs, "--labels", "labels.jsonl").stdout
    assert "corrected by the labels of 30 cases in each run; the metric alone says +0.750" in " ".join(text.split())
    [alone] = json.loads(program("compare", *runs, "--judge-alone", "--json").stdout)["rows"]
    assert (alone["verdict"], alone["judged"], alone["n_labels"]) == ("better", None, 0)
    yes = hashlib.sha256(b"yes").hexdigest()[:16]
    seen = [{**one, "answer_hash": yes if i < 5 else "0" * 16} for i, one in zip(labelled, people, strict=True)]
    program.write("neither.jsonl", *seen)
    told = " ".join(program("compare", *runs, "--labels", "neither.jsonl").stdout.split())
    assert "at least 22 labels of other answers than those of either run, and left out" in told
    program.write("later.jsonl", *({**people[i], "answer_hash": yes} for i in range(5, 25)))
    told = " ".join(program("compare", *runs, "--labels", "later.jsonl").stdout.split())
    assert "no label is of its answers (20 labels are of other answers than the ones scored here" in told
    assert "label the same cases there: python -m evalflow calibrate" in told
    refused = program("compare", *runs, "--labels", "labels.jsonl", "--judge-alone")
    assert refused.returncode == 2
    assert "leave out --labels or --judge-alone" in refused.stderr
    program.write("few.jsonl", *people[::6])
    told = " ".join(program("compare", *runs, "--labels", "few.jsonl").stdout.split())
    why = "labels of 5 cases in each run correct nothing: fewer than 15 labels; 15 would do"
    assert told.count(why) == 1


def test_a_sample_is_adjusted_by_the_scores_of_a_full_run(program: Program) -> None:
    """The sample's cases are harder or easier than all, which the full run's scores of the others show."""
    rng = random.Random(2)
    right = [rng.random() < 0.7 for _ in range(400)]
    again = [one if rng.random() < 0.9 else not one for one in right]

    def rows(given: list[bool]) -> list[dict[str, Any]]:
        return [row | {"answer": "yes" if one else "no"} for row, one in zip(cases(0, len(given)), given, strict=True)]

    a, b = evaluate(program, "a", rows(right)), evaluate(program, "b", rows(again), "sample=80")
    document = json.loads(program("compare", a, b, "--json").stdout)
    [one] = document["adjusted_means"]
    assert (one["n"], one["n_other"], one["metric"]) == (80, 320, "exact_match")
    adjusted = one["adjusted"]
    assert adjusted["method"] == "ppi_crossfit_t"
    assert adjusted["ci_high"] - adjusted["ci_low"] < 0.85 * (one["ci_high"] - one["ci_low"])
    assert adjusted["ci_low"] < sum(again) / 400 < adjusted["ci_high"]
    assert one["cases_saved"] > 40
    [note] = [note for note in document["notes"] if "adjusted by" in note]
    assert f"by its 80 cases alone {one['mean']:.3f}" in note
    assert f"{one['cases_saved']} more cases would make it as narrow" in note
    # The row of the comparison itself is not changed.
    [row] = document["rows"]
    assert (row["value_b"], row["method"]) == (one["mean"], "newcombe_mcnemar")
    first = evaluate(program, "b", rows(again), "limit=80")
    for other in (json.loads(program("compare", *pair, "--json").stdout) for pair in ((a, first), (b, a))):
        assert other["adjusted_means"] == []


def test_an_order_of_tests_is_declared_with_the_metric(program: Program, two: tuple[str, str]) -> None:
    wrong = program("check", "dataset=rag", "metric=exact_match", "+metric.exact_match.test_order=[mean,mean]")
    assert wrong.returncode == 2
    assert "test_order names mean and pass_rate, each once" in wrong.stderr
    declared = evaluate(program, "b", cases(11), "+metric.exact_match.test_order=[mean,pass_rate]")
    document = json.loads(program("compare", two[0], declared, "--json").stdout)
    assert document["family"]["test_order"] == {}  # the other run does not declare it, and both rows are one
    assert document["rows"][0]["verdict"] == "better"


def test_one_run_is_held_against_the_latest(program: Program, two: tuple[str, str]) -> None:
    document = json.loads(program("compare", two[0], "--json").stdout)
    assert list(document["runs"]) == [Path(run).name for run in two]
    assert [run["judges"] for run in document["runs"].values()] == [["judge: none (no metric needs one)"]] * 2


def test_what_cannot_be_compared_is_refused_unless_allowed(program: Program, two: tuple[str, str]) -> None:
    changed = evaluate(program, "c", [row | {"reference": "no"} for row in cases(2)])
    refused = program("compare", two[0], changed)
    assert refused.returncode == 2
    assert "12 cases have another question, reference or expected value under the same id (c0, c1, c2" in refused.stderr
    assert "--allow cases" in refused.stderr
    allowed = program("compare", two[0], changed, "--allow", "cases")
    assert allowed.returncode == 0
    assert "compared anyway, as allowed" in allowed.stdout


def test_other_versions_prompts_and_judges_are_named_together(program: Program, two: tuple[str, str]) -> None:
    manifest = json.loads((Path(two[1]) / "run.json").read_text())
    manifest["metrics"]["exact_match"] |= {"prompt_sha256": "other", "judge": "j"}
    manifest["judges"] = {"j": {"identity": "i", "nature": "an LLM", "calibrated": True}}
    manifest["config"]["metric"]["exact_match"]["combine"] = "any"
    (Path(two[1]) / "run.json").write_text(json.dumps(manifest))
    refused = program("compare", *two)
    assert refused.returncode == 2
    for word in ("metric", "prompt", "judge"):
        assert f"--allow {word}" in refused.stderr
    assert "has other settings: combine" in refused.stderr
    assert program("compare", *two, "--allow", "metric", "--allow", "prompt", "--allow", "judge").returncode == 0


def earlier(run: str, day: int) -> str:
    """Give a run's folder the name of an earlier day: those of one second are in no order."""
    return str(Path(run).rename(Path(run).with_name(f"2020-01-0{day}T00-00-00Z_run")))


def test_runs_that_are_none(program: Program, two: tuple[str, str]) -> None:
    two = (earlier(two[0], 1), two[1])
    both = " ".join(f"outputs/runs/{Path(one).name}" for one in two)
    one = program("compare", two[1]).stderr
    assert "this is one run, not two" in one
    refused = program("compare").stderr
    assert "name a second run to compare with" in refused
    earliest = program("compare", two[0], two[0]).stderr
    for text, which in ((one, "an earlier one"), (refused, "an earlier one"), (earliest, "a later one")):
        assert f"with {which}: " in text
        assert text.rstrip().endswith(f"compare {both}"), "the earlier run is A"
    assert program("compare", *both.split()).returncode == 0
    assert "this is not a folder of a run" in program("compare", two[0], "nowhere").stderr
    assert "3 runs" in program("compare", *two, two[0]).stderr
    for margin in ("-1", "5e-324", "nan", "inf"):
        assert "say how much worse is acceptable" in program("compare", *two, f"--margin={margin}").stderr
    (Path(two[0]) / "scores.parquet").rename(Path(two[0]) / "gone")
    assert "ended before its tables were written" in program("compare", *two).stderr
    other = json.loads((Path(two[0]) / "run.json").read_text()) | {"schema": 0}
    (Path(two[0]) / "run.json").write_text(json.dumps(other))
    done = program("compare", *two)
    assert done.returncode == 2
    assert "written by another version of evalflow" in done.stderr
    (Path(two[0]) / "run.json").write_text("{")
    done = program("compare", *two)
    assert done.returncode == 2
    assert "run.json is damaged" in done.stderr


def test_runs_of_several_datasets_are_compared_if_they_share_one(program: Program, two: tuple[str, str]) -> None:
    def named(*names: str) -> str:
        """A run of these datasets, as its run.json has them."""
        folder = Path(evaluate(program, "c", cases(3)))
        manifest = json.loads((folder / "run.json").read_text())
        [facts] = manifest["datasets"].values()
        (folder / "run.json").write_text(json.dumps(manifest | {"datasets": dict.fromkeys(names, facts)}))
        return str(folder)

    two = (earlier(two[0], 1), earlier(two[1], 2))
    shared = named(*json.loads((Path(two[1]) / "run.json").read_text())["datasets"], "x")
    assert "with an earlier one: " in program("compare", shared).stderr
    for folder in Path(two[0]).parent.iterdir():
        (folder / "run.json").rename(folder / "kept.json")
    named("p", "q")
    told = program("compare", named("r", "s")).stderr
    assert "--unpaired" not in told, "which would fail"
    assert "name the folder of another run" in told


def test_no_case_in_common(program: Program, two: tuple[str, str]) -> None:
    other = evaluate(program, "c", [row | {"id": f"x{row['id']}"} for row in cases(2)])
    done = program("compare", two[0], other)
    assert done.returncode == 2
    assert "no scored case in common" in done.stderr
    both = " ".join(f"outputs/runs/{Path(one).name}" for one in (two[0], other))
    assert f"compare {both} --unpaired" in done.stderr
    assert program("compare", *both.split(), "--unpaired").returncode == 0
    done = program("compare", two[0], other, "--unpaired", "--margin", "0.5")
    assert done.returncode == 0, done.stderr
    assert "Newcombe and Fisher, unpaired: 12 against 12 cases" in done.stdout
    assert "from pass to fail" not in done.stdout
    assert "not worse by more than 0.5" in done.stdout
    page = (Path(other) / "compare.html").read_text(encoding="utf-8")
    assert "two samples of different cases" in page
    assert "Cases that changed" not in page
    document = json.loads(program("compare", *two, "--unpaired", "--json").stdout)
    assert (document["paired"], document["flips"], document["rows"][0]["n"]) == (False, [], 25)
    assert "12 cases are in both runs" in document["notes"][0]


def test_the_same_cases_under_two_names_are_compared_as_the_hint_says(program: Program) -> None:
    for name, right in (("a", 12), ("b", 3)):
        program.write(f"{name}.jsonl", *({**row, "id": None} for row in cases(right)))
        assert program("new", "dataset", name, "--path", f"{name}.jsonl").returncode == 0
        assert program(f"dataset={name}", "metric=exact_match").returncode == 0
    folders = sorted((program.folder / "outputs" / "runs").iterdir())
    refused = program("compare", str(folders[0]))
    [hint] = re.findall(r"give it that name: python -m evalflow (.*?);", refused.stderr)
    assert program(*shlex.split(hint)).returncode == 0
    done = program("compare", str(folders[0]))
    assert done.returncode == 0, done.stderr
    assert "12 cases" in done.stdout


def test_cases_that_ask_the_same_are_paired_by_their_contexts_and_said_to_be_uncertain(program: Program) -> None:
    rows = [
        {"question": "Summarise the text.", "reference": "yes", "answer": "no", "contexts": [f"text {i}"]}
        for i in range(8)
    ]
    before = evaluate(program, "a", rows)
    after = evaluate(program, "b", [{**row, "answer": "yes"} for row in rows[1:]])
    done = json.loads(program("compare", before, after, "--json").stdout)
    assert (done["flips"][0]["improved"], done["flips"][0]["worsened"]) == (7, 0)
    assert any("6 cases without an id ask the same as others" in note for note in done["notes"])
    again = json.loads(program("compare", before, evaluate(program, "a", rows), "--json").stdout)
    assert not any("without an id" in note for note in again["notes"])


def test_runs_without_a_score_are_not_sent_to_other_samples(program: Program) -> None:
    program.write("mine.jsonl", {"id": "c0", "question": "Q?", "answer": "A."})
    runs: list[str] = []
    with Endpoint(lambda _: "no JSON") as endpoint:
        for _ in range(2):
            done = program(
                "dataset=rag",
                "dataset.rag.path=mine.jsonl",
                "dataset.rag.fields=null",
                "metric=coherence",
                *judge_arguments(endpoint.url),
            )
            assert done.returncode == 3, done.stderr
            runs.append(str(program.latest))
    done = program("compare", *runs)
    assert done.returncode == 2
    assert "no scored case in common" in done.stderr
    assert re.search(r"python -m evalflow cases \S*outputs/runs/\S+ --failed", done.stderr)


def test_every_pair_of_a_sweep(program: Program) -> None:
    for name, right in (("a", 1), ("b", 5), ("c", 12)):
        program.write(f"{name}.jsonl", *cases(right))
    done = program(
        "-m", "dataset=rag", "dataset.rag.path=a.jsonl,b.jsonl,c.jsonl", "dataset.rag.fields=null", "metric=exact_match"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(program("compare", "--json").stdout)
    assert [(row["run_a"][0], row["run_b"][0]) for row in document["rows"]] == [("0", "1"), ("0", "2"), ("1", "2")]
    assert document["family"]["size"] == 3
    assert document["rows"][1]["verdict"] == "better"
    assert document["rows"][1]["p_adjusted"] > document["rows"][1]["p_value"]
    done = program("compare", "outputs/latest", "--adjust", "bh")
    assert "Benjamini-Hochberg" in done.stdout
    assert (program.latest / "compare.html").read_text(encoding="utf-8").count("<figure>") == 3
    for job in list(program.latest.glob("[12]_*")):
        (job / "scores.parquet").unlink()
    assert "fewer than two runs" in program("compare").stderr


def test_judges_of_the_same_answers_are_compared_unasked_and_neither_is_better(program: Program) -> None:
    grades = {f"A{i}.": 1 + i % 5 for i in range(40)}
    rows = [
        {"id": f"c{i}", "question": "Q?", "answer": f"A{i}.", "labels": {"coherence": [{"value": grade, "by": "ann"}]}}
        for i, grade in enumerate(grades.values())
    ]
    path = program.write("mine.jsonl", *rows)
    data = (
        "dataset=rag",
        f"dataset.rag.path={path}",
        "dataset.rag.fields=null",
        "metric=coherence",
        "dataset.rag.labels_of=answer",
    )

    def answer(prompt: str, *, kind: bool) -> str:
        grade = next(grade for text, grade in grades.items() if text in prompt)
        return json.dumps({"reason": "r", "score": max(grade, 4) if kind else grade})

    runs: list[str] = []
    for kind, model in ((False, "strict"), (True, "kind")):
        with Endpoint(lambda request, kind=kind: answer(request.text, kind=kind)) as endpoint:
            done = program(*data, *judge_arguments(endpoint.url), f"judge.model={model}")
            assert done.returncode == 0, done.stderr
            runs.append(str(program.latest))
    done = program("compare", *runs)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert said.startswith("Same answers, another judge: agreement with labels 1.00 before, 0.")
    assert "coherence than before" in said
    assert "better" not in said
    page = (Path(runs[1]) / "compare.html").read_text(encoding="utf-8")
    section = page[page.index("Agreement with labels, before and after") : page.index('id="differences"')]
    assert "openai:strict → openai:kind" in section
    assert "p-values adjusted together" in page[page.index('class="appendix"') :]
    document = json.loads(program("compare", *runs, "--margin", "0.1", "--json").stdout)
    assert {row["verdict"] for row in document["rows"]} == {"higher"}
    assert {row["attribution"] for row in document["rows"]} == {"judge"}
    assert {row["not_worse"] for row in document["rows"]} == {None}
    [changed] = document["changed"]
    [judge] = changed["parts"]
    assert {"name": "model", "before": "strict", "after": "kind"} in judge["values"]
    assert (changed["answers"], changed["other_answers"], changed["agreement"][0]["n_labels"]) == (40, 0, 40)
    for file in ("compare.md", "compare.html"):
        page = (Path(runs[1]) / file).read_text(encoding="utf-8")
        assert "Same answers, another judge: agreement with labels" in page
        assert "B is better" not in page


def test_runs_of_different_metrics_are_not_sent_to_other_samples(program: Program) -> None:
    runs: list[str] = []
    for metric in ("exact_match", "answer_words"):
        assert program("dataset=rag", f"metric={metric}", "limit=3").returncode == 0
        runs.append(str(program.latest))
    done = program("compare", *runs)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "the runs have no metric in common: " in said
    assert "has exact_match and " in said
    assert "hint: score both by the same metric" in said
