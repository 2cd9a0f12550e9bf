"""One run, from the command line to every file it writes."""

from __future__ import annotations

import csv
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from evalflow.cli import run_command
from evalflow.testing import Endpoint, Request, malformed, reply, status
from tests.cli.conftest import Program, faithful_judge, judge_arguments

FILES = {
    ".hydra",
    "run.json",
    "prepared.json",
    "answers.jsonl",
    "scores.jsonl",
    "cases.jsonl",
    "scores.parquet",
    "results.csv",
    "summary.parquet",
    "summary.csv",
    "summary.json",
    "report.html",
    "junit.xml",
    "evalflow.log",
    "summary.md",
}

CASES = (
    {
        "id": "c1",
        "question": "Q one?",
        "answer": "Alpha beta.",
        "contexts": ["alpha"],
        "tags": ["T > A"],
        "group": "g1",
    },
    {
        "id": "c2",
        "question": "Q two?",
        "answer": "Gamma delta.",
        "contexts": ["gamma"],
        "tags": ["T > B"],
        "group": "g1",
    },
    {"id": "c3", "question": "Q three?", "answer": "Epsilon.", "contexts": []},
    {"id": "c4", "question": "Q four?", "answer": "Zeta eta.", "contexts": ["zeta"]},
    {"id": "c5", "question": "Q five?", "contexts": ["theta"]},
)
CLAIMS = {
    "Alpha beta.": [("alpha", "supported"), ("beta", "contradicted")],
    "Gamma delta.": [("gamma", "supported")],
    "Epsilon.": [("epsilon", "supported")],  # of which nothing was retrieved, so that nobody is asked
    "Zeta eta.": [],
}


def scores_of(program: Program) -> pl.DataFrame:
    return pl.read_parquet(program.latest / "scores.parquet")


def test_a_run_writes_every_file_and_keeps_the_four_states_apart(program: Program) -> None:
    path = program.write("mine.jsonl", *CASES)
    with Endpoint(faithful_judge(CLAIMS)) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "metric=faithfulness",
            *judge_arguments(endpoint.url),
            "dataset.rag.fields=null",
        )
    assert done.returncode == 0, done.stderr
    assert {item.name for item in program.latest.iterdir()} == FILES

    scores = scores_of(program)
    assert scores["case_id"].to_list() == ["c1", "c2", "c3", "c4", "c5"]
    assert scores["status"].to_list() == ["scored", "scored", "scored", "undefined", "skipped"]
    assert scores["score"].to_list() == [0.5, 1.0, 0.0, None, None]
    assert scores["passed"].to_list() == [False, True, False, None, None]
    assert scores["judge"].unique().to_list() == ["openai:scripted"]

    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    row = next(row for row in summary["rows"] if row["statistic"] == "mean" and row["tag"] is None)
    assert (row["n"], row["n_scored"], row["n_undefined"], row["n_error"], row["n_skipped"]) == (5, 3, 1, 0, 1)
    assert row["value"] == 0.5
    assert (row["bound_low"], row["bound_high"]) == (1.5 / 4, 2.5 / 4)

    manifest = program.manifest
    assert manifest["status"] == "done"
    assert manifest["scores"] == {"scored": 3, "undefined": 1, "error": 0, "skipped": 1}
    assert manifest["requests"] == endpoint.count == 6
    assert manifest["cost_usd"] is None
    assert manifest["judges"]["openai:scripted"]["nature"] == "LLM scripted"


