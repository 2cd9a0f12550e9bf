"""Taking a finished run's scores into the tables, in input order, a few hundred answers at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evalflow.app.core.cases import answers_of
from evalflow.app.core.saved import open_run
from evalflow.app.studio.space import Workspace
from evalflow.datasets import tag_levels
from evalflow.records import Answer, Case
from evalflow.report.results_csv import AnsweredCase, as_answered, rows
from evalflow.run.folder import RunFolder
from evalflow.store import scores
from evalflow.store.tables import storable

Record = dict[str, Any]


def answer_row(run: int, position: int, case: Case, answer: Answer | None, pair: tuple[str, int]) -> Record:
    """A row of answers: the case with what this answer says.

    Args:
        run: The run's row.
        position: Where it stands among the run's answers.
        case: As it is in the data.
        answer: None where there is none.
        pair: The target, and which of its answers to the case it is.
    """
    shown = as_answered(case, answer)
    said = shown.answer
    if said is None and shown.actual is not None:
        said = shown.actual if isinstance(shown.actual, str) else json.dumps(shown.actual, ensure_ascii=False)
    return {
        "run": run,
        "position": position,
        "dataset": _text(shown.dataset),
        "case_id": _text(shown.id),
        "target": _text(pair[0]),
        "target_repeat": pair[1],
        "tags": list(shown.tags),
        "question": _text(shown.question or ""),
        "answer": _text(said),
        "reference": _text(shown.reference),
        "error": _text(answer.error if answer else None),
    }


def tag_rows(run: int, position: int, case: Case) -> list[Record]:
    """Rows of answer_tags: each tag of the case, and those above it."""
    levels = dict.fromkeys(level for tag in case.tags for level in tag_levels(tag))
    return [{"run": run, "tag": _text(level), "position": position} for level in levels]


_TEXTS = ("metric", "judge", "member_of", "status", "value", "reason", "error_type", "error", "path")
_PLAIN = ("repeat", "score", "cost_usd", "latency_s")


def score_row(run: int, position: int, n: int, score: Mapping[str, Any]) -> Record:
    """A row of scores.

    Args:
        run: The run's row.
        position: Of the answer.
        n: The score's number among those of the answer.
        score: By the columns of scores.parquet, or the keys of a line of scores.jsonl.
    """
    texts = {name: _text(score[name]) for name in _TEXTS}
    return {"run": run, "position": position, "n": n, **texts, **{name: score[name] for name in _PLAIN}}


def step_rows(run: int, position: int, n: int, score: Mapping[str, Any]) -> list[Record]:
    """The row of score_steps, where the judge was asked step by step."""
    steps = score["steps"]
    return [] if steps in (None, "[]") else [{"run": run, "position": position, "n": n, "steps": _text(steps)}]


def _text(text: str | None) -> str | None:
    if text is None or (text.isascii() and "\0" not in text):  # as most texts are, and looked at quickest
        return text
    return storable(text)


SCORES_AT_ONCE = 10_000
"""Scores that are written in one transaction; others write between two of them."""

Tables = tuple[list[Record], list[Record], list[Record], list[Record]]
"""Rows of answers, answer_tags, scores and score_steps."""


def load_scores(space: Workspace, run: int, folder: RunFolder) -> Iterator[int]:
    """Put a run's answers and scores into the tables, each in the place of what is there of it already.

    Args:
        space: Where.
        run: The run's row.
        folder: Its files; scores.parquet must be among them.

    Yields:
        How many answers are in, after each transaction.

    Raises:
        UserError: Its files are of another version, or what it was made from is gone.
    """
    saved = open_run(folder)
    with answers_of(folder, saved.rules.settings.run) as answers:
        found = enumerate(rows(saved.cases(), answers, saved.scores()))
        done = 0
        while (tables := _some(run, found)) is not None:
            with space.database.writing(in_turn=False) as connection:
                scores.replace(connection, run, *tables)
            done += len(tables[0])
            yield done
    with space.database.writing(in_turn=False) as connection:
        scores.clear(connection, run, done)


def _some(run: int, found: Iterable[tuple[int, AnsweredCase]]) -> Tables | None:
    """The next rows of all four tables, of whole answers; None where there are none."""
    tables: Tables = ([], [], [], [])
    answered, tagged, scored, steps = tables
    for position, row in found:
        answered.append(answer_row(run, position, row.case, row.answer, (row.target, row.target_repeat)))
        tagged += tag_rows(run, position, row.case)
        # A panel's members stand in the run's own files; its row tells what each of them said.
        for n, score in enumerate(one for one in row.scores if one["member_of"] is None):
            scored.append(score_row(run, position, n, score))
            steps += step_rows(run, position, n, score)
        if len(scored) >= SCORES_AT_ONCE or len(answered) >= SCORES_AT_ONCE:
            break
    return tables if answered else None
