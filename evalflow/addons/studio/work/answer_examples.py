"""Answer examples, from a bot or a run. Checks can be tried on them; runs do not use them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from evalflow.addons.studio.store import cases as table
from evalflow.addons.studio.store import definitions, people
from evalflow.addons.studio.store.cases import RunAnswer
from evalflow.addons.studio.store.rows import Row, chunks
from evalflow.addons.studio.store.runs import StoredRun
from evalflow.addons.studio.work.access import Actor, ForbiddenError, SignedOutError, requires
from evalflow.addons.studio.work.bots import answer_case, get_bot
from evalflow.addons.studio.work.cases import case_columns, get_case, read_row
from evalflow.addons.studio.work.datasets import dataset_id, list_datasets
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.sessions import identity_of
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.cases import answers_of, is_generated
from evalflow.app.core.saved import open_run
from evalflow.config.schema import RunConfig
from evalflow.datasets import case_to_row
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.records import Answer, Case

if TYPE_CHECKING:
    from sqlalchemy import Connection

Example = Mapping[str, Any]
"""An answer example as stored in a case: role, content, metadata."""
Count = Callable[["Connection", int], None]
"""Counts filled cases in the transaction that fills them; an error rolls it back."""
_AT_ONCE = 2_000
"""The number of cases filled in one transaction."""


@requires("edit")
async def ask_bot(space: Workspace, bot: str, row: Mapping[str, object]) -> Example:
    """Call a bot with a case and return its answer as an answer example; nothing is saved."""
    asked = {**row, "id": "trial", "checks": None}
    case = await to_thread.run_sync(read_row, "trial", asked)
    bot_definition = await to_thread.run_sync(get_bot, space, bot)
    answer = await answer_case(space, bot, bot_definition.config, case)
    if answer.answer is None:
        raise UserError(Problem(f"{bot} gave no answer: {answer.error or 'its reply has no text'}", "bot"))
    return example_of(answer)


@requires("read")
def run_answers(space: Workspace, dataset: str, case: int) -> list[RunAnswer]:
    """The answers of finished runs to a case, latest run first."""
    return space.read(table.answers_to, space.project_id, dataset, get_case(space, dataset, case).key)


@requires("read")
def run_example(space: Workspace, run_id: str, dataset: str, case: int) -> Example:
    """A run's answer to a case as an answer example, with its metadata."""
    key = get_case(space, dataset, case).key
    folder = RunFolder(run_row(space, run_id).path)
    for _, example in _examples(folder, {(dataset, key)}, lambda _run, _case: True):
        return example
    raise UserError(Problem(f"the run {run_id} has no answer to this case", "run"))


@requires("read")
def lacking_examples(space: Workspace, dataset: str) -> tuple[int, RunAnswer | None]:
    """The number of cases without an answer example, and one answer of the latest run that could fill some of them."""
    owner = dataset_id(space, dataset)
    with space.database.reading() as connection:
        missing = table.lacking(connection, owner)
        answer = table.latest_answer(connection, space.project_id, dataset, owner) if missing else None
    return missing, answer


@requires("edit")
def fill_examples(space: Workspace, dataset: str, run_id: str) -> int:
    """Fill missing answer examples of cases with a run's answers; returns the number of changed cases."""
    return _fill(space, [dataset], RunFolder(run_row(space, run_id).path), lambda _run, _case: True)


@requires("edit")
def fill_after_run(space: Workspace, row: StoredRun, count: Count) -> None:
    """Fill missing answer examples with the bot's answers in a finished run, in the name of the person who started it.

    `count` is called for each block of cases, and first with 0. The call can be repeated. Answers that were recorded in
    the data fill nothing, since their cases have them already.

    Raises:
        ForbiddenError: Who started the run may not edit its project any more.
    """
    request = RunRequest(**row.composition) if row.composition and row.origin == "workspace" else None
    project = space.read(definitions.by_id, "project", row.project_id)
    if request is None or not request.fill_examples or project is None:
        return
    starter = _starter(space, row)
    here = replace(space, project_id=project["id"], project=project["name"], identify=lambda: starter)
    with space.database.writing(in_turn=False) as connection:
        count(connection, 0)
    own = {one.name for one in list_datasets(here) if one.origin == "workspace"}
    _fill(here, [name for name in request.datasets if name in own], RunFolder(row.path), is_generated, count)


def _starter(space: Workspace, row: StoredRun) -> Actor:
    """Who started a run, with their rights as they are now; ForbiddenError if they may not edit its project."""
    with space.database.reading() as connection:
        if not people.has_users(connection):
            return Actor(None, row.created_by, is_owner=True)
    with suppress(SignedOutError):
        starter = identity_of(space, "user", row.created_by, "")()
        if "edit" in starter.rights(row.project_id):
            return starter
    raise ForbiddenError(Problem(f"{row.created_by}, who started the run, may not edit this project any more"))


def _fill(
    space: Workspace,
    datasets: Sequence[str],
    folder: RunFolder,
    is_wanted: Callable[[RunConfig, Case], bool],
    count: Count = lambda _connection, _cases: None,
) -> int:
    """Fill missing answer examples with the wanted answers of a run; returns the number of changed cases."""
    owners = {name: dataset_id(space, name) for name in datasets}
    missing = {(name, key) for name, owner in owners.items() for key in space.read(table.keys_without_example, owner)}
    pairs = _examples(folder, missing, is_wanted) if missing else iter(())
    filled = 0
    for dataset, those in groupby(pairs, lambda one: one[0].dataset):
        for chunk in chunks(those, _AT_ONCE):
            answered = {case.id: (case, example) for case, example in chunk}
            filled += _save(space, dataset, owners[dataset], answered, count)
    return filled


def _save(
    space: Workspace, dataset: str, owner: int, answered: Mapping[str, tuple[Case, Example]], count: Count
) -> int:
    """Save examples of cases that still lack one and still have the conversation that was answered."""
    about: list[str] = []
    with space.changing("update", "dataset", dataset, about) as connection:
        changed: dict[int, Row] = {}
        for there in table.without_example(connection, owner, list(answered)):
            case, example = answered[there.key]
            if _conversation(there.body) == _conversation(case_to_row(case)):
                changed[there.id] = case_columns({**there.body, "demo_answer": example})
        table.rewrite(connection, changed)
        count(connection, len(changed))
        about.append(f"demo_answer of {len(changed)} cases")
    return len(changed)


def _conversation(body: Mapping[str, Any]) -> Sequence[object]:
    return [body.get(key) for key in ("messages", "scenario")]


def _examples(
    folder: RunFolder, wanted: Collection[tuple[str, str]], is_wanted: Callable[[RunConfig, Case], bool]
) -> Iterator[tuple[Case, Example]]:
    """Yield cases (by dataset and id) with a run's first answer, from the run's files."""
    try:
        saved = open_run(folder)
        run, target = saved.rules.settings.run, saved.manifest.target.name
        with answers_of(saved.folder, run, {key for _, key in wanted}) as answers:
            for case in saved.cases(wanted):
                answer = answers(case, target, 0) if is_wanted(run, case) else None
                if answer and answer.status == "answered" and answer.answer is not None:
                    yield case, example_of(answer)
    except OSError as error:
        raise UserError(Problem(f"{folder.path}: {error.strerror}", "run")) from None


def example_of(answer: Answer) -> Example:
    """An answer as an example, with its metadata."""
    shown = {"role": "assistant", "content": answer.answer}
    return {**shown, "metadata": dict(answer.metadata)} if answer.metadata else shown
