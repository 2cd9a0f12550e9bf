"""Each importer with each oddity of real files: nothing crashes, nothing is invented, and no value vanishes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop import importing
from evalflow.addons.interop.importers.columns import is_missing
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.config.schema import DatasetConfig
from evalflow.datasets import read
from evalflow.errors import UserError
from evalflow.values.jsonvalues import kind

USER: dict[str, Any] = {"role": "user", "content": "When do you open?"}
CHAT: list[Any] = [USER, {"role": "assistant", "content": "At nine."}, {"role": "user", "content": "And on Sunday?"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "hours", "arguments": '{"day": "Sunday"}'}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://pool.example/map.png"}}
FORM = ("user", "assistant", "tool", "function", "text", "hub_correctness", "none", "chain", "NUMERIC", "acc")
"""Values that belong to the form of a file, such as roles, and say nothing about a case."""
Row = dict[str, Any]


def sample(row: Row) -> Row:
    """A sample of Inspect."""
    asked = row.pop("chat", None) or row.pop("question", None)
    said = {"choices": [{"message": {"role": "assistant", "content": row.pop("answer", None)}}]}
    scores = {"exact": {"value": row.pop("score", 1), "explanation": "same words"}}
    known = {"id": row.pop("id", "a"), "epoch": 1, "input": asked, "target": row.pop("reference", ""), "output": said}
    return {**known, "scores": scores, "metadata": {"retrieved": row.pop("contexts", [])}, **row}


def renamed(**names: str) -> Callable[[Row], Row]:
    """A form that has other names for the fields; a chat takes the place of the question."""

    def form(row: Row) -> Row:
        chat = row.pop("chat", None)
        fields = {**row, **({} if chat is None else {"question": chat})}
        return {names.get(name, name): value for name, value in fields.items()}

    return form


def harness(row: Row) -> Row:
    """A sample of lm-evaluation-harness."""
    asked, said = row.pop("chat", None), row.pop("answer", "")
    prompt = json.dumps(asked) if asked else row.pop("question", "")
    doc = {"contexts": row.pop("contexts", [])}
    return {
        "doc_id": row.pop("id", 0),
        "doc": doc,
        "target": row.pop("reference", ""),
        "arguments": [[prompt, {"until": ["\n"]}]],
        "resps": [[said]],
        "filtered_resps": [said],
        "filter": "none",
        "metrics": ["acc"],
        "acc": row.pop("score", 1.0),
        **row,
    }


def langfuse(row: Row) -> Row:
    chat, question = row.pop("chat", None), row.pop("question", None)
    given = {"messages": chat} if chat else {"question": question, "contexts": row.pop("contexts", [])}
    scores = [{"name": "good", "value": row.pop("score", 1), "dataType": "NUMERIC", "comment": "why"}]
    return {
        "input": given,
        "output": row.pop("answer", None),
        "expectedOutput": row.pop("reference", None),
        "scores": scores,
        **row,
    }


def langsmith(row: Row) -> Row:
    chat, question = row.pop("chat", None), row.pop("question", None)
    said = {"answer": row.pop("answer", None), "contexts": row.pop("contexts", [])}
    given = {"messages": chat} if chat else {"question": question}
    feedback = [{"key": "good", "score": row.pop("score", 1), "comment": "why"}]
    return {
        "run_type": "chain",
        "inputs": given,
        "outputs": said,
        "reference": row.pop("reference", None),
        "feedback": feedback,
        **row,
    }


def braintrust(row: Row) -> Row:
    asked = row.pop("chat", None) or row.pop("question", None)
    noted = {"contexts": row.pop("contexts", [])}
    return {
        "input": asked,
        "output": row.pop("answer", None),
        "expected": row.pop("reference", None),
        "scores": {"good": row.pop("score", 1)},
        "metadata": noted,
        **row,
    }


def phoenix(row: Row) -> Row:
    chat, question = row.pop("chat", None), row.pop("question", None)
    given = {"messages": chat} if chat else {"question": question, "contexts": row.pop("contexts", [])}
    notes = [{"name": "good", "score": row.pop("score", 1), "explanation": "why"}]
    return {
        "example_id": row.pop("id", "e"),
        "repetition_number": 1,
        "input": given,
        "output": row.pop("answer", None),
        "reference_output": row.pop("reference", None),
        "annotations": notes,
        **row,
    }


def mlflow(row: Row) -> Row:
    chat, question = row.pop("chat", None), row.pop("question", None)
    given = {"messages": chat} if chat else {"question": question, "contexts": row.pop("contexts", [])}
    expected = {"expected_response": row.pop("reference", None), "guidelines": ["Be brief."]}
    said = row.pop("answer", None)
    return {
        "trace_id": row.pop("id", "t"),
        "inputs": given,
        "outputs": said,
        "expectations": expected,
        "good/value": row.pop("score", 1),
        "good/rationale": "why",
        **row,
    }


def azure(row: Row) -> Row:
    chat = row.pop("chat", None)
    asked = {"conversation": {"messages": chat}} if chat else {"query": row.pop("question", None)}
    names = {
        "answer": "outputs.response",
        "reference": "inputs.ground_truth",
        "contexts": "inputs.context",
        "score": "outputs.good.good",
        "id": "inputs.id",
    }
    known = {names.get(name, f"inputs.{name}"): value for name, value in row.items() if name != "question"}
    return {**{f"inputs.{name}": value for name, value in asked.items()}, **known}


def giskard(row: Row) -> Row:
    asked = row.pop("chat", None) or [{"role": "user", "content": row.pop("question", None)}]
    check = {"identifier": "hub_correctness", "override_spec": {"reference": row.pop("reference", "r")}}
    said = {
        "response": {"role": "assistant", "content": row.pop("answer", None)},
        "metadata": {"contexts": row.pop("contexts", []), "score": row.pop("score", 1)},
    }
    one = {"input": {"messages": asked}, "output": said, "checks": [check]}
    return {"interactions": [one], "status": "active", **row}


def output_item(row: Row) -> Row:
    """An output item of a run of OpenAI's evals."""
    chat = row.pop("chat", None)
    names = ("id", "question", "reference", "contexts")
    item = {name: row.pop(name) for name in names if name in row}
    said = {"output_text": row.pop("answer", None), **({"input": chat} if chat else {})}
    scores = [{"name": "good", "score": row.pop("score", 1), "passed": True, "why": "why"}]
    return {"item": item, "sample": said, "results": scores, **row}


