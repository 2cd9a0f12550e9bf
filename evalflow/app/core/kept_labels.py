"""The labels stored with a run, and labels of other runs that apply to equal answers in it.

A run keeps the labels that it was calibrated with in labels.jsonl: first a line on all of them, then a row for each. A
run beside it that gave equal answers finds them there, so that the existing
labels also measure another judge, or another prompt of it. Labels are shared within one folder of runs and its sweeps;
on a server that is one project.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalflow.app.core.saved import SavedRun, answered_rows
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.labels.read import answer_hash
from evalflow.labels.sheet import CELL, shown_case
from evalflow.lazy import pl
from evalflow.paths import write_atomically
from evalflow.report.results_csv import AnsweredCase, as_answered
from evalflow.report.wording import counted

log = logging.getLogger("evalflow")

Series = tuple[str, str]  # dataset and metric
_KINDS = ("runs", "sweeps")  # folders of an outputs folder
LEAST_EQUAL = 0.95
"""Another run's labels may correct means only if at least this fraction of its labelled answers, in the common cases,
is equal here, and this fraction of the cases here was in the population that the labels were sampled from."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows does not have it


@dataclass(frozen=True, slots=True)
class FollowedLabels:
    """Labels of another run's answers that are equal here, on one dataset and metric.

    `labelled` counts its labelled answers to cases that are here too, `n` those of them that are equal here. `why` is
    the reason if these labels may not correct means.
    """

    dataset: str
    metric: str
    run: str  # the other run's id
    n: int
    labelled: int
    why: str = ""

    @property
    def source(self) -> str:
        return f"{counted(self.n, 'label')} of run {self.run}, of equal answers"


@dataclass(frozen=True, slots=True)
class RunLabels:
    """Labels of a run's answers: `frame` as in `label_frame`, their `source` in words, and which of all these are.

    `left_out` is the number of labels that do not count here, by reason; `notes` say so to people. `followed` are the
    labels that were given to another run's answers.
    """

    frame: pl.DataFrame
    source: str
    left_out: Mapping[str, int]
    notes: Sequence[str]
    rests_on: str = "all labels"
    followed: Sequence[FollowedLabels] = ()
    at: str = ""  # when the run was given them first (ISO 8601); empty if it does not keep them yet

    @property
    def series(self) -> set[Series]:
        """The datasets and metrics that have labels."""
        return set(self.frame.select("dataset", "metric").unique().iter_rows())

    def with_followed(self, others: RunLabels | None) -> RunLabels:
        """Merge these labels with followed ones; both must not have labels on the same dataset and metric."""
        if others is None:
            return self
        source = others.source if not self.frame.height else f"{self.source}; {others.source}"
        frame, followed = pl.concat([self.frame, others.frame]), [*self.followed, *others.followed]
        return replace(self, frame=frame, source=source, notes=[*self.notes, *others.notes], followed=followed)


def save_labels(run: SavedRun, labels: RunLabels, unusable: Mapping[Series, str]) -> None:
    """Write labels.jsonl; `unusable` is why labels may not correct means."""
    given = (pl.col("use") != "missing").sum()
    counts = labels.frame.group_by("dataset", "metric", maintain_order=True).agg(given)
    series = [
        {
            "dataset": dataset,
            "metric": metric,
            "n": n,
            "asked": _asked(run, metric),
            "unusable": unusable.get((dataset, metric), ""),
            "followed": [asdict(one) for one in labels.followed if (one.dataset, one.metric) == (dataset, metric)],
        }
        for dataset, metric, n in counts.iter_rows()
    ]
    head = {
        "run_id": run.manifest.run_id,
        # The newest labels must count even if two runs are labelled within a second.
        "at": labels.at or datetime.now(UTC).isoformat(timespec="microseconds"),
        "series": series,
        "labels": labels.source,
        "left_out": dict(labels.left_out),
        "notes": list(labels.notes),
        "rests_on": labels.rests_on,
    }
    rows = labels.frame.to_dicts()
    lines = (json.dumps(row, ensure_ascii=False) for row in (head, *rows))
    write_atomically(run.folder.labels, "\n".join(lines) + "\n")


