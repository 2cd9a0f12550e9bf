"""Import of deepeval's goldens (JSON, JSON lines, CSV), and of runs with scores (.deepeval/.latest_run_full.json).

Keys are in snake_case in goldens, and in camelCase in runs. In JSON lines and CSV lists of texts are joined by `|`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, cast

from evalflow.datasets.json_files import streamed_items
from evalflow.datasets.sources import shown
from evalflow.errors import Problem, UserError
from evalflow.importers.files import DataFile, ImportedConfig, ImportSource, dataset_option, key_for, recorded_option
from evalflow.importers.known_metrics import fields_in, like_metrics
from evalflow.importers.ledger import Ledger
from evalflow.importers.sources import expect_text, read_rows
from evalflow.importers.untranslatable import Untranslatable
from evalflow.importers.values import as_list, as_map, as_number

PARTS = ("cases", "scores", "metrics")
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
    "knowledge retention": "knowledge_retention",
}
_HINTS: Mapping[str, str] = {
    "geval": "write its criteria as a metric of the kind g_eval: docs/g-eval.md",
    "conversational geval": "write its criteria as a metric of the kind g_eval: docs/g-eval.md",
    "dag": "write its questions as steps of a metric of the kind judge: docs/metrics.md",
    "json correctness": "metric=json_correctness, with your schema",
    "pattern match": "a check `regex_matching`, or a metric of the kind check",
    "role adherence": "metric=role_adherence, with a column chatbot_role",
}
_MANY = 500  # names of metrics


@dataclass(slots=True)
class _Metric:
    """A metric of a run: the key of its recorded scores, and its threshold."""

    name: str
    key: str
    threshold: float | None


@dataclass(slots=True)
class _Cases:
    imported: ImportedConfig
    file: DataFile
    metrics: dict[str, _Metric] = field(default_factory=dict[str, "_Metric"])
    fields: set[str] = field(default_factory=set[str])
    answered: int = 0

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger


def read_deepeval(source: ImportSource) -> ImportedConfig:
    """Import goldens, test cases or a run; UserError if the file is none of them."""
    path = _file(source.path)
    imported = ImportedConfig(ledger=Ledger(PARTS))
    with ExitStack() as stack:
        cases = _Cases(imported, stack.enter_context(source.rows(imported, source.name)))
        for where, row in _rows(path):
            imported.ledger.found("cases")
            try:
                case = _case(cases, row, where)
            except Untranslatable as failure:
                imported.ledger.left("cases", "case", where, failure.reason, failure.hint)
                _leave_scores(cases, row, where)
                continue
            cases.fields |= fields_in(case)
            cases.answered += "answer" in case
            cases.file.write({"id": str(cases.file.count + 1), **case})
    if not cases.file.count:
        problems = [Problem(entry.reason, entry.where, entry.hint) for entry in imported.ledger.left_out]
        raise UserError(problems or [Problem("it has no cases", shown(path))])
    _declare(source, cases, shown(path))
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


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every case with its place, one at a time."""
    if path.suffix.lower() != ".json":
        for row in read_rows(path):
            yield row.where, row.data
        return
    keys = _top_level(path)
    if keys is None:
        for row in read_rows(path):
            yield row.where, row.data
        return
    below = "testRunData." if "testRunData" in keys else ""
    if not keys:
        if "testRunLink" in path.read_text(encoding="utf-8", errors="replace")[:4096]:
            hint = "the whole run is in .latest_run_full.json beside it"
            raise UserError(Problem("it has only a link to a run, no cases", shown(path), hint))
        what = f"it has none of {', '.join(_LISTS)}"
        raise UserError(Problem(f"it is no run of deepeval: {what}", shown(path), "goldens are a list of objects"))
    for name in _LISTS:
        if name in keys:
            for number, row in enumerate(streamed_items(path, f"{below}{name}.item", {})):
                where = f"{shown(path)}:{name}[{number}]"
                if not isinstance(row, Mapping):
                    raise UserError(Problem("a case is no object", where))
                yield where, cast("Mapping[str, Any]", row)


