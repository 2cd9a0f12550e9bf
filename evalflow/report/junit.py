"""junit.xml: gates and thresholds, for the tools that show tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from evalflow.report.files import replacing

if TYPE_CHECKING:
    import polars as pl

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BATCH = 2000


class _Verdict(NamedTuple):
    """What stands inside a test case: failure, error or skipped with its message; no kind is a pass."""

    kind: str | None
    message: str = ""
    type: str = ""


def write_junit(path: Path, *, run_id: str, gates: Sequence[Mapping[str, Any]], scores: pl.LazyFrame) -> None:
    """Write one test case per gate, and one per case and metric with a threshold.

    A score that does not pass its threshold is a failure, a cell in state error an error; undefined and skipped cells
    are skipped, and so is a score whose judge gives no pass or fail. A gate that could not be decided is an error.
    Characters that XML 1.0 forbids are left out.

    Args:
        path: The file; replaced.
        run_id: The name of the whole.
        gates: name, passed (None: undecided) and message, each.
        scores: The columns of scores.parquet, in input order; streamed.
    """
    import polars as pl

    cells = scores.filter(pl.col("threshold").is_not_null() & pl.col("member_of").is_null())
    judged = [(gate["name"], _of_gate(gate)) for gate in gates]
    totals = [_gate_totals([verdict for _, verdict in judged]), _cell_totals(cells)]
    with replacing(path) as file:
        xml = _Writer(XMLGenerator(file, "utf-8", short_empty_elements=True))
        xml.open("testsuites", name=run_id, **_added(totals))
        xml.open("testsuite", name="gates", **totals[0])
        for name, verdict in judged:
            xml.case("gates", name, None, verdict)
        xml.close("testsuite")
        xml.open("testsuite", name="scores", **totals[1])
        for cell in _iterate(cells):
            xml.case(f"{cell['dataset']}.{cell['metric']}", _name(cell), cell["latency_s"], _of_cell(cell))
        xml.close("testsuite")
        xml.close("testsuites")
        xml.end()


class _Writer:
    """An XML writer that knows what a test case looks like and strips what XML forbids."""

    def __init__(self, generator: XMLGenerator) -> None:
        self._xml = generator
        self._xml.startDocument()

    def open(self, tag: str, **attributes: str) -> None:
        self._xml.startElement(tag, AttributesImpl({name: _clean(value) for name, value in attributes.items()}))
        self._xml.ignorableWhitespace("\n")

    def close(self, tag: str) -> None:
        self._xml.endElement(tag)
        self._xml.ignorableWhitespace("\n")

    def end(self) -> None:
        self._xml.endDocument()

    def case(self, classname: str, name: str, seconds: float | None, verdict: _Verdict) -> None:
        attributes = {"classname": _clean(classname), "name": _clean(name), "time": f"{seconds or 0:.3f}"}
        self._xml.startElement("testcase", AttributesImpl(attributes))
        if verdict.kind:
            first_line = verdict.message.strip().split("\n", 1)[0]
            attributes = {"message": _clean(first_line)}
            if verdict.kind != "skipped":
                attributes["type"] = _clean(verdict.type)
            self._xml.startElement(verdict.kind, AttributesImpl(attributes))
            if verdict.kind != "skipped":
                self._xml.characters(_clean(verdict.message))
            self._xml.endElement(verdict.kind)
        self.close("testcase")


def _of_gate(gate: Mapping[str, Any]) -> _Verdict:
    if gate["passed"]:
        return _Verdict(None)
    kind = "error" if gate["passed"] is None else "failure"
    return _Verdict(kind, str(gate["message"]), "undecided" if kind == "error" else "gate")


def _of_cell(cell: Mapping[str, Any]) -> _Verdict:
    if cell["status"] == "error":
        return _Verdict("error", cell["error"] or "no message", cell["error_type"] or "error")
    if cell["status"] != "scored":
        return _Verdict("skipped", f"{cell['status']}: {cell['reason'] or 'no reason given'}")
    if cell["passed"] is None:
        return _Verdict("skipped", "the judge gives no pass or fail")
    if cell["passed"]:
        return _Verdict(None)
    text = f"score {cell['score']:.4g}, threshold {cell['threshold']:.4g}"
    return _Verdict("failure", f"{text}: {cell['reason']}" if cell["reason"] else text, "threshold")


def _name(cell: Mapping[str, Any]) -> str:
    """Tells every cell apart, however many targets, judges and repeats there are."""
    parts = [cell["case_id"], f"target {cell['target']}#{cell['target_repeat']}"]
    if cell["judge"]:
        parts.append(f"judge {cell['judge']}#{cell['repeat']}")
    return " | ".join(parts)


def _gate_totals(verdicts: Sequence[_Verdict]) -> dict[str, str]:
    kinds = [verdict.kind for verdict in verdicts]
    return _totals(len(kinds), kinds.count("failure"), kinds.count("error"), kinds.count("skipped"), 0.0)


def _cell_totals(cells: pl.LazyFrame) -> dict[str, str]:
    import polars as pl

    scored = pl.col("status") == "scored"
    failed = (scored & pl.col("passed").not_()).sum()
    unscored = pl.col("status").is_in(["undefined", "skipped"]) | (scored & pl.col("passed").is_null())
    row = cells.select(
        tests=pl.len(),
        failures=failed,
        errors=(pl.col("status") == "error").sum(),
        skipped=unscored.sum(),
        time=pl.col("latency_s").sum(),
    ).collect(engine="streaming")
    return _totals(*row.row(0))


def _totals(tests: int, failures: int, errors: int, skipped: int, seconds: float) -> dict[str, str]:
    counts = {"tests": tests, "failures": failures, "errors": errors, "skipped": skipped}
    return {name: str(count) for name, count in counts.items()} | {"time": f"{seconds:.3f}"}


def _added(totals: Sequence[dict[str, str]]) -> dict[str, str]:
    """The attributes that `testsuites` may have, summed."""
    counts = {name: str(sum(int(total[name]) for total in totals)) for name in ("tests", "failures", "errors")}
    return counts | {"time": f"{sum(float(total['time']) for total in totals):.3f}"}


def _iterate(cells: pl.LazyFrame) -> Iterator[dict[str, Any]]:
    for batch in cells.collect_batches(chunk_size=_BATCH, maintain_order=True):
        yield from batch.iter_rows(named=True)


def _clean(text: str) -> str:
    return _ILLEGAL.sub("", text)
