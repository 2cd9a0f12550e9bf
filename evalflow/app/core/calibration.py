"""A run's judges against labels, and the ranking of a sweep's judges: kept in the folder and derived again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.app.core.certificates import key_of
from evalflow.app.core.derive import answered_rows, without_unanswered
from evalflow.app.core.labels import RunLabels, labels_of_data
from evalflow.app.core.saved import SavedRun, open_scored
from evalflow.errors import Problem, UserError
from evalflow.files import write_atomically
from evalflow.lazy import pl
from evalflow.report.calibration import Calibration
from evalflow.report.results_csv import as_answered
from evalflow.report.sweep import full_cost
from evalflow.run.folder import RunFolder
from evalflow.stats.prediction import MIN_LABELS
from evalflow.summary.agreement import SERIES, disagreements, label_frame, labelled_scores
from evalflow.summary.calibration import calibrate_scores
from evalflow.summary.judge_choice import JudgeInRun, choose, chooses

if TYPE_CHECKING:
    from evalflow.summary.calibration import CalibrationRow


log = logging.getLogger("evalflow")
_LISTED = 25


def calibration_of(run: SavedRun, people: RunLabels) -> Calibration | None:
    """Hold a run's judges against people; None where none of the labelled answers was scored.

    Args:
        run: The run.
        people: Labels of its answers.
    """
    scores = without_unanswered(run, run.scores())
    rows = calibrate_scores(scores, people.frame, run.traits, seed=run.manifest["config"]["seed"])
    if not rows:
        return None
    return Calibration(
        manifest=run.manifest,
        rows=rows,
        source=people.source,
        left_out=people.left_out,
        notes=[*people.notes, *_notes(rows)],
        rests_on=people.rests_on,
        disagreements=_with_texts(run, rows),
    )


def keep_calibration(folder: RunFolder, found: Calibration, people: RunLabels) -> None:
    """Write calibration.json: what was found, and under `given` the labels, from which it is derived again."""
    given = {"notes": list(people.notes), "rests_on": people.rests_on, "labels": people.frame.to_dicts()}
    text = json.dumps({**found.document(), "given": given}, indent=1, ensure_ascii=False)
    write_atomically(folder.calibration, text + "\n")


def saved_calibration(run: SavedRun) -> Calibration | None:
    """The calibration of a run by the labels that it was calibrated with before, else by those of its data.

    What is found is kept in the run's folder. It takes no time where there are no labels.

    Returns:
        None where there are no labels of its answers.
    """
    people = saved_labels(run.folder)
    if (
        people is None
        and run.manifest["status"] == "done"
        and any(facts["labelled"] for facts in run.manifest["datasets"].values())
    ):
        people = _of_data(run)
    found = calibration_of(run, people) if people else None
    if found is not None and people is not None:
        keep_calibration(run.folder, found, people)
    return found


def saved_labels(folder: RunFolder) -> RunLabels | None:
    """The labels that a run was calibrated with; None where it was not.

    Raises:
        UserError: calibration.json is not what was written there.
    """
    if not folder.calibration.is_file():
        return None
    try:
        kept: dict[str, Any] = json.loads(folder.calibration.read_text(encoding="utf-8"))
        given = kept["given"]
        labels = label_frame(given["labels"])
        return RunLabels(labels, kept["labels"], kept["left_out"], given["notes"], given["rests_on"])
    except (ValueError, KeyError, TypeError):
        hint = "remove it, and calibrate again"
        raise UserError(Problem("this is no calibration", str(folder.calibration), hint)) from None


def _of_data(run: SavedRun) -> RunLabels | None:
    try:
        return labels_of_data(run)
    except UserError as error:
        what = "the data's own labels are not used, since %d of them are wrong, such as: %s (all: evalflow calibrate)"
        log.warning(what, len(error.problems), error.problems[0])
        return None


def _notes(rows: Sequence[CalibrationRow]) -> Iterator[str]:
    if any(row.people[1] > row.corrected.n for row in rows):
        yield "several people labelled some answers: the mean of their labels counts"
    if any(row.weighted for row in rows):
        yield "labels carry weights, so each stands for as many answers as it was drawn for"


def _with_texts(run: SavedRun, rows: Sequence[CalibrationRow]) -> list[dict[str, Any]]:
    """The worst disagreements of all rows, with question and answer."""
    listed = [one for row in rows for one in disagreements(row, _LISTED)]
    listed = sorted(listed, key=lambda one: -abs(one["difference"]))
    wanted = {(one["dataset"], one["case_id"]) for one in listed}
    texts: dict[tuple[Any, ...], tuple[str, str]] = {}
    for row in answered_rows(run, run.scores(), wanted) if wanted else ():
        case = as_answered(row.case, row.answer)
        texts[case.dataset, case.id, row.target, row.target_repeat] = case.question or "", case.answer or ""
    for one in listed:
        key = one["dataset"], one["case_id"], one["target"], one["target_repeat"]
        one["question"], one["answer"] = texts.get(key, ("", ""))
    return listed


Series = tuple[str, str, str]
"""dataset, metric, target."""
_ANSWER = ["dataset", "case_id", "target", "target_repeat"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The judges of a sweep.

    Attributes:
        boards: For each dataset, metric and target with several judges: what `choose` gives.
        notes: Where there is no ranking, and why.
    """

    boards: Sequence[Mapping[str, Any]]
    notes: Sequence[str]


