"""promptfoo's tests in CSV: `__expected` are assertions, other `__` columns settings, the rest variables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping

from evalflow.addons.interop.importers.located import LocatedMap

_TYPES = (
    "answer-relevance|bleu|classifier|contains|contains-all|contains-any|contains-html|contains-json|contains-sql|"
    "contains-xml|context-faithfulness|context-recall|context-relevance|conversation-relevance|cost|equals|factuality|"
    "finish-reason|g-eval|gleu|guardrails|icontains|icontains-all|icontains-any|is-html|is-json|is-refusal|is-sql|"
    "is-valid-function-call|is-valid-openai-function-call|is-valid-openai-tools-call|is-xml|javascript|latency|"
    "levenshtein|llm-rubric|meteor|model-graded-closedqa|model-graded-factuality|moderation|perplexity|"
    "perplexity-score|pi|python|regex|rouge-n|ruby|search-rubric|select-best|similar|starts-with|tool-call-f1|"
    "webhook|word-count"
)
_CELL = re.compile(rf"(not-)?({_TYPES})(?:\((\d+(?:\.\d+)?)\))?(?::(.*))?", re.DOTALL)
_SETTINGS = frozenset({"__metric", "__threshold", "__description", "__providerOutput", "__prefix", "__suffix"})
_LISTS = frozenset({"contains-all", "contains-any", "icontains-all", "icontains-any"})
PROGRAM_FILE = re.compile(r"\.(py|js|ts|mjs|cjs|mts|cts)(:[\w.]+)?\Z")
_STARTS = (
    ("javascript:", "javascript"),
    ("fn:", "javascript"),
    ("eval:", "javascript"),
    ("grade:", "llm-rubric"),
    ("llm-rubric:", "llm-rubric"),
    ("python:", "python"),
)
_THRESHOLDS = frozenset({"similar", "answer-relevance", "context-faithfulness", "context-recall", "context-relevance"})
"""Types whose default threshold in a cell is 0.75."""


def row_as_test(row: Mapping[str, object], where: str) -> LocatedMap:
    """A row as a test in the format of promptfoo's YAML."""
    cells = {column: "" if cell is None else str(cell) for column, cell in row.items()}
    expected = {key: cell.strip() for key, cell in cells.items() if key.startswith("__expected") and cell.strip()}
    asserts = [assert_of_cell(cell, where) for cell in expected.values()]
    for number, item in enumerate(asserts):
        limit = _number(cells.get(f"__config:__expected{number + 1}:threshold", ""))
        if limit is None and number == 0:
            limit = _number(cells.get("__config:__expected:threshold", ""))
        item |= {"metric": cells["__metric"]} if cells.get("__metric") else {}
        item |= {} if limit is None else {"threshold": limit}
    test = {
        "vars": {key: cell for key, cell in cells.items() if not key.startswith("__")},
        "assert": asserts,
        "metadata": dict(_metadata(cells)),
        "description": cells.get("__description") or None,
        "providerOutput": cells.get("__providerOutput") or None,
        "threshold": _number(cells.get("__threshold", "")),
        **{key: cell for key, cell in cells.items() if cell.strip() and _is_unknown(key)},
        "options": {key: cells[f"__{key}"] for key in ("prefix", "suffix") if cells.get(f"__{key}")},
    }
    return _located({key: value for key, value in test.items() if value not in (None, {})}, where)


def _is_unknown(column: str) -> bool:
    """Whether a column is an unsupported setting, for which the test is listed."""
    starts = ("__metadata:", "__expected", "__config:__expected")
    return column.startswith("__") and not column.startswith(starts) and column not in _SETTINGS


def _metadata(cells: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    for column, cell in cells.items():
        name = column.removeprefix("__metadata:")
        if name != column and cell.strip():
            parts = [part.strip().replace("\\,", ",") for part in re.split(r"(?<!\\),", cell)]
            yield name.removesuffix("[]"), parts if name.endswith("[]") else cell


def assert_of_cell(text: str, where: str) -> LocatedMap:
    """The assertion in a cell of `__expected`; the answer must equal a plain text."""
    for start, kind in _STARTS:
        if text.startswith(start):
            return _located({"type": kind, "value": text.removeprefix(start).strip()}, where)
    if text.startswith("file://") and PROGRAM_FILE.search(text):
        return _located({"type": "python" if ".py" in text else "javascript", "value": text}, where)
    cell = _CELL.fullmatch(text)
    if not cell:
        return _located({"type": "equals", "value": text}, where)
    inverse, kind, threshold, value = cell.groups()
    assertion: dict[str, object] = {"type": f"{inverse or ''}{kind}"}
    if value is not None:
        parts = [part.strip() for part in next(csv.reader([value], skipinitialspace=True), list[str]())]
        assertion["value"] = parts if kind in _LISTS else value.strip()
    if threshold is not None or kind in _THRESHOLDS:
        assertion["threshold"] = 0.75 if threshold is None else float(threshold)
    return _located(assertion, where)


def _located(values: Mapping[str, object], where: str) -> LocatedMap:
    file, _, line = where.rpartition(":")
    entry = LocatedMap(file, int(line)) if line.isdigit() else LocatedMap(where, 1)
    entry.update(values)
    entry.lines = dict.fromkeys(entry, entry.line)
    return entry


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
