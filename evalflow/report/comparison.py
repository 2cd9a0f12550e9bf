"""A comparison as JSON, as a page and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from evalflow.records.manifest import Manifest
from evalflow.report.comparison_sentences import (
    SIDES,
    ComparisonSentence,
    agreement_verdict,
    change_lines,
    gated_metrics,
    in_words,
    measure_in_words,
    not_worse_in_words,
    of_comparison,
    preference_in_words,
    verdict_in_words,
)
from evalflow.report.page import judge_lines
from evalflow.report.titles import ShownTitles
from evalflow.report.wording import (
    ADJUSTMENTS,
    SHORT_ADJUSTMENTS,
    ColumnKind,
    bracketed,
    case_name,
    counted,
    cut,
    folded,
    interval,
    literal,
    method,
    number,
    p_value,
    plain_line,
    print_cut,
    print_lines,
    signed,
    table_of,
)
from evalflow.stats.arrays import Estimated
from evalflow.summary.adjusted_means import AdjustedMean
from evalflow.summary.case_changes import CaseChange, CaseChanges, MetricChange
from evalflow.summary.changed import WhatChanged
from evalflow.summary.compare import ComparisonRow, Orders
from evalflow.summary.judge_change import JudgeAgreementChange
from evalflow.summary.preferences import PeoplePreference
from evalflow.summary.verdicts import LEVEL
from evalflow.values.jsonvalues import as_map

_VERDICT_STYLES: Mapping[str, str] = {"better": "green", "worse": "bold red"}
_WORST = 5
_NAME = 18
_VERSION = 8  # characters of a prompt's digest
_SIDE = 60  # characters of a run's or bot's title in a sentence
_LINES = 200  # characters of a text that a cell shows


@dataclass(frozen=True)
class Comparison:
    """A comparison of runs, with its results: `rows` are one family of differences."""

    runs: Mapping[str, Manifest]
    rows: Sequence[ComparisonRow]
    adjust: str
    margin: float | None  # the non-inferiority margin (the acceptable loss); None if not requested
    notes: Sequence[str]
    flips: Sequence[CaseChanges]
    questions: Mapping[tuple[str, str], str]  # the questions of the cases that are listed, by dataset and id
    paired: bool = True
    adjusted_means: Sequence[AdjustedMean] = ()  # B's means whose intervals get narrower with A's scores of more cases
    # By metric, the statistics that were tested in a declared order.
    orders: Orders = field(default_factory=dict[str, Sequence[str]])
    changed: Sequence[WhatChanged] = ()  # what differs between the runs of each pair
    # By pair, the agreement with people of both judges of the same answers.
    judge_changes: Mapping[tuple[str, str], Sequence[JudgeAgreementChange]] = field(
        default_factory=dict[tuple[str, str], Sequence[JudgeAgreementChange]]
    )
    preferences: Sequence[PeoplePreference] = ()  # what people prefer, blind to whose an answer is
    titles: Mapping[str, str] = field(default_factory=dict[str, str])  # of runs, by name; empty where nobody gave any
    metric_titles: Mapping[str, str] = field(default_factory=dict[str, str])  # instead of those in the manifests

    @property
    def family(self) -> str:
        how = f"p-values adjusted together by {ADJUSTMENTS[self.adjust]}"
        for name, order in self.orders.items():
            how += f" ({name}: {' before '.join(order)}, as declared, at one level)"
        each = "; each interval is at 95 % by itself, not adjusted" if self.family_size > 1 else ""
        return f"family of {counted(self.family_size, 'comparison')}, {how}, level 5 %{each}"

    @property
    def p_name(self) -> str:
        """The heading of adjusted p-values, such as `p, Holm`."""
        return f"p, {SHORT_ADJUSTMENTS[self.adjust]}"

    @property
    def family_size(self) -> int:
        return sum(row.difference.p_value is not None for row in self.rows)

    @property
    def judges(self) -> list[str]:
        """A line for each judge of the compared metrics."""
        return list(dict.fromkeys(line for name in self.runs for line in self._judges_of(name)))

    def _judges_of(self, run: str) -> list[str]:
        return judge_lines(self.runs[run], {row.metric for row in self.rows})

    @property
    def several(self) -> bool:
        return len(self.runs) > 2

    @cached_property
    def sentences(self) -> Mapping[tuple[str, str], ComparisonSentence]:
        """The result of each pair of runs."""
        known = {one.pair: one for one in self.changed}
        return {
            pair: of_comparison(
                [row for row in self.rows if row.pair == pair],
                known.get(pair, WhatChanged(pair)),
                self.judge_changes.get(pair, ()),
                gated=gated_metrics(self.runs[pair[1]]),
                family=self.family_size,
                sides=pair if self.several else self.sides,
                named=self.named,
            )
            for pair in dict.fromkeys(row.pair for row in self.rows)
        }

    @property
    def sentence(self) -> str:
        """The comparison's result; with several pairs, how many differences are clear."""
        if self.several:
            return in_words(self.rows)
        return " ".join(str(one) for one in self.sentences.values())

    @property
    def preferred(self) -> list[str]:
        """Which of two runs' answers people prefer, a sentence for each pair that they were asked about."""
        return [preference_in_words(one, one.pair if self.several else self.sides) for one in self.preferences]

    @property
    def changes(self) -> list[str]:
        """The changes between the two runs: a line for each part, with the settings that differ."""
        return [line for one in self.changed[:1] for line in change_lines(one)]

    @cached_property
    def sides(self) -> tuple[str, str]:
        """Names of the two runs: their titles, their bots' titles, or the files of recorded answers; else A and B.

        The first of these that differ.
        """
        a, b = self.runs
        bots = tuple(manifest.bot_title for manifest in self.runs.values())
        files = tuple(map(_recorded_in, self.runs.values()))
        for one, other in ((self.titles.get(a, ""), self.titles.get(b, "")), bots, files):
            if one and other and one != other:
                return cut(plain_line(one), _SIDE), cut(plain_line(other), _SIDE)
        return SIDES

    def titled(self, run: str) -> str:
        """A run's title, else its bot's; answers without one have the names of the files they are recorded in."""
        manifest = self.runs[run]
        if title := self.titles.get(run) or as_map(manifest.config.get("target")).get("title"):
            return plain_line(str(title))
        files = _recorded_in(manifest)
        return plain_line(f"{manifest.bot_title} in {files}" if files else manifest.bot_title)

    @cached_property
    def shown(self) -> ShownTitles:
        """The titles of metrics and datasets."""
        titles = ShownTitles.of(self.runs.values())
        return replace(titles, metrics={**titles.metrics, **self.metric_titles})

    def named(self, metric: str) -> str:
        """A metric's title in a sentence, in quotes if it is more than a word."""
        title = self.shown.metric(metric)
        return f"“{title}”" if " " in title else title

    def document(self) -> dict[str, object]:
        return {
            "runs": {
                name: _about(manifest) | {"judges": self._judges_of(name)} for name, manifest in self.runs.items()
            },
            "paired": self.paired,
            "family": {
                "size": self.family_size,
                "adjust": self.adjust,
                "level": LEVEL,
                "test_order": {name: list(order) for name, order in self.orders.items()},
            },
            "rows": [row.document(self.margin) for row in self.rows],
            "flips": [
                {
                    "run_a": f.pair[0],
                    "run_b": f.pair[1],
                    "worsened": f.worsened,
                    "improved": f.improved,
                    "rescored": f.rescored,
                    "cases": [one.document() for one in f.cases],
                }
                for f in self.flips
            ],
            "sentence": self.sentence,
            "changed": [
                {
                    "run_a": one.pair[0],
                    "run_b": one.pair[1],
                    "sentence": str(self.sentences.get(one.pair, "")),
                    **one.document(),
                    "agreement": [change.document() for change in self.judge_changes.get(one.pair, ())],
                }
                for one in self.changed
            ],
            "preferences": [
                {**one.document(), "sentence": sentence}
                for one, sentence in zip(self.preferences, self.preferred, strict=True)
            ],
            "adjusted_means": [one.document() for one in self.adjusted_means],
            "notes": list(self.notes),
        }


