"""Validating a composed configuration against the kinds that are registered."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from evalflow.config.address import SECRET_NAME
from evalflow.config.load import Composed, compose
from evalflow.config.schema import TargetConfig
from evalflow.config.targets import PythonTargetConfig
from evalflow.config.validate import Settings, validate
from evalflow.errors import Problem, UserError
from evalflow.llm.registry import embedder_config_model, judge_config_model
from evalflow.metrics.registry import metric_config_model
from evalflow.targets.registry import target_config_model

_PASSWORD = re.compile(r"://[^/@:]*:(?!\$\{)[^/@]+@")
_PARAMETER = re.compile(r"[?&]([^=&#]+)=([^&#]*)")


def settings_of(composed: Composed, *, programs: bool = True) -> Settings:
    """The typed settings.

    Args:
        composed: What Hydra made.
        programs: Whether a target may be a program of this machine. Who takes a configuration from elsewhere, such as
            a web form, says no.

    Raises:
        UserError: With every problem that was found.
    """
    settings = validate(composed, metric_config_model, judge_config_model, target_config_model, embedder_config_model)
    config = composed.storable
    parts: dict[str, Any] = {group: config[group] for group in ("judge", "target", "embedder")}
    parts |= {f"metric.{name}.judge": metric.get("judge") for name, metric in config["metric"].items()}
    problems = [*written_secrets(parts), *_code(settings.run.target, composed, programs=programs)]
    if problems:
        raise UserError(problems)
    return settings


def composed_settings(overrides: Sequence[str], config_dir: Path | None) -> Settings:
    """The typed settings that a command line describes; nothing is run.

    Args:
        overrides: Hydra overrides.
        config_dir: A config folder to search first.

    Raises:
        UserError: With every problem that was found.
    """
    return settings_of(compose(overrides, config_dir, check=settings_of))


def with_default_judge(words: Sequence[str], config_dir: Path | None, *, judged: bool = False) -> list[str]:
    """The command line with the target's own model as its judge, where that is the default.

    It is for G-Eval, where nobody names a judge and the target is a model: the embedded judge cannot grade by criteria.
    A sweep names its judge, since one that changes with the target compares nothing.

    Args:
        words: Overrides and Hydra's flags.
        config_dir: A config folder to search first.
        judged: Whether its metrics need a judge that reads, such as a Tiamat test's, whatever their kind.
    """
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    keys = {word.lstrip("+").partition("=")[0] for word in overrides}
    flags = set(words) - set(overrides)
    if "judge" in keys or flags or not keys & {"target", "experiment"} or os.environ.get("EVALFLOW_JUDGE"):
        return list(words)
    try:
        # Keys of the judge are for the one that is yet to be chosen.
        plain = [word for word in overrides if not word.lstrip("+").startswith("judge.")]
        found = compose(plain, config_dir, complete=False)
    except UserError:
        return list(words)  # what is wrong is said when all of it is composed
    kinds = {metric.get("kind") for metric in found.values["metric"].values()}
    embedded, model = found.choices.get("judge") == "embedded", found.values["target"].get("kind") == "openai"
    return [*words, "judge=target"] if embedded and model and (judged or "g_eval" in kinds) else list(words)


def written_secrets(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Passwords and keys in addresses, and keys in headers, in plain text: they would be kept with the run.

    Args:
        parts: Configurations of judges, targets and embedders as they were written, by their keys.
    """
    for key, part in parts.items():
        values = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        members = values.get("members")
        if isinstance(members, dict):
            named = cast("dict[str, Any]", members)
            yield from written_secrets({f"{key}.members.{name}": member for name, member in named.items()})
        for address in ("base_url", "url"):
            if _PASSWORD.search(str(values.get(address))):
                hint = "name a variable that holds it: http://USER:${oc.env:NAME}@HOST/v1"
                yield Problem("a password would be kept with the run", f"{key}.{address}", hint)
            for name, value in _PARAMETER.findall(str(values.get(address))):
                if SECRET_NAME.search(name) and value and "${" not in value:
                    hint = f"name a variable that holds it: {name}=${{oc.env:NAME}}"
                    yield Problem("a secret would be kept with the run", f"{key}.{address}", hint)
        headers = values.get("headers")
        for name, value in (cast("dict[str, Any]", headers) if isinstance(headers, dict) else {}).items():
            if SECRET_NAME.search(name) and "${" not in str(value):
                hint = f"name a variable that holds it: {name}: ${{oc.env:NAME}}"
                yield Problem("a secret would be kept with the run", f"{key}.headers.{name}", hint)


def _code(target: TargetConfig, composed: Composed, *, programs: bool) -> Iterator[Problem]:
    """Programs where none may be, and a callable that stands elsewhere than on the command line."""
    if target.runs_here and not programs:
        hint = "use a target that is reached over HTTP"
        yield Problem(f"a target of kind {target.kind} runs a program, which is not allowed here", "target.kind", hint)
    elif isinstance(target, PythonTargetConfig):
        pairs = (override.lstrip("+").partition("=") for override in composed.overrides)
        if target.call not in [value.strip("'\"") for key, _, value in pairs if key == "target.call"]:
            what = "YAML carries meaning, never code: a callable is named on the command line only"
            yield Problem(what, "target.call", f"add target.call={target.call}")
