"""Validation of definitions before they are saved, with the same rules as the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evalflow.addons.studio.work.made_up import AnyValues, UnknownText
from evalflow.app.core.assemble import written_secrets
from evalflow.app.core.connections import part_problems
from evalflow.calls.connections import Connections
from evalflow.config.explain import problems_of
from evalflow.config.schema import IDENTIFIER, JudgeConfig, MetricConfig, TargetConfig
from evalflow.config.validate import ModelOf
from evalflow.config.yaml_text import MISSING
from evalflow.errors import Problem, UserError
from evalflow.llm.registry import JUDGE_KINDS
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.paths import prompt_dirs
from evalflow.prompts import LONGEST_KEPT, Prompts
from evalflow.protocols import Metric
from evalflow.records import CASES, Case, Context, Message
from evalflow.targets.recorded import recorded_answer
from evalflow.targets.registry import TARGET_KINDS, build_target
from evalflow.values.jsonvalues import DEEPEST, as_map, is_list, is_object, is_too_deep

ConfigT = TypeVar("ConfigT", bound=BaseModel)
NO_PROGRAMS = "checks that start a program run on the command line only, never in the application"


def rendering_problems(metric: Metric) -> list[Problem]:
    """Why a metric's prompts cannot be rendered for any case; empty if they can be.

    Case fields of any type are represented first by a text that supports all operations, then by a number. So no
    template is refused that some data could render. The metric must be ready to score.
    """
    problems: list[Problem] = []
    for unknown in (UnknownText("…"), 1.0):
        case = _case(unknown)
        try:
            metric.preview(case, recorded_answer(case, "made up", 0))
        except UserError as error:
            problems = problems or list(error.problems)
        else:
            return []
    return problems


def _case(unknown: object) -> Case:
    return Case(
        dataset="made up",
        index=0,
        id="made up",
        messages=(Message("user", "Hello?"), Message("assistant", "Hello."), Message("user", "What does it cost?")),
        answer="It costs 40 pounds. That is for a year.",
        reference="40 pounds a year",
        contexts=(Context("The licence costs 40 pounds a year."), Context("It can be paid by card.")),
        expected=unknown,
        actual=unknown,
        metadata=AnyValues(unknown),
        demo_answer=Message("assistant", "40 pounds."),
        vars=AnyValues(unknown),
    )


BOT_KINDS = ("openai", "http", "recorded")
"""Kinds of target that can be defined here; none of them starts a local program."""
MAX_BYTES = 1 << 20
"""Maximum size of a definition with its prompts."""
RESERVED = frozenset({"add", "delete", "edit", "export", "import", "new", "preview", "steps", "try", "types", "upload"})
"""Names used in URLs of pages and of the REST API. An object with such a name could not be opened."""

LONGEST_NAME = 100
NO_NAMES = RESERVED | {"false", "inf", "nan", "null", "true"}
"""Identifiers that cannot be names: the last ones are values in an override such as `target=null`."""


def no_names(what: str) -> frozenset[str]:
    """Identifiers that cannot be names of a bot, metric, check, ..."""
    return NO_NAMES | {CASES} if what in ("metric", "check") else NO_NAMES


_PROMPT = re.compile(r"[a-z][a-z0-9_]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+\.jinja\Z")


def check_name(name: str, what: str) -> None:
    """Check that a name is allowed in configuration."""
    problems = list(_wrong_name(name, what))
    if problems:
        raise UserError(problems)


def _wrong_name(name: str, what: str) -> Iterator[Problem]:
    if not IDENTIFIER.match(name) or len(name) > LONGEST_NAME:
        hint = f"lower-case letters, digits and _, a letter first, at most {LONGEST_NAME}"
        yield Problem(f"{name!r} cannot be a name", f"{what}.name", hint)
    if name in RESERVED:
        why = f"{name!r} cannot be a name: an address of the application has that word in its place"
        yield Problem(why, f"{what}.name", f"such as {name}_one")
    elif name in NO_NAMES:
        yield Problem(f"{name!r} cannot be a name: it is a value in overrides", f"{what}.name", f"such as {name}_one")
    elif name in no_names(what):
        why = f"no {what} can be called {name!r}: that is the figure of the cases that pass everything"
        yield Problem(why, f"{what}.name", f"such as my_{name}")


def check_bot(name: str, config: Mapping[str, object], connections: Connections | None = None) -> dict[str, object]:
    """Validate a bot and return it as plain JSON values. API keys need not be set yet.

    `connections`: all that it may call; None: any address.
    """
    plain = _plain(config, "target")
    _expect_kind(plain, "bot", "target", BOT_KINDS)
    called = plain if connections is None else connections.resolve(plain, "target")
    problems = [*_wrong_name(name, "bot"), *written_secrets({"target": called})]
    model = _validated(called, "target", TARGET_KINDS.config, problems)
    if connections is not None and isinstance(model, TargetConfig):
        problems += part_problems(connections, TARGET_KINDS, model, called, "target")
    if problems or not isinstance(model, TargetConfig):  # which it is without problems
        raise UserError(problems)
    isolated = Prompts(prompt_dirs(), isolated=True)
    build_target(without_key(model), name, isolated, {}, generate=plain["kind"] != "recorded")
    return plain


def _expect_kind(plain: Mapping[str, object], what: str, key: str, kinds: Sequence[str]) -> None:
    if (kind := plain.get("kind")) not in kinds:
        hint = f"one of {', '.join(kinds)}; openai is any model behind an OpenAI-compatible endpoint"
        raise UserError(Problem(f"a {what} of kind {kind!r} cannot be defined here", f"{key}.kind", hint))


def without_key(config: ConfigT) -> ConfigT:
    """The configuration of an endpoint as one that needs no key."""
    return config.model_copy(update={"api_key_env": None}) if hasattr(config, "api_key_env") else config


DEFINABLE_JUDGES = ("openai", "panel", "cascade", "embedded")
"""The kinds of judges that can be defined in the application."""


def check_judge(name: str, config: Mapping[str, Any], connections: Connections | None = None) -> dict[str, Any]:
    """Validate a judge and return it as plain JSON values. API keys need not be set yet.

    `connections`: all that it may call; None: any address.
    """
    plain = _plain(config, "judge")
    _expect_kind(plain, "judge", "judge", DEFINABLE_JUDGES)
    called = plain if connections is None else connections.resolve(plain, "judge")
    problems = [*written_secrets({"judge": called})]
    written = as_map(called.get("members"))
    members = {
        name: _validated(one, f"judge.members.{name}", JUDGE_KINDS.config, problems)
        for name, one in written.items()
        if is_object(one)
    }
    if members:
        called = {**called, "members": {**written, **members}}
    model = None if problems else _validated(called, "judge", JUDGE_KINDS.config, problems)
    if connections is not None and isinstance(model, JudgeConfig) and not members:
        problems += part_problems(connections, JUDGE_KINDS, model, called, "judge")
    if problems := [*_wrong_name(name, "judge"), *problems]:
        raise UserError(problems)
    return plain


def check_metric(
    name: str,
    definition: Mapping[str, object],
    prompts: Mapping[str, str] | None = None,
    connections: Connections | None = None,
) -> tuple[dict[str, object], dict[str, str]]:
    """Validate a metric's definition, prompts and score rule.

    The prompts are rendered for a made-up case, to refuse a template that no case could render. `prompts`: its own
    templates, by `NAME/FILE.jinja`. `connections`: those that its own judge may name. A judge that is a name is not
    looked up. Returns definition and prompts
    after a round trip through JSON.
    """
    key = f"metric.{name}"
    plain, own = _plain(definition, key), {str(file): text for file, text in (prompts or {}).items()}
    judge = plain.get("judge")
    problems = [*_wrong_name(name, "metric"), *written_secrets({f"{key}.judge": judge}), *_wrong_prompts(name, own)]
    is_named = isinstance(judge, str)
    model = _validated({**plain, "judge": None} if is_named else plain, key, METRIC_KINDS.config, problems)
    if connections is not None and is_object(judge):
        judge = connections.resolve(judge, f"{key}.judge")
    problems += _wrong_judge(judge, f"{key}.judge")
    if isinstance(model, MetricConfig) and model.programs:
        where = f"{key}.{model.programs_key}"
        problems.append(Problem(NO_PROGRAMS, where, f"leave `{model.programs_key}` out", where))
    if problems or not isinstance(model, MetricConfig):  # which it is without problems
        raise UserError(problems)
    try:
        metric = build_metric(name, model, Prompts(prompt_dirs(), own, isolated=True))
        problems += rendering_problems(metric)
    except UserError as error:
        problems += error.problems
    if problems:
        keys = (next((file for file in own if file in fault.where), fault.key) for fault in problems)
        raise UserError([replace(fault, key=key) for fault, key in zip(problems, keys, strict=True)])
    return plain, own


def one_line(text: str, what: str) -> str:
    """The description as one line, since files hold it as a comment."""
    line = " ".join(text.split())
    problems = list(_unfit_text(line, f"{what}.description"))
    if problems:
        raise UserError(problems)
    return line


def _plain(values: Mapping[str, object], key: str) -> dict[str, object]:
    """The values after a round trip through JSON. Raises for values that the database or Hydra cannot store."""
    try:
        text = json.dumps(values, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(Problem(f"{key} is not JSON: {error}", key)) from None
    if len(text) > MAX_BYTES:
        raise UserError(Problem(f"{key} is larger than {MAX_BYTES >> 20} MB", key, "keep data in datasets"))
    plain = json.loads(text)
    if not is_object(plain):
        raise UserError(Problem(f"{key} must be a map of keys", key))
    if is_too_deep(plain):
        raise UserError(Problem(f"{key} has more than {DEEPEST} maps and lists within each other", key))
    problems = list(_unfit(plain, key))
    if problems:
        raise UserError(problems)
    return plain


def _unfit(value: object, key: str) -> Iterator[Problem]:
    if is_object(value):
        for name, inner in value.items():
            yield from _unfit_text(name, f"a key of {key}")
            yield from _unfit(inner, f"{key}.{name}")
    elif is_list(value):
        for i, inner in enumerate(value):
            yield from _unfit(inner, f"{key}[{i}]")
    elif isinstance(value, str):
        yield from _unfit_text(value, key)


def _unfit_text(text: str, key: str) -> Iterator[Problem]:
    if text == MISSING:
        yield Problem(f"{key} has no value: {MISSING} stands for one that must be given", key, "give it one")
    elif not all(_is_text(character) for character in set(text)):
        yield Problem(f"{key} holds a character that no YAML can hold", key, "remove control characters")


def _is_text(character: str) -> bool:
    code = ord(character)
    return character in "\t\n\r" or (code >= 0x20 and code != 0x7F and not 0xD800 <= code < 0xE000)


def _validated(values: dict[str, object], key: str, model_of: ModelOf, problems: list[Problem]) -> BaseModel | None:
    kind = values.get("kind")
    if not isinstance(kind, str):
        problems.append(Problem(f"{key}.kind is required", key, "say which kind it is"))
        return None
    try:
        model = model_of(kind)
        return model.model_validate(values)
    except ValidationError as error:
        problems += problems_of(error, model_of(kind), key, None, ())
    except UserError as error:
        problems += error.problems
    return None


def _wrong_judge(changes: object, key: str) -> list[Problem]:
    """The problems of a metric's own judge that can be found without the run's judge, whose keys it may inherit."""
    problems: list[Problem] = []
    if is_object(changes) and "kind" in changes:
        own = changes
        asked = {"model": "of the run", **own} if own["kind"] == "openai" else own
        _validated(asked, key, JUDGE_KINDS.config, problems)
    return problems


def _wrong_prompts(name: str, prompts: Mapping[str, str]) -> Iterator[Problem]:
    for file, text in prompts.items():
        where = f"metric.{name}: {file}"
        if not _PROMPT.match(file) or not file.startswith(f"{name}/"):
            yield Problem(
                f"{file!r} cannot be the name of a prompt of this metric", where, f"such as {name}/grade.jinja"
            )
        if len(text) > LONGEST_KEPT:
            yield Problem(f"the prompt has {len(text):,} characters, of at most {LONGEST_KEPT:,}", where)
        yield from _unfit_text(text, where)
