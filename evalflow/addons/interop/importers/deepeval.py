"""Import of deepeval's goldens (JSON, JSON lines, CSV), and of runs with scores (.deepeval/.latest_run_full.json).

Keys are in snake_case in goldens, and in camelCase in runs. In JSON lines and CSV lists of texts are joined by `|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns, is_missing, joined, parsed
from evalflow.addons.interop.importers.conversation import conversation_case, plain_calls, read_turns, steps_in
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.recorded import PARTS, Counterparts, RecordedCases, recorded_cases
from evalflow.addons.interop.importers.scores import score_name, score_number
from evalflow.addons.interop.importers.sources import begins_with, leave_document_keys, read_objects, read_rows
from evalflow.datasets.json_files import document_values
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.records.answers import Message
from evalflow.values.jsonvalues import as_list, as_map, as_number

_LISTS = ("testCases", "conversationalTestCases", "goldens", "conversationalGoldens")
_LIKE: Mapping[str, str] = {
    "answer relevancy": "relevance",
    "faithfulness": "faithfulness_lenient",
    "contextual relevancy": "context_relevance",
    "contextual recall": "context_recall",
    "contextual precision": "context_precision",
    "hallucination": "contradiction",
    "bias": "bias",
    "toxicity": "toxicity",
    "summarization": "summarisation",
    "pii leakage": "pii_leakage",
    "prompt alignment": "prompt_alignment",
    "task completion": "task_completion",
    "tool correctness": "tool_correctness",
    "argument correctness": "argument_correctness",
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
    "goal accuracy": "metric=goal_accuracy, which judges only the goal, not the plan",
    "plan quality": "metric=plan_quality",
    "plan adherence": "metric=plan_adherence",
    "step efficiency": "metric=step_efficiency, a share of steps instead of a grade",
}
_LOWER = frozenset({"hallucination", "bias", "toxicity"})
"""Metrics for which lower was better until version 3."""
_VARYING = _LOWER | {"misuse", "pii leakage", "role violation", "non advice"}
"""Metrics whose direction differs between versions: only the file decides."""
_OPPOSITE = frozenset({"pii leakage"})
"""Metrics whose scores run opposite to evalflow's metric."""
_ABOUT = ("name", "comments", "completion_time", "token_cost")
_SOURCE = re.compile(r"deepeval_source=(?P<path>.*?),deepeval_context=(?P<text>.*)", re.DOTALL)
_JOINED = "passages in a cell are separated by |, which they may also contain"


def _plain(name: str) -> str:
    """The name of a metric in lower case; for one with its own criteria, such as `Tone [GEval]`, its kind."""
    bracket = re.search(r"\[([^\]]+)\]\s*\Z", name)
    return (bracket[1] if bracket else name).strip().lower().replace("-", " ").removesuffix(" metric")


_COUNTERPARTS = Counterparts(_LIKE, _HINTS, _plain, _OPPOSITE)


def read_deepeval(source: ImportSource) -> ImportedConfig:
    """Import goldens, test cases or a run; UserError for any other file."""
    path = _file(source.path)
    imported = ImportedConfig(ledger=Ledger(PARTS))
    joined = 0
    with recorded_cases(source, imported, "deepeval", "deepeval", path, _COUNTERPARTS) as cases:
        for item in _rows(path, imported.ledger):
            row = Columns(item.data, item.where)
            row.leave("it is a trace of the application", "trace", hint="import traces: docs/import.md#traces")
            cells = [parsed(_peek(row, name)) for name in ("retrieval_context", "context")]
            joined += any(isinstance(cell, str) and "|" in cell for cell in cells)
            cases.take(row, _GoldenReader(row, imported.ledger).case, list(_scores(row, cases)))
    if joined:
        rows = f"{joined:,} rows" if joined > 1 else "1 row"
        imported.notes.append(f"contexts of {rows}: {_JOINED}; to be safe, save the dataset as JSON")
    return imported


