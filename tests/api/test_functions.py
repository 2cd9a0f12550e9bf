"""Runs, comparisons and calibrations from Python."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import evalflow
from evalflow.testing import Endpoint

pytestmark = pytest.mark.slow

CASES = [
    {"id": "a", "question": "one?", "answer": "1", "reference": "1"},
    {"id": "b", "question": "two?", "answer": "3", "reference": "2"},
]
asked: list[str] = []
holding, waiting = threading.Event(), threading.Event()


def bot(case: dict[str, Any]) -> dict[str, Any]:
    asked.append(case["id"])
    return {"answer": "1", "contexts": ["a page"]}


def patient(case: dict[str, Any]) -> str:
    """Answers the first case when the test says so."""
    asked.append(case["id"])
    waiting.set()
    holding.wait(60)
    return "1"


class Pandas:
    """What is used of a pandas frame, here one with the ids as its index."""

    columns = ("question", "answer", "reference", "note")
    index = SimpleNamespace(names=["id"])

    def reset_index(self, names: list[str]) -> Pandas:
        assert names == ["id"]
        return self

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return [{**CASES[0], "note": float("nan")}, {**CASES[1], "note": "kept"}]


class PandasWithTwins(Pandas):
    columns = ("question", "answer", "answer")


class ArrowWithTwins:
    """What is used of an Arrow table."""

    __module__ = "pyarrow.lib"
    schema = SimpleNamespace(names=["question", "answer", "answer"], types=["string", "float", "string"])

    def to_pylist(self) -> list[dict[str, Any]]:
        return [{"question": "q", "answer": "b"}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    asked.clear()
    holding.clear()
    waiting.clear()
    return tmp_path


@pytest.mark.parametrize("frame", [PandasWithTwins(), ArrowWithTwins()], ids=["pandas", "arrow"])
def test_a_frame_with_two_columns_of_one_name_is_refused(frame: Any) -> None:
    with pytest.raises(evalflow.UserError, match="the frame has the column 'answer' more than once"):
        evalflow.run("metric=exact_match", cases=frame)


@pytest.mark.parametrize(
    "cases", [CASES, pl.DataFrame(CASES), iter(CASES), Pandas()], ids=["list", "polars", "iterator", "pandas"]
)
def test_cases_may_be_a_frame_or_dictionaries(cases: Any, folder: Path) -> None:
    run = evalflow.run("metric=exact_match", cases=cases)
    assert run.cases["exact_match"].to_list() == [1.0, 0.0]
    assert run.cases["exact_match_passed"].to_list() == [True, False]
    assert run.summary.filter(pl.col("tag").is_null())["value"].to_list() == [0.5]
    assert run.scores["case_id"].to_list() == ["a", "b"]
    assert (run.passed, run.exit_code, run.cost_usd, run.notes) == (None, 0, 0.0, ())
    assert evalflow.load() == evalflow.load(run.folder) == evalflow.RunResult(run.folder)
    manifest = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    [data] = folder.glob(".evalflow/cases/*.jsonl")
    assert manifest["config"]["dataset"]["cases"]["path"] == str(data.relative_to(folder))


def test_cases_replace_the_data_of_the_chosen_dataset() -> None:
    rows = [{"id": "x", "question": "q", "llm_answer": "a", "ideal_answer": "a", "structured_contexts": ["c"]}]
    run = evalflow.run("dataset=rag", "metric=exact_match", cases=rows)
    row = run.cases.row(0, named=True)
    assert (row["dataset"], row["answer"], row["reference"], row["contexts"]) == ("rag", "a", "a", ["c"])


def test_a_case_that_is_not_scored_has_no_number() -> None:
    run = evalflow.run("metric=exact_match", cases=[CASES[0], {"id": "c", "question": "three?", "answer": "3"}])
    row = run.cases.row(1, named=True)
    assert row["exact_match"] is None
    assert row["exact_match_reason"].startswith("skipped: ")


def test_a_function_is_a_target() -> None:
    run = evalflow.run("metric=exact_match", cases=CASES, target=bot)
    assert sorted(asked) == ["a", "b"]
    assert run.cases["answer"].to_list() == ["1", "1"]
    assert run.cases["contexts"].to_list() == [["a page"], ["a page"]]
    [note] = [note for note in run.notes if "target.version" in note]
    assert "test_functions:bot in earlier runs are not reused" in note
    evalflow.run("metric=exact_match", cases=CASES, target=bot)
    assert len(asked) == 4, "code can change without a trace"
    for _ in range(2):
        evalflow.run("metric=exact_match", "target.version=1", cases=CASES, target=bot)
    assert len(asked) == 6, "the second run of a version reads the cache"


@pytest.mark.parametrize(
    ("arguments", "options", "what"),
    [
        (["dataset=rga", "metric=exact_match"], {}, "did you mean 'rag'?"),
        (["dataset=rag"], {}, "metric"),
        (["dataset=rag", "metric=exact_match", "-m"], {}, "call run() once for each"),
        (["dataset=rag", "metric=exact_match", "hydra.run.dir=x"], {}, "folder=..."),
        (["rag"], {}, "write KEY=VALUE"),
        (["metric=exact_match"], {"cases": "rag.jsonl"}, "expected a frame or a list of dictionaries, got str"),
        (["metric=exact_match"], {"cases": [1]}, "expected a frame or dictionaries, got int"),
        (["metric=exact_match"], {"cases": []}, "cases"),
        (["metric=exact_match", "dataset=[rag,retrieval]"], {"cases": CASES}, "cases are those of one dataset"),
        (["dataset=rag", "metric=exact_match"], {"config_dir": "nowhere"}, "nowhere is not a folder"),
    ],
)
def test_a_mistake_says_what_to_do_and_leaves_nothing(
    arguments: list[str], options: dict[str, Any], what: str, folder: Path
) -> None:
    with pytest.raises(evalflow.UserError) as error:
        evalflow.run(*arguments, **options)
    assert what in str(error.value)
    assert not (folder / "outputs").exists()


def test_a_failed_gate_is_no_error() -> None:
    run = evalflow.run("metric=exact_match", 'gate={exact_match: {mean: ">= 0.9", point: true}}', cases=CASES)
    assert (run.passed, run.exit_code) == (False, 1)


def test_a_run_out_of_budget_says_where_its_results_are(folder: Path) -> None:
    with Endpoint(models=["m"]) as endpoint:
        judge = ["judge=vllm", "judge.model=m", f"judge.base_url={endpoint.url}"]
        with pytest.raises(evalflow.BudgetError) as error:
            evalflow.run("dataset=rag", "metric=coherence", *judge, "budget.requests=2", folder="mine")
    [note] = error.value.__notes__
    assert note == "finished work is in mine; finish it: python -m evalflow resume mine"
    assert evalflow.load("mine").exit_code == 4
    assert not (folder / "outputs").exists()


def test_a_folder_with_a_run_is_kept() -> None:
    evalflow.run("metric=exact_match", cases=CASES, folder="mine")
    with pytest.raises(evalflow.UserError, match="already contains a run"):
        evalflow.run("metric=exact_match", cases=CASES, folder="mine")


def test_compare_and_calibrate_follow_the_command_line() -> None:
    cases = [{"id": str(i), "question": "q", "answer": "1" if i % 3 else "2", "reference": "1"} for i in range(30)]
    a = evalflow.run("metric=exact_match", cases=cases)
    b = evalflow.run("metric=exact_match", cases=cases, target=bot)
    found = evalflow.compare(a, b, margin=0.02)
    assert found.verdict("exact_match") == "better"
    assert found.rows["difference"].to_list() == [pytest.approx(1 / 3)]
    assert found.flips["case_id"].sort().to_list() == sorted(str(i) for i in range(0, 30, 3))
    assert found.report.path == b.folder / "compare.html"
    assert "<iframe srcdoc=" in found.report._repr_html_()
    assert "| exact_match | 0.667 |" in str(a)
    with pytest.raises(KeyError):
        found.verdict("faithfulness")
    labels = [{"case_id": str(i), "metric": "exact_match", "value": 1, "by": "ana"} for i in range(20)]
    agreement = evalflow.calibrate(a, pl.DataFrame(labels))
    row = agreement.rows.row(0, named=True)
    assert row["n_labels"] == 20
    assert row["human_mean"] == 1.0
    assert row["corrected_estimate"] > 0.9
    assert "| cases | exact_match | recorded |" in str(agreement)
    with pytest.raises(evalflow.UserError, match="zz"):
        evalflow.calibrate(a, [{**labels[0], "case_id": "zz"}])
    with pytest.raises(evalflow.UserError, match="this is one run, not two"):
        evalflow.compare(a, a.folder)
    with pytest.raises(evalflow.UserError, match="this is not a folder of a run"):
        evalflow.compare(a, "nowhere")


@pytest.mark.anyio
async def test_runs_go_on_beside_each_other_each_with_its_own_log() -> None:
    first = asyncio.create_task(evalflow.arun("metric=exact_match", cases=CASES, target=patient, folder="slow"))
    await asyncio.to_thread(waiting.wait, 60)
    second = await evalflow.arun("metric=exact_match", cases=CASES, folder="quick")
    assert not first.done()
    assert second.cases.height == 2
    holding.set()
    assert (await first).cases.height == 2
    assert logging.getLogger("evalflow").propagate


@pytest.mark.anyio
async def test_a_cancelled_run_finishes_what_is_under_way() -> None:
    cases = [{**CASES[0], "id": str(i)} for i in range(40)]
    limit = "target.concurrency.max=1"
    task = asyncio.create_task(evalflow.arun("metric=exact_match", limit, cases=cases, target=patient, folder="cut"))
    await asyncio.to_thread(waiting.wait, 60)
    task.cancel()
    holding.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    run = evalflow.load("cut")
    assert run.exit_code == 130
    assert 0 < run.scores.height < 40


@pytest.mark.anyio
async def test_run_works_within_an_event_loop() -> None:
    assert evalflow.run("metric=exact_match", cases=CASES, progress=True).cases.height == 2


@pytest.mark.parametrize(
    "loop", ["asyncio.run", "asyncio.new_event_loop().run_until_complete"], ids=["run", "notebook"]
)
def test_an_interrupt_within_an_event_loop_keeps_what_is_finished(loop: str, folder: Path) -> None:
    """The run has a thread of its own, and the signal reaches the main one; in a notebook as an exception."""
    bots = "import time\ndef bot(case):\n    print('asked', flush=True)\n    time.sleep(0.2)\n    return '1'\n"
    (folder / "bots.py").write_text(bots, encoding="utf-8")
    (folder / "book.py").write_text(
        "import asyncio, evalflow, bots\n"
        "async def cell():\n"
        "    cases = [{'id': str(i), 'question': 'q', 'reference': '1'} for i in range(400)]\n"
        "    limit = 'target.concurrency.max=1'\n"
        "    try:\n"
        "        evalflow.run('metric=exact_match', limit, cases=cases, target=bots.bot, folder='cut')\n"
        "    except KeyboardInterrupt as error:\n"
        "        print(error.__notes__)\n"
        f"{loop}(cell())\n",
        encoding="utf-8",
    )
    process = subprocess.Popen([sys.executable, "book.py"], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert "finish it: python -m evalflow resume cut" in out
    assert 0 < evalflow.load("cut").scores.height < 400


def test_the_package_has_its_public_names_and_no_others() -> None:
    for name in evalflow.__all__:
        assert getattr(evalflow, name).__module__.startswith("evalflow.")
    assert set(evalflow.__all__) <= set(dir(evalflow))
    with pytest.raises(AttributeError, match="no attribute 'evaluate'"):
        evalflow.evaluate  # type: ignore[attr-defined] # noqa: B018
