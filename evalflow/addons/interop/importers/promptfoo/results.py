"""promptfoo's results as recorded answers and scores: a dataset for each provider and prompt.

Rows are read one at a time, from `eval -o results.json` or `-o results.jsonl`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns
from evalflow.addons.interop.importers.conversation import are_messages, message_rows, read_turns
from evalflow.addons.interop.importers.files import (
    DataFile,
    ImportedConfig,
    ImportedExperiment,
    ImportSource,
    as_json,
    dataset_option,
    key_for,
    own_or_number,
    question_of,
    recorded_option,
)
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.located import place
from evalflow.addons.interop.importers.nunjucks import rendered_variables
from evalflow.addons.interop.importers.promptfoo.asserts import AssertionReader, name_of
from evalflow.addons.interop.importers.promptfoo.cases import tag_names
from evalflow.addons.interop.importers.promptfoo.checks import CheckWriter
from evalflow.addons.interop.importers.readers import parsed, plain_text
from evalflow.addons.interop.importers.recorded import writable
from evalflow.addons.interop.importers.scores import score_number
from evalflow.addons.interop.importers.sources import (
    SourceFolder,
    leave_document_keys,
    objects,
    read_document,
    read_objects,
    read_rows,
)
from evalflow.datasets.json_files import document_values
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map, as_number, present

PARTS = ("answers", "asserts", "groups", "scores")
_VERSIONS = (2, 3, 4)
_MANY = 1000  # maximum columns, and recorded scores with separate names
_MOST_NUMBERS = 10**8  # of the cases of a column, which take 12.5 MB
_READ = ("results", "version")  # keys of the file
_FAILED = 2  # the reason of failure that means an error, not a failed assertion


@dataclass(slots=True)
class _AnswerColumn:
    """The answers of one provider to one prompt."""

    key: str
    label: str
    file: DataFile
    ids: set[str] = field(default_factory=set[str])
    _seen: bytearray = field(default_factory=bytearray)

    def is_new(self, number: int) -> bool:
        """Whether a case number below `_MOST_NUMBERS` is given for the first time; numbers are stored as bits."""
        place, bit = number // 8, 1 << number % 8
        if place >= len(self._seen):
            self._seen.extend(bytes(place + 1024 - len(self._seen)))
        is_first = not self._seen[place] & bit
        self._seen[place] |= bit
        return is_first


@dataclass(slots=True)
class _Results:
    source: ImportSource
    imported: ImportedConfig
    checks: CheckWriter
    stack: ExitStack
    columns: dict[tuple[str, str], _AnswerColumn] = field(default_factory=dict[tuple[str, str], "_AnswerColumn"])
    scores: dict[str, str] = field(default_factory=dict[str, str])
    answers: int = 0

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger

    def leave(self, problem: Problem) -> None:
        self.ledger.leave_broken(problem, "answers", "result")


def read_results(source: ImportSource, path: Path) -> ImportedConfig:
    """Import a file of results; UserError if it has no results, is truncated, or of an unknown version.

    Broken rows are listed.
    """
    imported = ImportedConfig(ledger=Ledger(PARTS))
    reader = AssertionReader(SourceFolder.of(path, source.root), path.resolve().parent, answered=True)
    with ExitStack() as stack:
        results = _Results(source, imported, CheckWriter(reader), stack)
        for row in _rows(path, results):
            _take(results, Columns(row.data, row.where))
            results.checks.settle(imported.ledger)
    if not results.answers:
        what = "all of its results are errors" if results.columns else "it has no results"
        problem = Problem(what, shown(path), "run the evaluation again, and import its results")
        raise imported.ledger.nothing_taken(problem, "answers")
    _declare(results, shown(path))
    return imported


def _rows(path: Path, results: _Results) -> Iterator[SourceRow]:
    if path.suffix.lower() == ".jsonl":
        yield from read_rows(path, results.ledger, part="answers", broken=results.leave)
    elif path.suffix.lower() in (".yaml", ".yml"):
        document = as_map(read_document(path))
        inner = as_map(document.get("results"))
        _expect_version(inner.get("version"), path)
        yield from objects(((row, place(row, shown(path))) for row in as_list(inner.get("results"))), results.leave)
        leave_document_keys(path, {**inner, **document}, _READ, results.ledger)
    else:
        values, inner = document_values(path), document_values(path, "results")
        _expect_version(inner.get("version"), path)
        yield from read_objects(path, "results.results", results.ledger, results.leave)
        leave_document_keys(path, values | inner, _READ, results.ledger)


def _expect_version(version: object, path: Path) -> None:
    if version not in _VERSIONS:
        versions = " and ".join(map(str, _VERSIONS))
        hint = "export it again with a newer promptfoo: promptfoo export eval ID -o results.json"
        raise UserError(Problem(f"the results have version {version}; known: {versions}", shown(path), hint))


def _take(results: _Results, row: Columns) -> None:
    ledger = results.ledger
    if not isinstance(row.peek("vars"), Mapping) or not isinstance(row.peek("provider"), Mapping):
        results.leave(Problem("it is not a result of promptfoo: it has no vars or provider", row.where))
        return
    ledger.found("answers")
    column = _column(results, row)
    number = row.get("testIdx")
    number = number if isinstance(number, int) and number >= 0 else column.file.count
    if number >= _MOST_NUMBERS:
        ledger.left("answers", "a result", row.where, f"its testIdx is not below {_MOST_NUMBERS:,}")
        return
    if not column.is_new(number):
        hint = "import one run at a time; in a run with repeats the case numbers differ"
        ledger.left("answers", f"a second answer of {column.label}", row.where, "the case already has an answer", hint)
        return
    test, declared = row.child("testCase"), dict(as_map(row.get("vars")))
    try:
        variables = rendered_variables(declared)
    except Untranslatable:
        variables = declared
    threshold = as_number(test.get("threshold"))
    checks, fields = results.checks.write(as_list(test.get("assert")), variables, row.where, threshold)
    raw = as_json(row.child("prompt").get("raw") or "")
    asked = _asked(raw, variables, ledger, row.where)
    case: dict[str, object] = {"id": own_or_number(test.case_id("id"), number + 1, column.ids), **asked, **fields}
    answer = _answer(row)
    results.answers += "answer" in answer
    case |= {"vars": variables, **answer, **_bill(row), "promptfoo": _scores(results, row)}
    with suppress(Untranslatable):  # tags of other types stay in the metadata
        if tags := tag_names(test.peek("tags")):
            case["tags"] = tags
            test.get("tags")
    case["metadata"] = _about(row, test, raw, declared)
    row.close(ledger)
    column.file.write(writable({**case, "checks": checks} if checks else case, ledger, row.where), row.where)


def _asked(raw: str, variables: Mapping[str, object], ledger: Ledger, where: str) -> dict[str, object]:
    """The messages of a chat prompt as sent; else the question."""
    listed = parsed(raw)
    if are_messages(listed):
        with suppress(Untranslatable):
            return {"messages": message_rows(read_turns(as_list(listed), ledger, where, ordered=True))}
    return {"question": question_of(variables, raw)}


def _about(row: Columns, test: Columns, raw: str, declared: Mapping[str, object]) -> dict[str, object]:
    """The test's own metadata, with further keys of the row in `result`."""
    if test.peek("vars") == declared:
        test.get("vars")
    about = {"description": test.get("description"), "prompt": raw, "provider": row.child("provider").get("id")}
    own = as_map(test.get("metadata") if isinstance(test.peek("metadata"), Mapping) else None)
    rest = row.rest()
    return {**({"result": rest} if rest else {}), **{key: value for key, value in about.items() if value}, **own}


