"""G-Eval's steps: written once by a judge, kept in prepared.json, and found there again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evalflow.errors import Problem, UserError
from evalflow.records import Reply

FILE = "prepared.json"


def _not_blank(step: str) -> str:
    if not step.strip():
        raise ValueError("a step must not be blank")
    return step


EvalSteps = Annotated[tuple[Annotated[str, AfterValidator(_not_blank)], ...], Field(min_length=1)]
"""What the judge works through, in order."""


class Steps(BaseModel):
    """What the judge replies that is asked to write the steps. Endpoints show the name to the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: EvalSteps


def key_of(criteria: str, judge_identity: str, prompt: str) -> str:
    """The key of an entry: a digest of what was asked, and of who was asked it."""
    text = json.dumps([criteria, judge_identity, prompt])
    return f"g_eval {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def entry_of(metric: str, criteria: str, judge: str, judge_identity: str, prompt: str, reply: Reply) -> dict[str, Any]:
    """The entry of steps that were just written.

    Args:
        metric: Whose steps they are.
        criteria: What they are about.
        judge: The judge's name.
        judge_identity: The digest of all that decides its replies.
        prompt: The text that it was asked with.
        reply: What it replied; holds a `Steps`.
    """
    return {
        "kind": "g_eval",
        "metric": metric,
        "criteria": criteria,
        "judge": judge,
        "judge_identity": judge_identity,
        "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest()[:16],
        "steps": list(cast("Steps", reply.parsed).steps),
        "copied_from": None,
    }


def copy_of(entry: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The entry of another run as it is kept by the one that uses it."""
    own = {name: value for name, value in entry.items() if name not in ("bill", "cost_usd")}
    return {**own, "copied_from": origin}


def steps_in(entry: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The steps of an entry.

    Raises:
        UserError: Somebody has made something else of them.
    """
    try:
        return TypeAdapter(EvalSteps).validate_python(entry.get("steps"))
    except ValidationError as error:
        what = f"the steps of {entry.get('metric')} are no list of texts: {error.errors()[0]['msg']}"
        raise UserError(Problem(what, where, "put them back as they were")) from None


def find_entry(path: Path, criteria: str, key: str) -> Mapping[str, Any]:
    """The entry of a run's prepared.json whose steps were written for these criteria.

    Args:
        path: The file, or the folder of a run.
        criteria: What the steps must be about, to the letter.
        key: The key path that names the file, for messages.

    Raises:
        UserError: There is no such file or entry, or there are several with different steps.
    """
    file = path / FILE if path.is_dir() else path
    entries = [entry for entry in _entries(file, key) if entry.get("kind") == "g_eval"]
    matching = [entry for entry in entries if entry.get("criteria") == criteria]
    if not matching:
        known = "; ".join(f"{entry.get('metric')}: {entry.get('criteria')!r}" for entry in entries)
        what = f"{file} has no steps that were written for these criteria"
        hint = f"it has those of {known}" if known else "no steps were written in that run"
        raise UserError(Problem(what, key, hint))
    different = {steps_in(entry, str(file)) for entry in matching}
    if len(different) > 1:
        judges = ", ".join(str(entry.get("judge")) for entry in matching)
        what = f"{file} has different steps for these criteria, written by {judges}"
        raise UserError(Problem(what, key, "paste those that you want into the metric's `steps`"))
    return matching[0]


def _entries(file: Path, key: str) -> Sequence[Mapping[str, Any]]:
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "name a run's folder or its prepared.json, such as outputs/latest"
        raise UserError(Problem(f"cannot read {file}: {error.strerror}", key, hint)) from None
    except ValueError as error:
        raise UserError(Problem(f"{file} is no JSON: {error}", key)) from None
    values = list(cast("dict[str, Any]", content).values()) if isinstance(content, dict) else []
    return [cast("dict[str, Any]", entry) for entry in values if isinstance(entry, dict)]
