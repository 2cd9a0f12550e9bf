"""The answers of a run that people can label, drawn for a review, and what they read of each."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal, cast

from evalflow.app.core.saved import SavedRun, answered_rows, without_unanswered
from evalflow.errors import Problem, UserError
from evalflow.labels.read import answer_hash
from evalflow.labels.sheet import CELL, Key, UnlabelledAnswer, draw, draw_groups, score_strata, tag_stratum
from evalflow.lazy import pl
from evalflow.metrics.kinds.pairwise import PairwiseMetricConfig, other_answer
from evalflow.records import Answer, Case
from evalflow.report.results_csv import AnsweredCase, as_answered

Method = Literal["random", "strata", "groups"]
StratifiedBy = Literal["score", "tag"]
FEWEST_DOUBLED = 30


@dataclass(frozen=True, slots=True)
class FrozenAnswer:
    """The parts of an answer that people read, and the metrics on which they label it.

    `other` is the text that it is compared with, if they say which of two is better.
    """

    messages: Sequence[Mapping[str, str]]
    answer: str
    contexts: Sequence[Mapping[str, str]]
    reference: str | None
    metrics: Sequence[str]
    other: str | None = None


@dataclass(frozen=True, slots=True)
class DrawnItem:
    """A drawn answer, with the stratum and the probability `pi` that it was drawn with, and the group of its case.

    `wanted` is the number of people to label it, `content` what they read.
    """

    key: Key
    digest: str
    group: str
    stratum: str
    pi: float
    wanted: int
    content: FrozenAnswer


@dataclass(frozen=True, slots=True)
class DrawnReview:
    """Drawn answers in random order. `strata` has the drawn and all answers of each stratum, `groups` the same.

    `same`: the number of pairs of two runs' answers with the same text; these are not drawn.
    """

    items: Sequence[DrawnItem]
    seed: int
    population: int
    strata: Mapping[str, tuple[int, int]]
    groups: tuple[int, int]
    same: int = 0


def own_scores(run: SavedRun, metrics: Collection[str]) -> pl.LazyFrame:
    """The scores of a run on these metrics, without those of a panel's members."""
    return run.scores().filter(pl.col("metric").is_in(list(metrics)) & pl.col("member_of").is_null())


def labellable_scores(run: SavedRun, metrics: Collection[str]) -> pl.LazyFrame:
    """The scores on these metrics, also those that the judge failed to give; not those of failed answers."""
    return without_unanswered(run, own_scores(run, metrics).filter(pl.col("status").is_in(["scored", "error"])))


def answers_to_label(scores: pl.LazyFrame) -> list[UnlabelledAnswer]:
    """The answers that these scores are of."""
    group = pl.col("group").fill_null(pl.col("case_id"))
    columns = pl.col("score").mean(), pl.col("tags").first(), group.first()
    rows = scores.group_by(CELL, maintain_order=True).agg(*columns).collect().iter_rows()
    return [UnlabelledAnswer(row[:4], row[4], tuple(row[5] or ()), row[6]) for row in rows]


def compared_with(run: SavedRun, metrics: Collection[str]) -> str | None:
    """The field of the text that people compare the answers with on these metrics; None if they judge one answer.

    UserError if some metrics are of one answer and others of two, since people then would know which of the two it is.
    """
    fields = {name: _against(run, name) for name in metrics}
    if len(set(fields.values())) > 1:
        of_two = ", ".join(f"{name} (with {against})" for name, against in fields.items() if against)
        what = f"people cannot judge one answer and compare two at once, and these compare two: {of_two}"
        raise UserError(
            Problem(what, "metrics", "choose metrics that compare with the same text, or metrics of one answer")
        )
    return next(iter(fields.values()), None)


def _against(run: SavedRun, metric: str) -> str | None:
    config = run.rules.metrics[metric].config
    return config.against if isinstance(config, PairwiseMetricConfig) else None


def draw_review(
    run: SavedRun,
    metrics: Sequence[str],
    size: int,
    *,
    method: Method,
    by: StratifiedBy | None,
    seed: int | None,
    overlap: float,
) -> DrawnReview:
    """Draw answers for a review. Two people label the share `overlap` of them: at least 30 answers, unless it is 0.

    UserError if the run has no such answers, or fewer than strata. Without a seed, a random one is used.
    """
    compared_with(run, metrics)
    candidates = answers_to_label(labellable_scores(run, metrics))
    if not candidates:
        what = f"no answer of the run can be labelled on {', '.join(metrics)}"
        raise UserError(Problem(what, "metrics", "choose metrics that the run has scored"))
    known = {one.key: one for one in candidates}
    seed = secrets.randbelow(2**31) if seed is None else seed
    stratum = {"score": score_strata(candidates), "tag": tag_stratum}[by or "score"] if method == "strata" else None
    if method == "groups":
        if len({(one.key[0], one.group) for one in candidates}) == len(candidates):
            hint = "draw at random, or say in the dataset what groups its cases"
            raise UserError(Problem("every answer is a group of its own", "method", hint))
        sample = draw_groups(candidates, size, seed)
    else:
        sample = draw(candidates, size, seed, stratum=stratum)
    keys = list(sample.weights)
    read = {key: (digest, content) for key, digest, content in _read(run, metrics, keys)}
    twice = doubled(len(keys), overlap)
    items: list[DrawnItem] = []
    for i, key in enumerate(keys):
        name = stratum(known[key]) if stratum else "all"
        of, among = sample.groups if method == "groups" else sample.strata[name]
        wanted = 2 if (i + 1) * twice // len(keys) > i * twice // len(keys) else 1
        items.append(DrawnItem(key, read[key][0], known[key].group, name, of / among, wanted, read[key][1]))
    return DrawnReview(items, seed, len(candidates), sample.strata, sample.groups)


