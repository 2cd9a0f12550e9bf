"""Runs whose gates are looked at before the end, and that end once these are decided."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from typing import Any

import pytest

from evalflow.app.core.rederive import facts_of_run
from evalflow.engine.folder import RunFolder
from evalflow.testing import Endpoint, Request, reply, status
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow
ANYTIME = "gate={exact_match: {mean: '>= 0.9', looks: anytime}}"
STOP = "stop=when_decided"


def words(program: Program, count: int = 1000, **changes: Any) -> list[str]:
    """A dataset of questions by number, without answers; the reference to all is `yes`."""
    rows = ({"id": f"c{i}", "question": f"Question {i}?", "reference": "yes", **changes} for i in range(count))
    path = program.write("mine.jsonl", *rows)
    return ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=exact_match"]


def live(url: str, *more: str) -> list[str]:
    bot = ["target.model=bot", f"target.base_url={url}", "target.api_key_env=null", "cache.mode=off", *more]
    return ["generate=true", "target=openai", *bot]


def right(per_hundred: int) -> Any:
    """A bot that is right in this many of a hundred questions, which ones being fixed."""

    def answer(request: Request) -> Any:
        number = int(request.text.rpartition("Question ")[2].partition("?")[0])
        return reply("yes" if number * 37 % 100 < per_hundred else "no")

    return answer


@pytest.mark.parametrize(("per_hundred", "code"), [(80, 1), (97, 0)])
def test_a_run_ends_once_its_gate_is_decided_and_says_what_was_not_asked(
    program: Program, per_hundred: int, code: int
) -> None:
    with Endpoint(right(per_hundred)) as endpoint:
        done = program(*words(program), *live(endpoint.url), ANYTIME, STOP)
        assert done.returncode == code, done.stderr
        count = endpoint.count
        assert count <= 300
        manifest = program.manifest
        assert (manifest["status"], manifest["stopped"], manifest["asked"]) == ("done", "decided", {"rag": count})
        assert manifest["order"] == {"shuffled": True, "seed": 0}
        assert manifest["scores"] == {"scored": count, "undefined": 0, "error": 0, "skipped": 0}
        note = f"not asked: {1000 - count} of 1,000 cases, as all gates were decided; means are over the {count} asked"
        page = (program.latest / "report.html").read_text(encoding="utf-8")
        for text in (done.stdout, page, (program.latest / "summary.md").read_text(encoding="utf-8")):
            assert f"{note} in random order" in text
            looked = re.search(r"looks at any time, after (\d+) of 1,000 cases, by the beta mixture", text)
            assert looked
            assert int(looked[1]) <= count  # those under way are finished
        with (program.latest / "results.csv").open(encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == count
        assert len((program.latest / "cases.jsonl").read_text(encoding="utf-8").splitlines()) == 1000

        resumed = program("resume")
        assert resumed.returncode == code, resumed.stderr
        assert f"it was decided after {count} of 1,000 cases, so no further case is asked" in resumed.stderr
        assert endpoint.count == count
        assert (program.manifest["stopped"], program.manifest["asked"]) == ("decided", {"rag": count})
    assert program("report").returncode == 0
    assert program.manifest["exit_code"] == code


def test_planned_looks_stop_at_their_cases_only(program: Program) -> None:
    with Endpoint(right(97)) as endpoint:
        gate = "gate={exact_match: {pass_rate: '>= 0.9', looks: 5}}"
        done = program(*words(program), *live(endpoint.url), gate, STOP)
        assert done.returncode == 0, done.stdout + done.stderr
        look = program.manifest["asked"]["rag"] // 200
        assert 1 <= look <= 4
        # The cases that were under way at the look are finished.
        assert program.manifest["asked"]["rag"] < 200 * look + 80
        assert f"look {look} of 5, after {200 * look} of 1,000 cases, by O'Brien-Fleming" in done.stdout


def test_looks_without_a_stop_ask_everything_in_random_order(program: Program) -> None:
    with Endpoint(right(97)) as endpoint:
        done = program(*words(program, 60), *live(endpoint.url), ANYTIME, "seed=3")
        assert done.returncode == 3, done.stderr
        assert endpoint.count == 60
        asked = [int(request.text.rpartition("Question ")[2].partition("?")[0]) for request in endpoint.requests]
        assert asked != sorted(asked)
    assert "cases were asked in random order (seed 3)" in done.stdout
    assert "gate undecided" in done.stdout
    assert "more cases may decide it" in done.stdout
    lines = (program.latest / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert ids == [f"c{i}" for i in range(60)]


def test_a_killed_run_goes_on_in_its_order_and_stops_where_it_would_have_stopped(program: Program) -> None:
    given = words(program)
    few = "target.concurrency.max=8"
    with Endpoint(right(97)) as endpoint:
        assert program(*given, *live(endpoint.url, few), ANYTIME, STOP).returncode == 0
        whole = program.manifest["asked"]["rag"]
    with Endpoint(_slow_after(60, right(97))) as endpoint:
        process = program.begin(*given, *live(endpoint.url, few), ANYTIME, STOP)
        while endpoint.count < 65:
            assert process.poll() is None
        process.kill()
        process.wait()
        before = endpoint.count
        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        asked = program.manifest["asked"]["rag"]
        assert abs(asked - whole) <= 16
        assert endpoint.count <= before + asked - 50
        assert program.manifest["stopped"] == "decided"
        assert f"means are over the {asked} asked in random order" in resumed.stdout


def _slow_after(free: int, answer: Any) -> Any:
    """The answers, each after 0.1 s once this many were given."""
    left = [free]

    async def script(request: Request) -> Any:
        left[0] -= 1
        await asyncio.sleep(0.1 if left[0] < 0 else 0)
        return answer(request)

    return script


def test_a_stop_needs_looks_at_every_gate(program: Program) -> None:
    given = words(program, 3, answer="yes")
    lacking = "gate={exact_match: {mean: '>= 0.9', looks: 5}, exact_match@A: {mean: '>= 0.1'}}"
    done = program("check", *given, STOP, lacking)
    assert done.returncode == 2, done.stdout
    assert "gate.exact_match@A.mean: this gate is only decided at the end, but the run would stop before" in done.stderr
    done = program("check", *given, "stop=soon", "gate={exact_match: {mean: '>= 0.9', looks: 1}}")
    assert done.returncode == 2
    assert "when_decided" in done.stderr


def test_the_hint_for_a_stop_works_as_printed(program: Program) -> None:
    given = words(program, 3, answer="yes")
    printed = program("check", *given, STOP).stderr.rpartition("to one: '")[2].partition("'\n")[0]
    done = program("check", *given, STOP, printed, "--json")
    assert json.loads(done.stdout)["gates"] == ["exact_match mean >= 0.8, looks: anytime"]


def test_looks_cannot_be_changed_after_the_run_but_a_limit_can(program: Program) -> None:
    given = words(program, 60, answer="yes")
    assert program(*given, "gate={exact_match: {mean: '>= 0.5'}}").returncode == 0
    changed = program("report", ANYTIME)
    assert changed.returncode == 2
    assert "looks cannot be changed after a run's first case" in changed.stderr
    assert program(*given, "gate={exact_match: {mean: '>= 0.5', looks: anytime}}").returncode == 0
    assert program("report", "gate={exact_match: {mean: '>= 0.5', looks: 5}}").returncode == 2
    assert program("report", "gate={exact_match: {mean: '>= 0.99', looks: anytime}}").returncode == 0
    assert program.manifest["exit_code"] == 3
    assert program("resume", "stop=when_decided").returncode == 2


def test_composites_have_no_looks(program: Program) -> None:
    given = [*words(program, 3, answer="yes")[:-1], "metric=[exact_match,coherence,both]"]
    path = program.folder / "conf/metric"
    path.mkdir(parents=True)
    text = "# @package metric.both\nkind: composite\nof: {exact_match: 1, coherence: 1}\n"
    (path / "both.yaml").write_text(text, encoding="utf-8")
    done = program("check", *given, "gate={both: {mean: '>= 0.9', looks: anytime}}")
    assert done.returncode == 2
    assert "both is computed once the run has ended" in done.stderr


def test_a_run_that_is_extended_without_looks_says_that_another_look_raises_the_error(program: Program) -> None:
    given, gate = words(program, 60), "gate={exact_match: {mean: '>= 0.9'}}"
    with Endpoint(right(97)) as endpoint:
        bot = [word for word in live(endpoint.url) if word != "cache.mode=off"]
        first = program(*given, *bot, gate, "sample=20")
        second = program(*given, *bot, gate, "sample=40")
        assert endpoint.count == 40
    assert "raises the error" not in first.stdout
    assert "20 replies are from earlier runs: if this extends a smaller sample that was looked at" in second.stdout


def test_a_gate_is_undecided_while_errors_could_turn_it(program: Program) -> None:
    """One in nine cases fails: if their answers were wrong, fewer than 90 % would be right."""
    answer, failing = right(97), [True]

    def script(request: Request) -> Any:
        return status(400) if failing[0] and "Question 7" in request.text else answer(request)

    with Endpoint(script) as endpoint:
        done = program(*words(program), *live(endpoint.url), ANYTIME, STOP, "max_error_rate=0.5")
        assert done.returncode == 3, done.stdout + done.stderr
        said = " ".join(done.stdout.split())
        assert "111 cases in error could turn it; ask them again: python -m evalflow resume outputs/" in said
        failing[0] = False
        assert program("resume", "--retry-errors").returncode == 0
    assert program.manifest["scores"] == {"scored": 1000, "undefined": 0, "error": 0, "skipped": 0}


def test_errors_of_a_stopped_run_are_asked_again_and_no_further_case(program: Program) -> None:
    answer, failing = right(97), [True]

    def script(request: Request) -> Any:
        fails = "Question 7" in request.text and "5?" in request.text
        return status(400) if failing[0] and fails else answer(request)

    with Endpoint(script) as endpoint:
        done = program(*words(program), *live(endpoint.url), ANYTIME, STOP, "max_error_rate=0.5")
        assert done.returncode == 0, done.stdout + done.stderr
        asked, errors = program.manifest["asked"], program.manifest["scores"]["error"]
        assert errors > 0
        failing[0], before = False, endpoint.count
        again = program("resume", "--retry-errors")
        assert again.returncode == 0, again.stderr
        assert endpoint.count - before == errors
    assert (program.manifest["asked"], program.manifest["stopped"]) == (asked, "decided")
    assert program.manifest["scores"]["error"] == 0
    facts = facts_of_run(RunFolder(program.latest))
    assert facts["asked"] == asked
    assert facts["sampling"][0].startswith(f"not asked: {1000 - asked['rag']} of 1,000 cases")
    assert [(gate["looks"], gate["passed"], gate["method"]) for gate in facts["gates"]] == [
        ("anytime", True, "beta_mixture")
    ]


def test_groups_count_whole_in_a_run_that_stops(program: Program) -> None:
    rows = [
        {"id": f"c{i}", "question": f"Question {i}?", "reference": "yes", "answer": "yes", "group": f"g{i // 4}"}
        for i in range(400)
    ]
    given = ["dataset=rag", f"dataset.rag.path={program.write('mine.jsonl', *rows)}", "dataset.rag.fields=null"]
    gate = "gate={exact_match: {pass_rate: '>= 0.8', looks: anytime}}"
    done = program(*given, "metric=exact_match", gate, STOP, "seed=5")
    assert done.returncode == 0, done.stdout + done.stderr
    (gate_row,) = facts_of_run(RunFolder(program.latest))["gates"]
    assert gate_row["method"] == "cluster_betting"
    assert program.manifest["asked"]["rag"] < 400


def test_the_summary_of_a_stopped_run_has_the_numbers_of_its_looks(program: Program) -> None:
    with Endpoint(right(97)) as endpoint:
        done = program(*words(program), *live(endpoint.url), ANYTIME, STOP)
    assert done.returncode == 0, done.stderr
    assert "means that gates looked at are adjusted for its bias" in done.stdout
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    [row] = [row for row in summary["rows"] if row["tag"] is None]
    assert row["ci_method"] == "beta_mixture"
    assert (row["value"], row["ci_low"]) == (row["pass_rate"], row["pass_rate_low"])
    assert row["ci_low"] < row["value"] < row["ci_high"]
    assert f"{row['value']:.4g} [{row['ci_low']:.4g}, {row['ci_high']:.4g}]" in done.stdout
    assert program("report").returncode == 0
    again = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    assert again["rows"] == summary["rows"]
    compared = program("compare", str(program.latest), str(program.latest))
    assert "better" not in compared.stdout.replace("lower is better", "")


def test_a_stopped_baseline_shows_no_more_than_its_comparison(program: Program) -> None:
    given = words(program, 200, answer="yes")
    assert program(*given, "gate={exact_match: {pass_rate: '>= 0.8', looks: anytime}}", STOP).returncode == 0
    before = program.latest.resolve()
    assert program.manifest["stopped"] == "decided"
    done = program(*given, f"baseline={before}", "gate={exact_match: {mean: {not_worse_by: 0.02}}}")
    assert done.returncode == 3, done.stderr
    (row,) = facts_of_run(RunFolder(program.latest))["gates"]
    assert (row["value"], row["ci_low"], row["passed"]) == (0, None, None)
    assert "no interval, stopped by looks; it decides nothing: run all cases, without a stop" in row["message"]
    compared = program("compare", str(before), str(program.latest.resolve()), "--json")
    (found,) = json.loads(compared.stdout)["rows"]
    assert (found["difference"], found["ci_low"], found["verdict"]) == (0, None, "cannot_tell")
