"""Two files of one tool, each with the results of one system: imported as answers to the same cases, and compared."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

CASES = range(24)


def grade(bot: str, case: int) -> float:
    """The first bot fails every third case, the second none of them."""
    return float(bot == "second" or case % 3 > 0)


def deepeval(bot: str, cases: Sequence[int]) -> str:
    def case(i: int) -> dict[str, Any]:
        said = {"name": "Tone", "score": grade(bot, i), "threshold": 0.5, "success": bool(grade(bot, i))}
        return {"input": f"Question {i}", "actualOutput": f"{bot} says {i}", "metricsData": [said]}

    return json.dumps({"testCases": [case(i) for i in cases]})


def ragas(bot: str, cases: Sequence[int]) -> str:
    rows = ({"user_input": f"Question {i}", "response": f"{bot} says {i}", "tone": grade(bot, i)} for i in cases)
    return "\n".join(map(json.dumps, rows))


def langfuse(bot: str, cases: Sequence[int]) -> str:
    rows = [
        {"id": f"{bot}-{i}", "input": f"Question {i}", "output": f"{bot} says {i}", "tone": [grade(bot, i)]}
        for i in cases
    ]
    return json.dumps(rows)


FORMS = {"deepeval": (deepeval, "json"), "ragas": (ragas, "jsonl"), "langfuse": (langfuse, "json")}


def write(folder: Path, kind: str, bot: str, cases: Sequence[int]) -> str:
    written, ending = FORMS[kind]
    name = f"{bot}.{ending}"
    (folder / name).write_text(written(bot, cases), encoding="utf-8")
    return name


def proposed(printed: str, word: str) -> list[str]:
    """The words of the proposed command that begins with a word."""
    [line] = [one for one in printed.splitlines() if one.startswith("next ") and f"evalflow {word} " in one]
    return shlex.split(line.partition("python -m evalflow ")[2].partition("   (")[0])


@pytest.mark.parametrize("kind", FORMS)
def test_the_proposed_commands_compare_two_systems_case_by_case(program: Program, kind: str) -> None:
    first = program("import", kind, write(program.folder, kind, "first", CASES))
    words = proposed(first.stdout, "import")
    file = write(program.folder, kind, "second", CASES[::-1])
    second = program(*(file if word == "FILE" else word for word in words))
    assert (second.returncode, second.stderr) == (0, "")
    assert "24 of 24 cases have questions of first and get their ids" in second.stdout
    ran = program(*proposed(second.stdout, "-m"))
    assert ran.returncode == 0, ran.stderr
    done = program("compare", "outputs/latest", "--json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    assert (row["n"], row["verdict"]) == (24, "better")
    assert row["difference"] == pytest.approx(1 / 3)


def test_cases_that_the_dataset_lacks_have_ids_of_their_own(program: Program) -> None:
    program("import", "ragas", write(program.folder, "ragas", "first", CASES))
    done = program("import", "ragas", write(program.folder, "ragas", "second", [23, 99]), "--dataset", "first")
    assert "1 of 2 cases have questions of first and get their ids" in done.stdout
    rows = [json.loads(line) for line in (program.folder / "data/second.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["24", "row-2"]


def test_your_own_dataset_may_have_the_cases(program: Program) -> None:
    program.write("gold.jsonl", *({"id": f"g{i}", "question": f"Question {i}"} for i in CASES))
    assert program("new", "dataset", "gold", "--path", "gold.jsonl").returncode == 0
    done = program("import", "deepeval", write(program.folder, "deepeval", "second", CASES), "--dataset", "gold")
    assert done.returncode == 0, done.stderr
    assert json.loads((program.folder / "data/second.jsonl").read_text().splitlines()[0])["id"] == "g0"
    assert program("experiment=second", "metric=[second_tone]").returncode == 0
    assert program.manifest["metrics"].keys() == {"gold_tone"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ragas", "second.jsonl", "--dataset", "frst"], "first"),
        (["ragas", "other.jsonl", "--dataset", "first"], "none of its 2 cases has a question of first"),
        (["traces", "t.jsonl", "--dataset", "first"], "--dataset is for files with the results of one system"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_nothing_written(program: Program, words: list[str], said: str) -> None:
    program("import", "ragas", write(program.folder, "ragas", "first", CASES))
    write(program.folder, "ragas", "second", CASES)
    write(program.folder, "ragas", "other", [70, 71])
    span = {"name": "s", "traceId": "ab" * 16, "spanId": "cd" * 8, "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    said_in = {"key": "gen_ai.prompt", "value": {"stringValue": "Question 1"}}
    span |= {"attributes": [said_in, {"key": "gen_ai.completion", "value": {"stringValue": "It is."}}]}
    program.write("t.jsonl", {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    done = program("import", *words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert not (program.folder / "conf/dataset/second.yaml").exists()
    assert not (program.folder / "conf/dataset/other.yaml").exists()