def test_results_are_readable_and_cases_load_again(program: Program) -> None:
    path = program.write("mine.jsonl", *CASES)
    with Endpoint(faithful_judge(CLAIMS)) as endpoint:
        judge = judge_arguments(endpoint.url)
        first = program(
            "dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=faithfulness", *judge
        )
        assert first.returncode == 0, first.stderr
        with (program.latest / "results.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [row["case_id"] for row in rows] == ["c1", "c2", "c3", "c4", "c5"]
        assert rows[0]["faithfulness"] == "0.5"
        assert "beta" in rows[0]["faithfulness_reason"]
        again = program(
            "dataset=rag",
            f"dataset.rag.path={program.latest / 'cases.jsonl'}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            *judge,
        )
    assert again.returncode == 0, again.stderr
    assert scores_of(program)["score"].to_list() == [0.5, 1.0, 0.0, None, None]


def test_an_error_is_a_state_and_makes_the_run_inconclusive(program: Program) -> None:
    path = program.write("mine.jsonl", *CASES[:2])

    def script(request: object) -> object:
        text = request.text  # type: ignore[attr-defined]
        return malformed() if "Alpha" in text else faithful_judge(CLAIMS)(request)  # type: ignore[arg-type]

    with Endpoint(script) as endpoint:
        arguments = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=faithfulness"]
        done = program(*arguments, *judge_arguments(endpoint.url))
        assert done.returncode == 3, done.stderr
        row = scores_of(program).row(0, named=True)
        assert (row["status"], row["score"], row["error_type"]) == ("error", None, "schema")
        assert json.loads(row["steps"])[-1]["raw"]
        tolerant = program(*arguments, *judge_arguments(endpoint.url), "max_error_rate=0.5")
    assert tolerant.returncode == 0, tolerant.stderr


def test_a_failed_generation_is_a_record_and_no_stop(program: Program) -> None:
    path = program.write("mine.jsonl", *({"id": f"c{i}", "question": f"Q{i}?", "reference": "yes"} for i in range(4)))

    def script(request: object) -> object:
        return status(400, message="no") if "Q2?" in request.text else reply("yes")  # type: ignore[attr-defined]

    with Endpoint(script) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=exact_match",
            "generate=true",
            "target=openai",
            "target.model=bot",
            f"target.base_url={endpoint.url}",
            "target.api_key_env=null",
        )
    assert done.returncode == 3, done.stderr
    assert scores_of(program)["status"].to_list() == ["scored", "scored", "error", "scored"]
    lines = (program.latest / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["status"] for line in lines) == ["answered", "answered", "answered", "error"]


@pytest.mark.parametrize(
    ("gate", "code"),
    [(">= 0.7", 0), (">= 0.9", 1), ("<= 0.75", 0), ("== 0.75", 0), ("> 0.75", 1)],
)
def test_a_gate_decides_the_exit_code(program: Program, gate: str, code: int) -> None:
    path = program.write("mine.jsonl", *CASES[:2])
    with Endpoint(faithful_judge(CLAIMS)) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            f"gate={{faithfulness: {{mean: '{gate}', point: true}}}}",
            *judge_arguments(endpoint.url),
        )
    assert done.returncode == code, done.stderr
    assert (program.latest / "junit.xml").read_text(encoding="utf-8").count("<failure") == 2 * code


def test_a_gate_on_what_did_not_run_is_refused(program: Program) -> None:
    done = program("dataset=rag", "metric=exact_match", "gate={faithfulness: {mean: '>= 0.7'}}")
    assert done.returncode == 2
    assert "faithfulness" in done.stderr
    assert not list(program.folder.glob("outputs/runs/*"))


def test_the_embedded_judge_gives_no_pass_or_fail_of_its_own(program: Program) -> None:
    done = program("dataset=rag", "metric=faithfulness", "limit=4")
    assert done.returncode == 0, done.stderr
    assert scores_of(program)["passed"].to_list() == [None] * 4
    assert scores_of(program)["path"].to_list() == ["weighted"] * 4
    assert "not an LLM" in done.stdout
    own = program("dataset=rag", "metric=faithfulness", "limit=4", "judge.thresholds={faithfulness: 0.6}")
    assert own.returncode == 0, own.stderr
    assert None not in scores_of(program)["passed"].to_list()


def test_what_the_embedded_judge_cannot_answer_is_refused_before_the_run(program: Program) -> None:
    done = program("dataset=rag", "metric=coherence")
    assert done.returncode == 2
    assert "not a language model" in done.stderr
    assert "judge=openai" in done.stderr
    assert not list(program.folder.glob("outputs/runs/*"))