def _scores(row: Columns, cases: RecordedCases) -> Iterator[tuple[object, object]]:
    """The scores of a row. Their further keys, such as the reason, stay in the variable metrics_data."""
    for item in as_list(_peek(row, "metrics_data")):
        metric = {_snake(key): value for key, value in as_map(item).items()}
        name, success, score = score_name(metric, "name"), metric.get("success"), score_number(metric.get("score"))
        yield name, metric.get("score")
        if not isinstance(name, str):
            continue
        plain = _plain(name)
        cases.lower |= {name} if plain in _LOWER else set()
        cases.undirected |= {name} if plain in _VARYING else set()
        if score is not None:
            verdict = success if isinstance(success, bool) else None
            cases.verdicts[name].add(score, as_number(metric.get("threshold")), verdict, row.where)


def _file(path: Path) -> Path:
    if path.is_dir():
        for name in (".latest_run_full.json", ".deepeval/.latest_run_full.json"):
            if (path / name).is_file():
                return path / name
        hint = "name the file: goldens in .json, .jsonl or .csv, or .deepeval/.latest_run_full.json"
        raise UserError(Problem("the folder contains no run of deepeval", shown(path), hint))
    if not path.is_file():
        raise UserError(Problem("there is no such file", str(path)))
    return path


def _rows(path: Path, ledger: Ledger) -> Iterator[SourceRow]:
    if path.suffix.lower() != ".json" or begins_with(path, b"["):
        yield from read_rows(path)
        return
    keys = document_values(path)
    place = "testRunData." if "testRunData" in keys else ""
    below = document_values(path, "testRunData") if place else keys
    lists = [name for name in _LISTS if name in below]
    if not lists:
        if {"testRunLink", "testRunData"} & set(keys):
            hint = "the whole run is in .latest_run_full.json beside it"
            raise UserError(Problem("it has only a link to a run, no cases", shown(path), hint))
        what = f"it has none of {', '.join(_LISTS)}"
        raise UserError(Problem(f"it is not a run of deepeval: {what}", shown(path), "goldens are a list of objects"))
    leave_document_keys(path, below, lists, ledger)
    for name in lists:
        yield from read_objects(path, f"{place}{name}")


@dataclass(frozen=True, slots=True)
class _GoldenReader:
    """Reads one row, whose keys are in snake_case or in camelCase."""

    row: Columns
    ledger: Ledger

    def get(self, *names: str) -> object:
        return self.row.get(*(form for name in names for form in (name, _camel(name))))

    def case(self) -> dict[str, object]:
        is_talk = _peek(self.row, "turns") is not None or isinstance(_peek(self.row, "scenario"), str)
        case = self._conversation() if is_talk else self._single()
        own = self.row.case_id("id")
        case |= {} if own is None else {"id": own}
        for name in ("additional_metadata", "metadata"):
            if isinstance(parsed(_peek(self.row, name)), Mapping):
                case["metadata"] = joined(as_map(case.get("metadata")), as_map(parsed(self.get(name))))
        about = {name: value for name in _ABOUT if (value := self.get(name)) is not None}
        case |= {"metadata": joined(as_map(case.get("metadata")), about)} if about else {}
        if isinstance(_peek(self.row, "source_file"), str):
            case["group"] = self.get("source_file")
        if isinstance(parsed(_peek(self.row, "custom_column_key_values")), Mapping):
            case["vars"] = dict(as_map(parsed(self.get("custom_column_key_values"))))
        tags = as_list(_peek(self.row, "tags"))
        if tags and all(isinstance(tag, str) and tag.strip(" >") for tag in tags):
            case["tags"] = self.get("tags")
        return case

    def _single(self) -> dict[str, object]:
        if not isinstance(_peek(self.row, "input"), str):
            raise Untranslatable("its `input` is not text", "give it one")
        case: dict[str, object] = {"question": self.get("input")}
        for name, keys in (("answer", ("actual_output",)), ("reference", ("expected_output", "expected"))):
            if isinstance(_peek(self.row, *keys), str):
                case[name] = self.get(*keys)
        if _peek(self.row, "actual_output") is None and self.row.said("actual_output", "actualOutput") == "":
            case["answer"] = ""
        retrieved, context = self._contexts("retrieval_context"), self._contexts("context")
        if retrieved is not None or context is not None:
            case["contexts"] = context if retrieved is None else retrieved
        if retrieved is not None and context and context != retrieved:
            case["ideal_contexts"] = context
        for name, key in (("actual", "tools_called"), ("expected", "expected_tools")):
            calls = _calls(_peek(self.row, key))
            if calls is not None:
                self.get(key)
                case[name] = calls
        return case

    def _conversation(self) -> dict[str, object]:
        """Turns as messages with their contexts; the assistant's last turn is the answer."""
        listed = as_list(parsed(_peek(self.row, "turns")))
        if not listed and _peek(self.row, "scenario"):
            return self._scenario()
        self.get("turns")
        turns = [_turn(turn) for turn in read_turns(map(_with_calls, listed), self.ledger, self.row.where)]
        hint = "run the conversation first: evalflow asks a target at each turn of a user"
        case, about = conversation_case(turns, hint)
        calls = steps_in(turns)
        case |= {"actual": calls} if calls else {}
        contexts = about.pop("contexts", None)
        contexts = self._contexts("context") if contexts is None else contexts
        case |= {} if contexts is None else {"contexts": contexts}
        return case | ({"metadata": about} if about else {})

    def _scenario(self) -> dict[str, object]:
        parts = {"scenario": "scenario", "persona": "user_description", "goal": "expected_outcome"}
        return {name: self.get(key) for name, key in parts.items() if isinstance(_peek(self.row, key), str)}

    def _contexts(self, key: str) -> list[object] | None:
        """Read the passages of a key. If they are missing or not texts, None, and the key stays unread."""
        contexts = parsed(_peek(self.row, key))
        if isinstance(contexts, str):
            contexts = _split(contexts)
        passages = [_passage(item) for item in as_list(contexts)]
        if not isinstance(contexts, list) or None in passages:
            return None
        self.get(key)
        return passages


