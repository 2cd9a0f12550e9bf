"""junit.xml: a run for CI jobs, with gates and thresholds as test cases."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import NamedTuple, TextIO

from evalflow.lazy import pl
from evalflow.paths import replacing
from evalflow.records import CASES
from evalflow.report.gate_sentences import OUTCOMES
from evalflow.report.page import JUDGE, judge_lines
from evalflow.report.reported import Reported
from evalflow.report.results_csv import CELL, RESULT, CaseKey, Score, iterate_rows, of_cases
from evalflow.report.sentences import label_lines, of_run
from evalflow.report.wording import headline_rows
from evalflow.summary.rows import GateOutcome
from evalflow.summary.verdicts import too_many_errors

_PLAIN = re.compile("[ !#-%'-;=?-~\u00a0-\ud7ff]*")
"""Characters that need no escape in an attribute."""
_ILLEGAL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAMING = ("target", "target_repeat", "judge", "repeat")
_SHOWN = (*CELL, *RESULT, "reason", "error_type", "error", "latency_s")


class _Verdict(NamedTuple):
    """The child element of a test case: failure, error or skipped with its message; None for a pass."""

    kind: str | None
    message: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class _Decides:
    """Which cells affect the exit code: the metrics with a failed gate, and whether errors are too many.

    If a gate on the cases that pass everything failed, scores of all metrics do.
    """

    failed: Collection[str]
    errors: bool

    def by_failing(self, metric: str) -> bool:
        return metric in self.failed or CASES in self.failed


def write_junit(path: Path, run: Reported, wanted: Collection[CaseKey] | None = None) -> None:
    """Write one test case per gate, and one per case and metric with a threshold; with `wanted`, of these cases only.

    The properties of each suite have the run's headline, its judges, and their agreement with human labels. If
    scores are left out, `left out` says how many.

    There are failures and errors only if the exit code of the run is not 0:

    - Failure: a failed gate, and the scores of its metric that miss their threshold.
    - Error: an undecided gate, and a score in state error, unless the run allows this many errors.
    - Skipped: a score that misses its threshold without a failed gate; undefined and skipped cells; a score whose judge
      gives no pass or fail.

    Characters that XML 1.0 forbids are left out.
    """
    own = run.scores.filter(pl.col("member_of").is_null())
    cells = own.filter(pl.col("threshold").is_not_null())
    failed = {str(gate["of_metric"]) for gate in run.gates if gate["passed"] is False}
    counted = own.select((pl.col("status") == "error").sum(), pl.len()).collect(engine="streaming")
    n_errors, n_scores = (int(count) for count in counted.row(0))
    decides = _Decides(failed, errors=too_many_errors(n_errors, n_scores, run.max_error_rate))
    with replacing(path) as file, TemporaryFile("w+", encoding="utf-8") as body:
        gates, scores = _TestSuite("gates", StringIO()), _TestSuite("scores", body)
        for gate in run.gates:
            gates.add("gates", gate["name"], None, _of_gate(gate))
        several, listed = _several(cells), cells if wanted is None else of_cases(cells, wanted)
        for cell in iterate_rows(listed.select(_SHOWN)):
            name = _name(cell, several)
            scores.add(f"{cell['dataset']}.{cell['metric']}", name, cell["latency_s"], _of_cell(cell, decides))
        facts = _facts(run)
        left_out = cells.select(pl.len()).collect().item() - scores.kinds.total()
        if left_out:
            about = f"{left_out:,} scores that are the least likely to need attention; results.csv has all"
            facts.append(("left out", about))
        properties = _properties(facts)
        file.write('<?xml version="1.0" encoding="utf-8"?>\n')
        totals = zip(gates.totals().items(), scores.totals().values(), strict=True)
        whole = {name: one + other for (name, one), other in totals if name != "skipped"}
        file.write(f"<testsuites{_attributes({'name': str(run.manifest.run_id), **whole})}>\n")
        for suite in (gates, scores):
            file.write(f"<testsuite{_attributes({'name': suite.name, **suite.totals()})}>\n{properties}")
            suite.body.seek(0)
            copyfileobj(suite.body, file)
            file.write("</testsuite>\n")
        file.write("</testsuites>\n")


@dataclass(slots=True)
class _TestSuite:
    """A suite whose test cases are kept as text, because the file has their totals first."""

    name: str
    body: TextIO
    kinds: Counter[str | None] = field(default_factory=Counter[str | None])
    seconds: float = 0.0

    def add(self, classname: str, name: str, seconds: float | None, verdict: _Verdict) -> None:
        self.kinds[verdict.kind] += 1
        self.seconds += seconds or 0.0
        self.body.write(_case(classname, name, seconds, verdict))

    def totals(self) -> dict[str, float]:
        kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        counts = {name: self.kinds[kind] for name, kind in kinds.items()}
        return {"tests": self.kinds.total(), **counts, "time": self.seconds}


def _facts(run: Reported) -> list[tuple[str, str]]:
    """Each judge, such as `embedded (...), uncalibrated`, the run's headline (`result`), and corrections by labels."""
    rows = headline_rows(run.summary)
    facts = [("judge", line.removeprefix(JUDGE)) for line in judge_lines(run.manifest)]
    heads = of_run(rows, {gate["of_metric"] for gate in run.gates})
    facts += [("result", str(sentence)) for sentence in heads]
    return [*facts, *(("labels", line) for line in label_lines(rows, heads))]