def result(row: Row) -> Row:
    """A result of promptfoo."""
    prompt = json.dumps(row["chat"]) if "chat" in row else "When?"
    row.pop("chat", None)
    test = {"id": row.pop("id", "t"), "vars": {name: row.pop(name) for name in ("question", "contexts") if name in row}}
    test["metadata"] = {"reference": row.pop("reference", None)}
    grading = {"componentResults": [{"score": row.get("score", 1), "reason": "why", "assertion": {"type": "is-json"}}]}
    said = {"output": row.pop("answer", None)}
    known = {"provider": {"id": "echo"}, "prompt": {"raw": prompt}, "vars": test["vars"], "testCase": test}
    return {**known, "response": said, "gradingResult": grading, "success": True, **row}


def turns(row: Row) -> Row:
    """A conversational test case of deepeval."""
    asked = row.pop("chat", None) or [{"role": "user", "content": row.pop("question", None)}]
    said = {"role": "assistant", "content": row.pop("answer", None), "retrieval_context": row.pop("contexts", [])}
    metric = {"name": "Turn Relevancy", "score": row.pop("score", 1), "threshold": 0.5, "success": True}
    return {"turns": [*asked, said], "metricsData": [metric], "expected_outcome": row.pop("reference", None), **row}


def test_case(row: Row) -> Row:
    """A test case of a run of deepeval."""
    score = row.pop("score", 1)
    metric = {"name": "Faithfulness", "score": score, "threshold": 0.5, "success": score == 1, "reason": "why"}
    return {
        "metricsData": [metric],
        **renamed(question="input", answer="actualOutput", reference="expectedOutput", contexts="retrievalContext")(
            row
        ),
    }