def test_latest_points_to_the_newest_run(program: Program) -> None:
    for expected in (1, 2):
        assert program("dataset=rag", "metric=exact_match", "limit=2").returncode == 0
        runs = sorted((program.folder / "outputs" / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
        assert len(runs) == expected
        assert program.latest == runs[-1]


def test_limit_and_sample_choose_cases(program: Program) -> None:
    assert program("dataset=rag", "metric=exact_match", "limit=5").returncode == 0
    first = scores_of(program)["case_id"].to_list()
    assert program("dataset=rag", "metric=exact_match", "sample=5", "seed=1").returncode == 0
    drawn = scores_of(program)["case_id"].to_list()
    assert program("dataset=rag", "metric=exact_match", "sample=5", "seed=1").returncode == 0
    assert scores_of(program)["case_id"].to_list() == drawn
    assert len(first) == len(drawn) == 5
    assert set(first) != set(drawn)


def test_repeats_are_no_new_cases(program: Program) -> None:
    path = program.write("mine.jsonl", *CASES[:2])
    with Endpoint(faithful_judge(CLAIMS)) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            "repeats.judge=3",
            *judge_arguments(endpoint.url),
        )
    assert done.returncode == 0, done.stderr
    assert scores_of(program)["repeat"].to_list() == [0, 1, 2] * 2
    row = pl.read_parquet(program.latest / "summary.parquet").filter(pl.col("tag").is_null()).row(0, named=True)
    assert (row["n"], row["n_scored"], row["value"]) == (6, 6, 0.75)


def test_check_sends_nothing_and_leaves_nothing(program: Program) -> None:
    path = program.write("mine.jsonl", *CASES)
    with Endpoint() as endpoint:
        done = program(
            "check",
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            *judge_arguments(endpoint.url),
            "--json",
        )
        assert endpoint.count == 0
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["scores"] == 5
    assert 0 < facts["estimate"]["input_tokens_low"] < facts["estimate"]["input_tokens_high"]
    assert sorted(path.name for path in program.folder.iterdir()) == ["mine.jsonl"]


def test_no_key_names_the_variable(program: Program) -> None:
    done = program("dataset=rag", "metric=coherence", "judge=openai", "judge.model=m")
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr


def test_a_key_in_dotenv_is_read_and_never_written(program: Program) -> None:
    (program.folder / ".env").write_text("MY_KEY=sk-from-dotenv\n", encoding="utf-8")
    path = program.write("mine.jsonl", *CASES[:1])
    with Endpoint(faithful_judge(CLAIMS), api_key="sk-from-dotenv") as endpoint:
        arguments = [*judge_arguments(endpoint.url)[:-1], "judge.api_key_env=MY_KEY"]
        done = program(
            "dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=faithfulness", *arguments
        )
    assert done.returncode == 0, done.stderr
    for file in program.latest.rglob("*"):
        if file.is_file():
            assert b"sk-from-dotenv" not in file.read_bytes(), file


@pytest.mark.parametrize("code", [401, 403, 404])
def test_a_refused_key_or_model_ends_at_once_with_5(program: Program, code: int) -> None:
    path = program.write("mine.jsonl", *CASES)
    with Endpoint(lambda _: status(code, message="refused")) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            *judge_arguments(endpoint.url),
        )
        assert done.returncode == 5, done.stderr
        assert endpoint.count <= 5
    assert "Traceback" not in done.stderr
    assert program.manifest["status"] == "failed"
    assert program.manifest["exit_code"] == 5


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://nowhere.invalid/v1"])
def test_an_endpoint_that_is_not_there_ends_with_5(program: Program, url: str) -> None:
    done = program("dataset=rag", "metric=coherence", "limit=2", *judge_arguments(url))
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr


def test_bad_data_is_told_with_its_line_and_leaves_nothing(program: Program) -> None:
    (program.folder / "bad.jsonl").write_text('{"question": "a", "answer": "b"}\n{"question": \n', encoding="utf-8")
    done = program("dataset=rag", "dataset.rag.path=bad.jsonl", "metric=exact_match")
    assert done.returncode == 2
    assert "bad.jsonl:2" in done.stderr
    assert not (program.folder / "outputs" / "latest").exists()


def test_a_column_that_no_case_has_is_told_with_the_line_to_add(program: Program) -> None:
    path = program.write("mine.jsonl", {"question": "a", "answer": "b", "gold": "b"})
    done = program("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=exact_match")
    assert done.returncode == 2
    assert "needs reference" in done.stderr
    assert "gold" in done.stderr


def test_duplicate_ids_are_refused(program: Program) -> None:
    row = {"id": "x", "question": "a", "answer": "b", "reference": "b"}
    path = program.write("mine.jsonl", row, {**row, "question": "other"})
    done = program("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=exact_match")
    assert done.returncode == 2
    assert "'x'" in done.stderr


