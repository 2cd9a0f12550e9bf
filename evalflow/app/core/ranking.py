"""Rank several saved runs: which can be ranked together, on which cases, and the rankings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from evalflow.app.core.cases import BASELINE
from evalflow.app.core.changed import Kind, obstacles, what_changed
from evalflow.app.core.comparison import JUDGE_ALONE, NO_LABELS
from evalflow.app.core.labels import ComparedLabels, Rows, labels_to_compare, unused_labels
from evalflow.app.core.saved import SavedRun
from evalflow.errors import Problem, UserError, command, unknown_name
from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.report.ranking import RankingPage
from evalflow.report.wording import counted, has_made_id, percent
from evalflow.stats.bradley_terry import NoStrengthsError
from evalflow.summary.changed import WhatChanged
from evalflow.summary.compare import NOT_OF_FIGURES
from evalflow.summary.items import ItemTable, ShortSet, item_table
from evalflow.summary.pairing import Traits, whole_cases
from evalflow.summary.ranking import CommonCases, Ranking, common_cases, rank_by_mean, rank_by_pairs, rank_by_verdicts

LEAST_OVERLAP = 0.5
"""Least share of the cases of the run with the fewest that all runs must have scored. Below it the common cases are the
smaller part of a run, and most likely no random one: its rank there says little about its rank on its own cases."""


@dataclass(frozen=True, slots=True)
class Standings:
    """The rankings of several runs by dataset, metric and scale, with the common cases of each and the draws' seed.

    `in_cases` are the metrics that a case must pass to pass everything, and `labels` those that correct the ranks.
    `notes` say what was left out or allowed, and why some metric has no ranking.
    """

    runs: Mapping[str, SavedRun]
    rankings: Sequence[Ranking]
    tables: Sequence[CommonCases]
    seed: int
    in_cases: Collection[str]
    labels: ComparedLabels
    notes: Sequence[str]

    def page(self, items: Sequence[ItemTable] = (), short: ShortSet | None = None) -> RankingPage:
        """The rankings for people."""
        manifests = {name: run.manifest for name, run in self.runs.items()}
        keys = {
            (table.dataset, case_id) for table in items for case_id in table.rows["case_id"] if has_made_id(case_id)
        }
        cases = next(iter(self.runs.values())).cases(keys) if keys else ()
        questions = {(case.dataset, case.id): case.question or "" for case in cases}
        ranked = {one.metric for one in self.rankings}
        metrics = ranked | set(self.in_cases if CASES in ranked else ())
        return RankingPage(manifests, self.rankings, metrics, self.notes, items, short, questions)


def rank_runs(
    runs: Sequence[SavedRun],
    *,
    metric: str | None = None,
    pairwise: bool = False,
    allow: Collection[Kind] = (),
    allow_option: str = "--allow ",
    given: str | Rows | None = None,
    judge_alone: bool = False,
) -> Standings:
    """Rank the runs on the cases that all of them scored, by each metric or only by the one named.

    Means and pass rates are corrected by people's labels (`given` as in `compare_labelled`), unless `judge_alone`.
    `pairwise` also ranks by a win, tie or loss of every two runs in each case. Metrics that compare two answers are
    always ranked by their verdicts too. `allow` and `allow_option` are as in `ComparisonOptions`. UserError if there
    are fewer than two runs, one is named twice, they measured different things, or no metric has enough common cases.
    """
    by_name = _named(runs)
    changes = _changes(by_name)
    notes = list(_differences(changes, allow, allow_option))
    known = dict.fromkeys(name for run in runs for name in run.manifest.metrics)
    if metric not in (None, CASES, *known):
        raise UserError(unknown_name(f"no run has the metric {metric!r}", "--metric", metric, known))
    seed = runs[-1].manifest.config["seed"]
    scores = {name: run.scores() for name, run in by_name.items()}
    labels = NO_LABELS if judge_alone else labels_to_compare(list(by_name.values()), given)
    unusable = labels.unusable_in(*by_name.values())
    rankings: list[Ranking] = []
    tables: list[CommonCases] = []
    refused: list[str] = []
    traits = {name: own for run in runs for name, own in run.traits.items()}
    people, whole = labels.people_of(by_name), whole_cases([*scores.values()], traits)
    as_wholes = dict(zip(scores, whole.scores, strict=True)) if whole else {}
    for common in (*common_cases(scores, people), *common_cases(as_wholes)):
        if metric not in (None, common.metric):
            continue
        where = f"{common.dataset}, {common.metric}"
        if why := _too_few(common):
            refused.append(f"{where}: {why}")
            continue
        if common.metric != CASES:
            tables.append(common)
        notes += _left_out(common, where, by_name)
        why_not = unusable.get((common.dataset, common.metric), "")
        metric_rankings, why_not = _rankings(common, by_name, pairwise=pairwise, seed=seed, unusable=why_not)
        if common.metric == CASES and (n := _labelled_cases(common, people)):
            metric_rankings = [replace(one, labelled=n, uncorrected=NOT_OF_FIGURES) for one in metric_rankings]
        rankings += _attributed(metric_rankings, changes)
        notes += [f"{where}: {why}" for why in why_not]
    if not rankings:
        raise _nothing_ranked(runs, refused)
    notes += labels.notes
    if judge_alone:
        notes += unused_labels(by_name.values(), {(one.dataset, one.metric) for one in tables}, JUDGE_ALONE)
    notes += [f"{one}; not ranked" for one in refused]
    return Standings(by_name, rankings, tables, seed, whole.metrics if whole else (), labels, notes)


def _nothing_ranked(runs: Sequence[SavedRun], refused: Sequence[str]) -> UserError:
    if not refused:
        why = f"why cases have no score: {command('cases', runs[0].folder.path, '--failed')}"
        return UserError(Problem("no metric is scored in two of the runs", "runs", why))
    hint = f"rank runs of the same cases; two samples of different cases: {command('compare', 'A', 'B', '--unpaired')}"
    return UserError(Problem(f"not ranked: {one}", "runs", hint) for one in refused)


def ranked_items(standings: Standings) -> list[ItemTable]:
    """The table of cases of each metric, with people's labels."""
    frames = standings.labels.named(standings.runs)
    tables: list[ItemTable] = []
    for common in standings.tables:
        traits = standings.runs[common.names[0]].traits.get(common.metric, Traits())
        scores = {name: standings.runs[name].scores() for name in common.names}
        how = {"higher_is_better": traits.higher_is_better, "bounded": traits.bounded}
        tables.append(item_table(common, scores, frames, **how))
    return tables