def _properties(facts: Iterable[tuple[str, str]]) -> str:
    elements = (f"<property{_attributes({'name': name, 'value': value})}/>" for name, value in facts)
    return f"<properties>{''.join(elements)}</properties>\n"


def _case(classname: str, name: str, seconds: float | None, verdict: _Verdict) -> str:
    attributes = _attributes({"classname": classname, "name": name, "time": seconds or 0.0})
    kind, message = verdict.kind, {"message": verdict.message.strip().split("\n", 1)[0]}
    if not kind:
        return f"<testcase{attributes}/>\n"
    if kind == "skipped":
        return f"<testcase{attributes}><skipped{_attributes(message)}/></testcase>\n"
    text = html.escape(_clean(verdict.message), quote=False)
    child = f"<{kind}{_attributes(message | {'type': verdict.type})}>{text}</{kind}>"
    return f"<testcase{attributes}>{child}</testcase>\n"


def _attributes(values: Mapping[str, str | float]) -> str:
    text = ""
    for name, given in values.items():
        value = f"{given:.3f}" if isinstance(given, float) else str(given)
        text += f' {name}="{value}"' if _PLAIN.fullmatch(value) else f" {name}={_quoted(_clean(value))}"
    return text


def _quoted(text: str) -> str:
    """The same as `xml.sax.saxutils.quoteattr`, which takes 20 ms to load: it brings urllib and its HTTP client."""
    text = html.escape(text, quote=False).replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")
    if '"' not in text:
        return f'"{text}"'
    return '"' + text.replace('"', "&quot;") + '"' if "'" in text else f"'{text}'"


def _of_gate(gate: GateOutcome) -> _Verdict:
    if gate["passed"]:
        return _Verdict(None)
    kind = "error" if gate["passed"] is None else "failure"
    return _Verdict(kind, str(gate["message"]), OUTCOMES[None] if kind == "error" else "gate")


def _of_cell(cell: Score, decides: _Decides) -> _Verdict:
    if cell["status"] == "error" and decides.errors:
        return _Verdict("error", cell["error"] or "no message", cell["error_type"] or "error")
    if cell["status"] == "error":
        return _Verdict("skipped", f"error, of which the run allows for as many: {cell['error'] or 'no message'}")
    if cell["status"] != "scored":
        return _Verdict("skipped", f"{cell['status']}: {cell['reason'] or 'no reason given'}")
    if cell["passed"] is None:
        return _Verdict("skipped", "the judge gives no pass or fail")
    if cell["passed"]:
        return _Verdict(None)
    text = f"score {cell['score']:.4g}, threshold {cell['threshold']:.4g}"
    text = f"{text}: {cell['reason']}" if cell["reason"] else text
    if decides.by_failing(cell["metric"]):
        return _Verdict("failure", text, "threshold")
    return _Verdict("skipped", f"misses its threshold, and no gate of {cell['metric']} failed: {text}")


def _several(cells: pl.LazyFrame) -> Collection[str]:
    """The columns of `_NAMING` that have several values in these cells; null is not counted as a value."""
    counts = cells.select(pl.col(*_NAMING).drop_nulls().n_unique()).collect(engine="streaming").row(0, named=True)
    return [name for name in _NAMING if counts[name] > 1]


def _name(cell: Score, several: Collection[str]) -> str:
    """The case, and what else tells this cell from others of the run: target, judge, and the repeats of both."""
    parts = [cell["case_id"]]
    parts += [f"{name.replace('_', ' ')} {cell[name]}" for name in several if cell[name] is not None]
    return " | ".join(parts)


def _clean(text: str) -> str:
    return _ILLEGAL.sub("", text)