test_case.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]
IMPORTERS: Mapping[str, tuple[str, Callable[[Row], Row], str]] = {
    "azure-ai": ("azure-ai", azure, "jsonl"),
    "braintrust": ("braintrust", braintrust, "json"),
    "deepeval": ("deepeval", test_case, "run"),
    "deepeval turns": ("deepeval", turns, "jsonl"),
    "giskard": ("giskard", giskard, "json"),
    "inspect": ("inspect", sample, "log"),
    "langfuse": ("langfuse", langfuse, "jsonl"),
    "langsmith": ("langsmith", langsmith, "json"),
    "lm-eval": ("lm-eval", harness, "jsonl"),
    "mlflow": ("mlflow", mlflow, "json"),
    "openai-evals": ("openai-evals", output_item, "jsonl"),
    "openai-evals registry": ("openai-evals", renamed(question="input", reference="ideal"), "jsonl"),
    "phoenix": ("phoenix", phoenix, "jsonl"),
    "promptfoo": ("promptfoo", result, "jsonl"),
    "ragas": (
        "ragas",
        renamed(question="user_input", answer="response", contexts="retrieved_contexts", score="faithfulness"),
        "jsonl",
    ),
}
PLAIN: Row = {
    "id": "p-1",
    "question": "When?",
    "answer": "At nine.",
    "reference": "At 9.",
    "contexts": ["9-18"],
    "score": 1,
}
ODDITIES: Mapping[str, list[Row]] = {
    "plain": [PLAIN],
    "null content": [{**PLAIN, "chat": [USER, {"role": "assistant", "content": None}, *CHAT[2:]]}],
    "tool turn": [
        {
            **PLAIN,
            "chat": [
                USER,
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "closed"},
                *CHAT[1:],
            ],
        }
    ],
    "image": [{**PLAIN, "chat": [{"role": "user", "content": [{"type": "text", "text": "Where is this?"}, PICTURE]}]}],
    "image in the answer": [
        {**PLAIN, "answer": {"role": "assistant", "content": [{"type": "text", "text": "Here"}, PICTURE]}}
    ],
    "keys of messages": [{**PLAIN, "chat": [{**USER, "timestamp": 17, "sender": {"name": "Ana"}}]}],
    "NaN score": [{**PLAIN, "score": math.nan}, {**PLAIN, "id": "p-2"}],
    "NaN elsewhere": [{**PLAIN, "loss": math.nan, "curve": [1.5, math.nan]}],
    "no contexts": [{**PLAIN, "contexts": []}],
    "null contexts": [{**PLAIN, "contexts": None}],
    "odd contexts": [{**PLAIN, "contexts": ["a", None, 7]}],
    "unknown keys": [{**PLAIN, "category": "faq", "owner": {"team": "desk", "since": 2019}, "links": [{"to": "x"}, 3]}],
    "several references": [{**PLAIN, "reference": ["At 9.", "At nine."]}],
    "reference of parts": [{**PLAIN, "reference": {"time": 9, "unit": "hours"}}],
    "a number as reference": [{**PLAIN, "reference": 42}],
    "separators": [{**PLAIN, "answer": 'a|b;c, "d"\n| x | y |', "contexts": ["a|b", "c;d", "e\nf"]}],
    "one id twice": [PLAIN, {**PLAIN, "answer": "Another."}],
    "numbers as ids": [{**PLAIN, "id": 7}, {**PLAIN, "id": 8}],
    "other scripts": [{**PLAIN, "id": "ключ", "question": "何時ですか", "answer": "😀 — é", "реплика": "да"}],
    "half a character": [{**PLAIN, "answer": "half \ud83d", "note": "\udc00"}],
    "a list for a text": [{**PLAIN, "answer": ["x", "y"]}, {**PLAIN, "id": "p-2"}],
    "a number for a text": [{**PLAIN, "answer": 3.5}, {**PLAIN, "id": "p-2"}],
    "an object for a text": [{**PLAIN, "answer": {"text": "At nine.", "page": 4}}],
    "no question": [{**PLAIN, "question": None}, {**PLAIN, "id": "p-2"}],
    "an empty question": [{**PLAIN, "question": ""}, {**PLAIN, "id": "p-2"}],
    "one key twice": [
        {
            **PLAIN,
            "metadata": {"name": "Ana", "comments": "late", "output": "own", "source": "wiki"},
            "name": "row",
            "comments": "early",
            "answer": {"text": "At nine.", "page": 4},
        }
    ],
    "texts like values": [{**PLAIN, "question": "None", "answer": "{'a': 1}", "reference": "nan", "note": "True"}],
}