def _recorded_in(manifest: Manifest) -> str:
    """The names of the files with a run's recorded answers; empty if it asked a bot."""
    if as_map(manifest.config.get("target")).get("kind") != "recorded":
        return ""
    return ", ".join(PurePath(file).name for facts in manifest.datasets.values() for file in facts.files)


def _about(manifest: Manifest) -> dict[str, object]:
    keys = ("run_id", "started_at", "status", "overrides", "git_commit")
    return {**{key: getattr(manifest, key) for key in keys}, "target": manifest.target.name}


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the result, the changes, the differences, what was left out, and the worst flips."""
    console.print(literal(comparison.sentence, style="bold"), soft_wrap=True)
    print_lines(console, (one.beside for one in comparison.sentences.values() if one.beside and not comparison.several))
    print_lines(console, comparison.preferred)
    if not comparison.several:
        for label, name in zip("AB", comparison.runs, strict=True):
            console.print(literal(f"{label}  {comparison.titled(name)}, {name}", style="dim"), soft_wrap=True)
        print_lines(console, (f"changed: {line}" for line in comparison.changes))
        print_lines(console, judge_change_lines(comparison))
    print_lines(console, comparison.judges, "dim")
    _print_rows(console, comparison)
    console.print(literal(comparison.family, style="dim"), soft_wrap=True)
    if comparison.margin is not None:
        _print_margin(console, comparison, comparison.margin)
    print_lines(console, (f"note: {note}" for note in comparison.notes), "yellow")
    _print_flips(console, comparison)


def _print_rows(console: Console, comparison: Comparison) -> None:
    for pair in dict.fromkeys(row.pair for row in comparison.rows):
        rows = [row for row in comparison.rows if row.pair == pair]
        if comparison.several:
            console.print(literal(f"B {pair[1]}\nA {pair[0]}", style="bold"), soft_wrap=True)
        numbers: dict[str, ColumnKind] = dict.fromkeys(
            ("A", "B", "B - A", "95 % interval", comparison.p_name), "number"
        )
        console.print(table_of({"metric": "name", **numbers, "verdict": "word"}, _lines(rows)))
        print_lines(console, (f"{_name(row)}: {_details(row)}" for row in rows), "dim")


def _lines(rows: Sequence[ComparisonRow]) -> Iterator[Sequence[str | Text]]:
    """The table's lines; several figures of a metric are listed below its name."""
    names = [(row.metric, row.tag) for row in rows]
    above = None
    for row, name in zip(rows, names, strict=True):
        several = names.count(name) > 1
        if several and name != above:
            yield [folded(_name(row, ""), _NAME)]
        above, f = name, row.difference
        yield [
            folded(f" {row.called or 'mean'}" if several else _name(row), _NAME),
            *(number(f.value_a), number(f.value_b), signed(f.difference), interval(f.low, f.high, signed)),
            p_value(row.p_adjusted),
            literal(verdict_in_words(row.verdict), style=_VERDICT_STYLES.get(row.verdict, "yellow")),
        ]


