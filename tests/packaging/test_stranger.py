"""The wheel as somebody has it who never saw the checkout: its commands, a notebook, a type checker, pytest."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = (Path(__file__).parent / "users_script.py").read_text(encoding="utf-8")
MISTAKES = """
import evalflow
evalflow.runn("dataset=rag")
evalflow.run(dataset="rag")
evalflow.run("dataset=rag", target="bot")
evalflow.run("dataset=rag", metrics=["short"])
row: evalflow.CaseRow = {"question": 3}
evalflow.run("dataset=rag").pased
evalflow.run("dataset=rag").gates[0]["pased"]
evalflow.metric(threshhold=1)
evalflow.Outcome(status="scord")
"""
TESTS = """
import evalflow
import pytest
from evalflow.pytest_plugin import evalflow_run

PASSING = ("dataset=rag", "metric=exact_match", "limit=2", 'gate={exact_match: {n: ">= 2"}}')
FAILING = ("dataset=rag", "metric=exact_match", "limit=2", 'gate={exact_match: {n: ">= 3"}}')
CASES = [{"id": "loan", "question": "How long?", "answer": "28 days.", "reference": "28 days."}]

test_gate = evalflow_run(*PASSING)
test_left_out = pytest.mark.skip("not today")(evalflow_run(*FAILING))
test_unless = pytest.mark.skipif("1 + 1 == 2", reason="as always")(evalflow_run(*FAILING))
test_known = pytest.mark.xfail(reason="known")(evalflow_run(*FAILING))
test_cases = evalflow_run("metric=exact_match", cases=CASES, each_case=True)

@pytest.mark.parametrize("least", [1, 2])
def test_own(cases, least):
    run = evalflow.run("metric=exact_match", f'gate={{exact_match: {{n: ">= {least}"}}}}', cases=cases)
    assert run.passed, run.sentence
"""
CONFTEST = """
import pytest

@pytest.fixture
def cases():
    return [{"id": "a", "question": "How long?", "answer": "28 days.", "reference": "28 days."}]
"""
CELLS = (
    "import evalflow\nrun = evalflow.run('dataset=rag', 'metric=exact_match', 'limit=4')\nrun",
    """labels = [{"case_id": id, "metric": "exact_match", "value": 1, "by": "ana"} for id in run.cases["case_id"]]
evalflow.calibrate(run, labels)""",
    """later = await evalflow.arun("dataset=rag", "metric=exact_match", "limit=4", target=lambda case: "A fine.")
evalflow.compare(run, later)""",
    "run.summary",
    "run.report",
    "evalflow.run('dataset=rga')",
)


@dataclass(frozen=True)
class Stranger:
    """An environment with the wheel, and a folder in which no checkout is near."""

    bin: Path
    folder: Path

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, which is first in the search path of the shell."""
        environment = os.environ | {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "HOME": "/proc/nowhere"}
        environment |= dict.fromkeys(["IPYTHONDIR", "JUPYTER_RUNTIME_DIR"], str(self.folder / "jupyter"))
        return subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=500)


