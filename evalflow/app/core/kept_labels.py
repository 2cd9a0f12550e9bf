"""The labels that stay with a run, and those of other runs that follow its equal answers.

A run keeps the labels that it was calibrated with in labels.jsonl: first a line on all of them, then a row for each. A
run beside it that gave equal answers finds them there, so that another judge, or another prompt of it, is measured with
the labels that exist. Labels follow within one folder of runs, with the runs of its sweeps; on a server that is one
project.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evalflow.app.core.saved import SavedRun, answered_rows
from evalflow.engine.folder import RunFolder
from evalflow.engine.manifest import now
from evalflow.errors import Problem, UserError
from evalflow.labels.read import answer_hash
from evalflow.lazy import pl
from evalflow.metrics.scale import label_scale
from evalflow.paths import write_atomically
from evalflow.report.wording import counted

Series = tuple[str, str]  # dataset and metric
_KINDS = ("runs", "sweeps")  # folders of an outputs folder
LEAST_EQUAL = 0.95
"""Labels of another run's answers may correct means only if at least this share of its labelled answers is the same
here, of the cases that both runs have, and this share of the cases here was among those that they were drawn from."""


@dataclass(frozen=True, slots=True)
class FollowedLabels:
    """Labels of another run's answers that are the same here, on one dataset and metric.

    `n` of its `labelled` answers are the same, of those whose case is here too; `why` these labels may correct nothing.
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
    """Labels of a run's answers: `frame` as of `label_frame`, their `source` in words, and which of all these are.

    `left_out` counts those that do not count here, by reason; `notes` say it to people. `followed` are those that
    another run's answers were given.
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
        """These labels and those that follow; labels on the same dataset and metric must not be in both."""
        if others is None:
            return self
        source = others.source if not self.frame.height else f"{self.source}; {others.source}"
        frame, followed = pl.concat([self.frame, others.frame]), [*self.followed, *others.followed]
        return replace(self, frame=frame, source=source, notes=[*self.notes, *others.notes], followed=followed)


def save_labels(run: SavedRun, labels: RunLabels) -> None:
    """Write labels.jsonl."""
    followed = {(one.dataset, one.metric): one for one in labels.followed}
    given = (pl.col("use") != "missing").sum()
    counts = labels.frame.group_by("dataset", "metric", maintain_order=True).agg(given)
    series = [
        {"dataset": dataset, "metric": metric, "n": n, "asked": _asked(run, metric), "followed": None}
        | ({"followed": asdict(one)} if (one := followed.get((dataset, metric))) else {})
        for dataset, metric, n in counts.iter_rows()
    ]
    head = {
        "run_id": run.manifest.run_id, "at": labels.at or now(), "series": series, "labels": labels.source,
        "left_out": dict(labels.left_out), "notes": list(labels.notes), "rests_on": labels.rests_on,
    }  # fmt: skip
    lines = (json.dumps(row, ensure_ascii=False) for row in (head, *labels.frame.to_dicts()))
    write_atomically(run.folder.labels, "\n".join(lines) + "\n")


def read_kept(folder: RunFolder) -> RunLabels | None:
    """The labels that a run keeps; None if it has none, UserError if labels.jsonl is damaged."""
    from evalflow.summary.agreement import label_frame  # late: few runs have labels

    try:
        head, *rows = map(json.loads, folder.labels.read_text(encoding="utf-8").splitlines())
        followed = [FollowedLabels(**one["followed"]) for one in head["series"] if one["followed"]]
        frame = label_frame(rows)
        about = (head[name] for name in ("labels", "left_out", "notes", "rests_on"))
        return RunLabels(frame, *about, followed=followed, at=head["at"])
    except FileNotFoundError:
        if not folder.calibration.is_file():
            return None
        what, where = "the labels of this calibration are gone", folder.calibration
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        what, where = "these are no labels of a run", folder.labels
    raise UserError(Problem(what, str(where), "remove it, and calibrate again"))


def _asked(run: SavedRun, metric: str) -> dict[str, Any]:
    """What people are asked on a metric; judge and prompt have no part in it."""
    found = run.rules.metrics[metric]
    scale = label_scale(found.config, bounded=found.bounded)
    return {"scale": scale.model_dump(mode="json"), "direction": found.config.direction}


@dataclass(frozen=True, slots=True)
class _Source:
    """The first line of another run's labels.jsonl: when they were given, and what was asked of each own series."""

    folder: Path
    run_id: str
    at: str
    asked: Mapping[Series, Mapping[str, Any]]


