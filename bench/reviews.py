"""How long people wait for the next answer of a review, while 20 of them ask at once.

    python bench/reviews.py [PEOPLE] [ANSWERS] [DATABASE_URL]

A review of 5,000 answers, 4,500 of them labelled, one in five by two people. Each person asks for an answer, submits a
label, pauses for a second, and asks again, ten times; all begin in the same moment. `progress` is what the desk's page
reads beside each answer. They are threads of one process, as in the application, and what is measured is evalflow's
function, without HTTP. The floor is one person alone. Without a URL the database is SQLite, in a folder that is removed
afterwards.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median, quantiles
from typing import Any, TypeVar

from _lab import folder, machine, print_table
from sqlalchemy import insert

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store.tables import assignments
from evalflow.addons.studio.work import reviews
from evalflow.addons.studio.work.access import Actor
from evalflow.addons.studio.work.review_desk import next_item, own_progress, submit_item
from evalflow.addons.studio.work.space import Workspace, open_workspace

T = TypeVar("T")
Took = dict[str, list[tuple[float, float]]]
"""By act, seconds on the clock and of the thread's CPU."""
ACTS = ("next answer", "progress", "submit")
ROUNDS, PAUSE_S, LABELLED = 10, 1.0, 0.9
NAME = f"bench {time.time_ns()}"


def fill(space: Workspace, people: list[str], answers: int) -> None:
    """Store a review of which nine in ten answers are labelled."""
    metric = {"name": "good", "scale": {"type": "boolean"}, "description": "", "rubric": 1}
    values: dict[str, Any] = {
        "name": NAME,
        "run": None,
        "run_id": "run",
        "state": "open",
        "metrics": [metric],
        "people": people,
        "draw": {},
        "shown": {"contexts": True, "reference": True},
        "guidelines": {"good": ""},
        "created_by": "bench",
    }
    content = {
        "messages": [{"role": "user", "content": "q" * 200}],
        "answer": "a" * 1000,
        "reference": "r" * 300,
        "contexts": [{"title": "t", "text": "c" * 4000}],
        "metrics": ["good"],
    }
    about = {"position": None, "dataset": "d", "target": "t", "target_repeat": 0, "answer_hash": "h", "group": ""}
    about |= {"stratum": "all", "pi": 1.0, "content": content}
    done = {"state": "submitted", "expires_at": 0.0, "seconds": 1.0, "draft": {}, "is_flagged": False}
    wanted = [1 + (i % 5 == 0) for i in range(answers)]
    with space.database.writing() as connection:
        review = reviews.REVIEWS.add(connection, space.project_id, values)
        items = [{**about, "case_id": f"c{i}", "wanted": number} for i, number in enumerate(wanted)]
        stored.add_items(connection, review, items)
        labelled = [
            {**done, "review_id": review, "item": i, "by": people[(i + k) % len(people)], "opened_at": float(i)}
            for i in range(int(LABELLED * answers))
            for k in range(wanted[i])
        ]
        connection.execute(insert(assignments), labelled)


def work(space: Workspace, name: str, rounds: int, pause_s: float, took: Took) -> None:
    """One person, who labels so many answers; adds what each act took."""
    me = replace(space, identify=lambda: Actor(1, name, roles={space.project_id: "annotator"}))

    def timed(act: str, do: Callable[[], T]) -> T:
        begun, cpu = time.perf_counter(), time.thread_time()
        done = do()
        took[act].append((time.perf_counter() - begun, time.thread_time() - cpu))
        return done

    for _ in range(rounds):
        found = timed("next answer", lambda: next_item(me, NAME))
        timed("progress", lambda: own_progress(me, NAME))
        if found is None:
            return
        timed("submit", lambda item=found.item: submit_item(me, NAME, item, {"good": True}))
        time.sleep(pause_s)


def main() -> None:
    """Measure and print."""
    people = [f"p{i}" for i in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)]
    answers = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    alone: Took = {act: [] for act in ACTS}
    together: Took = {act: [] for act in ACTS}
    with folder() as work_folder:
        os.chdir(work_folder)
        space = open_workspace(sys.argv[3] if len(sys.argv) > 3 else None)
        fill(space, people, answers)
        work(space, people[0], 2 * ROUNDS, 0.0, alone)
        threads = [threading.Thread(target=work, args=(space, name, ROUNDS, PAUSE_S, together)) for name in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        space.close()
    print(f"{machine()}; {len(people)} people, {answers:,} answers, {LABELLED:.0%} labelled\n")
    rows = [
        (f"{act}, {who}", *row(times[act])) for act in alone for who, times in (("alone", alone), ("at once", together))
    ]
    print_table(("", "n", "median, ms", "95th percentile, ms", "worst, ms", "median of CPU, ms"), rows)


def row(times: list[tuple[float, float]]) -> tuple[str, ...]:
    """Number, median, 95th percentile and worst on the clock, and the median of the CPU, in milliseconds."""
    wall, cpu = zip(*times, strict=True)
    shown = (f"{1000 * one:.0f}" for one in (median(wall), quantiles(wall, n=20)[-1], max(wall)))
    return (str(len(times)), *shown, f"{1000 * median(cpu):.1f}")


if __name__ == "__main__":
    main()