def read_kept(folder: RunFolder) -> RunLabels | None:
    """Read the labels stored with a run; None without any, UserError if labels.jsonl is damaged."""
    from evalflow.summary.agreement import parsed_labels  # late: few runs have labels

    try:
        first, _, rows = folder.labels.read_bytes().partition(b"\n")
        head = json.loads(first)
        followed = [FollowedLabels(**one) for series in head["series"] for one in series["followed"]]
        frame = parsed_labels(rows)
        about = (head[name] for name in ("labels", "left_out", "notes", "rests_on"))
        return RunLabels(frame, *about, followed=followed, at=head["at"])
    except FileNotFoundError:
        if not folder.calibration.is_file():
            return None
        what, where = "the labels of this calibration are gone", folder.calibration
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError):
        what, where = "these are not labels of a run", folder.labels
    raise UserError(Problem(what, str(where), "remove it, and calibrate again"))


def _asked(run: SavedRun, metric: str) -> dict[str, Any]:
    """Return what people are asked about a metric, which does not depend on judge and prompt."""
    from evalflow.metrics.scale import label_scale

    run_metric = run.rules.metrics[metric]
    scale = label_scale(run_metric.config, bounded=run_metric.bounded)
    return {"scale": scale.model_dump(mode="json"), "direction": run_metric.config.direction}


def case_hashes(run: SavedRun, row: AnsweredCase, metrics: Iterable[str]) -> dict[str, str]:
    """Return hashes of what people see beside an answer, by metric.

    That is question, reference, contexts if it reads them, and the other answer if it compares two.
    """
    from evalflow.metrics.kinds.pairwise import PairwiseMetricConfig, other_answer

    shown = shown_case(as_answered(row.case, row.answer))
    hashes: dict[str, str] = {}
    for name in metrics:
        has_contexts = any(need.split(".")[0] == "contexts" for need in run.rules.metrics[name].config.needs)
        seen = [shown["question"], shown["reference"], shown["contexts"] if has_contexts else ""]
        config = run.rules.metrics[name].config
        if isinstance(config, PairwiseMetricConfig) and row.answer is not None:
            seen.append(other_answer(config, row.case, row.answer))
        hashes[name] = hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]
    return hashes


@dataclass(frozen=True, slots=True)
class _Source:
    """The first line of another run's labels.jsonl: when its labels were given, and what each of its series asked.

    `unusable` is why labels of a series may not correct means there. A damaged file has no series.
    """

    folder: Path
    run_id: str = ""
    at: str = ""
    asked: Mapping[Series, Mapping[str, Any]] = field(default_factory=dict[Series, Mapping[str, Any]])
    unusable: Mapping[Series, str] = field(default_factory=dict[Series, str])


class LabelSources:
    """The labels of neighbouring runs, read once, and those in further folders `beside`."""

    def __init__(self, beside: Iterable[Path] = ()) -> None:
        self._beside = [source for path in beside if (source := _read_source(str(path)))]
        self._by_folder: dict[Path, list[_Source]] = {}
        self._rows: dict[Path, pl.DataFrame] = {}

    def of(self, folder: Path) -> list[_Source]:
        """Return the neighbouring runs with labels, the last labelled first."""
        by_folder = {one.folder: one for base in _bases(folder) for one in self._in(base)}
        by_folder = {**by_folder, **{one.folder: one for one in self._beside}}
        by_folder.pop(folder, None)
        return sorted(by_folder.values(), key=lambda one: one.at, reverse=True)

    def _in(self, base: Path) -> list[_Source]:
        if base not in self._by_folder:
            self._by_folder[base] = list(_sources_in(base))
        return self._by_folder[base]

    def labels(self, source: _Source) -> pl.DataFrame:
        from evalflow.summary.agreement import label_frame

        if source.folder not in self._rows:
            kept = None
            try:
                kept = read_kept(RunFolder(source.folder))
            except UserError as error:
                log.warning("labels of another run do not follow: %s", error)
            self._rows[source.folder] = label_frame(()) if kept is None else kept.frame
        return self._rows[source.folder]


def _bases(folder: Path) -> list[Path]:
    """Return the folders of runs and of sweeps that contain a run."""
    base = folder.parent.parent if (folder.parent / "run.json").is_file() else folder.parent
    return [base.parent / name for name in _KINDS] if base.name in _KINDS else [base]


def _sources_in(base: Path) -> Iterator[_Source]:
    """Return the runs with labels in a folder and its sweeps. Skipping runs without labels is cheap."""
    try:
        names = [entry.path for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False)]
        for name in names:
            if os.access(f"{name}/scores.jsonl", os.F_OK):
                folders = [name]
            else:  # a sweep
                folders = [entry.path for entry in os.scandir(name) if entry.is_dir(follow_symlinks=False)]
            yield from (source for path in folders if (source := _read_source(path)))
    except OSError:
        return  # a folder that vanished, or that may not be read


