"""Format numbers, counts and names, the same in every report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.records.manifest import Manifest, SweepManifest
from evalflow.summary.rows import OfSeries, SummaryRow, rows_of

PARTS = ("dataset", "target", "judge")  # the columns that distinguish rows of one metric
ADJUSTMENTS = {"holm": "Holm", "bh": "Benjamini-Hochberg", "by": "Benjamini-Yekutieli"}
"""How p-values of a family are adjusted."""
SHORT_ADJUSTMENTS = {"holm": "Holm", "bh": "BH", "by": "BY"}
_LEAST = 0.001
_QUESTION = 50  # characters of a question that stands for a case
_MADE_ID = re.compile(r"[0-9a-f]{16}(-[0-9a-f]{8})?(-\d+)?")  # see `datasets.rows.case_id`
_METHODS = {
    "plus_two_t": "t, two pseudo-cases",
    "plus_two_cr2_t": "t, clustered, two pseudo-groups",
    "cr2_t": "t, clustered",
    "wilson": "Wilson",
    "betting": "betting",
    "beta_mixture": "the beta mixture",
    "cluster_betting": "betting on groups",
    "obrien_fleming": "O'Brien-Fleming",
    "wilson_clusters": "Wilson, clustered",
    "cluster_bootstrap": "bootstrap, clustered",
    "dirichlet": "Dirichlet",
    "noise_bound": "noise bound",
    "cluster_noise_bound": "noise bound, clustered",
    "rule_of_three": "rule of three",
    "paired_bootstrap_swaps": "paired bootstrap and swaps",
    "paired_cluster_bootstrap_swaps": "paired bootstrap and swaps, clustered",
    "newcombe_mcnemar": "Newcombe and McNemar",
    "newcombe_fisher": "Newcombe and Fisher, unpaired",
    "welch_t": "Welch's t, unpaired",
    "unpaired_cr2_t": "t, unpaired and clustered",
    "welch_t_rare": "Welch's t with rare changes, unpaired",
    "unpaired_cr2_t_rare": "t with rare changes, unpaired and clustered",
    "unpaired_bootstrap_t": "bootstrap and t, unpaired",
    "unpaired_cluster_bootstrap_t": "bootstrap and t, unpaired and clustered",
    "paired_t": "paired t",
    "paired_t_sign_flip": "paired t and sign flips",
    "paired_cr2_t": "paired t, clustered",
    "paired_t_rare": "paired t with rare changes",
    "paired_t_rare_sign_flip": "paired t with rare changes, and sign flips",
    "paired_cr2_t_rare": "paired t with rare changes, clustered",
    "paired_cr2_t_rare_sign_flip": "paired t with rare changes, and sign flips, clustered",
    "wilson_weighted": "Wilson, weighted",
    "t_weighted": "t, weighted",
    "cr1_t_weighted": "t, clustered and weighted",
    "ppi_t": "PPI",
    "ppi_cr1_t": "PPI, clustered",
    "ppi_crossfit_t": "PPI, cross-fitted",
    "ppi_crossfit_cr1_t": "PPI, cross-fitted, clustered",
    "rogan_gladen": "Rogan-Gladen",
    "delta": "delta method",
    "delta_cr2_t": "delta method, clustered",
    "bootstrap": "bootstrap",
    "fisher": "Fisher",
    "fisher_cr2_t": "Fisher, clustered",
    "max_t": "largest difference (max-t)",
    "cr2_max_t_sign_flip": "largest difference (max-t) and sign flips, clustered",
    "bradley_terry_max_t": "Bradley-Terry, cluster-robust, largest difference (max-t)",
    "davidson_max_t": "Bradley-Terry with ties (Davidson), cluster-robust, largest difference (max-t)",
    "paired_cr2_t_sign_flip": "paired t and sign flips, clustered",
}
_NAMED = 3
_ALL_LABELLED = "labels alone, every answer has one"  # which makes no interval rough
_ASKED = 160  # characters of a question in a cell
_FEW = 10
"""Scores below which a row's numbers say little, however exact its interval is."""
_TOO_FEW, _SAYS_LITTLE = "too few for the rule of three", "too few to say much"
_OF_FEW_CASES = re.compile(
    r"((no|a rough) interval, )?"
    r"(one case|fewer than \d+ cases( of a score without fixed ends)?|\S+ of \S+ cases, (too few|by the rule) [^,]*)"
)
"""Caveats that say no more than the number of cases; few or equal groups, for example, are another reason."""
# C0 except tab and newline, DEL, and C1, which some terminals treat like escapes; and lone surrogates, which JSON may
# contain but which cannot be encoded. And characters that change the writing direction, so that text reads as
# something else.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def number(value: float | None, digits: int = 3) -> str:
    """A value with three decimals if below 100; an en dash for None."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if abs(value) < 100 else f"{value:,.1f}"


def signed(value: float | None) -> str:
    """A difference: as `number`, with its sign."""
    return number(value) if value is None or value < 0 else f"+{number(value)}"


def p_value(value: float | None) -> str:
    """A p-value, never shown as 0."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value >= _LEAST else "<.001"


