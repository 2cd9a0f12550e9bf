"""Import of deepeval's goldens (JSON, JSON lines, CSV), and of runs with scores (.deepeval/.latest_run_full.json).

Keys are in snake_case in goldens, and in camelCase in runs. In JSON lines and CSV lists of texts are joined by `|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.importers.exports import parsed
from evalflow.importers.files import ImportedConfig, ImportSource
from evalflow.importers.ledger import Ledger, Untranslatable
from evalflow.importers.recorded import PARTS, Counterparts, recorded_cases
from evalflow.importers.sources import begins_with, read_objects, read_rows
from evalflow.jsonvalues import as_list, as_map, as_number
from evalflow.paths import shown

_LISTS = ("testCases", "conversationalTestCases", "goldens", "conversationalGoldens")
_LIKE: Mapping[str, str] = {
    "answer relevancy": "answer_relevancy",
    "faithfulness": "faithfulness",
    "contextual relevancy": "context_relevancy",
    "contextual recall": "context_recall",
    "contextual precision": "context_precision",
    "hallucination": "hallucination",
    "bias": "bias",
    "toxicity": "toxicity",
    "summarization": "summarisation",
    "pii leakage": "pii_leakage",
    "prompt alignment": "prompt_alignment",
    "task completion": "task_completion",
    "tool correctness": "tool_correctness",
    "exact match": "exact_match",
    "conversation completeness": "conversation_completeness",
    "turn relevancy": "turn_relevance",
    "turn faithfulness": "turn_faithfulness",
    "turn contextual relevancy": "turn_context_relevancy",
    "knowledge retention": "knowledge_retention",
}
_HINTS: Mapping[str, str] = {
    "geval": "write its criteria as a metric of the kind g_eval: docs/g-eval.md",
    "conversational geval": "write its criteria as a metric of the kind g_eval: docs/g-eval.md",
    "dag": "write it as a metric of the kind graph: docs/graphs.md",
    "json correctness": "metric=json_correctness, with your schema",
    "pattern match": "a check `regex_matching`, or a metric of the kind check",
    "role adherence": "metric=role_adherence, with a column chatbot_role",
    "role violation": "metric=role_violation, with a column chatbot_role",
    "misuse": "metric=misuse, with a column purpose",
    "topic adherence": "metric=topic_adherence, with a column allowed_topics",
    "non advice": "metric=unsafe_advice",
}


def _plain(name: str) -> str:
    """The name of a metric in lower case; of one with criteria of its own, such as `Tone [GEval]`, its kind."""
    bracket = re.search(r"\[([^\]]+)\]\s*\Z", name)
    return (bracket[1] if bracket else name).strip().lower().removesuffix(" metric")


_COUNTERPARTS = Counterparts(_LIKE, _HINTS, _plain)


def read_deepeval(source: ImportSource) -> ImportedConfig:
    """Import goldens, test cases or a run; UserError if the file is none of them."""
    path = _file(source.path)
    imported = ImportedConfig(ledger=Ledger(PARTS))
    with recorded_cases(source, imported, "deepeval", "deepeval", path, _COUNTERPARTS) as cases:
        for row in _rows(path):
            known = {_snake(key): value for key, value in row.data.items() if value not in (None, "")}
            declared = [as_map(one) for one in as_list(known.get("metrics_data"))]
            scores = [(str(one.get("name") or "score"), one.get("score")) for one in declared]
            limits = {str(one.get("name")): as_number(one.get("threshold")) for one in declared}
            cases.thresholds |= {name: limit for name, limit in limits.items() if limit is not None}
            cases.take(row.where, partial(_case, known), scores)
    return imported


def _file(path: Path) -> Path:
    if path.is_dir():
        for name in (".latest_run_full.json", ".deepeval/.latest_run_full.json"):
            if (path / name).is_file():
                return path / name
        hint = "name the file: goldens in .json, .jsonl or .csv, or .deepeval/.latest_run_full.json"
        raise UserError(Problem("the folder has no run of deepeval", shown(path), hint))
    if not path.is_file():
        raise UserError(Problem("there is no such file", str(path)))
    return path


def _rows(path: Path) -> Iterator[SourceRow]:
    """Every case, one at a time."""
    keys = _top_level(path) if path.suffix.lower() == ".json" else None
    if keys is None:
        yield from read_rows(path)
        return
    if not keys:
        if "testRunLink" in path.read_text(encoding="utf-8", errors="replace")[:4096]:
            hint = "the whole run is in .latest_run_full.json beside it"
            raise UserError(Problem("it has only a link to a run, no cases", shown(path), hint))
        what = f"it has none of {', '.join(_LISTS)}"
        raise UserError(Problem(f"it is no run of deepeval: {what}", shown(path), "goldens are a list of objects"))
    below = "testRunData." if "testRunData" in keys else ""
    for name in _LISTS:
        if name in keys:
            yield from read_objects(path, f"{below}{name}")


def _top_level(path: Path) -> set[str] | None:
    """Which lists of cases an object has; None if the file is a list."""
    if begins_with(path, b"["):
        return None
    with path.open("rb") as file:
        head = file.read(65_536)
        found = {name for name in (*_LISTS, "testRunData") if f'"{name}"'.encode() in head}
        tail = b""
        while block := file.read(1 << 20):  # lists that stand behind a long one
            found |= {name for name in _LISTS if f'"{name}"'.encode() in tail + block}
            tail = block[-32:]
    return found


def _case(known: Mapping[str, Any]) -> dict[str, Any]:
    case = _conversation(known) if "turns" in known or known.get("scenario") else _single(known)
    about = dict(as_map(parsed(known.get("additional_metadata", known.get("metadata")))))
    about |= {name: known[name] for name in ("name", "comments", "completion_time", "token_cost") if known.get(name)}
    extra = dict(as_map(parsed(known.get("custom_column_key_values"))))
    if "scenario" not in case:
        about_user = ("scenario", "expected_outcome", "user_description")
        extra |= {name: known[name] for name in about_user if known.get(name)}
    case |= {"metadata": about} if about else {}
    case |= {"group": str(known["source_file"])} if known.get("source_file") else {}
    case |= {"vars": extra} if extra else {}
    tags = [str(tag) for tag in as_list(known.get("tags")) if str(tag).strip(" >")]
    return case | ({"tags": tags} if tags else {})


def _single(known: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(known.get("input"), str):
        raise Untranslatable("it has no `input` that is a text", "give it one")
    retrieved, context = _texts(known.get("retrieval_context")), _texts(known.get("context"))
    found: dict[str, Any] = {"question": known["input"]}
    found |= {name: known[key] for name, key in (("answer", "actual_output"), ("reference", "expected_output"))
              if isinstance(known.get(key), str)}  # fmt: skip
    if retrieved or context:
        found["contexts"] = retrieved or context
    if retrieved and context and context != retrieved:
        found["ideal_contexts"] = context
    for name, key in (("actual", "tools_called"), ("expected", "expected_tools")):
        calls = _calls(known.get(key))
        found |= {name: calls} if calls is not None else {}
    return found


def _conversation(known: Mapping[str, Any]) -> dict[str, Any]:
    """Turns as messages, each with what was retrieved for it; the last one of the assistant is the answer."""
    listed = as_list(parsed(known.get("turns")))
    messages = [_turn(cast("Mapping[str, Any]", turn)) for turn in listed if isinstance(turn, Mapping)]
    last = messages.pop() if messages and messages[-1]["role"] == "assistant" else None
    if not listed and known.get("scenario"):
        parts = {"scenario": "scenario", "persona": "user_description", "goal": "expected_outcome"}
        return {name: str(known[key]) for name, key in parts.items() if known.get(key)}
    if not messages or messages[-1]["role"] != "user":
        hint = "play the conversation first: evalflow asks a target at each turn of a user"
        raise Untranslatable("it has no turn of a user", hint)
    found: dict[str, Any] = {"messages": messages} | ({} if last is None else {"answer": last["content"]})
    contexts = (last or {}).get("metadata", {}).get("contexts") or _texts(known.get("context"))
    return found | ({"contexts": contexts} if contexts else {})


def _turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    contexts = _texts(turn.get("retrieval_context", turn.get("retrievalContext")))
    message = {"role": str(turn.get("role")), "content": str(turn.get("content"))}
    return message | ({"metadata": {"contexts": contexts}} if contexts else {})


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def _texts(value: Any) -> list[str] | None:
    known = parsed(value)
    if isinstance(known, str):
        return [part.strip() for part in known.split("|") if part.strip()] or None
    if not isinstance(known, list):
        return None
    return [text for one in cast("list[Any]", known) if (text := _context(one))] or None


def _context(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    known = cast("Mapping[str, Any]", value)
    return str(known.get("context") or known.get("text") or known.get("content") or "")


def _calls(value: Any) -> list[Any] | None:
    known = parsed(value)
    if isinstance(known, str):
        return [{"name": name.strip()} for name in known.split(";") if name.strip()]
    return [_call(one) for one in cast("list[Any]", known)] if isinstance(known, list) else None


def _call(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return {"name": str(value)}
    known = {_snake(key): one for key, one in cast("Mapping[str, Any]", value).items()}
    arguments = known.get("input_parameters")
    return {"name": str(known.get("name"))} | ({"arguments": arguments} if arguments is not None else {})
