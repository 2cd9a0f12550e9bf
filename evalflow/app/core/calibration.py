"""Comparison of a run's judges with labels, and ranking of a sweep's judges. Both are saved and can be rederived."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evalflow.app.core.certificates import Certificate, key_of, save_certificate
from evalflow.app.core.kept_labels import RunLabels, save_labels
from evalflow.app.core.labels import labels_of_run
from evalflow.app.core.saved import SavedRun, answered_rows, open_scored, without_unanswered
from evalflow.config.judges import CascadeConfig, MembersConfig
from evalflow.engine.bookkeeping import now
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.labels.sheet import CELL
from evalflow.lazy import pl
from evalflow.paths import write_atomically
from evalflow.records.manifest import Manifest
from evalflow.report.calibration import Calibration
from evalflow.report.members import MemberAdvice, too_few
from evalflow.report.page import verdict_of
from evalflow.report.results_csv import as_answered
from evalflow.report.wording import counted
from evalflow.stats.prediction import MIN_LABELS
from evalflow.summary.agreement import SERIES, label_frame, labelled_scores, nothing_to_score
from evalflow.summary.calibration import CalibrationRow, calibrate_scores, disagreements
from evalflow.summary.details import consistency, replies
from evalflow.summary.judge_choice import JudgeBoard, JudgeInRun, RankedJudge, choose, chooses
from evalflow.summary.labelled_cells import answers_of_people
from evalflow.summary.members import cascade_advice, member_scores, panel_advice
from evalflow.summary.pairing import lower_is_better

log = logging.getLogger("evalflow")
_LISTED = 25


def calibration_of(run: SavedRun, labels: RunLabels) -> Calibration | None:
    """Compare a run's judges with labels; None if none of the labelled answers has a score."""
    scores = without_unanswered(run, run.scores())
    rows = calibrate_scores(scores, labels.frame, run.traits, seed=run.manifest.config["seed"])
    if not rows:
        return None
    notes = [*labels.notes]
    if any(row.people[1] > row.corrected.n for row in rows):
        notes.append("some answers have several labels: their mean counts")
    if any(row.weighted for row in rows):
        notes.append("labels have weights, so each represents the number of answers for which it was drawn")
    texts = _with_texts(run, rows)
    judges = run.manifest.judges
    advice = {
        (row.dataset, row.metric, row.target, row.judge): _advice_on(members, run, row, scores)
        for row in rows
        if row.judge in judges and (members := judges[row.judge or ""].members)
    }
    return Calibration(
        run.manifest,
        rows,
        labels.source,
        labels.left_out,
        notes,
        labels.rests_on,
        texts,
        advice,
        answers_of_people(pl.concat([row.answers for row in rows]), nothing_to_score(labels.frame)),
        [(one.dataset, one.metric, one.run) for one in labels.followed],
    )


def _advice_on(names: Sequence[str], run: SavedRun, row: CalibrationRow, scores: pl.LazyFrame) -> MemberAdvice:
    """Return advice on the named members of a panel or a cascade, based on labels."""
    facts = run.manifest.metrics[row.metric]
    config = run.rules.settings.judges[facts.declared]
    assert isinstance(config, MembersConfig)
    own = run.rules.metrics[row.metric].config.judge
    place = f"metric.{facts.key}.judge" if own and ("vote" in own or "escalate_below" in own) else "judge"
    seed = run.manifest.config["seed"]
    advice = partial(MemberAdvice, config.kind, dict(zip(names, config.asked, strict=True)), place)
    if row.weighted:
        return advice(None, "the labels carry weights")
    members = member_scores(row, scores, names, confidence=isinstance(config, CascadeConfig))
    if members is None:
        return advice(None, "its scores are not classes, and there is no threshold")
    if isinstance(config, CascadeConfig):
        proposal = cascade_advice(members, config.escalate_below, seed)
    else:
        proposal = panel_advice(members, seed)
    return advice(proposal, "" if proposal else too_few(int(members.known().sum())))


def save_calibration(run: SavedRun, calibration: Calibration, labels: RunLabels) -> None:
    """Write calibration.json, and the labels for deriving it again, which stay with the run."""
    save_labels(run, labels, {(row.dataset, row.metric): row.unusable for row in calibration.rows if row.unusable})
    _write(run.folder.calibration, calibration.document())


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def saved_calibration(run: SavedRun) -> Calibration | None:
    """Calibrate a run again with its saved labels, else with those in its data, and save the result.

    None without labels of its answers; UserError if calibration.json was changed by hand or is damaged.
    """
    labels, calibrated = None, run.folder.calibration.is_file()
    if calibrated or run.manifest.status == "done":
        try:
            labels = labels_of_run(run)
        except UserError as error:
            if calibrated:
                raise
            what = "the data's own labels are not used, since %d of them are wrong, such as: %s"
            log.warning(f"{what} (all: evalflow calibrate)", len(error.problems), error.problems[0])
    calibration = calibration_of(run, labels) if labels else None
    if calibration is not None and labels is not None:
        save_calibration(run, calibration, labels)
    return calibration