def plain_statistic(name: str) -> str:
    """A statistic in words, such as `pass rate`; the class or label in its brackets is unchanged."""
    statistic, bracket, label = name.partition("[")
    return f"{statistic.replace('_', ' ')}{bracket}{label}"


def percent(value: float | None) -> str:
    """A share in whole percent, with one decimal if rounding would give 0 % or 100 %."""
    if value is None:
        return "–"
    text = f"{100 * value:.0f}"
    if text == "0" and value > 0:
        text = f"{100 * value:.1f}" if value >= _LEAST else "<0.1"
    if text == "100" and value < 1:
        text = f"{100 * value:.1f}" if value <= 1 - _LEAST else ">99.9"
    return f"{text} %"


def cost(usd: float | None) -> str:
    """Dollars, or "unknown": a missing cost is never 0."""
    if usd is None:
        return "unknown"
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def provider_savings(manifest: Manifest | SweepManifest) -> str | None:
    """The tokens and dollars that providers' own caches saved, as far as reported; None if none are reported."""
    if not manifest.provider_cached:
        return None
    usd = manifest.provider_saved_usd
    tokens = f"{manifest.provider_cached:,} input tokens"
    return f"saved by the provider's cache: {tokens}" + ("" if usd is None else f", {cost(usd)}")


def method(code: str | None) -> str:
    """An interval's method in words. Text after a colon is kept, and so is an unknown code; further codes are words.

    Example:
        >>> method("max_t: ppi_t: each run by its own labels")
        'largest difference (max-t): PPI: each run by its own labels'
    """
    if code is None:
        return "–"
    return ": ".join(_METHODS.get(part, part) for part in code.split(": "))


def has_made_id(case_id: str) -> bool:
    """Whether the data has no id for the case, so that one was made of its content."""
    return _MADE_ID.fullmatch(case_id) is not None


def is_numbered_id(case_id: str) -> bool:
    """Whether an id was made for a case that asks the same as an earlier one."""
    return has_made_id(case_id) and "-" in case_id


def case_name(case_id: str, question: str | None) -> str:
    """The case's id in one line; its question, shortened, if the data has no ids and the id was made of the content.

    Example:
        >>> case_name("0123456789abcdef", "What is it?"), case_name("pool-01", "When does it open?")
        ('"What is it?"', 'pool-01')
    """
    return f'"{cut(plain_line(question), _QUESTION)}"' if question and has_made_id(case_id) else plain_line(case_id)


def case_lines(case_id: str, question: str | None, *more: str) -> tuple[str, ...]:
    """A case in the lines of a cell: its id and its question; without an id of its own first the question.

    Example:
        >>> case_lines("pool-01", "When does it open?"), case_lines("0123456789abcdef", "What is it?")
        (('pool-01', 'When does it open?'), ('What is it?', '0123456789abcdef'))
    """
    asked = cut(question, _ASKED)
    return (asked, *more, case_id) if asked and has_made_id(case_id) else (case_id, asked, *more)


