"""Answer examples, from a bot or a run. Checks can be tried on them; runs do not use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from evalflow.addons.studio.store import cases as table
from evalflow.addons.studio.store.rows import from_row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import answer_case, get_bot
from evalflow.addons.studio.work.cases import case_columns, case_row, read_row
from evalflow.addons.studio.work.datasets import own_row
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.cases import answers_of
from evalflow.app.core.saved import open_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.records import Answer

Example = Mapping[str, Any]
"""An answer example as stored in a case: role, content, metadata."""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """A run's answer to a case, without metadata."""

    run_id: str
    title: str
    bot: str
    created_at: str
    answer: str


@requires("edit")
async def ask_bot(space: Workspace, bot: str, row: Mapping[str, object]) -> Example:
    """Call a bot with a case and return its answer as an answer example; nothing is saved."""
    asked = {**row, "id": "trial", "checks": None}
    case = await to_thread.run_sync(read_row, "trial", asked)
    found = await to_thread.run_sync(get_bot, space, bot)
    answer = await answer_case(space, bot, found.config, case)
    if answer.answer is None:
        raise UserError(Problem(f"{bot} gave no answer: {answer.error or 'its reply has no text'}", "bot"))
    return example_of(answer)


@requires("read")
def run_answers(space: Workspace, dataset: str, case: int) -> list[RunAnswer]:
    """The answers of finished runs to a case, latest run first."""
    row = case_row(space, dataset, case)
    found = space.read(table.answers_to, space.project_id, dataset, row["key"])
    return [from_row(RunAnswer, one) for one in found]


@requires("read")
def run_example(space: Workspace, run_id: str, dataset: str, case: int) -> Example:
    """A run's answer to a case as an answer example, with its metadata."""
    key = case_row(space, dataset, case)["key"]
    found = _examples(space, run_id, dataset, [key])
    if key not in found:
        raise UserError(Problem(f"the run {run_id} has no answer to this case", "run"))
    return found[key]


@requires("read")
def lacking_examples(space: Workspace, dataset: str) -> tuple[int, RunAnswer | None]:
    """The number of cases without an answer example, and one answer of the latest run that could fill some of them."""
    row = own_row(space, dataset)
    with space.database.reading() as connection:
        missing = table.lacking(connection, row["id"])
        found = table.latest_answer(connection, space.project_id, row) if missing else None
    return missing, from_row(RunAnswer, found) if found else None


@requires("edit")
def fill_examples(space: Workspace, dataset: str, run_id: str) -> int:
    """Fill missing answer examples of cases with a run's answers; returns the number of changed cases."""
    row = own_row(space, dataset)
    missing = space.read(table.without_example, row["id"])
    found = _examples(space, run_id, dataset, [one["key"] for one in missing])
    changed = {
        one["id"]: case_columns({**one["body"], "demo_answer": found[one["key"]]})
        for one in missing
        if one["key"] in found
    }
    with space.changing("update", "dataset", dataset, [f"demo_answer of {len(changed)} cases"]) as connection:
        table.rewrite(connection, changed)
    return len(changed)


def _examples(space: Workspace, run_id: str, dataset: str, keys: Sequence[str]) -> dict[str, Example]:
    """The first answer of a run to each case, from the run's files."""
    folder = RunFolder(run_row(space, run_id).path)
    found: dict[str, Example] = {}
    try:
        saved = open_run(folder)
        target = saved.manifest.target.name
        with answers_of(saved.folder, saved.rules.settings.run, set(keys)) as answers:
            for case in saved.cases({(dataset, key) for key in keys}):
                answer = answers(case, target, 0)
                if answer and answer.status == "answered" and answer.answer is not None:
                    found[case.id] = example_of(answer)
    except OSError as error:
        raise UserError(Problem(f"{folder.path}: {error.strerror}", "run")) from None
    return found


def example_of(answer: Answer) -> Example:
    """An answer as an example, with its metadata."""
    shown = {"role": "assistant", "content": answer.answer}
    return {**shown, "metadata": dict(answer.metadata)} if answer.metadata else shown