class LabelSources:
    """The labels in the folders beside runs, read once; and in the folders `beside` them, wherever these are."""

    def __init__(self, beside: Iterable[Path] = ()) -> None:
        self._beside = [source for path in beside if (source := _read_source(str(path)))]
        self._found: dict[Path, list[_Source]] = {}
        self._rows: dict[Path, pl.DataFrame] = {}

    def of(self, folder: Path) -> list[_Source]:
        """The other runs with labels that are beside a run, those labelled last first."""
        found = {one.folder: one for base in _bases(folder) for one in self._in(base)}
        found = {**found, **{one.folder: one for one in self._beside}}
        found.pop(folder, None)
        return sorted(found.values(), key=lambda one: one.at, reverse=True)

    def _in(self, base: Path) -> list[_Source]:
        if base not in self._found:
            self._found[base] = list(_sources_in(base))
        return self._found[base]

    def labels(self, source: _Source) -> pl.DataFrame:
        from evalflow.summary.agreement import label_frame

        if source.folder not in self._rows:
            kept = read_kept(RunFolder(source.folder))
            self._rows[source.folder] = label_frame(()) if kept is None else kept.frame
        return self._rows[source.folder]


def _bases(folder: Path) -> list[Path]:
    """The folders of runs and of sweeps that a run belongs to."""
    base = folder.parent.parent if (folder.parent / "run.json").is_file() else folder.parent
    return [base.parent / name for name in _KINDS] if base.name in _KINDS else [base]


def _sources_in(base: Path) -> Iterator[_Source]:
    """The runs with labels in a folder of runs, and in its sweeps. Runs without labels cost little."""
    try:
        names = [entry.path for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False)]
        for name in names:
            if os.access(f"{name}/scores.jsonl", os.F_OK):
                found = [name]
            else:  # a sweep
                found = [entry.path for entry in os.scandir(name) if entry.is_dir(follow_symlinks=False)]
            yield from (source for path in found if (source := _read_source(path)))
    except OSError:
        return  # a folder that vanished, or that may not be read


