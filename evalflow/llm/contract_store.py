"""Keeps prepared contracts on disk: a run that finds its own there imports neither instructor nor openai.

They take longer to import than all else that happens before the first request. Nothing depends on a kept contract: one
that is missing, damaged or of another version is prepared again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from evalflow.files import write_atomically
from evalflow.llm.contract import Prepared, ReplyMode, prepare
from evalflow.paths import private_folder

log = logging.getLogger("evalflow")

FORMAT = 1
"""Raise it when `prepare` makes something else of the same."""

Prepare = Callable[[type[BaseModel], ReplyMode, bool], Prepared]


def prepared(
    folder: Path, reply_model: type[BaseModel], mode: ReplyMode, strict: bool, prepare: Prepare = prepare
) -> Prepared:
    """The prepared contract of a reply model, from the folder if it is there, else made and left there.

    Args:
        folder: Where they are kept, one file each; made where it does not exist.
        reply_model: See `Contract`.
        mode: See `Contract`.
        strict: See `Contract`.
        prepare: Makes it.
    """
    path = folder / f"{_key(reply_model, mode, strict)}.json"
    found = _read(path)
    if found is None:
        found = prepare(reply_model, mode, strict)
        _write(path, found)
    return found


def _key(reply_model: type[BaseModel], mode: ReplyMode, strict: bool) -> str:
    """A digest of all that a prepared contract depends on."""
    decisive = [FORMAT, version("instructor"), mode, strict, reply_model.__name__, reply_model.model_json_schema()]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]


def _read(path: Path) -> Prepared | None:
    """What stands in a file; None where it is not there, or is not what was written."""
    try:
        kept: dict[str, Any] = TypeAdapter(dict[str, Any]).validate_json(path.read_bytes())
        if kept["sha256"] != _digest(kept["contract"]):
            raise ValueError("the digest differs")
        return TypeAdapter(Prepared).validate_python(kept["contract"])
    except FileNotFoundError:
        return None
    except (OSError, KeyError, ValueError, ValidationError) as error:
        log.info("%s is prepared again: %s", path, error)
        return None


def _write(path: Path, found: Prepared) -> None:
    """Keep it for later runs; where that cannot be done, they prepare it again."""
    contract = TypeAdapter(Prepared).dump_python(found)
    text = json.dumps({"sha256": _digest(contract), "contract": contract})
    try:
        private_folder(path.parent)
        write_atomically(path, text)
    except OSError as error:
        log.info("%s cannot be written: %s", path, error)


def _digest(contract: Any) -> str:
    return hashlib.sha256(json.dumps(contract).encode()).hexdigest()