def _name(row: ComparisonRow, called: str | None = None) -> str:
    called = row.called if called is None else called
    tag = plain_line(f"@{row.tag}") if row.tag else ""
    return " ".join(part for part in (plain_line(row.metric), called, tag) if part)


def _details(row: ComparisonRow) -> str:
    cases = counted(row.difference.n, "case")
    if row.difference.clusters != row.difference.n:
        cases += f" in {counted(row.difference.clusters, 'cluster')}"
    too_few = row.bounded and row.detectable is None and row.difference.std_error is not None
    reach = ", too few to detect anything" if too_few else ""
    reach = reach if row.detectable is None else f", could detect {number(row.detectable)}"
    direction = "" if row.higher_is_better else "; lower is better"
    return f"{row.dataset}, {cases}{reach}; {method(row.difference.method)}{direction}"


def _print_margin(console: Console, comparison: Comparison, margin: float) -> None:
    print_lines(console, (f"{_name(row)}: {' '.join(not_worse_in_words(row, margin))}" for row in comparison.rows))


def _print_flips(console: Console, comparison: Comparison) -> None:
    for changed in comparison.flips:
        pair = f" ({changed.pair[1]} against {changed.pair[0]})" if comparison.several else ""
        worst = [one for one in changed.cases if (one.change or 0) < 0][:_WORST]
        head = f"{flipped_in_words(changed)}{'; got worse most' if worst else ''}{pair}"
        console.print(literal(head, style="bold"), soft_wrap=True)
        for one in worst:
            others = also_changed(one)
            case = case_name(one.case_id, comparison.questions.get((one.dataset, one.case_id)))
            name = f"  {signed(one.change)}  {case}  {one.metric}{by_labels_in_words(one)}"
            print_cut(console, f"{name} (also {others})" if others else name, one.reason or "no reason given")