def written(folder: Path, content: Any, form: str) -> Path:
    if form == "jsonl":
        path, text = folder / "odd.jsonl", "".join(json.dumps(row) + "\n" for row in content)
    elif form == "log":
        path, text = folder / "odd.json", json.dumps({"version": 2, "samples": content})
    else:
        path = folder / ("odd.json" if form == "json" else ".latest_run_full.json")
        text = json.dumps(content if form == "json" else {"testCases": content})
    path.write_text(text, encoding="utf-8")
    return path


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values that say something, each with the keys that lead to it."""
    if isinstance(value, str) and value.startswith("[{"):  # a chat as a prompt
        value = json.loads(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path} {key}")
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, path)
    elif not is_missing(value) and value not in FORM:
        yield path, value


def rows(found: ImportedConfig) -> list[Row]:
    files = [path for name, path in found.data.items() if "_labels" not in name]
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def imported(folder: Path, kind: str, path: Path) -> ImportedConfig:
    found = importing.reader_of(kind)(ImportSource(path, "odd", Path(mkdtemp(dir=folder))))
    found.ledger.expect_balanced()
    return found


def mended(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("name", IMPORTERS)
def test_no_value_vanishes_and_none_is_invented(tmp_path: Path, name: str, oddity: str) -> None:
    kind, build, form = IMPORTERS[name]
    source = [build(dict(row)) for row in ODDITIES[oddity]]
    try:
        found = imported(tmp_path, kind, written(tmp_path, source, form))
    except UserError:  # it says why, and writes nothing
        return
    cases = rows(found)
    listed = " ".join(one.what for one in found.ledger.left_out)
    kept = [mended(str(one)) for _, one in leaves(cases)]
    everything = "\n".join(kept)
    origins = [mended(str(one)) for _, one in leaves(source)]
    for one in kept:
        for invented in ("None", "nan", "NaN", "{'", "['"):
            assert invented not in one or any(invented in origin for origin in origins), one
    for row in source if len(cases) == len(source) else ():
        for path, value in leaves(row):
            text = mended(str(value))
            is_number = isinstance(value, int | float) and any(_number(one) == float(value) for one in kept)
            as_json = json.dumps(text, ensure_ascii=False)[1:-1]
            is_kept = text in everything or as_json in everything or is_number
            is_listed = any(key in listed for key in path.split()) or ("content" in path and "message" in listed)
            assert is_kept or is_listed, (path, value, cases)
    config = DatasetConfig(path=str(next(iter(found.data.values()))), format="jsonl", allow_irregular=True)
    assert len(list(read("odd", config))) == len(cases)
    assert len({case["id"] for case in cases}) == len(cases)


@pytest.mark.parametrize(
    "name", [name for name in IMPORTERS if name not in ("giskard", "deepeval turns", "openai-evals registry")]
)
def test_an_empty_answer_stays_an_answer(tmp_path: Path, name: str) -> None:
    kind, build, form = IMPORTERS[name]
    source = [build({**PLAIN, "answer": text, "id": text or "none"}) for text in ("", "At nine.")]
    found = imported(tmp_path, kind, written(tmp_path, source, form))
    assert [case["answer"] for case in rows(found)] == ["", "At nine."]
    [experiment] = found.experiments.values()
    assert experiment.generate is False


@pytest.mark.parametrize("kind", ["ragas", "deepeval", "azure-ai"])
def test_what_tools_said_before_the_answer_stays(tmp_path: Path, kind: str) -> None:
    turns = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "closed at noon"},
        {"role": "assistant", "content": "Until noon."},
    ]
    row = {"ragas": {"user_input": turns}, "deepeval": {"turns": turns}, "azure-ai": {"query": "q", "response": turns}}
    [case] = rows(imported(tmp_path, kind, written(tmp_path, [row[kind]], "jsonl")))
    assert "Until noon." in case["answer"]
    assert [step["role"] for step in case["actual"]] == ["user", "assistant", "tool", "assistant"]
    assert case["actual"][2]["content"] == "closed at noon"


EARLIER = [USER, {"role": "assistant", "content": "At nine."}]


@pytest.mark.parametrize("name", IMPORTERS)
def test_empty_rows_and_half_characters_are_listed(tmp_path: Path, name: str) -> None:
    kind, build, form = IMPORTERS[name]
    cut = {**PLAIN, "id": "p-2", "question": "When \ud83d"}
    found = imported(tmp_path, kind, written(tmp_path, [build(dict(PLAIN)), {}, build(cut), {}], form))
    assert len(rows(found)) == 2
    listed = {one.what: one.count for one in found.ledger.left_out if one.part != "columns"}
    assert sum(listed.get(what, 0) for what in ("row", "result")) == 2, listed
    assert listed["half a character"] >= 1


DIALECTS: Mapping[str, tuple[str, str, str, Row]] = {
    "an array with its type": (
        "ragas",
        "t.csv",
        "question,answer,contexts\nq,a,\"array(['c', 'd'], dtype=object)\"\n",
        {"contexts": ["c", "d"]},
    ),
    "lists of ids are not scores": (
        "ragas",
        "t.jsonl",
        '{"user_input": "q", "response": "a", "reference_context_ids": ["1"]}\n',
        {"vars": {"reference_context_ids": ["1"]}},
    ),
    "the schema of Databricks": (
        "mlflow",
        "t.jsonl",
        '{"request": "q", "response": "a", "expected_response": "r", "retrieved_context": [{"content": "c"}]}\n',
        {"reference": "r", "contexts": [{"content": "c"}]},
    ),
    "contexts in a column of their own": (
        "langfuse",
        "t.csv",
        'id,input,output,contexts\n1,q,a,"[""c"", ""d""]"\n',
        {"contexts": ["c", "d"]},
    ),
    "a test set of RAGET": (
        "giskard",
        "t.jsonl",
        '{"question": "q", "reference_answer": "r", "reference_context": "c", "conversation_history": []}\n',
        {
            "messages": [{"role": "user", "content": "q"}],
            "checks": [{"identifier": "correctness", "params": {"reference": "r"}}],
            "vars": {"reference_context": "c"},
        },
    ),
    "a sample that was cut off": (
        "inspect",
        "t.json",
        json.dumps(
            {
                "version": 2,
                "samples": [
                    {
                        "id": 1,
                        "epoch": 1,
                        "input": "q",
                        "output": {"choices": [{"message": {"content": "a"}, "stop_reason": "max_tokens"}]},
                    }
                ],
            }
        ),
        {"finish_reason": "max_tokens"},
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_forms_that_tools_also_write_are_read(tmp_path: Path, dialect: str) -> None:
    kind, name, content, wanted = DIALECTS[dialect]
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    [case] = rows(imported(tmp_path, kind, path))
    assert {key: case.get(key) for key in wanted} == wanted


def test_scores_with_a_decimal_comma_are_listed_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("question;answer;faithfulness\nq;a;0,5\n", encoding="utf-8")
    found = imported(tmp_path, "ragas", path)
    [case] = rows(found)
    assert case["vars"] == {"faithfulness": "0,5"}
    assert "it has a comma, not a point" in [one.reason for one in found.ledger.left_out]


FAULTS = ["Hallucination", "hallucinations", "Toxicity-Score", "bias rate", "hallucinationRate"]
NO_FAULTS = ["neatness", "no_hallucination", "bias_free", "non-toxicity", "hallucination_free", "not biased"]


def test_a_score_of_a_platform_is_lower_is_better_only_by_its_whole_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = [*FAULTS, *NO_FAULTS]
    path.write_text(f"id,input,output,{','.join(names)}\n1,q,a{',[0.5]' * len(names)}\n", encoding="utf-8")
    found = imported(tmp_path, "langfuse", path)
    assert [option["direction"] for option in found.metrics.values()] == [
        *["lower_is_better"] * len(FAULTS),
        *["higher_is_better"] * len(NO_FAULTS),
    ]


def test_each_direction_that_was_guessed_from_a_name_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    many = [f"m{number}" for number in range(14)]
    path.write_text(f"id,input,output,bias,{','.join(many)}\n1,q,a,[0.5]{',[1]' * 14}\n", encoding="utf-8")
    notes = imported(tmp_path, "langfuse", path).notes
    assert "lower is taken as better for bias: else set `direction` in conf/metric/" in notes
    first = ", ".join(many[:12])
    assert f"higher is taken as better for {first} and 2 more: else set `direction` in conf/metric/" in notes


def test_a_column_of_contexts_beside_those_of_the_answer_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = {"id": 1, "input": "q", "output": {"answer": "a", "contexts": ["c"]}, "contexts": ["other"]}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    [case] = rows(imported(tmp_path, "langfuse", path))
    assert (case["contexts"], case["vars"]) == (["c"], {"contexts": ["other"]})


def test_half_characters_are_counted_once_for_several_passes_over_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        '{"rows": [{"id": "1", "input": "cut \\ud83d", "output": "a"}], "more": "\\ud83d"}', encoding="utf-8"
    )
    found = imported(tmp_path, "braintrust", path)
    assert [one.count for one in found.ledger.left_out if one.what == "half a character"] == [2]


EMPTY_ROWS = {"azure-ai": "query,response", "giskard": "input_data,demo_output", "braintrust": "input,output"}


@pytest.mark.parametrize("kind", EMPTY_ROWS)
def test_rows_of_commas_are_listed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"{EMPTY_ROWS[kind]}\nWhen?,At nine.\n,\n,\nWhere?,Here.\n", encoding="utf-8")
    found = imported(tmp_path, kind, path)
    [entry] = [one for one in found.ledger.left_out if one.part == "cases"]
    assert (entry.reason, entry.count) == ("the row is empty", 2)
    assert found.ledger.counts()["cases"] == (4, 2, 2)


@pytest.mark.parametrize("last", [[], [{"role": "user", "content": "And on Sunday?"}]])
@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("langsmith", {"run_type": "chain", "inputs": {"question": "And on Sunday?", "chat_history": EARLIER}}),
        ("langfuse", {"input": {"query": "And on Sunday?", "history": EARLIER}}),
        ("mlflow", {"inputs": {"question": "And on Sunday?", "chat_history": EARLIER}}),
        ("azure-ai", {"query": "And on Sunday?", "chat_history": EARLIER}),
    ],
)
def test_what_was_said_before_a_question_comes_before_it(
    tmp_path: Path, kind: str, row: dict[str, Any], last: list[Any]
) -> None:
    text = json.dumps([row]).replace(json.dumps(EARLIER), json.dumps([*EARLIER, *last]))
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    found = imported(tmp_path, kind, path)
    config = DatasetConfig(path=str(next(iter(found.data.values()))), format="jsonl", allow_irregular=True)
    [case] = read("odd", config)
    assert [one.content for one in case.messages] == ["When do you open?", "At nine.", "And on Sunday?"]
    assert not {"chat_history", "history"} & set(case.vars or {})


def test_outputs_without_parts_say_nothing_and_generations_of_models_are_answers(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    said = {"generations": [[{"text": "At nine.", "generation_info": {"finish_reason": "stop"}}]], "llm_output": None}
    runs = [{"run_type": "llm", "inputs": {"input": "When?"}, "outputs": one} for one in (said, {})]
    path.write_text(json.dumps(runs), encoding="utf-8")
    cases = rows(imported(tmp_path, "langsmith", path))
    assert [case.get("answer") for case in cases] == ["At nine.", None]
    assert cases[0]["metadata"]["output"] == said
    path.write_text(json.dumps([{"id": "e", "input": {"question": "When?"}, "output": {}}]), encoding="utf-8")
    assert "reference" not in rows(imported(tmp_path, "phoenix", path))[0]


def test_an_empty_cell_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("input,output,expected\nWhen?,,At nine.\nWhere?,Here.,\n", encoding="utf-8")
    assert ["answer" in case for case in rows(imported(tmp_path, "braintrust", path))] == [False, True]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@pytest.mark.parametrize(
    "content", ["", " \n", "[]", "{}", "[1, 2]", '"text"', '{"a": 1}', "[{}]", "a,b\n1,2\n", "\x00", "{"]
)
@pytest.mark.parametrize("kind", sorted(importing.IMPORTERS))
@pytest.mark.parametrize("ending", ["json", "jsonl", "csv"])
def test_files_of_other_kinds_are_refused_in_words(tmp_path: Path, kind: str, ending: str, content: str) -> None:
    path = tmp_path / f"odd.{ending}"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        imported(tmp_path, kind, path)
    assert all(problem.what and problem.where for problem in refused.value.problems)


ODD_NAMES: tuple[Any, ...] = (7, True, ["a"], {"a": 1})
NAMED: Mapping[str, tuple[str, Callable[[Any], Row], str]] = {
    "azure-ai": ("azure-ai", lambda name: {**azure({**PLAIN}), "results": [{"metric": name, "score": 1}]}, "jsonl"),
    "deepeval": ("deepeval", lambda name: _with(test_case, "metricsData", 0, "name", name), "run"),
    "langfuse": ("langfuse", lambda name: {**langfuse({**PLAIN}), "scores": [{"name": name, "value": 1}]}, "jsonl"),
    "langsmith": (
        "langsmith",
        lambda name: {**langsmith({**PLAIN}), "feedback": [{"key": name, "score": 1}]},
        "json",
    ),
    "lm-eval": ("lm-eval", lambda name: {**harness({**PLAIN}), "metrics": ["acc", name]}, "jsonl"),
    "mlflow": ("mlflow", lambda name: {**mlflow({**PLAIN}), "assessments": [{"name": name, "value": 1}]}, "json"),
    "openai-evals": ("openai-evals", lambda name: _with(output_item, "results", 0, "name", name), "jsonl"),
    "phoenix": (
        "phoenix",
        lambda name: {**phoenix({**PLAIN}), "annotations": [{"name": name, "result": {"score": 1}}]},
        "jsonl",
    ),
    "people": (
        "phoenix",
        lambda name: {**phoenix({**PLAIN}), "annotations": [{"name": name, "annotator_kind": "HUMAN", "score": 1}]},
        "jsonl",
    ),
}


def _with(form: Callable[[Row], Row], key: str, place: int, name: str, value: Any) -> Row:
    row = form({**PLAIN})
    row[key][place][name] = value
    return row


@pytest.mark.parametrize("name", ODD_NAMES, ids=str)
@pytest.mark.parametrize("tool", NAMED)
def test_a_score_whose_name_is_not_text_is_listed(tmp_path: Path, tool: str, name: Any) -> None:
    kind_of_file, form, ending = NAMED[tool]
    found = imported(tmp_path, kind_of_file, written(tmp_path, [form(name)], ending))
    reasons = [one.reason for one in found.ledger.left_out if one.part == "scores"]
    assert [reason for reason in reasons if reason == f"its name is {kind(name)}, not text"], reasons
    text = " ".join(path.read_text(encoding="utf-8") for path in found.data.values())
    assert f'"{name}"' not in text
    assert str(name) not in found.metrics