def caveat(code: str | None) -> str:
    """A caveat for an interval, by its method's name; "" if there is none."""
    name, _, why = (code or "").partition(": ")
    why = why.removesuffix(_ALL_LABELLED).removesuffix(", ")
    if not why:
        return ""
    if name == "none":
        return f"no interval, {why}"
    exact = name in ("wilson", "wilson_clusters", "plus_two_cr2_t") and "unequal" not in why
    return why.replace(_TOO_FEW, _SAYS_LITTLE) if exact else f"a rough interval, {why}"


def caveat_lines(rows: Iterable[SummaryRow]) -> list[str]:
    """The caveats of a summary's intervals, each with the rows it applies to; one line if only few cases are why."""
    notes: dict[str, list[str]] = {}
    small_samples: dict[int, list[str]] = {}
    for row in (row for row in rows if row.n_scored):
        name = row.metric if row.statistic == "mean" else f"{row.metric} {row.statistic}"
        why = caveat(row.ci_method)
        is_few = row.n_scored < _FEW or _SAYS_LITTLE in why
        if is_few and (not why or _OF_FEW_CASES.fullmatch(why)):
            small_samples.setdefault(row.n_scored, []).append(name)
        elif why:
            notes.setdefault(why, []).append(name)
    counts = "; ".join(f"{n:,} for {_some(names)}" for n, names in small_samples.items())
    lines = [f"{_some(names)}: {why}" for why, names in notes.items()]
    return [f"too few cases to say much: {counts}", *lines] if counts else lines


def _some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    names = list(dict.fromkeys(names))
    return f"{', '.join(names[:_NAMED])}{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''}"


def unseen_in_words(share: float | None, cases: int) -> str:
    """The change that a passed margin may miss (`summary.verdicts.unseen_share`); "" if nothing."""
    if share is None:
        return ""
    many = f"{percent(share)} of all cases"
    return (
        f"if {many} went from best to worst, it would be worse by that much, and {cases:,} cases may show none of them"
    )


def interval(low: float | None, high: float | None, show: Callable[[float], str] = number) -> str:
    """An interval such as `0.123 to 0.456`; an en dash if there is none."""
    return "–" if low is None or high is None else f"{show(low)} to {show(high)}"


def bracketed(low: float | None, high: float | None, show: Callable[[float], str] = number) -> str:
    """An interval to append to its value, such as ` (0.123 to 0.456)`, or empty."""
    return "" if low is None or high is None else f" ({interval(low, high, show)})"


def rank_range(low: int, high: int) -> str:
    """The ranks that a run may have, such as `1 to 3`, or `2` if it is known."""
    return str(low) if low == high else f"{low} to {high}"


def who_scored(judge: str | None) -> str:
    """The source of a score, for texts: "judge" or "metric"."""
    return "judge" if judge else "metric"


def counted(n: int, noun: str = "case") -> str:
    """A count with its noun: `1 case`, `2,000 cases`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def joined(*parts: str | None) -> str:
    """The parts that are not empty, with a dot between them."""
    return " · ".join(part for part in parts if part)


def not_scored(undefined: int, error: int, skipped: int) -> str:
    """The three unscored states: `2 not scored (1 undefined, 1 error, 0 skipped)`."""
    total = undefined + error + skipped
    states = f"{undefined:,} undefined, {error:,} error, {skipped:,} skipped"
    return f"{total:,} not scored ({states})" if total else "All cases scored"


def varying(rows: Iterable[OfSeries]) -> tuple[str, ...]:
    """Those of dataset, target and judge that have more than one value in the rows, without None."""
    values = zip(*((row.dataset, row.target, row.judge) for row in rows), strict=True)
    return tuple(part for part, own in zip(PARTS, values, strict=False) if len({*own} - {None}) > 1)


def series_name(row: OfSeries, parts: Iterable[str]) -> str:
    """The row's values of these parts, joined."""
    return joined(*(getattr(row, part) for part in parts))


