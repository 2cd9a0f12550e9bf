"""The command `schema`: JSON Schemas of the configuration files, for editors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from evalflow.app.core.json_schema import SCHEMAS, group_schema, write_schemas
from evalflow.errors import Problem, UserError
from evalflow.paths import GROUPS, write_atomically
from evalflow.report.wording import literal, print_json
from evalflow.values.jsonvalues import is_object

_SETTINGS = Path(".vscode") / "settings.json"


def print_schema(group: str | None, out: Path | None, console: Console, *, vscode: bool = False) -> int:
    """Print the schema of one group, or of all as one document; or write a file for each, also for VS Code."""
    if vscode:
        return _set_up_vscode(out or SCHEMAS, console)
    if out is None:
        return print_json(console, group_schema(group) if group else {name: group_schema(name) for name in GROUPS})
    write_schemas(out)
    console.print(f"{len(GROUPS)} schemas in {out}; for the YAML extension of VS Code, in {_SETTINGS}:")
    console.print(literal(json.dumps({"yaml.schemas": _places(out)}, indent=2)), soft_wrap=True)
    return 0


def _set_up_vscode(out: Path, console: Console) -> int:
    """Write the schemas, and name them in the workspace's settings; UserError if these cannot be read."""
    text = _SETTINGS.read_text(encoding="utf-8") if _SETTINGS.exists() else ""
    try:
        settings = _with_schemas(text if text.strip() else "{}\n", _places(out))
    except ValueError as error:
        hint = f"add it yourself: {json.dumps({'yaml.schemas': _places(out)})}"
        raise UserError(Problem(f"{error}; the file is left as it is", str(_SETTINGS), hint)) from None
    write_schemas(out)
    _SETTINGS.parent.mkdir(exist_ok=True)
    write_atomically(_SETTINGS, settings)
    console.print(f"wrote {_SETTINGS} and {len(GROUPS)} schemas in {out}")
    return 0


_SKIPPED = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)
"""Texts, and what plain JSON lacks: comments, and a comma after the last entry."""


def _with_schemas(text: str, places: Mapping[str, str]) -> str:
    """The settings with these schemas; all else stays, comments too. ValueError if they are not JSON with comments."""
    plain = _SKIPPED.sub(lambda match: match[1] or " " * len(match[0]), text)  # at the same positions
    try:
        settings: Any = json.loads(plain)
    except ValueError as error:
        raise ValueError(f"this is not JSON ({error})") from None
    if not is_object(settings):
        raise ValueError("the settings are not an object")
    known = settings.get("yaml.schemas", {})
    starts = list(re.finditer(r'"yaml\.schemas"\s*:\s*\{', plain))
    if not is_object(known) or ("yaml.schemas" in settings and len(starts) != 1):
        raise ValueError("its yaml.schemas cannot be added to")
    if other := [name for name in places if known.get(name, places[name]) != places[name]]:
        raise ValueError(f"its yaml.schemas has other files for {other[0]}")
    missing = {name: files for name, files in places.items() if name not in known}
    if not missing:
        return text
    if starts:
        return _inserted(text, starts[0].end(), json.dumps(missing, indent=2)[2:-2], 2, followed=bool(known))
    entry = json.dumps({"yaml.schemas": missing}, indent=2)[2:-2]
    return _inserted(text, plain.index("{") + 1, entry, 0, followed=bool(settings))


def _inserted(text: str, at: int, entries: str, indent: int, *, followed: bool) -> str:
    """The text with entries of an object put in after its brace at a position."""
    lines = entries.replace("\n", "\n" + " " * indent)
    rest = text[at:]
    if rest.lstrip().startswith("}"):
        rest = "\n" + " " * indent + rest.lstrip()
    return f"{text[:at]}\n{' ' * indent}{lines}{',' if followed else ''}{rest}"


def _places(out: Path) -> dict[str, str]:
    return {f"{out.as_posix()}/{name}.json": f"conf/{name}/*.yaml" for name in GROUPS}
