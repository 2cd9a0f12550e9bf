"""The outcomes of gates in words: a sentence for each, and the headline of all gates of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from evalflow.records import CASES
from evalflow.report.findings import excluded_by, excluded_words
from evalflow.report.sentences import labelled_in
from evalflow.report.wording import caveat, counted, method, unseen_in_words, who_scored
from evalflow.stats.skewness import TOO_SKEWED
from evalflow.summary.finding import RAW
from evalflow.summary.gates import COLUMNS, OF_CALLS, OF_REPEATS, Gate, GateRow
from evalflow.summary.rows import Detail, GateOutcome
from evalflow.summary.verdicts import STOPPED_BY_LOOKS, too_many_errors

OUTCOMES: Mapping[bool | None, str] = {True: "passed", False: "failed", None: "undecided"}
"""The outcome of a gate; all places show these words."""
_VERBS: Mapping[bool | None, str] = {True: "passes", False: "fails", None: "is undecided"}


@dataclass(frozen=True, slots=True)
class AboutGates:
    """Facts about a run that the sentences of its gates mention.

    Attributes:
        excluded: Details of the summary about excluded results.
        of_baseline: A remark on the baseline, such as that it ended early.
        again: What to do about scores in error, with its command.
        followed: Other runs whose labels of equal answers are used, each with dataset, metric and run.
    """

    excluded: Sequence[Detail]
    of_baseline: Sequence[str]
    again: str
    followed: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True)
class GateSentence:
    """A gate's outcome for one dataset, target and judge, in words.

    Attributes:
        basis: What its value is based on: scores, labels, looks, excluded results, a rough interval; may be empty.
        of: Its dataset, target and judge; for a gate on a tag, the metric, too.
        note: Why it is undecided, and what would decide it; may be empty.
        message: The whole message, with the value and its interval.
        in_spite: The part of basis and message about labels that correct nothing; may be empty (`gates_once`).
    """

    basis: str
    of: str
    note: str
    message: str
    in_spite: str = ""

    def document(self) -> dict[str, str]:
        return asdict(self)


def of_gate(gate: Gate, row: GateRow, about: AboutGates) -> GateSentence:
    """The sentence of a gate for one row."""
    # A gate on a tag is about several metrics.
    names = (row.metric if gate.metric is None else "", row.dataset, row.target, row.judge)
    of = " · ".join(name for name in names if name)
    has_ends = row.low is not None or row.method == f"none: {STOPPED_BY_LOOKS}"
    rough = caveat(row.method) if has_ends and row.judged is None else ""
    looked = f"{row.looked}, by {method(row.method)}" if row.looked and row.method else row.looked
    early = about.of_baseline if gate.baseline else ()
    basis = _together(
        looked, _labelled(row, about.followed), _basis(row), *early, _excluded(gate, row, about.excluded), rough
    )
    basis = _together(basis, unseen_in_words(row.unseen_share, row.compared or 0))
    note = _undecided(gate, row, about.again)
    message = _together(f"{gate}: {_value(row)} ({of})", basis, note)
    return GateSentence(basis, of, note, message, _in_spite(row, about.followed))


def without_value(gate: Gate, why: str) -> GateSentence:
    """The sentence of a gate without a row; `why` says why there is no baseline."""
    note = _missing(gate, why)
    return GateSentence("", "", note, f"{gate}: {note}")


def of_gates(gates: Sequence[GateOutcome], named: Callable[[GateOutcome], str] = lambda gate: str(gate["name"])) -> str:
    """Which gates failed or are undecided, or that all passed; "" without gates. `named` gives a gate's name."""
    if not gates:
        return ""
    is_one = len(gates) == 1
    sentences: list[str] = []
    for outcome in (False, None):
        names = [named(gate) for gate in gates if gate["passed"] is outcome]
        if names:
            which = "Gate" if is_one else f"{len(names):,} of {len(gates):,} gates"
            sentences.append(f"{which} {OUTCOMES[outcome]}: {', '.join(names)}.")
    return " ".join(sentences) or ("The gate passed." if is_one else f"All {len(gates):,} gates passed.")


def of_exit(code: Literal[1, 3], states: Mapping[str, int], gates: Sequence[GateOutcome], max_error_rate: float) -> str:
    """Why the exit code of a finished run is 1 or 3. `states` are the numbers of scores in each state."""
    if code == 1:
        return "a gate failed (exit code 1)"
    errors, scores = states["error"], sum(states.values())
    if too_many_errors(errors, scores, max_error_rate):
        why = f"{errors:,} of {counted(scores, 'score')} could not be made, and max_error_rate is {max_error_rate:g}"
    else:
        undecided = dict.fromkeys(str(gate["name"]) for gate in gates if gate["passed"] is None)
        why = f"the scores cannot decide {'; '.join(undecided)}"
    return f"inconclusive: {why} (exit code 3)"


def gates_once(gates: Iterable[GateOutcome]) -> Iterator[GateOutcome]:
    """The gates, without repeated reasons why labels correct nothing."""
    known: set[str] = set()
    for gate in gates:
        why = gate["in_spite"]
        if why in known:
            basis, message = (text.replace(why, "") for text in (gate["basis"], gate["message"]))
            yield {**gate, "basis": basis, "message": message}
        else:
            yield gate
        known |= {why} - {""}


def beside_value(gate: GateOutcome) -> str:
    """A gate's remarks beside its name and value; may be empty."""
    return _together(gate["basis"], gate["note"])


def of_outcome(gate: GateOutcome) -> str:
    """A gate's outcome before its message, such as `gate fails: ...`."""
    return f"gate {_VERBS[gate['passed']]}: {gate['message']}"


