"""What conf/ declares: there to be read and copied, never changed from here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from evalflow.app.core.options import Option, options
from evalflow.app.studio.space import Workspace, not_found
from evalflow.config.literal import MISSING, unescaped, unescaped_but_environment
from evalflow.config.load import compose
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
    """What an option declares with all that it inherits, as JSON; a value that it leaves to be given is "???".

    Raises:
        UserError: Its files are wrong, or it takes a value from elsewhere, which a copy could not.
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
    """The same, remembered as long as no file of conf/ changes.

    Raises:
        UserError: As of `content`.
    """
    return space.remembered.get(f"{group}/{name}", conf_dirs(), lambda: content(group, name))


def kind_of(option: Option) -> str | None:
    """The kind of an option, which may stand in a file of its group that it starts from."""
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
    """Names of the judges that are models of their own, behind an address that can be another one."""
    known = declared("judge")
    return [name for name, option in known.items() if name != "target" and kind_of(option) == "openai"]


def own_prompts(
    name: str, definition: Mapping[str, Any], config_dir: Path | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """A definition whose prompts are the metric's own, and these; what they include stays where it is.

    Args:
        name: The metric's name, which is also the folder of its prompts.
        definition: With the names of prompts as they stand in conf.
        config_dir: A config folder to search first.
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
    """The values without those that are still to be given."""
    return {key: value for key, value in values.items() if value != MISSING}
