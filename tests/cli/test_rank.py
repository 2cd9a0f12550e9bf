"""`rank`: several runs in order, what it says of their ranks, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments
from tests.cli.test_compare import cases, evaluate


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def sweep(program: Program) -> Path:
    """Three runs, right in 2, 19 and 20 of 20 cases."""
    for name, right in (("a", 2), ("b", 19), ("c", 20)):
        program.write(f"{name}.jsonl", *cases(right, 20))
    done = program(
        "-m", "dataset=rag", "dataset.rag.path=a.jsonl,b.jsonl,c.jsonl", "dataset.rag.fields=null", "metric=exact_match"
    )
    assert done.returncode == 0, done.stderr
    return program.latest


def test_a_sweep(program: Program, sweep: Path) -> None:
    done = program("rank")
    assert done.returncode == 0, done.stderr
    assert "exact_match · mean · rag" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "─" in line)
    assert "The best is one of 2_dataset.rag.path=c.jsonl, 1_dataset.rag.path=b.jsonl." in done.stdout
    assert "2_dataset.rag.path=c.jsonl is among the first 2." in done.stdout
    assert "20 cases; ranks hold together with 95 % confidence; largest difference (max-t)" in done.stdout
    page = (sweep / "rank.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("<figure>") == 1

    document = json.loads(program("rank", str(sweep), "--pairwise", "--json").stdout)
    mean, pairs = document["rankings"]
    assert (mean["by"], mean["n"], mean["method"], mean["confidence"]) == ("mean", 20, "max_t", 0.95)
    assert [(row["run"][0], row["rank"], row["rank_low"], row["rank_high"]) for row in mean["rows"]] == [
        ("2", 1, 1, 2),
        ("1", 2, 1, 2),
        ("0", 3, 3, 3),
    ]
    assert [row["value"] for row in mean["rows"]] == [1.0, 0.95, 0.1]
    assert mean["rows"][1]["ci_low"] < 0.95 < mean["rows"][1]["ci_high"]
    with (sweep / "rank.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank_high"] for row in rows if row["by"] == "mean"] == ["2", "2", "3"]
    assert (pairs["by"], pairs["method"]) == ("pairs", "davidson_max_t")
    assert pairs["notes"] == ["60 comparisons, 24 of them ties"]
    assert sum(row["value"] for row in pairs["rows"]) == pytest.approx(0)
    assert [row["run"][0] for row in pairs["rows"]] == ["2", "1", "0"]


def test_only_judges_of_ranked_metrics_are_named_and_titles_are_on_the_page(program: Program) -> None:
    grade = {"kind": "rubric", "title": "Tone of voice", "needs": ["answer"], "prompt": "tone.jinja"}
    for folder in ("prompts", "conf/metric"):
        (program.folder / folder).mkdir(parents=True)
    (program.folder / "prompts/tone.jinja").write_text("Grade it.\n{{ answer | fenced('answer') }}", encoding="utf-8")
    metric = "# @package metric.tone\n" + json.dumps({**grade, "scale": {"type": "boolean"}, "threshold": 1})
    (program.folder / "conf/metric/tone.yaml").write_text(metric, encoding="utf-8")
    program.write("cases.jsonl", *cases(3, 12))
    titled, other = "+metric.exact_match.title=Word for word", ["metric.exact_match.threshold=0"]
    with Endpoint(lambda _: {"reason": "so", "score": True}) as endpoint:
        for name, limit in {"one": [], "two": [], "three": other}.items():
            data = ("dataset=rag", "dataset.rag.path=cases.jsonl", "dataset.rag.fields=null")
            words = (*data, "metric=[tone,exact_match]", titled, f"hydra.run.dir=runs/{name}", *limit)
            done = program(*words, *judge_arguments(endpoint.url))
            assert done.returncode == 0, done.stderr
    same, page = ("rank", "runs/one", "runs/two"), program.folder / "runs/two/rank.html"
    alone = program(*same, "--metric", "exact_match")
    assert "judge: none (no metric needs one)" in alone.stdout
    whole = program(*same, "--metric", "cases")
    assert "judge: openai:scripted" in whole.stdout
    assert "cases that pass everything · rag" in whole.stdout
    every = program(*same)
    assert "tone · mean · rag" in every.stdout
    assert "Tone of voice · mean · rag" in page.read_text(encoding="utf-8")
    assert program("compare", *same[1:]).returncode == 0
    compared = (program.folder / "runs/two/compare.html").read_text(encoding="utf-8")
    assert "Tone of voice</" in compared
    assert "cases that pass everything" in compared
    assert program("compare", "runs/one", "runs/three").returncode == 0
    compared = (program.folder / "runs/three/compare.html").read_text(encoding="utf-8")
    assert ">Word for word</" in compared
    assert ">exact_match<" not in compared

    document = json.loads(program("rank", "runs/one", "runs/three", "--json").stdout)
    found = {(one["metric"], one["by"]): one for one in document["rankings"]}
    assert found["exact_match", "pass_rate"]["attribution"] == "judge"
    assert found["cases", "pass_rate"]["attribution"] == "judge"
    sentences = found["exact_match", "pass_rate"]["sentences"]
    about = "This is about how the same answers were judged, not about the bots."
    assert sentences == ["three is the highest.", about]


def test_strengths_that_the_pairs_do_not_determine(program: Program) -> None:
    runs = [evaluate(program, name, cases(right)) for name, right in (("a", 0), ("b", 12))]
    document = json.loads(program("rank", *runs, "--pairwise", "--json").stdout)
    assert [one["by"] for one in document["rankings"]] == ["mean"]
    [note] = document["notes"]
    assert "no strengths from pairs of scores" in note
    assert note.endswith(f"{Path(runs[1]).name} never lost; {Path(runs[0]).name} never won")


@pytest.mark.slow
def test_cases_that_only_some_scored_are_left_out_and_counted(program: Program) -> None:
    runs = [evaluate(program, name, cases(right, n)) for name, right, n in (("a", 4, 12), ("b", 9, 12), ("c", 5, 7))]
    document = json.loads(program("rank", *runs, "--json").stdout)
    [ranking] = document["rankings"]
    assert ranking["n"] == 7
    assert sorted(row["n_left_out"] for row in ranking["rows"]) == [0, 5, 5]
    assert "ranked on the 7 cases that all runs scored" in document["notes"][0]
    others = [row | {"id": f"other{i}"} for i, row in enumerate(cases(5, 12))]
    apart = evaluate(program, "d", others)
    refused = program("rank", runs[0], apart)
    assert refused.returncode == 2
    assert "the runs share no scored case" in refused.stderr
    few = evaluate(program, "e", [*cases(2, 4), *others])
    refused = program("rank", runs[0], few)
    assert refused.returncode == 2
    assert "only 4 common cases, 33 % of those of" in refused.stderr


@pytest.mark.slow
def test_bad_input(program: Program) -> None:
    one, other = (evaluate(program, name, cases(right)) for name, right in (("a", 2), ("b", 11)))
    for words, said in (
        ((one,), "a ranking needs two runs or more"),
        ((one, other, one), "this run is named twice"),
        ((one, "nowhere"), "this is not a folder of a run"),
        (("outputs/runs/none*",), "no folder has such a name"),
        ((one, other, "--metric", "exact"), "no run has the metric 'exact'"),
    ):
        done = program("rank", *words)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert program("rank", "outputs/runs/*").returncode == 0
    copy = shutil.copytree(other, program.folder / "elsewhere" / Path(other).name)
    assert f"elsewhere/{copy.name}" in program("rank", other, str(copy)).stdout
    (copy / "scores.parquet").unlink()
    assert "the run ended before its tables were written" in program("rank", one, str(copy)).stderr
    changed = evaluate(program, "c", cases(3), "metric.exact_match.combine=any")
    done = program("rank", one, other, changed)
    assert done.returncode == 2
    assert "metric exact_match has other settings: combine" in done.stderr
    assert "to rank them anyway: --allow metric" in flat(done.stderr)
    allowed = program("rank", one, other, changed, "--allow", "metric")
    assert "ranked anyway, as allowed" in allowed.stdout


def test_verdicts_of_a_metric_that_compares_with_a_reference(program: Program) -> None:
    """A wins 6 of 20 pairs, B 13; the judge says `first` of three equal ones of each."""

    def script(request: Request) -> Any:
        text = request.text.partition("<first id=")[2]
        first, second = (int(part.partition("quality ")[2][:1]) for part in text.split("<second id="))
        return {"reason": "so", "better": "first" if first >= second else "second"}

    runs = []
    with Endpoint(script) as endpoint:
        for name, wins in (("a", 6), ("b", 13)):
            rows = [
                {
                    "id": f"c{i}",
                    "question": f"Q{i}?",
                    "reference": "It has quality 5.",
                    "answer": f"This one has quality {6 if i < wins else 5 if i < wins + 3 else 4}.",
                }
                for i in range(20)
            ]
            path = program.write(f"{name}.jsonl", *rows)
            done = program(
                "dataset=rag",
                f"dataset.rag.path={path}",
                "dataset.rag.fields=null",
                "metric=preference",
                *judge_arguments(endpoint.url),
            )
            assert done.returncode == 0, done.stderr
            runs.append(str(program.latest))
    document = json.loads(program("rank", *runs, "--json").stdout)
    mean, verdicts = document["rankings"]
    assert [row["value"] for row in mean["rows"]] == pytest.approx([14.5 / 20, 7.5 / 20])
    assert [row["run"] for row in verdicts["rows"]] == [Path(runs[1]).name, "reference", Path(runs[0]).name]
    assert verdicts["method"] == "davidson_max_t"
    told, position = verdicts["notes"]
    assert told == "40 comparisons, 6 of them ties"
    assert position.startswith("position effect: the order decides 6 of 40 pairs; the answer read first wins +15.0 %")


def bots(program: Program, count: int) -> list[str]:
    """Runs of bots of which each is right on the cases up to its own; case c0 is turned round, c1 right for all."""
    runs = []
    for number in range(count):
        rows = cases(0, 24, tags=["Topic"])
        for place, row in enumerate(rows):
            right = place == 1 or place < 2 + number * 3 if place else number < count // 2
            row["answer"] = "yes" if right else "no"
        runs.append(evaluate(program, f"bot{number}", rows))
    return runs


@pytest.mark.slow
def test_items_and_a_short_set_that_runs(program: Program) -> None:
    runs = bots(program, 6)
    program.write(
        "labels.jsonl", *({"case_id": "c0", "metric": "exact_match", "value": True, "by": "ann", "target": "recorded"},)
    )
    done = program("rank", *runs, "--items", "--labels", "labels.jsonl", "--short", "8", "--out", "quick")
    assert done.returncode == 0, done.stderr
    said = flat(done.stdout)
    assert "16 of 24 cases separate the 6 runs; 1 pass in all of them, 7 fail in all of them." in said
    assert "Better runs score worse on 1 case; by chance alone it could be 0.4." in said
    assert "a wrong key is suspected in 0." in said
    assert "c0: 3 of 6 labelled answers scored against the label" in said
    assert "On runs that had no part in the choice, a mean is off by 0.0" in said
    with (Path(runs[-1]) / "items.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["case_id"]: row for row in csv.DictReader(file)}
    assert (rows["c0"]["kind"], rows["c1"]["kind"], rows["c5"]["kind"]) == ("reversed", "all_pass", "separates")
    page = (Path(runs[-1]) / "rank.html").read_text(encoding="utf-8")
    assert "Better runs score worse: a wrong key, or chance" in page
    assert "short set of 8 of 24 cases" in page

    [next_step] = [line for line in done.stdout.splitlines() if line.startswith("next")]
    assert next_step.split() == ["next", "python", "-m", "evalflow", "check", "dataset=quick", "metric=exact_match"]
    assert program("dataset=quick", "metric=exact_match").returncode == 0
    assert program.manifest["datasets"]["rag"]["cases"] == 8
    assert "8 cases compared" in program("compare", runs[0], str(program.latest)).stdout
    again = program("rank", *runs, "--short", "8", "--out", "quick")
    assert again.returncode == 2
    assert "there already is a dataset 'quick'" in again.stderr

    document = json.loads(program("rank", *runs[:3], "--items", "--short", "5", "--json").stdout)
    [table] = document["items"]
    assert table["counts"] == {"all_fail": 16, "separates": 6, "all_pass": 2}
    assert table["cases"][0]["discrimination"] is None
    assert "it needs 5 runs or more, and there are 3" in table["sentences"][1]
    assert (document["short"]["loss"], len(document["short"]["ids"])) == (None, 5)
    assert "this takes 4 runs or more" in document["short"]["sentence"]


@pytest.mark.slow
def test_short_sets_that_cannot_be(program: Program) -> None:
    one, other = (evaluate(program, name, cases(right)) for name, right in (("a", 2), ("b", 11)))
    for words, said in (
        (("--short", "12"), "choose from 1 to 11"),
        (("--short", "0"), "a short set of 0 out of 12 common cases"),
        (("--out", "quick"), "--out names a short set: give --short N"),
        (("--labels", "x.jsonl", "--judge-alone"), "--judge-alone uses no labels"),
        (("--short", "5", "--out", "Quick!"), "'Quick!' cannot be a name"),
        (("--short", "5", "--out", "rag"), "there already is a dataset 'rag'"),
        (("--items", "--labels", "x.jsonl"), "x.jsonl"),
    ):
        done = program("rank", one, other, *words)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_one_group_of_cases_tells_no_runs_apart(program: Program) -> None:
    runs = [evaluate(program, name, cases(right, group="g")) for name, right in (("a", 2), ("b", 11))]
    done = program("rank", *runs, "--pairwise")
    assert done.returncode == 0, done.stderr
    assert "No run can be told from another: each may have any rank from 1 to 2." in done.stdout
    assert "12 cases in 1 cluster; no ranks can be told apart: one cluster" in done.stdout
    assert "no strengths from pairs of scores" in done.stdout