def test_a_folder_that_cannot_be_written_is_told(program: Program) -> None:
    (program.folder / "outputs").write_text("a file where a folder should be", encoding="utf-8")
    done = program("dataset=rag", "metric=exact_match", "limit=1")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_two_files_make_a_metric(program: Program) -> None:
    """No code: a YAML file and a prompt."""
    path = program.write("mine.jsonl", *CASES[:2])
    metric, prompt = program.folder / "conf/metric/shouting.yaml", program.folder / "prompts/own/shouting.jinja"
    for file, text in {
        metric: "# @package metric.shouting\nkind: judge\nneeds: [answer]\ndirection: lower_is_better\nthreshold: 0.5\n"
        "steps:\n  - id: verdict\n    prompt: own/shouting.jinja\n    returns: {reason: str, loud: bool}\n"
        "score: {op: value, of: verdict, field: loud}\n",
        prompt: "Is this shouting?\n{{ answer | fenced('answer') }}\n",
    }.items():
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    with Endpoint(lambda request: {"reason": "it is", "loud": "Alpha" in request.text}) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=shouting",
            *judge_arguments(endpoint.url),
        )
    assert done.returncode == 0, done.stderr
    assert scores_of(program)["score"].to_list() == [1.0, 0.0]
    assert scores_of(program)["passed"].to_list() == [False, True]


def test_help_needs_no_hydra(tmp_path: Path) -> None:
    done = Program(tmp_path)("--help")
    assert done.returncode == 0
    assert "exit codes" in done.stdout


@pytest.mark.parametrize("padding", [0, 9 * 2**20], ids=["kept in memory", "kept in a file"])
def test_data_that_change_under_way_cost_no_score(program: Program, padding: int) -> None:
    path = program.write("mine.jsonl", {**CASES[0], "padding": "x" * padding}, CASES[1])

    def script(request: Request) -> object:
        program.write("mine.jsonl", {**CASES[0], "id": "another"})
        return faithful_judge(CLAIMS)(request)

    with Endpoint(script) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            *judge_arguments(endpoint.url),
        )
    assert done.returncode == 0, done.stderr
    assert program.manifest["status"] == "done"
    assert scores_of(program)["status"].to_list() == ["scored", "scored"]


@pytest.mark.parametrize("reader", ["2>&1 | head -n 1", "| true", "2>&1 >&- | true", "> /dev/full"])
def test_a_reader_that_goes_away_changes_neither_the_run_nor_its_exit_code(program: Program, reader: str) -> None:
    words = ["dataset=rag", "metric=exact_match", "limit=30", "gate={exact_match: {mean: '>= 0.9'}}"]
    command = f"{shlex.join([sys.executable, '-m', 'evalflow', *words])} {reader}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=program.folder, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert (program.manifest["status"], program.manifest["scores"]["scored"]) == ("done", 30)
    assert "Traceback" not in done.stderr + done.stdout
    assert ("standard output cannot be written: No space left" in done.stderr) == ("/dev/full" in reader)


def test_output_that_is_lost_to_a_full_disk_is_no_success(program: Program) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'evalflow', 'list', 'metric', '--json'])} > /dev/full"
    done = subprocess.run(["bash", "-c", command], cwd=program.folder, capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize(("encoding", "dot"), [("ascii", b"?"), ("cp1252", b"\xb7")])
def test_a_terminal_without_unicode_gets_question_marks(encoding: str, dot: bytes, program: Program) -> None:
    words = [sys.executable, "-m", "evalflow", "dataset=rag", "metric=exact_match", "limit=3"]
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(words, cwd=program.folder, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"3/3 scores " + dot in done.stderr


def test_a_folder_that_holds_a_run_is_not_written_again(program: Program) -> None:
    arguments = ("dataset=rag", "metric=exact_match", "limit=2", "hydra.run.dir=same")
    assert program(*arguments).returncode == 0
    done = program(*arguments)
    assert done.returncode == 2
    assert "resume" in done.stderr
    assert len((program.folder / "same" / "scores.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert program.latest == program.folder / "same"


def test_what_a_run_writes_is_its_owners_alone_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evalflow").mkdir(mode=0o755)
    rows = [{"question": "What is it?", "reference": "It is so."}, {"question": "And that?", "reference": "It is so."}]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    before = os.umask(0)
    try:
        with Endpoint(lambda _: "It is so.") as endpoint:
            target = ("target=vllm", "target.model=m", f"target.base_url={endpoint.url}")
            data = ("dataset=rag", "dataset.rag.path=mine.jsonl", "dataset.rag.fields=null", "metric=exact_match")
            assert run_command([*data, "generate=true", *target]) == 0, capsys.readouterr().err
        kept = {path: mode(path) for path in (tmp_path / ".evalflow").iterdir()}
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    run = (tmp_path / "outputs" / "latest").resolve()
    assert {mode(path) for path in (tmp_path / ".evalflow", tmp_path / "outputs" / "runs", run)} == {0o700}
    assert "cache.db" in {path.name for path in kept}
    assert set(kept.values()) == {0o600}
    assert {mode(run / name) for name in ("scores.jsonl", "answers.jsonl")} == {0o600}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