def _read_source(folder: str) -> _Source | None:
    try:
        with os.fdopen(os.open(f"{folder}/labels.jsonl", os.O_RDONLY | _NO_LINK), "rb") as file:
            head = json.loads(file.readline())
        own = {(one["dataset"], one["metric"]): one for one in head["series"] if not one["followed"]}
        asked = {series: one["asked"] for series, one in own.items()}
        unusable = {series: one["unusable"] for series, one in own.items()}
        return _Source(Path(folder), head["run_id"], head["at"], asked, unusable)
    except OSError:
        return None  # no labels, or a link
    except (ValueError, KeyError, TypeError):
        return _Source(Path(folder))


def has_sources(run: SavedRun) -> bool:
    """Return whether a neighbouring run has labels on a dataset and metric of this one."""
    own = {(dataset, metric) for dataset in run.manifest.datasets for metric in run.manifest.metrics}
    return any(own & set(source.asked) for source in LabelSources().of(run.folder.path))


def follow(run: SavedRun, known: Collection[Series], sources: LabelSources) -> RunLabels | None:
    """Return other runs' labels of equal answers, on each dataset and metric except those `known`.

    All labels count of the runs whose labels may correct means; without such a run, those of the run with the most
    labels. People must have been asked the same: the metric's name, scale and direction, and what they saw of the case.
    None if there are no such labels.
    """
    wanted = {(dataset, name) for dataset in run.manifest.datasets for name in run.manifest.metrics} - set(known)
    candidates: dict[Series, list[_Source]] = {}
    for source in sources.of(run.folder.path):
        if not source.run_id:
            log.warning("%s: these are not labels of a run, and do not follow", RunFolder(source.folder).labels)
        for series in sorted(wanted & set(source.asked)):
            if source.asked[series] == _asked(run, series[1]):
                candidates.setdefault(series, []).append(source)
    if not candidates:
        return None
    labels = {one.folder: sources.labels(one) for own in candidates.values() for one in own}
    answers = _answers(run, labels.values(), {metric for _, metric in candidates})
    frames: list[pl.DataFrame] = []
    followed: list[FollowedLabels] = []
    for series, own in candidates.items():
        pairs = [one for source in own if (one := _follow(run, series, source, labels[source.folder], answers))]
        chosen = [one for one in pairs if not one[1].why] or sorted(pairs, key=lambda one: -one[1].n)[:1]
        if any(frame["weight"].n_unique() > 1 for frame, _ in chosen):
            chosen = chosen[:1]  # the chance that an answer is in one of two such samples is not known
        if chosen:
            frames.append(chosen[0][0] if len(chosen) == 1 else newest_labels(pl.concat([one for one, _ in chosen])))
            followed += [one for _, one in chosen]
    return _followed_labels(pl.concat(frames), followed) if frames else None


def newest_labels(rows: pl.DataFrame) -> pl.DataFrame:
    """Merge the labels of several samples, newest first: the newest per person and answer, and one resolution."""
    resolved = pl.col("use") == "resolution"
    labels = rows.with_columns(weight=pl.lit(1.0), one=pl.when(~resolved).then("by"), resolved=resolved)
    return labels.unique([*CELL, "metric", "one", "resolved"], keep="first", maintain_order=True).drop(
        "one", "resolved"
    )


def kept_followed(kept: RunLabels, known: Collection[Series]) -> RunLabels | None:
    """Return the other runs' labels stored with a run, on each dataset and metric except those `known`."""
    followed = [one for one in kept.followed if (one.dataset, one.metric) not in known]
    own = [kept.frame.filter(dataset=d, metric=m) for d, m in dict.fromkeys((f.dataset, f.metric) for f in followed)]
    return _followed_labels(pl.concat(own), followed) if own else None


def without_followed(kept: RunLabels, known: Collection[Series]) -> RunLabels | None:
    """Return the run's own labels, on each dataset and metric except those `known`."""
    others = {*known, *((one.dataset, one.metric) for one in kept.followed)}
    frame = kept.frame.filter(~pl.struct("dataset", "metric").is_in([{"dataset": d, "metric": m} for d, m in others]))
    followed_notes = set(map(_note, kept.followed))
    notes = [note for note in kept.notes if note not in followed_notes]
    return replace(kept, frame=frame, notes=notes, followed=()) if frame.height else None


def _followed_labels(frame: pl.DataFrame, followed: Sequence[FollowedLabels]) -> RunLabels:
    several = len({(one.dataset, one.metric) for one in followed}) > 1
    sources = [one.source + (f" ({one.metric})" if several else "") for one in followed]
    left: dict[str, int] = dict.fromkeys(LEFT_OUT, 0)
    return RunLabels(frame, "; ".join(sources), left, list(map(_note, followed)), followed=followed)