def flipped_in_words(changed: CaseChanges) -> str:
    """How many listed cases flipped between pass and fail, and how many only have another score."""
    if not changed.listed:
        return "no case flipped between pass and fail"
    cases = counted(changed.listed, "case")
    if changed.rescored == changed.listed:
        return f"{cases} changed, in metrics without pass or fail"
    flips = f"{changed.worsened:,} from pass to fail, {changed.improved:,} from fail to pass"
    rescored = f", {changed.rescored:,} only in metrics without pass or fail" if changed.rescored else ""
    return f"{cases} changed: {flips}{rescored}"


def by_labels_in_words(change: MetricChange) -> str:
    """Says that a change is by labels, with the judge's change; "" if it is by the judge."""
    return "" if change.judged is None else f" by labels (judge {signed(change.judged)})"


def also_changed(one: CaseChange, named: Callable[[str], str] = plain_line) -> str:
    """A case's other metrics that changed, and how, or empty."""
    return ", ".join(f"{named(other.metric)} {became(other)}" for other in one.others)


def became(change: MetricChange) -> str:
    """How a case changed in a metric, in one or two words."""
    if change.change is None:
        return (
            "not scored"
            if change.score_a is change.score_b
            else f"only {'A' if change.score_b is None else 'B'} scored"
        )
    before, after = change.passed_a, change.passed_b
    if before is not None and after is not None and before != after:
        return "pass → fail" if before else "fail → pass"
    return signed(change.change)


def judge_change_lines(comparison: Comparison) -> Iterator[str]:
    """The agreement with labels of both judges of the same answers: a line for each metric and measure."""
    for pair, changes in comparison.judge_changes.items():
        for one in changes:
            about = f"{judges_of(comparison, pair, one)}, {counted(one.n_labels, 'label')}"
            where = f"{comparison.named(one.metric)} on {comparison.shown.dataset(one.dataset)}"
            for change in one.changes:
                yield (
                    f"agreement with labels, {where} ({about}): "
                    f"{measure_in_words(change)} {_estimated(change.before)} before, "
                    f"{_estimated(change.after)} now, difference {signed(change.difference.difference)}"
                    f"{bracketed(change.difference.low, change.difference.high, signed)}: {agreement_verdict(change)}"
                )


def judges_of(comparison: Comparison, pair: tuple[str, str], change: JudgeAgreementChange) -> str:
    """The judges before and after, and the versions of their prompts if these differ."""
    metrics = [comparison.runs[name].metrics.get(change.metric) for name in pair]
    prompts = [f"prompt {facts.prompt_sha256[:_VERSION]}" if facts and facts.prompt_sha256 else "" for facts in metrics]
    own = prompts if prompts[0] != prompts[1] else ["", ""]
    ends = [", ".join(filter(None, (name or "no judge", one))) for name, one in zip(change.judges, own, strict=True)]
    return " → ".join(dict.fromkeys(ends))


def _estimated(one: Estimated) -> str:
    return f"{number(one.value, 2)}{bracketed(one.low, one.high, partial(number, digits=2))}"