def _named(runs: Sequence[SavedRun]) -> dict[str, SavedRun]:
    """The runs by name: their own, or their path if two have the same."""
    paths = [run.folder.path.resolve() for run in runs]
    if twice := sorted({str(path) for path in paths if paths.count(path) > 1}):
        raise UserError([Problem("this run is named twice", path, "name each run once") for path in twice])
    if len(runs) < 2:
        where = str(paths[0]) if runs else "command line"
        raise UserError(
            Problem("a ranking needs two runs or more", where, "name more folders of runs, or that of a sweep")
        )
    names = [run.name for run in runs]
    return {
        run.name if names.count(run.name) == 1 else f"{path.parent.name}/{run.name}": run
        for run, path in zip(runs, paths, strict=True)
    }


def _changes(runs: Mapping[str, SavedRun]) -> list[WhatChanged]:
    """What differs between each run and the first that has each of its metrics on each of its datasets."""
    first: dict[tuple[str, str], str] = {}
    pair_changes: list[WhatChanged] = []
    for name, run in runs.items():
        scored = [*product(run.manifest.metrics, run.manifest.datasets)]
        for other in dict.fromkeys(first[each] for each in scored if each in first):
            pair_changes.append(replace(what_changed(runs[other], run), pair=(other, name)))
        for each in scored:
            first.setdefault(each, name)
    return pair_changes


def _differences(changes: Iterable[WhatChanged], allow: Collection[Kind], allow_option: str) -> Iterator[str]:
    """Return notes on allowed differences; UserError with those that are not allowed."""
    refused: dict[tuple[str, str], Problem] = {}
    for changed in changes:
        where = " and ".join(changed.pair)
        for difference in obstacles(changed):
            if difference.kind in allow:
                yield f"{where}: {difference.what}; ranked anyway, as allowed"
                continue
            hint = f"their scores may not mean the same; to rank them anyway: {allow_option}{difference.kind}"
            refused[where, difference.what] = Problem(difference.what, where, hint)
    if refused:
        raise UserError(refused.values())