LEFT_OUT = (
    "stale",
    "without_hash",
    "not_in_run",
    "other_metrics",
    "blank",
    "older_rubric",
    "unblinded",
    "by_hand",
    "missing",
)
"""Reasons for ignoring labels; the keys of `RunLabels.left_out`."""
_Answers = Mapping[tuple[str, str], Sequence[tuple[str, int, str, Mapping[str, str]]]]
"""By dataset and case: target, repeat and hash of its answers, and by metric the hash of what people see beside."""


def _note(one: FollowedLabels) -> str:
    text = f"{one.dataset}, {one.metric}: {one.source}"
    if one.labelled > one.n:
        text += f"; {counted(one.labelled - one.n, 'labelled answer')} changed"
    return text


def _answers(run: SavedRun, labels: Iterable[pl.DataFrame], metrics: Collection[str]) -> _Answers:
    ids = pl.concat([frame.select("case_id") for frame in labels]).unique()
    keys = run.scores().select("dataset", "case_id").unique().join(ids.lazy(), on="case_id", how="semi").collect()
    by_case: dict[tuple[str, str], list[tuple[str, int, str, Mapping[str, str]]]] = {}
    for row in answered_rows(run, run.scores(), set(keys.iter_rows())):
        if row.answer is not None:
            answer = row.target, row.target_repeat, answer_hash(row.answer), case_hashes(run, row, metrics)
            by_case.setdefault((row.case.dataset, row.case.id), []).append(answer)
    return by_case


def _follow(
    run: SavedRun, series: Series, source: _Source, labels: pl.DataFrame, answers: _Answers
) -> tuple[pl.DataFrame, FollowedLabels] | None:
    """Return a source's labels of equal answers, with this run's target and repeat."""
    from evalflow.summary.agreement import label_frame

    dataset, metric = series
    own: dict[tuple[str, int, str, str], list[dict[str, Any]]] = {}  # by answer
    for row in labels.filter(dataset=dataset, metric=metric).iter_rows(named=True):
        own.setdefault((row["case_id"], row["target_repeat"], row["answer_hash"], row["target"]), []).append(row)
    taken: set[tuple[Any, ...]] = set()
    rows: list[dict[str, Any]] = []
    equal = labelled = 0
    for (case_id, repeat, digest, _), given in own.items():
        there = answers.get((dataset, case_id), ())
        is_labelled = any(row["use"] in {"label", "resolution"} for row in given)
        labelled += bool(there) and is_labelled
        seen = given[0]["case_hash"]
        same = [(one[1] != repeat, *one[:2]) for one in there if one[2] == digest and one[3][metric] == seen]
        free = next((one[1:] for one in sorted(same) if (case_id, *one[1:]) not in taken), None)
        if free is not None:
            taken.add((case_id, *free))
            equal += is_labelled
            rows += [{**row, "target": free[0], "target_repeat": free[1]} for row in given]
    if not rows:
        return None
    followed = FollowedLabels(dataset, metric, source.run_id, equal, labelled)
    followed = replace(followed, why=_why_not(run, followed, source))
    return label_frame({**row, "unusable": followed.why or None} for row in rows), followed


def _why_not(run: SavedRun, followed: FollowedLabels, source: _Source) -> str:
    """Return why followed labels may not correct means; empty if they may."""
    if followed.n < LEAST_EQUAL * followed.labelled:
        labelled = counted(followed.labelled, "labelled answer")
        return f"only {followed.n:,} of {labelled} of run {followed.run} are the same here"
    if why := source.unusable.get((followed.dataset, followed.metric)):
        return f"in run {followed.run}, {why}"
    own = (pl.col("dataset") == followed.dataset) & (pl.col("metric") == followed.metric)
    cases = run.scores().filter(own).select("case_id").unique()
    scores = RunFolder(source.folder).scores
    if not scores.is_file():
        return f"the scores of run {followed.run} are gone, so nothing shows which answers they were drawn from"
    drawn_from = pl.scan_parquet(scores).filter(own).select("case_id").unique()
    others = cases.join(drawn_from, on="case_id", how="anti").select(pl.len()).collect().item()
    n = cases.select(pl.len()).collect().item()
    if others > (1 - LEAST_EQUAL) * n:
        return f"run {followed.run}, where they were drawn, lacks {others:,} of the {n:,} cases here"
    return ""