def _with_texts(run: SavedRun, rows: Sequence[CalibrationRow]) -> list[dict[str, Any]]:
    """Return the worst disagreements of all rows, with question and answer."""
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


@dataclass(frozen=True, slots=True)
class CertificateResult:
    """A certificate's file and the judge's agreement; or None and why there is no certificate."""

    metric: str
    judge: str
    target: str
    path: Path | None
    why: str


def certify(
    calibration: Calibration, scores: pl.LazyFrame, folder: RunFolder, known: Sequence[Certificate] = ()
) -> list[CertificateResult]:
    """Issue a certificate for each judge, metric, dataset and target, but none that says as much as a `known` one."""
    results: list[CertificateResult] = []
    for row in calibration.rows:
        if row.judge is None:
            continue
        about = partial(CertificateResult, row.metric, row.judge, row.target)
        if why := no_certificate(row):
            results.append(about(None, why))
            continue
        certificate = _certificate(row, row.judge, calibration.manifest, scores, folder)
        if not any(certificate.has_labels_of(one) for one in known):
            results.append(about(save_certificate(certificate), verdict_of(row.metric, asdict(certificate))))
    return results


def _certificate(
    row: CalibrationRow, judge: str, manifest: Manifest, scores: pl.LazyFrame, folder: RunFolder
) -> Certificate:
    c = row.corrected
    judged: Sequence[float] = row.answers.filter(row.answers["human"].is_not_null())["score"].to_list()
    is_tested = row.raters is not None and row.raters.replaces.may is not None
    own = scores.filter(
        (pl.col("dataset") == row.dataset)
        & (pl.col("metric") == row.metric)
        & (pl.col("judge") == judge)
        & (pl.col("target") == row.target)
        & pl.col("member_of").is_null()
    )
    return Certificate(
        judge=judge,
        metric=row.metric,
        dataset=row.dataset,
        target=row.target,
        key=key_of(manifest, row.metric, folder),
        run_id=manifest.run_id,
        issued_at=now(),
        n_labels=len(judged),
        n_people=row.people[0],
        judge_mean=sum(judged) / len(judged) if judged else None,
        human_mean=c.human_mean,
        bias={"value": c.bias, "ci_low": c.bias_low, "ci_high": c.bias_high},
        agreement={name: one.document() for name, one in row.agreement.items()},
        alt_test=row.raters.alt_document() if row.raters and is_tested else None,
        consistency=consistency(own),
        replies=replies(own),
    )


def no_certificate(row: CalibrationRow) -> str:
    """Return why the labels do not suffice for a certificate; empty if they do."""
    n = row.answers["human"].count()
    if n < MIN_LABELS:
        return f"{counted(n, 'labelled answer')}, and it takes {MIN_LABELS}"
    if row.all_tied:
        return "raters are tied on every answer, so agreement cannot be measured"
    if row.constant[0]:
        return "all labels are the same, so agreement cannot be measured"
    if row.unusable:
        return row.unusable
    if row.weighted:
        return "the labels have weights, and no test shows whether such labels were drawn at random"
    return ""


@dataclass(frozen=True, slots=True)
class JudgeRanking:
    """The judges of a sweep, ranked by their agreement with labels.

    `boards` has what `choose` returns for each dataset, metric and target with several judges, `notes` what could not
    be ranked, and `halves` by run whether the labels of an answer choose the judge; it is empty if all labels do.
    """

    boards: Sequence[JudgeBoard]
    notes: Sequence[str]
    halves: Mapping[str, pl.DataFrame]


def rank_judges(runs: Mapping[str, SavedRun], labels: Mapping[str, pl.DataFrame], *, split: bool) -> JudgeRanking:
    """Rank the judges of each dataset, metric and target; with `split`, by half of the labels."""
    judges = _judges_to_rank(runs, labels)
    if not judges:
        why = "no two runs judged the same metric of the same answers differently, so there is no judge to choose"
        return JudgeRanking([], [why], {})
    seed = next(iter(runs.values())).manifest.config["seed"]
    halves = {name: _split(run, labels[name], seed) for name, run in runs.items()} if split else {}
    boards: list[JudgeBoard] = []
    notes: list[str] = []
    for key, own in judges.items():
        dataset, metric, target = key
        if halves:
            own = [replace(one, labelled=half_of(one.labelled, halves[one.run], choosing=True)) for one in own]
        board = choose(key, own, seed, fewest=MIN_LABELS)
        if board.ranking:
            boards.append(board)
            continue
        half = " of the half of the labels that chooses" if halves else ""
        notes.append(
            f"the judges of {metric} ({dataset}, {target}) are not ranked: {board.n} labelled answers{half} were "
            f"scored by all of them, and it takes {MIN_LABELS}; label more: calibrate RUN --sample 100"
        )
    return JudgeRanking(boards, notes, halves)


