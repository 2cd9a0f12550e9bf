"""A metric's new version, whose prompt shows the judge answers that people graded."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.app.core.alignment import Example, Lesson
from evalflow.app.core.inspect import Inspection
from evalflow.app.core.options import option_values
from evalflow.app.core.saved import SavedRun, declared_meaning
from evalflow.config.yaml_text import with_values
from evalflow.datasets.case_rows import json_value
from evalflow.errors import InfrastructureError, JudgeError, Problem, UserError, command
from evalflow.llm.panel import single
from evalflow.metrics.returns import StrType, reply_model
from evalflow.paths import OWN_FOLDER, share_dir, shown, write_atomically
from evalflow.prompts import Prompts, render
from evalflow.records import Ask, Message
from evalflow.values.contexts import Context
from evalflow.values.jsonvalues import is_sequence, json_text

_REASONS = "align/reasons.jinja"
_OPEN, _CLOSE = "{# examples that people graded #}", "{# end of the examples #}"
_OLD = re.compile(rf"\n*{re.escape(_OPEN)}.*?{re.escape(_CLOSE)}\n?", re.DOTALL)
_RULES = re.compile(r"\{%-?\s*block rules\b.*?(?=\{%-?\s*endblock)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A metric's next version: its configuration, and the files that make it the metric of the project.

    `trial` is a folder of prompts that has the new one before it is written into the project.
    """

    config: Mapping[str, Any]
    version: int
    files: Mapping[Path, str]
    trial: Path

    def write(self) -> list[Path]:
        """Write the files, and return their paths; UserError if one cannot be written."""
        for path, text in self.files.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, text)
            except OSError as error:
                raise UserError(Problem(f"cannot be written: {error.strerror}", shown(path))) from None
        return list(self.files)


def new_version(
    run: SavedRun, lesson: Lesson, examples: Sequence[Example], reasons: Mapping[tuple[str, int], str]
) -> NewVersion:
    """The metric with these examples; UserError if its YAML or prompt is no longer what the run was scored with."""
    facts = run.manifest.metrics[lesson.metric]
    folders = [Path(folder) for folder in run.manifest.search_folders["conf"]]
    found = [file for folder in folders if (file := folder / "metric" / f"{facts.key}.yaml").is_file()]
    prompts = Prompts([Path(folder) for folder in run.manifest.search_folders["prompts"]])
    config = deepcopy(dict(run.manifest.metric_config(lesson.metric)))
    here: Any = config
    for part in lesson.place:
        here = here[part]
    used = here.get("prompt") or getattr(lesson.config, "prompt", "")
    _expect_unchanged(run, lesson, found, prompts, used)
    file, version = found[0], facts.version + 1
    own = f"{facts.key}/{lesson.step}_v{version}.jinja"
    prompt = with_examples(prompts.source(used), lesson, examples, reasons)
    here["prompt"] = own
    config["version"] = version
    home = file if share_dir() / "conf" not in file.parents else Path("conf", "metric", file.name)
    values = {("version",): str(version), (*lesson.place, "prompt"): own}
    yaml_text = with_values(file.read_text(encoding="utf-8"), values)
    trial = Path(OWN_FOLDER, "align", hashlib.sha256(prompt.encode()).hexdigest()[:16]).absolute()
    try:
        (trial / own).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(trial / own, prompt)
    except OSError as error:
        raise UserError(Problem(f"cannot be written: {error.strerror}", shown(trial))) from None
    return NewVersion(config, version, {_prompts_beside(home) / own: prompt, home: yaml_text}, trial)


def _prompts_beside(home: Path) -> Path:
    """The folder of prompts that goes with a folder of configuration."""
    folder = home.parent.parent
    return folder / "prompts" if (folder / "prompts").is_dir() else folder.parent / "prompts"