def rivals(runs: Mapping[str, SavedRun], labels: Mapping[str, pl.DataFrame]) -> dict[Series, list[JudgeInRun]]:
    """The judges of each dataset, metric and target, where labels tell them apart; none where all are the same.

    A judge that is asked in other words is another one: to choose a prompt flatters it as much as to choose a model.

    Args:
        runs: By name.
        labels: Of each run's answers, as `label_frame` gives them.
    """
    found: dict[Series, list[JudgeInRun]] = {}
    identities: dict[Series, set[str]] = {}
    for name, run in runs.items():
        labelled = labelled_scores(run.scores(), labels[name]).filter(pl.col("human").is_not_null())
        for (dataset, metric, target, judge), rows in labelled.group_by(SERIES, maintain_order=True):
            if judge is None:
                continue
            key = (str(dataset), str(metric), str(target))
            up = run.traits[str(metric)].higher_is_better
            found.setdefault(key, []).append(JudgeInRun(name, str(judge), rows, up))
            identity = json.dumps(key_of(run.manifest, str(metric), run.folder), sort_keys=True)
            identities.setdefault(key, set()).add(identity)
    return {key: own for key, own in found.items() if len(identities[key]) > 1}


def dealt(run: SavedRun, labels: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The labelled answers with `choosing`: whether their labels choose the judge."""
    groups = run.scores().select("dataset", "case_id", "group").unique().collect()
    answers = labels.unique(_ANSWER, maintain_order=True).join(groups, on=["dataset", "case_id"], how="left")
    rows = answers.select("group", "case_id", "answer_hash").iter_rows()
    names = (f"group {group}" if group is not None else f"{case} {digest}" for group, case, digest in rows)
    choosing = pl.Series([chooses(name, seed) for name in names], dtype=pl.Boolean)
    return answers.select(_ANSWER).with_columns(choosing=choosing)


def half_of(rows: pl.DataFrame, halves: pl.DataFrame, *, choosing: bool) -> pl.DataFrame:
    """The rows of answers whose labels choose the judge, or of the others.

    Args:
        rows: Labels, or labelled answers.
        halves: As `dealt` gives them.
        choosing: Which half.
    """
    return rows.join(halves.filter(halves["choosing"] == choosing), on=_ANSWER, how="semi", maintain_order="left")


def rank(found: Mapping[Series, Sequence[JudgeInRun]], halves: Mapping[str, pl.DataFrame], seed: int) -> Ranked:
    """Rank the judges of each series, on the labels that choose.

    Args:
        found: As `rivals` gives them.
        halves: Of each run, as `dealt` gives them; empty where all labels choose.
        seed: Of the resamples.
    """
    boards: list[Mapping[str, Any]] = []
    notes: list[str] = []
    for key, candidates in found.items():
        own = [_choosing(one, halves) for one in candidates]
        board = choose(own, seed, fewest=MIN_LABELS)
        if board["ranking"]:
            boards.append({**dict(zip(("dataset", "metric", "target"), key, strict=True)), **board})
            continue
        half = " of the half of the labels that chooses" if halves else ""
        notes.append(
            f"the judges of {key[1]} ({key[0]}, {key[2]}) are not ranked: {board['n']} labelled answers{half} were "
            f"scored by all of them, and it takes {MIN_LABELS}; label more: calibrate RUN --sample 100"
        )
    return Ranked(boards, notes)


def with_means(
    boards: Sequence[Mapping[str, Any]], runs: Mapping[str, SavedRun], rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Boards with `cost_usd` and `corrected` (estimate, ci_low, ci_high, n_labels, method) of each judge.

    Args:
        boards: As `rank` gives them.
        runs: By name.
        rows: Of each run's calibration, as JSON.
    """
    return [{**board, "ranking": [_told(row, board, runs, rows) for row in board["ranking"]]} for board in boards]


def keep_ranking(
    folder: Path, boards: Sequence[Mapping[str, Any]], notes: Sequence[str], *, split: bool, labels: Mapping[str, Any]
) -> None:
    """Write the sweep's calibration.json.

    Args:
        folder: The sweep's.
        boards: As `with_means` gives them.
        notes: What else there is to say.
        split: Whether some labels chose and the others corrected.
        labels: `source`, and `given`: the labels of each run, from which the ranking is derived again.
    """
    kept = {"choice": list(boards), "split": split, "notes": list(notes), "labels": labels}
    write_atomically(folder / "calibration.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def rank_again(folder: Path, jobs: Sequence[Path]) -> None:
    """Derive a sweep's ranking again, from the labels that are kept with it and its runs' scores as they are now.

    Nothing is done where nobody asked for one.

    Raises:
        UserError: calibration.json is not what was written there.
    """
    path = RunFolder(folder).calibration
    if not path.is_file():
        return
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        given = {name: label_frame(rows) for name, rows in kept["labels"]["given"].items()}
        split, notes = bool(kept["split"]), list(kept["notes"])
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "remove it, and calibrate again"
        raise UserError(Problem("this is no calibration of a sweep", str(path), hint)) from None
    runs = {job.name: open_scored(RunFolder(job), job.name) for job in jobs if job.name in given}
    labels = {name: given[name] for name in runs}
    seed = next(iter(runs.values())).manifest["config"]["seed"]
    halves = {name: dealt(run, labels[name], seed) for name, run in runs.items()} if split else {}
    found = rank(rivals(runs, labels), halves, seed)
    told = with_means(found.boards, runs, {name: _kept_rows(run.folder) for name, run in runs.items()})
    keep_ranking(folder, told, notes, split=split, labels=kept["labels"])


def _kept_rows(folder: RunFolder) -> list[dict[str, Any]]:
    return json.loads(folder.calibration.read_text(encoding="utf-8"))["rows"] if folder.calibration.is_file() else []


def _choosing(one: JudgeInRun, halves: Mapping[str, pl.DataFrame]) -> JudgeInRun:
    """The judge on the answers whose labels choose; on all of them where labels were not dealt."""
    return replace(one, labelled=half_of(one.labelled, halves[one.run], choosing=True)) if halves else one


def _told(
    row: Mapping[str, Any],
    board: Mapping[str, Any],
    runs: Mapping[str, SavedRun],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """A judge's place, with what its run takes, and its corrected mean."""
    corrected = next(_corrected(row, board, rows.get(row["run"], ())), None)
    return {**row, "cost_usd": full_cost(runs[row["run"]].manifest), "corrected": corrected}


def _corrected(
    row: Mapping[str, Any], board: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    about = {"judge": row["judge"], **{part: board[part] for part in ("dataset", "metric", "target")}}
    for one in rows:
        if all(one[part] == value for part, value in about.items()):
            kept = {name: one["corrected"][name] for name in ("estimate", "ci_low", "ci_high", "method")}
            yield {**kept, "n_labels": one["n_labels"]}
