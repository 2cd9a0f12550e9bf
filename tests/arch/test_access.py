"""Nobody gets past the door: what takes a workspace names the right it needs, and each change is in the audit."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path

import evalflow.addons.studio.work
from evalflow.addons.studio.work.access import right_of


def doors() -> Iterator[tuple[str, Callable[..., object]]]:
    """The public functions of the studio whose first parameter is a workspace."""
    for found in pkgutil.iter_modules(evalflow.addons.studio.work.__path__):
        module = importlib.import_module(f"evalflow.addons.studio.work.{found.name}")
        for name, work in inspect.getmembers(module, inspect.isfunction):
            if work.__module__ == module.__name__ and not name.startswith("_"):
                first = next(iter(inspect.signature(work).parameters.values()), None)
                if first is not None and first.annotation == "Workspace":
                    yield f"{found.name}.{name}", work


def test_every_function_of_the_studio_names_a_right() -> None:
    found = dict(doors())
    assert len(found) > 80
    assert [name for name, work in found.items() if right_of(work) is None and not name.startswith("access.")] == []


def test_every_change_of_the_studio_is_recorded() -> None:
    folder = Path(evalflow.addons.studio.work.__path__[0])
    writes = {path.name: path.read_text(encoding="utf-8").count("database.writing(") for path in folder.glob("*.py")}
    # `changing`; sessions in use are noted; challenges of passkeys and providers are kept and taken, uses of passkeys
    # and what counts against the limits of sign-ins noted; the lease of a trial is opened and settled; an answer is
    # leased at the desk, and a draft of its labels saved; what people who leave a review had leased is free; who has
    # seen a run's scores is noted; an ended run whose files the command line has changed is read again; the worker
    # takes runs and notes their states; the number of answer examples that a run fills begins at 0.
    assert {name: count for name, count in writes.items() if count} == {
        "space.py": 1,
        "sessions.py": 1,
        "passkeys.py": 1,
        "sign_in_limits.py": 2,
        "identities.py": 2,
        "leases.py": 2,
        "review_desk.py": 3,
        "reviews.py": 1,
        "runs.py": 1,
        "scores.py": 1,
        "worker.py": 6,
        "answer_examples.py": 1,
    }