def _together(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _value(row: GateRow) -> str:
    interval = "" if row.value is None or row.low is None else f" [{row.low:.4g}, {row.high:.4g}]"
    return "no value" if row.value is None else f"{row.value:.4g}{interval}"


def _labelled(row: GateRow, followed: Sequence[Mapping[str, str]]) -> str:
    if row.labelled is None:
        return ""
    who = who_scored(row.judge)
    if row.metric == CASES:
        return f"{_people(row, followed)} correct nothing ({row.uncorrected})"
    if row.judged is None:
        return f"the {who} alone decides{_in_spite(row, followed)}"
    labels = _people(row, followed)
    return f"corrected by {labels}; by the {who} alone it {_VERBS[row.judged.passed]}: {_value(row.judged)}"


def _people(row: GateRow, followed: Sequence[Mapping[str, str]]) -> str:
    named, each = ("answer", "") if row.compared is None else ("case", " in each run")
    where = labelled_in(followed, row.dataset, row.metric)
    return f"labels of {counted(row.labelled or 0, named)}{each}{f' {where}' if where else ''}"


def _in_spite(row: GateRow, followed: Sequence[Mapping[str, str]]) -> str:
    """A remark that labels correct nothing, and why."""
    if row.labelled is None or row.judged is not None or row.metric == CASES:
        return ""
    from evalflow.stats.prediction import MIN_LABELS

    if not row.labelled:
        return f", since labels correct nothing ({row.uncorrected})"
    needed = f"; {MIN_LABELS} would do to correct it" if row.uncorrected.startswith("fewer") else ""
    why = f" ({row.uncorrected})" if row.uncorrected and not needed else ""
    return f", despite {_people(row, followed)}{why}{needed}"


def _missing(gate: Gate, why: str) -> str:
    if gate.baseline and why:
        return why
    where = " in common with the baseline" if gate.baseline else ""
    of_class = " of this class or label" if "[" in gate.statistic else ""
    tagged = f" with the tag {gate.tag!r}" if gate.tag else ""
    return f"no scored case{of_class}{tagged}{where}"


def _basis(row: GateRow) -> str:
    """The number of scores that the value is based on, and of all; "" if none is omitted."""
    if not row.n:
        return ""
    left = ", ".join(f"{count:,} {state}" for state, count in _states(row).items() if count)
    counted_are = "cases" if row.metric == CASES else "scores"
    scores = f"{row.n_scored:,} of {row.n:,} {counted_are}" + (f" ({left})" if left else "")
    if row.compared is None:
        return f"rests on {scores}"
    return f"rests on {counted(row.compared, 'case')} of both runs; this run has {scores}"


def _states(row: GateRow) -> Mapping[str, int]:
    states = {"undefined": row.n_undefined, "skipped": row.n_skipped}
    return {**states, "in error": row.n - row.n_scored - sum(states.values())}


def _excluded(gate: Gate, row: GateRow, details: Sequence[Detail]) -> str:
    """The excluded results included in a gate's value, and the value without them."""
    statistic = "mean" if gate.statistic in COLUMNS else gate.statistic
    key = {"dataset": row.dataset, "metric": row.metric, "judge": row.judge, "tag": gate.tag, "statistic": statistic}
    own = [one for one in details if all(one[name] == value for name, value in key.items())]
    parts = [one["excluded"] for one in own if row.compared is not None or one["target"] == row.target]
    if row.compared is None and row.judged is None and gate.statistic in (*RAW, "mean", statistic):
        return "; ".join(excluded_words(one, passing=gate.statistic.startswith("pass_rate")) for one in parts)
    return "; ".join(f"{excluded_by(one)}, and counted here" for one in parts)


def _undecided(gate: Gate, row: GateRow, again: str) -> str:
    if row.undefined_in:
        most = f"max_undefined_rate: {gate.max_undefined_rate:g}"
        return f"more scores of {row.undefined_in} are undefined than {most} allows, and so it decides nothing"
    if row.value is None and gate.statistic in OF_REPEATS:
        return "no case passed or failed twice, so that nothing is known about repeats"
    if row.passed is not None:
        return ""
    if row.value is None:
        if gate.statistic in OF_CALLS:
            return f"{gate.statistic} is known of no score, and so it decides nothing"
        errors = _states(row)["in error"]
        return f"nothing is scored, and so it decides nothing{f'; {again}' if errors else ''}"
    if row.in_error:
        return f"{counted(row.in_error)} in error could turn it; {again}"
    if row.looked:
        return "more cases may decide it"
    more = "cases" if row.judged is None else "labels"
    if row.method == f"none: {STOPPED_BY_LOOKS}":
        return "it decides nothing: run all cases, without a stop"
    if row.low is None:
        name, _, why = (row.method or "").partition(": ")
        rate = "a gate on the pass rate of a threshold, " if why.startswith(TOO_SKEWED) else ""
        known = f" ({why})" if name == "none" else ""
        return f"it has no interval{known}, and so decides nothing: more {more}, {rate}or point: true"
    if row.judged is not None:
        return _labels_to_decide(row)
    if row.cases_needed is None:
        return "it lies on the limit, which no number of cases decides"
    return f"about {row.cases_needed:,} cases would decide if the result stays the same"


def _labels_to_decide(row: GateRow) -> str:
    if row.compared is not None:
        return "more cases with labels in both runs may decide it"
    if row.cases_needed is None:
        return "labels of all these answers would not decide if the result stays the same; label more answers"
    return f"about {row.cases_needed:,} labels of these answers would decide if the result stays the same"