def _with_calls(turn: object) -> object:
    """A turn with its tool calls in chat format; deepeval's own keys are kept beside them."""
    message = as_map(turn)
    key = next((name for name in ("tools_called", "toolsCalled") if as_list(message.get(name))), None)
    calls = plain_calls(message[key]) if key else None
    return {**message, "tool_calls": calls} if calls else turn


def _turn(message: Message) -> Message:
    """The message with its contexts in evalflow's place."""
    about = dict(message.metadata or {})
    key = next((name for name in ("retrieval_context", "retrievalContext") if name in about), None)
    passages = [_passage(item) for item in as_list(about.get(key or ""))]
    if key is None or None in passages:
        return message
    about.pop(key)
    return replace(message, metadata={**about, "contexts": passages})


def _split(cell: str) -> list[str]:
    """Split the passages that deepeval joined; the whole cell if its lines are not passages, as in a table."""
    parts = cell.split("|")
    is_text = any(not part.strip() or part != part.strip("\n") for part in parts)
    return [cell] if is_text else [part.strip() for part in parts]


def _passage(value: object) -> object:
    """A passage as a text, or with its source; None for anything else."""
    if isinstance(value, str):
        marked = _SOURCE.fullmatch(value)
        return {"text": marked["text"], "path": marked["path"]} if marked else value
    passage = as_map(value)
    key = next((name for name in ("context", "text", "content") if isinstance(passage.get(name), str)), None)
    path = passage.get("source")
    if key is None or not (path is None or isinstance(path, str)):
        return None
    rest = {name: part for name, part in passage.items() if name not in (key, "source")}
    return {**rest, "text": passage[key], **({"path": path} if path else {})}


def _calls(value: object) -> list[dict[str, object]] | None:
    calls = parsed(value)
    if isinstance(calls, str):
        return [{"name": name.strip()} for name in calls.split(";") if name.strip()]
    return plain_calls(calls)


def _peek(row: Columns, *names: str) -> object:
    forms = (form for name in names for form in (name, _camel(name)))
    return next((value for form in forms if not is_missing(value := row.peek(form))), None)


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), key)