def unscored(rows: Sequence[SummaryRow]) -> str:
    """`not_scored` for rows of the summary. The mean and figures of a metric have the same cells, which count once."""
    cells = {row.series: row for row in rows}.values()
    undefined, error = sum(one.n_undefined for one in cells), sum(one.n_error for one in cells)
    return not_scored(undefined, error, sum(one.n_skipped for one in cells))


def without_means_of_figures(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Rows of the summary, whole cases first, without the mean of a metric with figures: its accuracy is the same."""
    every = sorted(rows, key=lambda row: row.metric != CASES)
    with_figures = {row.metric for row in every if row.statistic != "mean"}
    return [row for row in every if row.statistic != "mean" or row.metric not in with_figures]


def metric_name(metric: str) -> str:
    """What a metric is called in titles and tables: its name or title, and of whole cases what they do."""
    return "cases that pass everything" if metric == CASES else metric


def headline_rows(summary: pl.DataFrame) -> list[SummaryRow]:
    """The rows that every report begins with: over all tags; for a metric with figures, these instead of its mean."""
    return without_means_of_figures(row for row in rows_of(summary) if row.tag is None)


def plain(text: str) -> str:
    """The text without control characters and those that change its direction; tabs and newlines stay."""
    return _CONTROLS.sub("", text)


def plain_line(text: str) -> str:
    """The same as `plain` on one line, with white space collapsed."""
    return " ".join(plain(text).split())


def cut(text: str | None, most: int) -> str:
    """The beginning of a text on one line, up to the end of a word."""
    line = plain_line(text or "")
    return line if len(line) <= most else f"{line[:most].rpartition(' ')[0] or line[:most]} …"


def literal(text: str, style: str = "") -> Text:
    """Untrusted text to print or to put into a table cell: no markup, no control characters."""
    return Text(plain(text), style=style)


def print_json(console: Console, document: Any) -> int:
    """Print a document as JSON without wrapping; returns the exit code 0."""
    console.file.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return 0


def folded(name: str, width: int, indent: str = "  ") -> str:
    """A long name, wrapped between its words."""
    lines = [""]
    for word in re.findall(r"[^_.=· /[-]*[_.=· /[-]*", name):
        if len(lines[-1]) + len(word) > width and lines[-1].strip():
            lines.append(indent)
        lines[-1] += word
    return "\n".join(lines)


ColumnKind = Literal["name", "word", "number", "figure", "text"]
_COLUMN_KINDS: Mapping[ColumnKind, Mapping[str, Any]] = {
    "name": {"overflow": "fold"},
    "word": {"no_wrap": True},
    "number": {"justify": "right", "no_wrap": True},
    "figure": {"justify": "right", "overflow": "fold"},
    "text": {},
}


def table_of(columns: Mapping[str, ColumnKind], rows: Iterable[Sequence[str | Text]], gap: int = 1) -> Table:
    """A table for terminals, of untrusted text. A `name` may shrink; a `number` may not, because it must not be cut."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap, 0, 0))
    for title, kind in columns.items():
        table.add_column(literal(title), **_COLUMN_KINDS[kind])
    for row in rows:
        table.add_row(*(literal(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def print_indented(console: Console, line: str, style: str = "dim", by: int = 2) -> None:
    """Print untrusted text, indented on all of its lines."""
    from rich.padding import Padding

    console.print(Padding(literal(line, style=style), (0, 0, 0, by)))


def print_lines(console: Console, lines: Iterable[str], style: str = "") -> None:
    """Print lines of untrusted text, however long: the terminal wraps them."""
    for line in lines:
        console.print(literal(line, style=style), soft_wrap=True)


def print_cut(console: Console, head: str, why: str) -> None:
    """Print a head with a reason on one line, cut at the end of the terminal."""
    line = Text.assemble(f"{head}  ", (plain_line(why), "dim"), no_wrap=True, overflow="ellipsis")
    console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