def _top_level(path: Path) -> set[str] | None:
    """Which lists of cases an object has; None if the file is a list."""
    expect_text(path)
    with path.open("rb") as file:
        head = file.read(65_536).lstrip(b"\xef\xbb\xbf \t\r\n")
        if head.startswith(b"["):
            return None
        found = {name for name in (*_LISTS, "testRunData") if f'"{name}"'.encode() in head}
        tail = b""
        while block := file.read(1 << 20):  # lists that stand behind a long one
            found |= {name for name in _LISTS if f'"{name}"'.encode() in tail + block}
            tail = block[-32:]
    return found


def _case(cases: _Cases, row: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = {_snake(key): value for key, value in row.items() if value not in (None, "")}
    case = _conversation(known) if "turns" in known or known.get("scenario") else _single(known)
    metadata = _parsed(known.get("additional_metadata", known.get("metadata")))
    about: dict[str, Any] = dict(cast("Mapping[str, Any]", metadata)) if isinstance(metadata, Mapping) else {}
    about |= {name: known[name] for name in ("name", "comments", "completion_time", "token_cost") if known.get(name)}
    columns = _parsed(known.get("custom_column_key_values"))
    extra: dict[str, Any] = dict(cast("Mapping[str, Any]", columns)) if isinstance(columns, Mapping) else {}
    extra |= {name: known[name] for name in ("scenario", "expected_outcome", "user_description") if known.get(name)}
    case |= {"metadata": about} if about else {}
    case |= {"group": str(known["source_file"])} if known.get("source_file") else {}
    case |= {"vars": extra} if extra else {}
    if isinstance(known.get("tags"), list):
        case["tags"] = [str(tag) for tag in cast("list[Any]", known["tags"]) if str(tag).strip(" >")]
    scores = _scores(cases, known.get("metrics_data"), where)
    return case | ({"deepeval": scores} if scores else {})


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
    """Turns as messages; the last one of the assistant is the answer."""
    turns = _parsed(known.get("turns"))
    listed = as_list(turns)
    known_turns = [cast("Mapping[str, Any]", turn) for turn in listed if isinstance(turn, Mapping)]
    messages = [{"role": str(turn.get("role")), "content": str(turn.get("content"))} for turn in known_turns]
    answer = messages.pop()["content"] if messages and messages[-1]["role"] == "assistant" else None
    if not messages or messages[-1]["role"] != "user":
        hint = "play the conversation first: evalflow asks a target at each turn of a user"
        raise Untranslatable("it has no turn of a user", hint)
    found: dict[str, Any] = {"messages": messages} | ({} if answer is None else {"answer": answer})
    contexts = _texts(known.get("context"))
    return found | ({"contexts": contexts} if contexts else {})


def _scores(cases: _Cases, declared: Any, where: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in as_list(declared):
        data: Mapping[str, Any] = as_map(one)
        name, score = str(data.get("name") or "score"), data.get("score")
        cases.ledger.found("scores")
        metric = cases.metrics.get(name)
        if metric is None and len(cases.metrics) < _MANY:
            threshold = data.get("threshold")
            limit = as_number(threshold)
            key = key_for(name, [known.key for known in cases.metrics.values()], "score")
            metric = cases.metrics[name] = _Metric(name, key, limit)
        if metric is None:
            cases.ledger.left("scores", "score", where, f"there are more than {_MANY} names of metrics")
        elif isinstance(score, bool) or not isinstance(score, int | float) or not isfinite(score):
            why = f"it has no score: {data['error']}" if data.get("error") else "it has no score"
            cases.ledger.left("scores", f"score {name}", where, why)
        elif metric.key in found:
            cases.ledger.left("scores", f"score {name}", where, "the case has a score of this name already")
        else:
            found[metric.key] = float(score)
            cases.ledger.took("scores")
    return found


def _leave_scores(cases: _Cases, row: Mapping[str, Any], where: str) -> None:
    declared = row.get("metricsData", row.get("metrics_data"))
    count = len(cast("list[Any]", declared)) if isinstance(declared, list) else 0
    if count:
        cases.ledger.found("scores", count)
        cases.ledger.left("scores", "score", where, "its case is not translated", count=count)


def _declare(source: ImportSource, cases: _Cases, file: str) -> None:
    imported, name = cases.imported, source.name
    imported.datasets[name] = dataset_option(name, f"Cases of {file}.")
    like = {metric.name: _like(metric.name) for metric in cases.metrics.values()}
    wanted = {known: metric.threshold for metric in cases.metrics.values() if (known := like[metric.name])}
    usable = like_metrics(wanted, cases.fields)
    chosen: list[str] = []
    for metric in cases.metrics.values():
        imported.ledger.found("metrics")
        known = like[metric.name]
        if known is None:
            hint = _HINTS.get(_plain(metric.name), "write a metric: docs/metrics.md; its old scores are taken")
            reason = "there is no metric like it" if "[" not in metric.name else "the file has not its criteria"
            imported.ledger.left("metrics", f"metric {metric.name}", file, reason, hint)
        elif missing := usable[known]:
            imported.ledger.left("metrics", f"metric {metric.name}", file, f"no case has {', '.join(missing)}")
        else:
            imported.ledger.took("metrics")
            chosen.append(known)
    for metric in cases.metrics.values():
        key = key_for(f"{name} {metric.key}", imported.metrics, "metric")
        option = recorded_option(f"deepeval.{metric.key}", f"deepeval's own score: {metric.name}.", "number")
        limits = {"threshold": metric.threshold} if like[metric.name] not in _LOWER else {}
        lower = {"direction": "lower_is_better", "threshold": metric.threshold} if like[metric.name] in _LOWER else {}
        imported.metrics[key] = {**option, **limits, **lower}
        chosen.append(key)
    experiment: dict[str, Any] = {
        "defaults": [{"override /dataset": name}, {"override /metric": chosen or ["relevance"]}],
        "generate": False if cases.answered == cases.file.count else "missing" if cases.answered else True,
    }
    limits = {known: {"threshold": limit} for known, limit in wanted.items() if known in chosen and limit is not None}
    imported.experiments[name] = experiment | ({"metric": limits} if limits else {})
    if not chosen:
        imported.notes.append("the file has no metrics: the experiment has metric=relevance; choose your own")
    if not any(known in chosen for known in wanted if known not in ("exact_match", "tool_correctness")):
        imported.unjudged.add(name)


_LOWER = frozenset({"hallucination", "bias", "toxicity", "pii_leakage"})
"""Metrics of which less is better, in evalflow as in deepeval."""


def _plain(name: str) -> str:
    bracket = re.search(r"\[([^\]]+)\]\s*\Z", name)
    return (bracket[1] if bracket else name).strip().lower()


def _like(name: str) -> str | None:
    return None if "[" in name else _LIKE.get(name.strip().lower().removesuffix(" metric"))


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def _parsed(value: Any) -> Any:
    """The value of a cell that holds JSON."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _texts(value: Any) -> list[str] | None:
    parsed = _parsed(value)
    if isinstance(parsed, str):
        return [part.strip() for part in parsed.split("|") if part.strip()] or None
    if not isinstance(parsed, list):
        return None
    return [text for one in cast("list[Any]", parsed) if (text := _context(one))] or None


def _context(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    known = cast("Mapping[str, Any]", value)
    return str(known.get("context") or known.get("text") or known.get("content") or "")


def _calls(value: Any) -> list[Any] | None:
    parsed = _parsed(value)
    if isinstance(parsed, str):
        return [{"name": name.strip()} for name in parsed.split(";") if name.strip()]
    return [_call(one) for one in cast("list[Any]", parsed)] if isinstance(parsed, list) else None


def _call(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return {"name": str(value)}
    known = {_snake(key): one for key, one in cast("Mapping[str, Any]", value).items()}
    arguments = known.get("input_parameters")
    return {"name": str(known.get("name"))} | ({"arguments": arguments} if arguments is not None else {})
