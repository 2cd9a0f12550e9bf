"""What cases bring along, through the command line: the rows, the reasons, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalflow.testing import Endpoint
from tests.cli.conftest import Program, judge_arguments

HELLO = {"identifier": "string_matching", "params": {"keyword": "Hello"}}
PATHS = "json_path_rules"


def rule(path: str, value: Any, kind: str) -> dict[str, Any]:
    rules = [{"json_path": path, "expected_value": value, "expected_value_type": kind}]
    return {"identifier": "metadata", "params": {PATHS: rules}}


def case(number: int, said: Any, *checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Question {number}?"}]
    return {"id": str(number), "messages": messages, "demo_output": said, "checks": list(checks), **more}


def answer(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "Done.", "metadata": metadata}


def scores(program: Program) -> list[dict[str, Any]]:
    text = (program.latest / "scores.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return sorted(rows, key=lambda row: (row["index"], row["metric"]))


def run(program: Program, *rows: dict[str, Any], more: tuple[str, ...] = ()) -> Any:
    program.write("c.jsonl", *rows)
    return program(
        "dataset=conversations", "dataset.conversations.path=c.jsonl", "generate=demo", "metric=checks", *more
    )


def test_strings_and_metadata(program: Program) -> None:
    name, success = rule("$.user.name", "John", "string"), rule("$.output.success", True, "boolean")
    done = run(
        program,
        case(0, "Hi, can I help you?", HELLO),
        case(1, "Hello, how may I help you today?", HELLO, {**HELLO, "enabled": False}),
        case(2, answer({"user": {"name": "Doe"}}), name),
        case(3, answer({"user": {"name": "John"}}), name),
        case(4, answer({"user": {"name": "John Doe"}}), name),
        case(5, answer({"output": {"success": False}}), success),
        case(6, answer({"output": {}}), success),
        case(7, answer({"output": {"success": True}}), success),
        case(8, "No metadata at all.", success),
    )
    assert done.returncode == 0, done.stderr
    found = [(row["metric"], row["score"], row["reason"]) for row in scores(program)]
    assert found == [
        ("string_matching", 0.0, "The agent answer does not contain the keyword 'Hello'"),
        ("string_matching", 1.0, "The agent answer contains the keyword 'Hello'"),
        ("string_matching#2", None, "the check is disabled"),
        ("metadata", 0.0, "Expected John at $.user.name but got Doe"),
        ("metadata", 1.0, "Found John at $.user.name, as expected"),
        ("metadata", 1.0, "Found John Doe at $.user.name, as expected"),
        ("metadata", 0.0, "Expected true at $.output.success but got false"),
        ("metadata", 0.0, "JSON path $.output.success does not exist in metadata"),
        ("metadata", 1.0, "Found true at $.output.success, as expected"),
        ("metadata", 0.0, "JSON path $.output.success does not exist in metadata"),
    ]
    assert {row.get("judge") for row in scores(program)} == {None}
    assert list(program.manifest["metrics"]) == ["string_matching", "string_matching#2", "metadata"]
    assert program("report").returncode == 0


def test_what_a_judge_decides_is_asked_with_the_cases_own_parameters(program: Program) -> None:
    def script(request: Any) -> Any:
        return {"reason": "as scripted", "passed": "never talk of Acme" not in request.text}

    rules = {
        "rules": ["The agent should only answer in English.", "The agent should never talk of {{competitor company}}."]
    }
    custom = "+metric.checks.custom={no_advice: {type: conformity, cases: every, params: {rules: [Give no advice.]}}}"
    with Endpoint(script) as endpoint:
        done = run(
            program,
            case(
                0,
                "The capital of France is Paris.",
                {"identifier": "correctness", "params": {"reference": "Paris, founded around 200 BC."}},
                {"identifier": "conformity", "params": rules},
                {"identifier": "groundedness", "params": {"context": "Paris is in France."}},
                {"identifier": "groundedness"},
                competitor_company="Acme",
            ),
            more=(*judge_arguments(endpoint.url), custom.lstrip("+")),
        )
    assert done.returncode == 0, done.stderr
    found = {row["metric"]: (row["status"], row["score"]) for row in scores(program)}
    assert found == {
        "correctness": ("scored", 1.0),
        "conformity": ("scored", 0.0),
        "groundedness": ("scored", 1.0),
        "groundedness#2": ("skipped", None),
        "no_advice": ("scored", 1.0),
    }
    texts = [request.text for request in endpoint.requests]
    assert len(texts) == 4
    assert any("Paris, founded around 200 BC." in text and "omits" in text for text in texts)
    assert any("2. The agent should never talk of Acme." in text for text in texts)
    assert any("Paris is in France." in text and "adds a fact" in text for text in texts)
    assert all('"reason"' in json.dumps(request.schema) for request in endpoint.requests)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ({"identifier": "conformty", "params": {}}, ["case '0'", "checks[0]", "did you mean 'conformity'?"]),
        ({"identifier": "regex_matching", "params": {"pattern": "(["}}, ["case '0'", "is not a regular expression"]),
        (rule("$.[", "x", "string"), ["case '0'", "is not a JSONPath"]),
        ({"identifier": "json_schema", "params": {"schema": {"type": "objekt"}}}, ["case '0'", "not a JSON Schema"]),
        ({"identifier": "correctness", "params": {}}, ["case '0'", "params.reference is required"]),
        (
            {"identifier": "string_matching", "params": {"keyword": "x", "case_sensitve": True}},
            ["unknown key params.case_sensitve", "did you mean 'case_sensitive'?"],
        ),
        (rule("$.a", "many", "number"), ["case '0'", "'many' is not a number"]),
        (
            {"identifier": "conformity", "params": {"rules": ["Say nothing of {{brand}}."]}},
            ["case '0'", "{{brand}}", "Say nothing of"],
        ),
    ],
)
def test_what_is_wrong_is_refused_with_case_and_place(
    program: Program, check: dict[str, Any], words: list[str]
) -> None:
    done = run(program, case(0, "Hello.", check))
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_wrong_with_a_case_is_told_with_its_line(program: Program) -> None:
    wrong = {"identifier": "regex_matching", "params": {"pattern": "("}}
    done = run(program, case(0, "Hello.", HELLO), case(1, "Hello.", wrong), case(2, "Hello.", wrong))
    assert done.returncode == 2
    assert "c.jsonl:2: case '1', checks[0]: regex_matching: '(' is not a regular expression" in done.stderr
    assert "c.jsonl:3: case '2', checks[0]: " in done.stderr
    assert "like these" not in done.stderr


def test_of_many_wrong_checks_the_first_are_told_and_the_others_counted(program: Program) -> None:
    done = run(program, *(case(n, "Hello.", HELLO, {"identifier": "string_match"}) for n in range(23)))
    assert done.returncode == 2
    assert done.stderr.count("there is no check 'string_match'") == 20
    assert "and 3 more checks like these cannot be used" in done.stderr


def test_a_judge_or_an_embedder_is_wanted_where_a_case_has_a_check_for_it(program: Program) -> None:
    keyless = ("judge=openai", "embedder=openai")
    assert run(program, case(0, "Hello.", HELLO), more=keyless).returncode == 0
    assert program.manifest["judges"] == program.manifest["prices"] == {}
    correct = {"identifier": "correctness", "params": {"reference": "Hello."}}
    done = run(program, case(0, "Hello.", HELLO, correct), more=keyless)
    assert (done.returncode, "OPENAI_API_KEY" in done.stderr, "judge" in done.stderr) == (2, True, True)
    alike = {"identifier": "semantic_similarity", "params": {"reference": "Hello."}}
    assert run(program, case(0, "Hello.", HELLO, alike), more=keyless).returncode == 2
    assert run(program, case(0, "Hello.", HELLO, alike), more=("judge=openai",)).returncode == 0


def test_a_check_whose_only_case_lacks_an_answer_is_skipped_and_no_error(program: Program) -> None:
    pattern = {"identifier": "regex_matching", "params": {"pattern": "six"}}
    assert run(program, case(0, "Hello.", HELLO), case(1, None, pattern)).returncode == 0
    assert cells(program) == [("0", "string_matching", 1.0), ("1", "regex_matching", "skipped")]
    done = run(program, case(1, None, pattern))
    assert (done.returncode, "checks needs answer" in done.stderr) == (2, True)


def test_the_embedded_judge_refuses_and_names_the_checks_that_need_no_judge(program: Program) -> None:
    correct = {"identifier": "correctness", "params": {"reference": "Hello."}}
    done = run(program, case(0, "Hello.", HELLO, HELLO, correct))
    assert done.returncode == 2
    assert "correctness" in done.stderr
    [way] = [line.split("'")[1] for line in done.stderr.splitlines() if "metric.checks.only" in line]
    assert way == "metric.checks.only=[string_matching]"
    assert run(program, case(0, "Hello.", HELLO, HELLO, correct), more=(way,)).returncode == 0
    done = run(program, case(0, "Hello.", correct))
    assert (done.returncode, "only=" in done.stderr) == (2, False)


def test_the_rest_of_a_case_is_skipped_after_a_failed_check_also_when_the_run_goes_on(program: Program) -> None:
    def script(request: Any) -> Any:
        return {"reason": "as scripted", "passed": "Case one" not in request.text}

    def correct(reference: str) -> dict[str, Any]:
        return {"identifier": "correctness", "params": {"reference": reference}}

    rows = [
        case(0, "Hi.", HELLO, correct("Case none")),
        case(1, "Hello.", HELLO, correct("Case one"), correct("Case two")),
        case(2, "Hello.", HELLO, correct("Case three")),
    ]
    expected = [
        ("0", "correctness", "skipped"),
        ("0", "string_matching", 0.0),
        ("1", "correctness", 0.0),
        ("1", "correctness#2", "skipped"),
        ("1", "string_matching", 1.0),
        ("2", "correctness", 1.0),
        ("2", "string_matching", 1.0),
    ]
    with Endpoint(script) as endpoint:
        more = (*judge_arguments(endpoint.url), "metric.checks.stop_on_fail=true")
        assert run(program, *rows, more=more).returncode == 0
        assert endpoint.count == 2
        assert cells(program) == expected
        journal = program.latest / "scores.jsonl"
        lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["status"] == "scored" and '"case_id":"2"' not in line]
        assert len(kept) == 3
        journal.write_text("".join(kept), encoding="utf-8")
        assert program("resume").returncode == 0
        assert endpoint.count == 2
    assert cells(program) == expected


def cells(program: Program) -> list[tuple[str, str, Any]]:
    return [
        (row["case_id"], row["metric"], row["status"] if row["score"] is None else row["score"])
        for row in scores(program)
    ]


def test_gates_name_checks(program: Program) -> None:
    rows = [case(0, "Hi.", HELLO), case(1, "Hello.", HELLO)]
    assert run(program, *rows, more=('gate={string_matching: {mean: ">= 0.9", point: true}}',)).returncode == 1
    done = run(program, *rows, more=('gate={string_machting: {mean: ">= 0.9"}}',))
    assert (done.returncode, "did you mean 'string_matching'?" in done.stderr) == (2, True)