def draw_pairs(
    run: SavedRun, other: SavedRun, metric: str, size: int, *, seed: int | None, overlap: float
) -> DrawnReview:
    """Draw cases that two runs answered differently, each with the answers of both, for people to say which is better.

    The question must be the same in both. Passages are left out, since each run has its own. UserError if there is no
    such case.
    """
    before = {_place(row): _digests(row) for row in _answered(other)}
    candidates: list[UnlabelledAnswer] = []
    same = 0
    for row in _answered(run):
        (asked, answer), (asked_before, said_before) = _digests(row), before.get(_place(row), ("", ""))
        if asked == asked_before and answer == said_before:
            same += 1
        elif asked == asked_before:
            candidates.append(UnlabelledAnswer(_key(row), None, (), row.case.group or row.case.id))
    if not candidates:
        why = "the answers of both runs are the same" if same else "the runs answered no question in common"
        raise UserError(Problem(f"{why}, so people cannot say which is better", "against", "choose another run"))
    seed = secrets.randbelow(2**31) if seed is None else seed
    sample = draw(candidates, size, seed)
    keys = list(sample.weights)
    groups = {one.key: one.group for one in candidates}
    cases = {key[:2] for key in keys}
    others = {_place(row): _answer_text(row) for row in _answered(other, cases)}
    rows = {_key(row): row for row in _answered(run, cases)}
    twice, (of, among) = doubled(len(keys), overlap), sample.strata["all"]
    items: list[DrawnItem] = []
    for i, key in enumerate(keys):
        row = rows[key]
        assert row.answer is not None  # `_answered` gives no others
        content = _frozen(as_answered(row.case, row.answer), [metric])
        content = replace(content, contexts=[], other=others[_place(row)])
        wanted = 2 if (i + 1) * twice // len(keys) > i * twice // len(keys) else 1
        items.append(DrawnItem(key, answer_hash(row.answer), groups[key], "all", of / among, wanted, content))
    return DrawnReview(items, seed, len(candidates), sample.strata, sample.groups, same)


def _answered(run: SavedRun, cases: Collection[tuple[str, str]] | None = None) -> Iterator[AnsweredCase]:
    """The answers of a run, or those to these cases, without the ones that failed."""
    scores = run.scores().filter(pl.col("member_of").is_null())
    if cases is None:
        cases = set(scores.select("dataset", "case_id").unique().collect().iter_rows())
    for row in answered_rows(run, scores, cases):
        if row.answer is not None and row.answer.status != "error":
            yield row


def _key(row: AnsweredCase) -> Key:
    return row.case.dataset, row.case.id, row.target, row.target_repeat


def _place(row: AnsweredCase) -> tuple[str, str, int]:
    """The key that answers of two runs share if they are of the same case."""
    return row.case.dataset, row.case.id, row.target_repeat


def _answer_text(row: AnsweredCase) -> str:
    assert row.answer is not None  # `_answered` gives no others
    return _frozen(as_answered(row.case, row.answer), ()).answer


def _digests(row: AnsweredCase) -> tuple[str, str]:
    """Short digests of the question and of the answer, of which a run has many."""
    asked = json.dumps([turn.text for turn in row.case.messages])
    question, answer = (blake2b(text.encode(), digest_size=16).hexdigest() for text in (asked, _answer_text(row)))
    return question, answer


def doubled(size: int, overlap: float) -> int:
    """The number of answers that two people label: the share `overlap` of `size`, at least 30 or all; 0 if it is 0."""
    return min(size, max(round(size * overlap), FEWEST_DOUBLED)) if overlap > 0 else 0


def _read(run: SavedRun, metrics: Collection[str], keys: Collection[Key]) -> Iterator[tuple[Key, str, FrozenAnswer]]:
    wanted = set(keys)
    for row in answered_rows(run, own_scores(run, metrics), {key[:2] for key in wanted}):
        key = (row.case.dataset, row.case.id, row.target, row.target_repeat)
        if key in wanted and row.answer is not None:
            asked = {score["metric"] for score in row.scores if score["status"] in ("scored", "error")}
            shown = [name for name in metrics if name in asked]
            frozen = _frozen(as_answered(row.case, row.answer), shown)
            yield key, answer_hash(row.answer), _compared(run, metrics, row.case, row.answer, frozen)


def _compared(
    run: SavedRun, metrics: Collection[str], case: Case, answer: Answer, frozen: FrozenAnswer
) -> FrozenAnswer:
    """The answer beside the text that it is compared with; that text is then not shown as the expected answer."""
    against = compared_with(run, metrics)
    if against is None:
        return frozen
    config = run.rules.metrics[next(iter(metrics))].config
    other = other_answer(cast("PairwiseMetricConfig", config), case, answer)
    return replace(frozen, other=other, reference=None if against.startswith("reference") else frozen.reference)


def _frozen(case: Case, metrics: Sequence[str]) -> FrozenAnswer:
    answer = case.answer
    if answer is None and case.actual is not None:
        answer = json.dumps(case.actual, ensure_ascii=False, indent=1, default=str)
    return FrozenAnswer(
        [{"role": turn.role, "content": turn.text} for turn in case.messages],
        answer or "",
        [{"title": context.title or "", "text": context.text} for context in case.contexts or ()],
        case.reference_text,
        metrics,
    )
