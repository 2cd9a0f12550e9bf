"""One case of a run in full: what was asked, what was said, and every score of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.app.results.derive import standing_answer
from evalflow.app.results.saved import Saved, load
from evalflow.app.workspace.runs import run_row
from evalflow.app.workspace.score_types import Score
from evalflow.app.workspace.scores import answer_scores
from evalflow.app.workspace.space import Workspace, not_found
from evalflow.errors import Problem, UserError
from evalflow.records import Answer, Case
from evalflow.report.join import as_answered
from evalflow.run.answers import AnswerBook
from evalflow.run.folder import RunFolder


@dataclass(frozen=True, slots=True)
class RunCase:
    """A case as one target answered it once.

    Attributes:
        position: Of the answer in its run, from 0.
        dataset, case_id, tags, question, answer, reference, target, target_repeat, answer_error: As of a Score.
        case: The case with what the answer says in the place of what was recorded; None where its files are gone.
        gone: Why the case is None.
        scores: All of it, each with the judge's steps; at most 500.
        last: The position of the run's last answer.
    """

    position: int
    dataset: str
    case_id: str
    tags: Sequence[str]
    question: str
    answer: str | None
    reference: str | None
    target: str
    target_repeat: int
    answer_error: str | None
    case: Case | None
    gone: str
    scores: Sequence[Score]
    last: int


def get_run_case(
    space: Workspace, run_id: str, position: int, thresholds: Mapping[str, float] | None = None
) -> RunCase:
    """A case of a run that has ended.

    Args:
        space: Where.
        run_id: Which run.
        position: Of the answer, from 0.
        thresholds: Other thresholds by metric.

    Raises:
        NotFoundError: There is no such run, or no such case in it.
    """
    from evalflow.store import results

    row = run_row(space, run_id)
    with space.database.reading() as connection:
        found = results.answer(connection, row["id"], position)
        last = results.last_position(connection, row["id"])
    if found is None or last is None:
        raise not_found("case", str(position), [])
    scored = answer_scores(space, run_id, position, thresholds)
    case, gone = _whole_case(RunFolder(Path(row["folder"])), found)
    told: dict[str, Any] = {name: found[name] for name in RunCase.__dataclass_fields__ if name in found}
    return RunCase(**told, answer_error=found["error"], case=case, gone=gone, scores=scored, last=last)


def _whole_case(folder: RunFolder, found: Mapping[str, Any]) -> tuple[Case | None, str]:
    """The case from the run's own files, or why it cannot be read."""
    try:
        case, answer = case_and_answer(load(folder), found)
        return as_answered(case, answer), ""
    except UserError as error:
        return None, str(error)
    except OSError as error:
        return None, f"{folder.path}: {error.strerror}"


def case_and_answer(saved: Saved, found: Mapping[str, Any]) -> tuple[Case, Answer | None]:
    """A case and what was said to it, from the run's own files.

    Args:
        saved: The run.
        found: dataset, case_id, target and target_repeat.

    Raises:
        UserError: The files do not hold it any more.
    """
    wanted = (found["dataset"], found["case_id"])
    case = next((case for case in saved.cases() if (case.dataset, case.id) == wanted), None)
    if case is None:
        raise UserError(Problem(f"{saved.folder.path} does not hold case {found['case_id']!r} any more", "case"))
    run = saved.recipe.settings.run
    with AnswerBook() as book:
        book.add(saved.folder.answers, run.dataset, case_id=found["case_id"])
        known = book.get(*wanted, found["target"], found["target_repeat"])
    return case, known or standing_answer(run, case, found["target"], found["target_repeat"])
