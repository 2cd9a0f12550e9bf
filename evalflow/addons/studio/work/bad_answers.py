"""Turn a bad answer (of a run, or pasted) into a test case with checks, and run that case alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evalflow import datasets as readers
from evalflow.addons.studio.store import cases as table
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.answer_examples import example_of
from evalflow.addons.studio.work.bots import get_bot, list_bots
from evalflow.addons.studio.work.cases import append_stored, case_columns, read_row
from evalflow.addons.studio.work.datasets import DATASETS, dataset_id, dataset_values, get_dataset, list_datasets
from evalflow.addons.studio.work.run_cases import RunCase, get_run_case
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import get_run, next_request
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_list

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from evalflow.addons.studio.work.space import Workspace

COLLECTED = "From production"
"""The title of the dataset for answers whose case is in no dataset of the database."""
CHECKS = "checks"
_OF_THE_BOT = ("answer", "actual", "failure", "labels", "checks", "demo_answer")
"""Fields of a case that describe the answer rather than the question."""


@dataclass(frozen=True, slots=True)
class BadAnswer:
    """A bad answer of a bot, and the case that it answers.

    Attributes:
        row: The case by field names, without an answer and without checks.
        example: The answer, as an answer example.
        bot: The bot that gave it; empty if it was deleted.
        dataset: The dataset in the database that has the case; empty if there is none.
        checks: The number of the case's checks in that dataset.
    """

    row: Mapping[str, Any]
    example: Mapping[str, Any]
    bot: str = ""
    dataset: str = ""
    checks: int = 0


@requires("read")
def bad_answer(space: Workspace, run_id: str, position: int) -> BadAnswer:
    """An answer of a run as a `BadAnswer`."""
    case, bots = get_run_case(space, run_id, position), {bot.name for bot in list_bots(space)}
    bot = get_run(space, run_id).bot
    own = {one.name for one in list_datasets(space) if one.origin == "workspace"}
    there = _stored(space, case.dataset, case.case_id) if case.dataset in own else None
    return BadAnswer(
        row={key: value for key, value in (there or _asked(case)).items() if key not in _OF_THE_BOT},
        example=example_of(case.known) if case.known else {"role": "assistant", "content": case.answer or ""},
        bot=bot if bot in bots else "",
        dataset=case.dataset if there else "",
        checks=len((there or {}).get("checks") or ()),
    )


def _asked(case: RunCase) -> Mapping[str, Any]:
    if case.case is None:
        return {"id": case.case_id, "messages": [{"role": "user", "content": case.question}]}
    return readers.case_to_row(case.case)


@requires("edit")
def save_test(
    space: Workspace, bad: BadAnswer, dataset: str, bot: str, checks: Sequence[Mapping[str, Any]]
) -> RunRequest:
    """Save a bad answer as a case with checks, and return the run of this case alone.

    If the dataset already has the case, add the missing checks and replace its answer example. An empty `dataset` means
    the one titled `From production`, which is created if it is missing.
    """
    if problems := list(_missing(bad, bot, checks)):
        raise UserError(problems)
    is_recorded = get_bot(space, bot).config.get("kind") == "recorded"
    answered = {"answer": bad.example["content"]} if is_recorded else {}
    new = {**bad.row, **answered, "demo_answer": bad.example, "checks": [dict(check) for check in checks]}
    read_row("case", new, allow_irregular=True)
    name = dataset or next((one.name for one in list_datasets(space) if one.title == COLLECTED), "")
    if name:
        get_dataset(space, name)
    with space.changing("add cases", "dataset", name or COLLECTED, ["1 cases"]) as connection:
        if name:
            owner = dataset_id(space, name)
        else:
            name, title = DATASETS.free(space, COLLECTED)
            values = dataset_values(name, "Bad answers that became tests.", "answer", title)
            owner = DATASETS.add(connection, space.project_id, values)
        key = _put(connection, owner, new)
    return _alone(space, bot, name, key)


def _missing(bad: BadAnswer, bot: str, checks: Sequence[Mapping[str, Any]]) -> list[Problem]:
    given = {
        "question": bool(bad.row.get("messages")),
        "demo_answer": bool(str(bad.example.get("content") or "").strip()),
        "bot": bool(bot),
    }
    problems = [Problem("this field is required", key, key=key) for key, is_there in given.items() if not is_there]
    if not checks:
        hint = "add one that this answer fails"
        problems.append(Problem("a test needs a check", CHECKS, hint, key=CHECKS))
    return problems


def _put(connection: Connection, owner: int, new: Mapping[str, Any]) -> str:
    """Add a case to a dataset, or its checks to the existing case; returns the case's id."""
    body = readers.case_to_row(read_row("case", new))
    key = str(body["id"])
    if not table.known_keys(connection, owner, [key]):
        append_stored(connection, owner, [case_columns(body)])
        return key
    there = table.by_key(connection, owner, key)
    if there.body.get("messages") != body.get("messages"):
        return _put(connection, owner, {name: value for name, value in new.items() if name != "id"})
    known, added = as_list(there.body.get("checks")), as_list(body["checks"])
    checks = [*known, *(check for check in added if check not in known)]
    changed = {**there.body, "demo_answer": body["demo_answer"], "checks": checks}
    table.rewrite(connection, {there.id: case_columns(changed)})
    table.set_draft(connection, owner, [there.id], draft=False)
    return key


def _alone(space: Workspace, bot: str, dataset: str, key: str) -> RunRequest:
    """A run of one case with its checks only: the bot's latest options, and its latest judge if that is a model."""
    latest = next_request(space, bot)
    return replace(
        latest,
        datasets=[dataset],
        metrics=[CHECKS],
        dataset_values={dataset: {"ids": [key]}},
        options={name: value for name, value in latest.options.items() if name not in ("gate", "generate")},
        **({"judge": None, "judge_values": {}} if latest.judge == "embedded" else {}),
    )


def _stored(space: Workspace, dataset: str, key: str) -> Mapping[str, Any] | None:
    """The content of a case; None if the dataset no longer has it."""
    owner = dataset_id(space, dataset)
    with space.database.reading() as connection:
        if not table.known_keys(connection, owner, [key]):
            return None
        return table.by_key(connection, owner, key).body