def _judges_to_rank(
    runs: Mapping[str, SavedRun], labels: Mapping[str, pl.DataFrame]
) -> dict[tuple[str, str, str], list[JudgeInRun]]:
    """Return by dataset, metric and target the judges of the same answers, if they differ in model or prompt."""
    by_series: dict[tuple[str, str, str], list[JudgeInRun]] = {}
    identities: dict[tuple[str, str, str], set[str]] = {}
    for name, run in runs.items():
        lower = lower_is_better(run.traits)
        labelled = labelled_scores(run.scores(), labels[name], lower=lower).filter(pl.col("human").is_not_null())
        for (dataset, metric, target, judge), rows in labelled.group_by(SERIES, maintain_order=True):
            if judge is None:
                continue
            key = (str(dataset), str(metric), str(target))
            up = run.traits[str(metric)].higher_is_better
            by_series.setdefault(key, []).append(JudgeInRun(name, str(judge), rows, up))
            identity = json.dumps(key_of(run.manifest, str(metric), run.folder), sort_keys=True)
            identities.setdefault(key, set()).add(identity)
    return {key: own for key, own in by_series.items() if len(identities[key]) > 1}


def _split(run: SavedRun, labels: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Add the column `choosing` to labelled answers; answers of one group are in the same half."""
    groups = run.scores().select("dataset", "case_id", "group").unique().collect()
    answers = labels.unique(CELL, maintain_order=True).join(groups, on=["dataset", "case_id"], how="left")
    rows = answers.select("group", "case_id", "answer_hash").iter_rows()
    names = (f"group {group}" if group is not None else f"{case} {digest}" for group, case, digest in rows)
    choosing = pl.Series([chooses(name, seed) for name in names], dtype=pl.Boolean)
    return answers.select(CELL).with_columns(choosing=choosing)


def half_of(rows: pl.DataFrame, halves: pl.DataFrame, *, choosing: bool) -> pl.DataFrame:
    """Return the half of the rows that chooses the judge, or the other half."""
    return rows.join(halves.filter(halves["choosing"] == choosing), on=CELL, how="semi", maintain_order="left")


def save_ranking(
    folder: Path,
    ranking: JudgeRanking,
    runs: Mapping[str, SavedRun],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    **document: Any,
) -> list[JudgeBoard]:
    """Write the sweep's calibration.json: the boards, and `split`, `notes` and `labels` of `document`.

    Returns the boards, with `cost_usd` and `corrected` of each judge.
    """

    def with_mean(place: RankedJudge, board: JudgeBoard) -> RankedJudge:
        about = {"judge": place.judge, "dataset": board.dataset, "metric": board.metric, "target": board.target}
        own = (row for row in rows.get(place.run, ()) if all(row[key] == value for key, value in about.items()))
        corrected = None
        if row := next(own, None):
            means = {name: row["corrected"][name] for name in ("estimate", "ci_low", "ci_high", "method")}
            corrected = {**means, "n_labels": row["n_labels"]}
        return replace(place, cost_usd=runs[place.run].manifest.full_cost, corrected=corrected)

    boards = [replace(board, ranking=[with_mean(place, board) for place in board.ranking]) for board in ranking.boards]
    _write(folder / "calibration.json", {"choice": [asdict(board) for board in boards], **document})
    return boards


def rank_again(folder: Path, jobs: Sequence[Path]) -> None:
    """Derive a sweep's ranking again from its saved labels and its runs' current scores. Without labels, do nothing."""
    path = RunFolder(folder).calibration
    if not path.is_file():
        return
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        given = {name: label_frame(rows) for name, rows in saved["labels"]["given"].items()}
        document: dict[str, Any] = {name: saved[name] for name in ("split", "notes", "labels")}
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "remove it, and calibrate again"
        raise UserError(Problem("this is not a calibration of a sweep", str(path), hint)) from None
    runs = {job.name: open_scored(RunFolder(job)) for job in jobs if job.name in given}
    ranking = rank_judges(runs, {name: given[name] for name in runs}, split=document["split"])
    files = {name: run.folder.calibration for name, run in runs.items()}
    rows = {name: json.loads(path.read_bytes())["rows"] for name, path in files.items() if path.is_file()}
    save_ranking(folder, ranking, runs, rows, **document)