def _column(results: _Results, row: Columns) -> _AnswerColumn:
    provider, prompt = row.child("provider"), row.child("prompt")
    name = as_json(provider.get("label") or provider.peek("id") or "provider")
    at, label = row.get("promptIdx"), prompt.get("label")
    which = as_json(label or "" if at is None else at)
    earlier = results.columns.get((name, which))
    if earlier is not None:
        return earlier
    if len(results.columns) >= _MANY:
        raise UserError(Problem(f"it has more than {_MANY} providers and prompts", str(results.source.path)))
    taken = [column.key for column in results.columns.values()]
    label = f"{name} {at + 1}" if isinstance(at, int) else name
    key = key_for(f"{results.source.name} {label}", taken, "dataset")
    file = results.stack.enter_context(results.source.rows(results.imported, key, "answers"))
    results.columns[name, which] = _AnswerColumn(key, label, file)
    return results.columns[name, which]


def _answer(row: Columns) -> dict[str, object]:
    response = row.child("response")
    output = as_map(row.peek("response")).get("output")
    if row.get("failureReason") == _FAILED or output is None:
        error = row.get("error") or response.get("error")
        return {"failure": as_json(error or "the tool got no answer")}
    response.get("output")
    return {"answer": as_json(output), **present(finish_reason=response.take(plain_text, "finishReason"))}