def _attributed(rankings: Iterable[Ranking], changes: Iterable[WhatChanged]) -> Iterator[Ranking]:
    """The rankings with what can explain their differences: the answers, if this is so for every two of their runs."""
    every = list(changes)
    for ranking in rankings:
        names, statistic = {row.run for row in ranking.rows}, "mean" if ranking.by != "pass_rate" else ranking.by
        own = (changed for changed in every if names.issuperset(changed.pair))
        kinds = {changed.attribution(ranking.metric, statistic) for changed in own}
        yield replace(ranking, attribution=kinds.pop() if len(kinds) == 1 else "unclear")


def _labelled_cases(common: CommonCases, people: Mapping[str, pl.DataFrame]) -> int:
    """The number of common cases with a label on some metric, in the run with the fewest."""
    cases = common.cases.select("case_id")
    given = {name: frame.filter(dataset=common.dataset).drop_nulls("human") for name, frame in people.items()}
    labelled = {name: frame.join(cases, on="case_id", how="semi") for name, frame in given.items()}
    return min(labelled[name]["case_id"].n_unique() if name in labelled else 0 for name in common.names)


def _too_few(common: CommonCases) -> str:
    if not common.cases.height:
        return "the runs share no scored case"
    if common.overlap < LEAST_OVERLAP:
        share = percent(common.overlap)
        fewest = min(common.left_out, key=lambda name: common.left_out[name])
        n = counted(common.cases.height, "common case")
        return f"only {n}, {share} of those of {fewest}; {percent(LEAST_OVERLAP)} are needed to say how the runs rank"
    return ""


def _left_out(common: CommonCases, where: str, runs: Mapping[str, SavedRun]) -> Iterator[str]:
    if any(common.left_out.values()):
        each = ", ".join(f"{name} {n:,}" for name, n in common.left_out.items() if n)
        ranked = counted(common.cases.height, "case")
        yield f"{where}: ranked on the {ranked} that all runs scored; scored cases left out: {each}"
    if missing := [name for name in runs if name not in common.names]:
        yield f"{where}: without scores, and not ranked: {', '.join(missing)}"


def _rankings(
    common: CommonCases, runs: Mapping[str, SavedRun], *, pairwise: bool, seed: int, unusable: str = ""
) -> tuple[list[Ranking], list[str]]:
    """The rankings of one metric, and why some are missing."""
    traits = runs[common.names[0]].traits.get(common.metric, Traits())
    scores = {name: runs[name].scores() for name in common.names}
    metric_rankings: list[Ranking] = []
    why_not: list[str] = []
    opponents: dict[str, str] = {}
    if traits.figures is not None and traits.figures.kind == "pairwise":
        opponents = {name: _opponent(runs[name], common.metric, runs) for name in common.names}
    if len(set(opponents.values())) > 1:
        why_not.append("no ranking by mean: the runs were compared with different answers")
    else:
        metric_rankings += rank_by_mean(common, traits, seed=seed, unusable=unusable)
    try:
        if opponents:
            metric_rankings.append(rank_by_verdicts(common, scores, opponents, seed=seed))
    except NoStrengthsError as error:
        why_not.append(f"no strengths from verdicts: {error}")
    try:
        if pairwise:
            metric_rankings.append(rank_by_pairs(common, traits, seed=seed))
    except NoStrengthsError as error:
        why_not.append(f"no strengths from pairs of scores: {error}")
    if common.human is not None:
        labelled = int((common.human == common.human).sum(axis=0).max())
        by_judge = {"labelled": labelled, "uncorrected": unusable or NOT_OF_FIGURES}
        metric_rankings = [
            replace(one, **by_judge) if one.by in ("pairs", "verdicts") else one for one in metric_rankings
        ]
    return metric_rankings, why_not


def _opponent(run: SavedRun, metric: str, runs: Mapping[str, SavedRun]) -> str:
    """Return the name of a pairwise metric's opponent: another run, or the field of the case."""
    against = str(run.manifest.metric_config(metric)["against"])
    if against != f"vars.{BASELINE}":
        return against
    config: Mapping[str, Any] = run.manifest.config
    baseline = Path(str(config["baseline"]))
    same = (name for name, one in runs.items() if one.folder.path.resolve() == baseline.resolve())
    return next(same, baseline.name)