def _expect_unchanged(run: SavedRun, lesson: Lesson, found: Sequence[Path], prompts: Prompts, prompt: str) -> None:
    facts, where = run.manifest.metrics[lesson.metric], shown(run.folder.path)
    again = f"run it again: {command(f'metric={facts.key}')}, with its data and judge, and label those answers"
    if not found:
        what = f"the run's metric {lesson.metric} has no file in a conf/metric any more"
        raise UserError(Problem(what, where, "put it back, or name a newer run"))
    meaning = declared_meaning(run.manifest, lesson.metric)
    values: Mapping[str, Any] = json.loads(json_text(option_values(found[0])))  # as run.json has them
    ignored = {"defaults", *set(run.manifest.metric_config(lesson.metric)) - set(meaning)}
    other = [key for key in {*meaning, *values} - ignored if meaning.get(key) != values.get(key)]
    if other or values.get("version", 1) != facts.version:
        what = f"{', '.join(sorted(other)) or 'version'} of {lesson.metric} has changed since the run"
        raise UserError(Problem(what, shown(found[0]), again))
    if prompts.digest([prompt]) != facts.prompt_sha256:
        raise UserError(Problem(f"the prompt {prompt} has changed since the run", where, again))


def with_examples(
    source: str, lesson: Lesson, examples: Sequence[Example], reasons: Mapping[tuple[str, int], str]
) -> str:
    """A prompt's template with these examples in place of those it may have: after its rules, or else at its end."""
    parts = [_OPEN, "Examples of other cases, with the replies that people would give:"]
    for number, one in enumerate(examples, 1):
        shown_fields = (
            f"{{{{ {_literal(text)} | fenced({_literal(name)}) }}}}" for name, text in texts_of(one).items()
        )
        reply = json_text(one.reply(lesson, reasons.get(one.key)))
        parts += ["", f"Example {number}", *shown_fields, f"The reply: {{{{ {_literal(reply)} }}}}"]
    block = "\n".join([*parts, _CLOSE])
    source = _OLD.sub("\n", source)
    if rules := _RULES.search(source):
        return f"{source[: rules.end()].rstrip()}\n\n{block}\n{source[rules.end() :]}"
    return f"{source.rstrip()}\n\n{block}\n"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def texts_of(example: Example) -> dict[str, str]:
    """The fields of an example that say something, as texts."""
    return {name.rpartition(".")[2]: _text(value) for name, value in example.fields.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if is_sequence(value) and value and all(isinstance(one, Context) for one in value):
        return "\n\n".join(one.text for one in value if isinstance(one, Context))
    return json_text(json_value(value))


def unexplained(lesson: Lesson, examples: Sequence[Example]) -> list[Example]:
    """The examples that need a reason that no person gave."""
    return [one for one in examples if lesson.reasons and not one.reason]


def write_reasons(found: Inspection, lesson: Lesson, examples: Sequence[Example]) -> dict[tuple[str, int], str]:
    """Have the judge of an inspected run write the reason of each of these grades, in one call.

    InfrastructureError if it gives none.
    """
    (scorer,) = (pair.judge for name, pair in found.scored.items() if name == lesson.metric)
    assert scorer is not None
    judge = single(scorer)[0]
    graded = [{"shown": texts_of(one), "grade": lesson.graded(one.human, one.said)} for one in examples]
    variables = {"description": lesson.config.description, "graded": graded}
    prompt = render(found.parts.prompts.get(_REASONS), variables, _REASONS)
    ask = Ask(
        metric=lesson.metric,
        step="reasons",
        task=None,
        messages=(Message("user", prompt),),
        reply_model=reply_model("reasons", {"reason": StrType(type="str")}, one_per=True),
        variables=variables,
        items=tuple(one.key[0] for one in examples),
    )

    async def work() -> Sequence[Mapping[str, str]]:
        try:
            reply = await judge.ask(ask)
        finally:
            await found.parts.close()
        return reply.parsed.model_dump()["results"]

    try:
        rows = asyncio.run(work())
    except JudgeError as error:
        hint = "label with a comment, which is then the reason; or name another judge"
        raise InfrastructureError(f"the judge could not write reasons for the examples: {error}", hint) from None
    return {one.key: row["reason"] for one, row in zip(examples, rows, strict=True)}