def _bill(row: Columns) -> dict[str, object]:
    """The latency of an answer that was not cached, and its cost."""
    cached = row.child("response").peek("cached")
    return present(latency_s=None if cached else row.milliseconds("latencyMs"), cost_usd=row.number("cost"))


def _scores(results: _Results, row: Columns) -> dict[str, object]:
    """The tool's scores of an answer: of the whole test, and of each assertion by its check's name.

    Remarks on them, in `gradingResult`, stay unread.
    """
    components = as_list(as_map(row.peek("gradingResult")).get("componentResults"))
    results.ledger.found("scores", 2 + len(components))
    if row.peek("failureReason") == _FAILED:
        why = "the answer is an error, which has no score"
        results.ledger.left("scores", "a score", row.where, why, count=2 + len(components))
        return {}
    parts: dict[str, list[tuple[object, float]]] = {
        "score": [(row.get("score"), 1.0)],
        "passed": [(row.get("success"), 1.0)],
    }
    numbers: Counter[str] = Counter()
    for component in components:
        result = as_map(component)
        declared_set = as_map(as_map(result.get("metadata")).get("assertionSet"))
        about = as_map(result.get("assertion")) or {"type": "assert-set", **declared_set}
        try:
            name = name_of(about)
        except Untranslatable as failure:
            results.ledger.left("scores", "a score", row.where, failure.reason, failure.hint)
            continue
        if not about.get("metric"):
            numbers[name] += 1
            name = name if numbers[name] == 1 else f"{name}_{numbers[name]}"
        weight = as_number(about.get("weight"))
        # The check of a set with a threshold says whether it passes.
        score = (
            result.get("pass") if about.get("type") == "assert-set" and "threshold" in about else result.get("score")
        )
        parts.setdefault(name, []).append((score, 1.0 if weight is None else weight))
    return {key: score for name, scores in parts.items() for key, score in _score(results, name, scores, row.where)}


def _score(
    results: _Results, name: str, scores: Sequence[tuple[object, float]], where: str
) -> Iterator[tuple[str, float | bool]]:
    """The score of a name: the weighted mean of the assertions that share it, as in their check."""
    key = results.scores.get(name)
    if key is None and len(results.scores) < _MANY:
        key = results.scores[name] = key_for(name, [*results.scores.values()], "score")
    usable = [(number, weight) for score, weight in scores if (number := score_number(score)) is not None]
    if key is None or len(usable) < len(scores):
        reason = "it is not a number" if key else f"there are more than {_MANY} names of scores"
        results.ledger.left("scores", f"score {name}", where, reason, count=len(scores))
        return
    results.ledger.took("scores", len(scores))
    total = sum(weight for _, weight in usable)
    if len(usable) == 1 or not total:
        yield key, bool(usable[0][0]) if name == "passed" else usable[0][0]
    else:
        yield key, sum(score * weight for score, weight in usable) / total


def _declare(results: _Results, file: str) -> None:
    imported, name = results.imported, results.source.name
    metrics: list[str] = []
    if results.checks.count:
        metrics.append("checks")
    for label, key in results.scores.items():
        option = key_for(f"{name} {key}", imported.metrics, "metric")
        about = f"promptfoo's own score of the recorded answer: {label}."
        scale = "boolean" if label == "passed" else "number"
        limit = 1.0 if label == "passed" else None
        imported.metrics[option] = recorded_option(f"promptfoo.{key}", about, scale, limit)
        metrics.append(option)
    for column in results.columns.values():
        about = f"Answers of {column.label}, recorded in {file}."
        imported.datasets[column.key] = dataset_option(column.key, about, name=name)
        imported.targets[column.key] = {"kind": "recorded", "name": column.label}
        imported.experiments[column.key] = ImportedExperiment(
            column.key, metrics or ["relevance"], generate=False, target=column.key
        )
    if not results.checks.judged:
        imported.unjudged |= set(imported.experiments)
    imported.notes.extend(results.checks.notes)
    imported.notes.append("for prompts and providers import the configuration as well")
