"""Definitions declared in conf/, which can be read and copied here but not changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from evalflow.app.core.options import Option, options
from evalflow.app.studio.space import Workspace, not_found
from evalflow.config.load import compose
from evalflow.config.yaml_text import MISSING, unescaped, unescaped_but_environment
from evalflow.errors import Problem, UserError
from evalflow.paths import conf_dirs, prompt_dirs
from evalflow.prompts import Prompts


def declared(group: str, config_dir: Path | None = None) -> dict[str, Option]:
    """The options of a group by name."""
    return {option.name: option for option in options(config_dir, group)}


def find(group: str, what: str, name: str, config_dir: Path | None = None) -> Option:
    """One option."""
    known = declared(group, config_dir)
    if name not in known:
        raise not_found(what, name, list(known))
    return known[name]


def content(group: str, name: str, config_dir: Path | None = None) -> dict[str, Any]:
    """The keys of an option, including all that it inherits, as JSON. A required value that is still missing is "???".

    Raises:
        UserError: Its files are invalid, or it interpolates a value from elsewhere, which a copy could not.
    """
    composed = compose([f"{group}={name}"], config_dir, complete=False).storable[group]
    values = composed[name] if group in ("metric", "dataset") else composed
    read = unescaped_but_environment if group == "target" else unescaped
    try:
        return cast("dict[str, Any]", json.loads(json.dumps(read(values))))
    except ValueError as error:
        where = f"{group}.{name}"
        raise UserError(Problem(f"{where} cannot be copied: {error}", where, "write the value itself")) from None


def shown(space: Workspace, group: str, name: str) -> dict[str, Any]:
    """The same as `content`, cached until a file of conf/ changes.

    Raises:
        UserError: As for `content`.
    """
    return space.remembered.get(f"{group}/{name}", conf_dirs(), lambda: content(group, name))


def kind_of(option: Option) -> str | None:
    """The kind of an option, which may be inherited from another file of its group."""
    values = option.values
    for base in [None, *cast("list[Any]", values.get("defaults") or [])]:
        files = (folder / option.group / f"{base}.yaml" for folder in conf_dirs())
        file = next((file for file in files if file.is_file()), None)
        if isinstance(base, str) and file is not None:
            read: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
            values = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        if isinstance(values.get("kind"), str):
            return values["kind"]
    return None


def endpoint_judges() -> list[str]:
    """Names of the judges that have a model of their own at a configurable address."""
    known = declared("judge")
    return [name for name, option in known.items() if name != "target" and kind_of(option) == "openai"]


def own_prompts(
    name: str, definition: Mapping[str, Any], config_dir: Path | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The definition with its own copies of the prompts, and these prompts. Templates that they include are not copied.

    The name of the metric is also the folder of its prompts.
    """
    prompts = Prompts(prompt_dirs(config_dir))
    found: dict[str, str] = {}

    def moved(part: Mapping[str, Any]) -> dict[str, Any]:
        changed = dict(part)
        for key in ("prompt", "steps_prompt"):
            old = part.get(key)
            if isinstance(old, str) and old.endswith(".jinja"):
                changed[key] = f"{name}/{Path(old).name}"
                found[changed[key]] = prompts.source(old)
        return changed

    changed = moved(definition)
    steps = definition.get("steps")
    if isinstance(steps, list):
        changed["steps"] = [
            moved(cast("dict[str, Any]", step)) if isinstance(step, dict) else step for step in cast("list[Any]", steps)
        ]
    return changed, found


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that are still missing ("???")."""
    return {key: value for key, value in values.items() if value != MISSING}
