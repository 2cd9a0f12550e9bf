"""A ranking of several runs on a terminal, as a page and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow.paths import replacing, safe_text
from evalflow.records import CASES
from evalflow.records.manifest import Manifest
from evalflow.report.charts import Picture, draw
from evalflow.report.page import INTERVAL, PageColumn, PageHead, PageTable, judge_lines, terminal_table, write_page
from evalflow.report.ranking_sentences import labels_of_ranking, notes_of, of_items, of_ranking, of_short_set
from evalflow.report.svg import IntervalPoint, interval_chart
from evalflow.report.titles import ShownTitles
from evalflow.report.wording import (
    ColumnKind,
    case_name,
    counted,
    folded,
    interval,
    joined,
    literal,
    method,
    metric_name,
    number,
    p_value,
    print_lines,
    rank_range,
    signed,
    table_of,
    who_scored,
)
from evalflow.summary.items import ItemTable, ShortSet
from evalflow.summary.ranking import Ranking
from evalflow.summary.verdicts import SUSPECT
from evalflow.values.jsonvalues import objects_at

_BY = {
    "mean": "mean",
    "pass_rate": "pass rate",
    "pairs": "strength, from pairs of scores",
    "verdicts": "strength, from verdicts",
}
_NAME = 34
_SUSPECTS, _CASES = 10, 50


@dataclass(frozen=True, slots=True)
class RankingPage:
    """The rankings of several runs for display. `runs` are manifests by name; items and short set only if requested.

    `metrics` are those that the rankings depend on, and `questions` those of the items' cases without ids of their own,
    by dataset and id.
    """

    runs: Mapping[str, Manifest]
    rankings: Sequence[Ranking]
    metrics: Collection[str]
    notes: Sequence[str]
    items: Sequence[ItemTable] = ()
    short: ShortSet | None = None
    questions: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    @property
    def judges(self) -> list[str]:
        """A line for each judge of the ranked metrics."""
        return list(dict.fromkeys(line for name in self.runs for line in self._judges_of(name)))

    def _judges_of(self, run: str) -> list[str]:
        return judge_lines(self.runs[run], self.metrics)

    def document(self) -> dict[str, Any]:
        return {
            "runs": {
                name: {"run_id": manifest.run_id, "judges": self._judges_of(name)}
                for name, manifest in self.runs.items()
            },
            "rankings": [
                {**one.document(), "sentences": [*of_ranking(one)], "notes": [*notes_of(one)]} for one in self.rankings
            ],
            "items": [{**table.document(), "sentences": [*of_items(table)]} for table in self.items],
            "short": {**self.short.document(), "sentence": of_short_set(self.short)} if self.short else None,
            "notes": list(self.notes),
        }


def title(ranking: Ranking) -> str:
    """The title of a ranking, such as `faithfulness · mean · rag`."""
    lower = "" if ranking.higher_is_better else "lower is better"
    by = "" if ranking.metric == CASES else _BY[ranking.by]
    return joined(metric_name(ranking.metric), by, ranking.dataset, ranking.judge, lower)


def method_line(ranking: Ranking) -> str:
    """The cases and the method."""
    cases = counted(ranking.cases, "case")
    cases += f" in {counted(ranking.clusters, 'cluster')}" if ranking.clusters != ranking.cases else ""
    name, _, why = ranking.method.partition(": ")
    held = f"no ranks can be told apart: {why}" if name == "none" else "ranks hold together with 95 % confidence"
    how = "" if name == "none" else method(ranking.method)
    labels = labels_of_ranking(ranking.metric, ranking.labelled, ranking.uncorrected, ranking.judge)
    return "; ".join(part for part in (cases, held, how, labels) if part)


def print_rankings(console: Console, ranking_page: RankingPage) -> None:
    """Print a table for each ranking, its sentences, and what was left out."""
    print_lines(console, ranking_page.judges, "dim")
    for ranking in ranking_page.rankings:
        console.print(literal(title(ranking), style="bold"), soft_wrap=True)
        console.print(terminal_table(_ranks_table(ranking), without="Left out"))
        print_lines(console, of_ranking(ranking))
        console.print(literal(method_line(ranking), style="dim"), soft_wrap=True)
        print_lines(console, notes_of(ranking), "dim")
    for table in ranking_page.items:
        _print_items(console, table, ranking_page.questions)
    if ranking_page.short is not None:
        console.print(literal(short_title(ranking_page.short), style="bold"), soft_wrap=True)
        console.print(literal(of_short_set(ranking_page.short)), soft_wrap=True)
    print_lines(console, (f"note: {note}" for note in ranking_page.notes), "yellow")


def short_title(short: ShortSet) -> str:
    """The size of the short set, in words."""
    return joined(f"short set of {len(short.ids):,} of {counted(short.of, 'case')}", short.metric, short.dataset)


def _print_items(console: Console, table: ItemTable, questions: Mapping[tuple[str, str], str]) -> None:
    console.print(literal(joined("cases", table.metric, table.dataset), style="bold"), soft_wrap=True)
    print_lines(console, of_items(table))
    suspects = table.of(*SUSPECT)[:_SUSPECTS]
    if suspects:
        lines = [
            [
                folded(case_name(row.case_id, questions.get((table.dataset, row.case_id))), _NAME),
                number(row.mean),
                signed(row.discrimination),
                interval(row.ci_low, row.ci_high, signed),
                p_value(row.p_adjusted),
            ]
            for row in suspects
        ]
        names = ("mean", "discrimination", "95 % interval", "adjusted p")
        numbers: dict[str, ColumnKind] = dict.fromkeys(names, "number")
        console.print(table_of({"look at first": "name", **numbers}, lines))
    for row in table.contradicted[:_SUSPECTS]:
        remark = f"{row.contradicted} of {counted(row.labelled or 0, 'labelled answer')} scored against the label"
        name = case_name(row.case_id, questions.get((table.dataset, row.case_id)))
        console.print(literal(f"  {name}: {remark}"), soft_wrap=True)


def write_ranking(folder: Path, ranking_page: RankingPage) -> list[Path]:
    """Write rank.html, one page with titles; rank.csv, a row per run of each ranking; and items.csv if asked."""
    page, table, cases = folder / "rank.html", folder / "rank.csv", folder / "items.csv"
    title_of_page = f"Ranking of {len(ranking_page.runs)} runs"
    head = PageHead("Ranking", title_of_page, "on the cases that all runs scored", ranking_page.judges, wide=True)
    titles = ShownTitles.of(ranking_page.runs.values())
    rankings, short = (
        titles.shown(ranking_page.rankings),
        titles.shown([ranking_page.short] if ranking_page.short else []),
    )
    context = {
        "ranking": ranking_page,
        "rankings": [
            (title(one), _ranks_table(one), [*of_ranking(one)], [method_line(one), *notes_of(one)]) for one in rankings
        ],
        "items": [
            (shown, [*_items_tables(table, ranking_page.questions)], [*of_items(table)])
            for table, shown in zip(ranking_page.items, titles.shown(ranking_page.items), strict=True)
        ],
        "short_title": "".join(map(short_title, short)),
        "short_sentence": "".join(map(of_short_set, short)),
        "pictures": [_picture(ranking) for ranking in rankings],
    }
    write_page(page, "ranking.html.jinja", head, context)
    _write_rows(table, _csv_rows(ranking_page.rankings))
    if not ranking_page.items:
        return [page, table]
    about = (
        {"dataset": one.dataset, "metric": one.metric} | row
        for one in ranking_page.items
        for row in one.rows.to_dicts()
    )
    _write_rows(cases, about)
    return [page, table, cases]


def _ranks_table(ranking: Ranking) -> PageTable:
    heads = [
        PageColumn("Run"),
        PageColumn("Rank", "num value"),
        PageColumn("95 % ranks", "num"),
        PageColumn(_BY[ranking.by].partition(",")[0].capitalize(), "num"),
        INTERVAL,
    ]
    corrected = any(row.raw for row in ranking.rows)
    heads += [PageColumn(f"{who_scored(ranking.judge).capitalize()} alone", "num")] if corrected else []
    show = signed if ranking.by in ("pairs", "verdicts") else number
    rows = [
        (
            row.run,
            str(row.rank),
            rank_range(row.rank_low, row.rank_high),
            show(row.value),
            interval(row.low, row.high, show),
            *([number(row.raw and row.raw[0])] if corrected else []),
            f"{row.left_out:,}",
        )
        for row in ranking.rows
    ]
    return PageTable([*heads, PageColumn("Left out", "num")], rows)


def _items_tables(table: ItemTable, questions: Mapping[tuple[str, str], str]) -> Iterator[PageTable]:
    heads = [
        PageColumn("Case"),
        PageColumn("Mean", "num"),
        PageColumn("Spread", "num"),
        PageColumn("Discrimination", "num value"),
        INTERVAL,
        PageColumn("Adjusted p", "num"),
        PageColumn("Against labels", "num"),
    ]
    parts = {
        "Better runs score worse: a wrong key, or chance": table.of(*SUSPECT),
        "Scores against labels": table.contradicted,
        "Separate the runs": [*reversed(table.of("separates"))],
    }
    for caption, items in parts.items():
        rows = [
            (
                case_name(row.case_id, questions.get((table.dataset, row.case_id))),
                number(row.mean),
                number(row.spread),
                number(row.discrimination),
                interval(row.ci_low, row.ci_high),
                p_value(row.p_adjusted),
                f"{row.contradicted} of {row.labelled}" if row.labelled else "–",
            )
            for row in items[:_CASES]
        ]
        rest = f": the first {_CASES} of {len(items):,}; items.csv has all" if len(items) > _CASES else ""
        if rows:
            yield PageTable(heads, rows, f"{caption}{rest}")


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with replacing(path) as file:
        writer = csv.writer(file)
        for place, row in enumerate(rows):
            if not place:
                writer.writerow(row)
            writer.writerow(safe_text(value) if isinstance(value, str) else value for value in row.values())


def _csv_rows(rankings: Sequence[Ranking]) -> Iterator[dict[str, Any]]:
    for ranking in rankings:
        about = ranking.document()
        shared = {key: about[key] for key in ("dataset", "metric", "judge", "by", "n", "clusters", "method")}
        yield from (shared | row for row in objects_at(about, "rows"))


def _picture(ranking: Ranking) -> Picture:
    """The ranks as points on their intervals, best first."""
    sentence = "Each dot is a run's rank, with the interval of its rank; all of them hold together in 95 % of such "
    sentence += f"rankings. {' '.join(of_ranking(ranking))}"
    points = [
        IntervalPoint(row.run, float(row.rank), float(row.rank_low), float(row.rank_high)) for row in ranking.rows
    ]
    return draw(title(ranking), sentence, interval_chart(points, (1, len(points)), "rank"))