@pytest.fixture(name="env", scope="module")
def _env(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in a folder whose name has a space and other scripts; what evalflow needs is that of the tests."""
    env = tmp_path_factory.mktemp("env жёлтый 空")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    pip = [sys.executable, "-m", "pip", "--python", env, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, wheel_file], check=True)
    [packages] = env.glob("lib/*/site-packages")
    # The checkout, which such a file there names in turn, is not found: Python reads those of its own folder only.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return env / "bin"


@pytest.fixture(name="stranger")
def _stranger(env: Path, tmp_path: Path) -> Stranger:
    return Stranger(env, tmp_path)


def test_its_commands_are_one_program_and_print_what_works(stranger: Stranger) -> None:
    where = stranger("python", "-c", "import evalflow; print(evalflow.__file__)").stdout
    assert where.startswith(str(stranger.bin.parent))
    for words in (["evalflow"], ["python", "-m", "evalflow"]):
        done = stranger(*words, "dataset=rag", "metric=exact_match", "limit=2")
        assert done.returncode == 0, done.stderr
        [more] = re.findall("^more +(.+)", done.stdout, re.MULTILINE)
        printed = shlex.split(more)
        assert printed[: len(words)] == words
        assert "library-01" in stranger(*printed).stdout
        refused = stranger(*words, "datset=rag", "metric=exact_match")
        assert refused.returncode == 2
        assert f"try:   {shlex.join(words)} dataset=rag" in re.sub("try: +", "try:   ", refused.stderr)


def test_a_notebook_shows_tables_and_no_traceback(stranger: Stranger) -> None:
    pytest.importorskip("nbclient", reason="NO NBCLIENT: no notebook is executed; pip install -e '.[dev]'")
    code = f"""
import nbclient, nbformat
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in {CELLS!r}])
nbclient.NotebookClient(book, timeout=300, allow_errors=True).execute()
nbformat.write(book, "book.ipynb")
"""
    done = stranger("python", "-c", code)
    assert done.returncode == 0, done.stderr
    book = json.loads((stranger.folder / "book.ipynb").read_text(encoding="utf-8"))
    said = ["".join(str(one.get("data", one)) for one in cell["outputs"]) for cell in book["cells"]]
    run, calibration, comparison, frame, report, mistake = said
    assert "| metric | score | 95 % interval |" in run
    assert "| dataset | metric | target | judge | n_labels |" in calibration
    assert "| metric | before | now | difference | 95 % interval |" in comparison
    assert "<table" in frame
    assert "<iframe srcdoc=" in report
    assert "Warning" not in "".join(said)
    assert "UserError in line 1: evalflow.run('dataset=rga')" in mistake
    assert "did you mean 'rag'?" in mistake
    assert "site-packages" not in mistake


def test_a_type_checker_sees_all_of_it(stranger: Stranger) -> None:
    (stranger.folder / "right.py").write_text(SCRIPT, encoding="utf-8")
    (stranger.folder / "wrong.py").write_text(MISTAKES, encoding="utf-8")
    rules = '{"typeCheckingMode": "strict", "reportUnusedExpression": "none"}'
    (stranger.folder / "pyrightconfig.json").write_text(rules, encoding="utf-8")
    done = stranger(sys.executable, "-m", "pyright", "--pythonpath", stranger.bin / "python", "right.py", "wrong.py")
    lines = re.findall(r"(right|wrong)\.py:(\d+):\d+ - error", done.stdout)
    assert {int(line) for file, line in lines if file == "wrong"} == set(range(3, len(MISTAKES.splitlines()) + 1))
    assert [line for file, line in lines if file == "right"] == [], done.stdout
    assert '"runn" is not a known attribute of module "evalflow"' in done.stdout


def test_the_script_that_is_checked_works(stranger: Stranger) -> None:
    (stranger.folder / "right.py").write_text(SCRIPT, encoding="utf-8")
    done = stranger("python", "-W", "error", "right.py")
    assert done.returncode == 0, done.stderr
    assert "UserError: " in done.stdout


def test_a_project_of_somebody_has_gates_as_tests(stranger: Stranger) -> None:
    (stranger.folder / "tests").mkdir()
    (stranger.folder / "tests" / "test_bot.py").write_text(TESTS, encoding="utf-8")
    (stranger.folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")  # which names no plugin
    (stranger.folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    done = stranger("python", "-m", "pytest", "-q", "-rA", "-n", "2", "-p", "no:cacheprovider")
    assert re.search("1 failed, 3 passed, 2 skipped, 1 xfailed in ", done.stdout), done.stdout + done.stderr
    assert "PASSED tests/test_bot.py::test_gate::exact_match n" in done.stdout
    assert "PASSED tests/test_bot.py::test_cases::loan" in done.stdout
    assert "AssertionError: gate fails: exact_match n >= 2: 1" in done.stdout
    left_out = stranger("python", "-m", "pytest", "-q", "-p", "no:evalflow.pytest_plugin", "-p", "no:cacheprovider")
    assert left_out.returncode == 1
    assert "no plugin collects this evalflow_run" in left_out.stdout
