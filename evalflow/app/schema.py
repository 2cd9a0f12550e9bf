"""The command `schema`: JSON Schemas of the configuration files, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

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
    settings: dict[str, Any] = {}
    if _SETTINGS.exists():
        try:
            found: Any = json.loads(_SETTINGS.read_text(encoding="utf-8"))
            if not is_object(found):
                raise ValueError("no object")
            settings = found
        except ValueError as error:  # VS Code allows comments there
            hint = f"add it yourself: {json.dumps({'yaml.schemas': _places(out)})}"
            raise UserError(
                Problem(f"this is not plain JSON ({error}), and is left as it is", str(_SETTINGS), hint)
            ) from None
    write_schemas(out)
    known = cast("dict[str, Any]", settings.get("yaml.schemas") or {})
    settings["yaml.schemas"] = {**known, **_places(out)}
    _SETTINGS.parent.mkdir(exist_ok=True)
    write_atomically(_SETTINGS, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    console.print(f"wrote {_SETTINGS} and {len(GROUPS)} schemas in {out}")
    return 0


def _places(out: Path) -> dict[str, str]:
    return {f"{out.as_posix()}/{name}.json": f"conf/{name}/*.yaml" for name in GROUPS}
