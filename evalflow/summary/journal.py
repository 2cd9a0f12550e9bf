"""Score records as lines of the journal, and the columns of scores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from mmap import ACCESS_READ, mmap
from operator import attrgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from pydantic_core import PydanticSerializationError, to_json

from evalflow.lazy import pl
from evalflow.records import NOTHING, ScoreRecord, Spend, Usage
from evalflow.values.jsonvalues import is_mapping, is_sequence

_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":"))
_NAMES = tuple(field.name for field in fields(ScoreRecord))
_record_values = attrgetter(*_NAMES)
SLICE = ("dataset", "target", "metric", "judge")  # the key of a summary row, without its tag and statistic


def journal_row(record: ScoreRecord) -> dict[str, object]:
    """A record as a row of `journal_schema`; ValueError if score and state conflict, or a value is not JSON."""
    scored = record.score is not None and math.isfinite(record.score)
    if scored != (record.status == "scored") or (record.score is not None and not scored):
        raise ValueError(f"a cell in state {record.status!r} cannot have the score {record.score!r}")
    row = dict(zip(_NAMES, _record_values(record), strict=True))
    row["tags"] = list(record.tags)
    row["value"] = None if record.value is None else json_text(record.value)
    row["steps"] = json_text(record.steps)
    row["bill"] = bill_row(record.bill)
    return row


def journal_line(record: ScoreRecord) -> dict[str, object]:
    """A record as written to scores.jsonl: without the run's id, which run.json has, and without empty fields.

    Its score is always there. Empty is None, or what `ABSENT` has: most lines are of a first and only answer and reply.
    """
    row = journal_row(record)
    del row["run_id"]
    return {name: value for name, value in row.items() if value != ABSENT.get(name) or name == "score"}


def bill_row(spend: Spend) -> dict[str, object]:
    """Requests, tokens and savings of a score, for its journal line; cost and time have separate columns."""
    usage = spend.usage
    return {
        "requests": spend.requests,
        "reasks": spend.reasks,
        "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
        "provider_cached": usage.provider_cached if usage else None,
        "provider_saved_usd": usage.provider_saved_usd if usage else None,
        "remembered": spend.cached,
        "saved_usd": spend.saved_usd,
        "paid": spend.paid,
    }


def spend_of_row(bill: Mapping[str, Any], cost_usd: float | None) -> Spend:
    """The inverse of `bill_row`; the cost comes from its own column."""
    return Spend(
        requests=bill["requests"],
        reasks=bill["reasks"],
        usage=Usage(
            bill["input_tokens"], bill["output_tokens"], bill.get("provider_cached"), bill.get("provider_saved_usd")
        ),
        cost_usd=cost_usd if bill["requests"] else 0.0,
        cached=bill["remembered"],
        saved_usd=bill["saved_usd"],
        paid=tuple(bill["paid"]),
    )


_NO_BILL = bill_row(NOTHING)
ABSENT: Mapping[str, object] = {
    "tags": [],
    "target_repeat": 0,
    "metric_version": 1,
    "repeat": 0,
    "steps": "[]",
    "cached": False,
    "bill": _NO_BILL,
}
"""The values of columns that a line of scores.jsonl leaves out; those of all other columns are null."""


def json_text(value: Any) -> str:
    """Canonical JSON text: sorted keys, no spaces. Equal values of the same types have equal texts; 1 and 1.0 do not.

    ValueError for a number that is not finite, TypeError for a type that JSON lacks.
    """
    return _CANONICAL.encode(value)


def torn_tail(path: Path) -> int:
    """Number of bytes of an unfinished last line.

    Cut them off before appending; otherwise the next line is lost, too.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if not size:
            return 0
        with mmap(file.fileno(), size, access=ACCESS_READ) as content:
            return size - 1 - content.rfind(b"\n")


def json_line(value: object) -> bytes:
    """A value as JSON without spaces or line breaks, six times faster than the standard library.

    It accepts every value: a type that JSON lacks becomes its text, NaN and infinity become "NaN" and "Infinity", and
    an unpaired surrogate becomes a question mark.
    """
    try:
        return to_json(value, fallback=str, inf_nan_mode="strings")
    except PydanticSerializationError:  # a surrogate; rare, so this path may be slow
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
        return text.encode("utf-8", "replace")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else to_json(value, inf_nan_mode="strings").decode().strip('"')
    if is_mapping(value):
        return {key: _finite(inner) for key, inner in value.items()}
    if is_sequence(value):
        return [_finite(item) for item in value]
    return value


def scores_schema() -> pl.Schema:
    """Columns of scores.parquet, in order: those of a record without `index` and bill, plus threshold and passed."""
    columns = [(name, dtype) for name, dtype in journal_schema().items() if name not in {"index", "bill"}]
    after = [name for name, _ in columns].index("value") + 1
    columns[after:after] = [("threshold", pl.Float64()), ("passed", pl.Boolean())]
    return pl.Schema(columns)


@cache
def journal_schema() -> pl.Schema:
    """Columns of the journal's rows: the fields of ScoreRecord; value and steps are JSON text."""
    types = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean, tuple[str, ...]: pl.List(pl.String)}
    special = {
        "bill": pl.Struct(
            {
                **dict.fromkeys(bill_row(NOTHING), pl.Int64),
                "provider_saved_usd": pl.Float64,
                "saved_usd": pl.Float64,
                "paid": pl.List(pl.Int64),
            }
        )
    }
    hints = get_type_hints(ScoreRecord)
    return pl.Schema({name: special.get(name) or types.get(_plain_type(hints[name]), pl.String) for name in _NAMES})


def _plain_type(hint: Any) -> Any:
    return next(iter(set(get_args(hint)) - {NoneType}), hint) if isinstance(hint, UnionType) else hint