def _read_source(folder: str) -> _Source | None:
    try:
        with os.fdopen(os.open(f"{folder}/labels.jsonl", os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            head = json.loads(file.readline())
        own = {(one["dataset"], one["metric"]): one["asked"] for one in head["series"] if not one["followed"]}
        return _Source(Path(folder), head["run_id"], head["at"], own)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none, or a file that its own run reports


def has_sources(run: SavedRun) -> bool:
    """Whether a run beside has labels on a dataset and metric of this one."""
    own = {(dataset, metric) for dataset in run.manifest.datasets for metric in run.manifest.metrics}
    return any(own & set(source.asked) for source in LabelSources().of(run.folder.path))


def follow(run: SavedRun, known: Collection[Series], sources: LabelSources) -> RunLabels | None:
    """The labels of other runs that are of this run's answers, on each dataset and metric but those `known`.

    They are of one run each: of the runs whose labels may correct something the one labelled last, else the one with
    most labels. What people were asked must be the same: the metric's name, scale and direction. None if there are no
    such labels.
    """
    wanted = {(dataset, name) for dataset in run.manifest.datasets for name in run.manifest.metrics} - set(known)
    candidates: dict[Series, list[_Source]] = {}
    for source in sources.of(run.folder.path):
        for series in sorted(wanted & set(source.asked)):
            if source.asked[series] == _asked(run, series[1]):
                candidates.setdefault(series, []).append(source)
    if not candidates:
        return None
    labels = {one.folder: sources.labels(one) for own in candidates.values() for one in own}
    answers = _answers(run, labels.values())
    frames: list[pl.DataFrame] = []
    followed: list[FollowedLabels] = []
    for series, own in candidates.items():
        best: tuple[pl.DataFrame, FollowedLabels] | None = None
        for source in own:
            found = _follow(run, series, source, labels[source.folder], answers)
            if found is not None and (best is None or not found[1].why or found[1].n > best[1].n):
                best = found
                if not found[1].why:
                    break
        if best is not None:
            frames.append(best[0])
            followed.append(best[1])
    if not frames:
        return None
    words = [one.source + (f" ({one.metric})" if len(followed) > 1 else "") for one in followed]
    left: dict[str, int] = dict.fromkeys(LEFT_OUT, 0)
    return RunLabels(pl.concat(frames), "; ".join(words), left, list(map(_note, followed)), followed=followed)


LEFT_OUT = (
    "stale", "without_hash", "not_in_run", "other_metrics", "blank", "older_rubric", "unblinded", "by_hand", "missing",
)  # fmt: skip
"""Why labels that were given do not count; the keys of `RunLabels.left_out`."""
_Answers = Mapping[
    Series, Sequence[tuple[str, int, str]]
]  # target, repeat and hash of the answers, by dataset and case


def _note(one: FollowedLabels) -> str:
    text = f"{one.dataset}, {one.metric}: {one.source}"
    if one.labelled > one.n:
        text += f"; {counted(one.labelled - one.n, 'labelled answer')} changed"
    return text


def _answers(run: SavedRun, labels: Iterable[pl.DataFrame]) -> _Answers:
    """The run's answers to the cases that have labels."""
    ids = pl.concat([frame.select("case_id") for frame in labels]).unique()
    keys = run.scores().select("dataset", "case_id").unique().join(ids.lazy(), on="case_id", how="semi").collect()
    found: dict[Series, list[tuple[str, int, str]]] = {}
    for row in answered_rows(run, run.scores(), set(keys.iter_rows())):
        if row.answer is not None:
            answer = row.target, row.target_repeat, answer_hash(row.answer)
            found.setdefault((row.case.dataset, row.case.id), []).append(answer)
    return found


def _follow(
    run: SavedRun, series: Series, source: _Source, labels: pl.DataFrame, answers: _Answers
) -> tuple[pl.DataFrame, FollowedLabels] | None:
    """The labels of a source that are of equal answers, with this run's target and repeat."""
    from evalflow.summary.agreement import label_frame

    dataset, metric = series
    own = labels.filter(dataset=dataset, metric=metric)
    taken: set[tuple[str, str, int]] = set()
    rows: list[dict[str, Any]] = []
    equal = labelled = 0
    for (case_id, repeat, digest, _), given in own.group_by(
        "case_id", "target_repeat", "answer_hash", "target", maintain_order=True
    ):
        there = answers.get((dataset, str(case_id)), ())
        is_labelled = bool(given["use"].is_in(["label", "resolution"]).any())
        labelled += bool(there) and is_labelled
        same = [(one[1] != repeat, str(case_id), one[0], one[1]) for one in there if one[2] == digest]
        free = next((one[1:] for one in sorted(same) if one[1:] not in taken), None)
        if free is not None:
            taken.add(free)
            equal += is_labelled
            rows += [{**row, "target": free[1], "target_repeat": free[2]} for row in given.iter_rows(named=True)]
    if not rows:
        return None
    found = FollowedLabels(dataset, metric, source.run_id, equal, labelled)
    found = replace(found, why=_why_not(run, found, source))
    return label_frame({**row, "unusable": found.why or None} for row in rows), found


def _why_not(run: SavedRun, found: FollowedLabels, source: _Source) -> str:
    """Why labels that followed may not correct means; empty if they may."""
    if found.n < LEAST_EQUAL * found.labelled:
        return (
            f"they are of {found.n:,} of the {counted(found.labelled, 'labelled answer')} of run {found.run}, those "
            "that did not change, which are hardly a random sample of the answers here"
        )
    own = (pl.col("dataset") == found.dataset) & (pl.col("metric") == found.metric)
    cases = run.scores().filter(own).select("case_id").unique()
    scores = RunFolder(source.folder).scores
    if not scores.is_file():
        return f"the scores of run {found.run} are gone, so nothing shows which answers they were drawn from"
    drawn_from = pl.scan_parquet(scores).filter(own).select("case_id").unique()
    others = cases.join(drawn_from, on="case_id", how="anti").select(pl.len()).collect().item()
    n = cases.select(pl.len()).collect().item()
    if others > (1 - LEAST_EQUAL) * n:
        return f"they were drawn from the cases of run {found.run}, which lacks {others:,} of the {n:,} cases here"
    return ""
