"""Tasks and comments: who may be assigned, what is found, and that no change is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from evalflow.addons.studio.store import projects, rows, runs, scores, server_tables
from evalflow.addons.studio.work import cases, comments, datasets, tasks
from evalflow.addons.studio.work.access import Actor, ForbiddenError, Role
from evalflow.addons.studio.work.comments import CommentedOn
from evalflow.addons.studio.work.projects import create_project
from evalflow.addons.studio.work.space import NotFoundError, StaleError, Workspace
from evalflow.addons.studio.work.tasks import JudgeExample, TaskDraft, TaskQuery
from evalflow.errors import UserError


def acting(space: Workspace, name: str, role: Role) -> Workspace:
    actor = Actor(7, name, roles={space.project_id: role})
    return replace(space, identify=lambda: actor)


def add_user(space: Workspace, name: str, role: Role) -> None:
    user = {"name": name, "full_name": "", "email": None, "version": 1}
    user |= {"is_owner": False, "is_disabled": False, "created_at": rows.now(), "updated_at": rows.now()}
    with space.database.writing() as connection:
        number = rows.add(connection, server_tables.users, user)
        projects.set_role(connection, space.project_id, number, role)


def scored_run(space: Workspace, run_id: str = "r1") -> str:
    """A run of the bot `fees` with one answer, which the judge of `polite` gave a 2."""
    values = {"project_id": space.project_id, "run_id": run_id, "title": "", "bot": "fees", "state": "done"}
    values |= {"origin": "workspace", "composition": {}, "arguments": {}, "folder": str(Path.cwd() / run_id)}
    answer = {"position": 0, "dataset": "d", "case_id": "c", "target": "fees", "target_repeat": 0, "tags": []}
    answer |= {"question": "What is it?", "answer": "No.", "reference": None, "error": None}
    score = dict.fromkeys(column.name for column in scores.scores.columns) | {"position": 0, "n": 0, "repeat": 0}
    score |= {"metric": "polite", "judge": "strict", "status": "scored", "score": 0.25, "value": "2"}
    score |= {"reason": "It is curt.", "member_of": None}
    with space.database.writing() as connection:
        row = runs.create(connection, values)
        scores.put(connection, [{**answer, "run": row}], [], [{**score, "run": row}], [])
    return run_id


def test_a_task_about_a_score_keeps_what_the_judge_said(space: Workspace) -> None:
    run = scored_run(space)
    draft = TaskDraft(" The judge  is too strict ", cause="judge", run=run, position=0, metric="polite", value=4)
    made = tasks.create_task(space, draft)
    assert (made.title, made.bot, made.dataset, made.case_id) == ("The judge is too strict", "fees", "d", "c")
    kept = JudgeExample("polite", "What is it?", "No.", "strict", 2, "It is curt.", 4)
    assert (made.example, made.question) == (kept, "What is it?")
    with space.database.writing() as connection:
        assert runs.delete_run(connection, run)
    task, example = next(tasks.judge_examples(space))
    assert (task.id, task.run, task.case_id, example) == (made.id, None, "c", kept)
    assert task.question == "What is it?"


def test_a_task_about_a_case_has_the_question_of_the_case(space: Workspace) -> None:
    datasets.create_dataset(space, "fees")
    cases.add_cases(space, "fees", [{"id": "c", "question": "How much is it?"}])
    made = [tasks.create_task(space, TaskDraft("Look", dataset="fees", case_id=name)).question for name in ("c", "d")]
    assert made == ["How much is it?", None]


def test_tasks_come_by_priority_in_pages_and_are_filtered(space: Workspace) -> None:
    run = scored_run(space)
    add_user(space, "ann", "editor")
    add_user(space, "ann_b", "editor")
    for i in range(5):
        tasks.create_task(space, TaskDraft(f"low {i}", priority="low"))
    tasks.create_task(space, TaskDraft("high", priority="high", assignees=["ann"], run=run))
    tasks.create_task(space, TaskDraft("normal", status="done", assignees=["ann_b"], cause="bot"))
    titles, cursor = list[str](), None
    while True:
        page = tasks.list_tasks(space, cursor=cursor, limit=2)
        titles += [task.title for task in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert titles == ["high", "normal", *(f"low {i}" for i in reversed(range(5)))]

    def found(**query: str) -> list[str]:
        return [task.title for task in tasks.list_tasks(space, TaskQuery(**query)).items]  # pyright: ignore

    assert found(assignee="ann") == found(bot="fees") == found(run=run) == ["high"]
    assert found(status="done") == found(cause="bot") == ["normal"]
    board = tasks.task_board(space, TaskQuery(assignee="ann"))
    assert (board.counts, board.bots) == ({"open": 1}, ["fees"])
    with pytest.raises(UserError, match="not a cursor"):
        tasks.list_tasks(space, cursor="9")


def test_only_those_who_may_edit_are_assigned_and_who_left_stays_until_removed(space: Workspace) -> None:
    assert tasks.people_of(space) == ["local"]
    add_user(space, "ann", "editor")
    add_user(space, "ben", "viewer")
    with pytest.raises(UserError, match="'ben' cannot be assigned") as refused:
        tasks.create_task(space, TaskDraft(" ", assignees=["ann", "ben"]))
    assert [problem.where for problem in refused.value.problems] == ["task.title", "task.assignees"]
    made = tasks.create_task(space, TaskDraft("Look", assignees=["ann"]))
    with space.database.writing() as connection:
        projects.remove_member(connection, space.project_id, 1)
    assert tasks.update_task(space, made.id, 1, {"title": "Look here", "assignees": ["ann"]}).assignees == ["ann"]
    tasks.update_task(space, made.id, 2, {"assignees": []})
    with pytest.raises(UserError, match="cannot be assigned"):
        tasks.update_task(space, made.id, 3, {"assignees": ["ann"]})


def test_of_two_who_change_a_task_at_once_one_is_told(space: Workspace) -> None:
    made = tasks.create_task(space, TaskDraft("Look"))

    def change(status: str) -> str:
        try:
            return tasks.update_task(space, made.id, 1, {"status": status}).status
        except StaleError as error:
            return f"stale {error.current}"

    with ThreadPoolExecutor(2) as pool:
        results = sorted(pool.map(change, ["done", "in_progress"]))
    found = tasks.get_task(space, made.id)
    assert (found.version, results) == (2, sorted([found.status, "stale 2"]))
    with pytest.raises(StaleError):
        tasks.delete_task(space, made.id, 1)
    tasks.delete_task(space, made.id, 2)
    with pytest.raises(NotFoundError):
        tasks.get_task(space, made.id)


def test_comments_are_of_their_place_and_deleted_by_their_author_or_an_admin(space: Workspace) -> None:
    run = scored_run(space)
    ann, ben, eve = acting(space, "ann", "editor"), acting(space, "ben", "editor"), acting(space, "eve", "admin")
    task = CommentedOn(task=tasks.create_task(space, TaskDraft("Look")).id)
    said = [comments.add_comment(ann, task, text) for text in ("First", " Second\n")]
    on_answer = comments.add_comment(ben, CommentedOn(run=run, position=0), "On the answer")
    on_score = comments.add_comment(ben, CommentedOn(run=run, position=0, metric="polite"), "On the score")
    page = comments.list_comments(space, task, limit=1)
    assert ([one.text for one in page.items], page.next) == (["First"], str(said[0].id))
    assert [one.text for one in comments.list_comments(space, task, page.next).items] == ["Second"]
    assert comments.list_comments(space, CommentedOn(run=run, position=0)).items == [on_answer, on_score]
    assert comments.list_comments(space, CommentedOn(run=run, position=0, metric="polite")).items == [on_score]
    assert tasks.get_task(space, task.task or 0).comments == 2
    with pytest.raises(ForbiddenError, match="by ann"):
        comments.delete_comment(ben, said[0].id)
    comments.delete_comment(ann, said[0].id)
    comments.delete_comment(eve, said[1].id)
    assert not comments.list_comments(space, task).items
    for place in (CommentedOn(), CommentedOn(task=1, run=run, position=0), CommentedOn(run=run)):
        with pytest.raises(UserError, match="comments are on"):
            comments.add_comment(ann, place, "?")
    for place in (CommentedOn(task=99), CommentedOn(run=run, position=1), CommentedOn(run="other", position=0)):
        with pytest.raises(NotFoundError):
            comments.add_comment(ann, place, "?")


def test_tasks_and_comments_are_of_their_project(space: Workspace) -> None:
    made = tasks.create_task(space, TaskDraft("Look"))
    said = comments.add_comment(space, CommentedOn(task=made.id), "Why?")
    create_project(space, "other")
    other = space.in_project("other")
    assert not tasks.list_tasks(other).items
    for work in (
        lambda: tasks.get_task(other, made.id),
        lambda: tasks.delete_task(other, made.id, 1),
        lambda: comments.list_comments(other, CommentedOn(task=made.id)),
        lambda: comments.delete_comment(other, said.id),
    ):
        with pytest.raises(NotFoundError):
            work()
