"""The command `cache`: statistics of the cache, and pruning."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from evalflow.config.load import compose
from evalflow.config.schema import CacheConfig
from evalflow.errors import InfrastructureError, Problem, UserError
from evalflow.paths import from_home
from evalflow.report.wording import print_json

if TYPE_CHECKING:
    from evalflow.calls.cache_store import Store

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_DAY = 86400.0


def cache_path(given: Path | None, config_dir: Path | None) -> Path:
    """Return the given cache file, which must exist, else the one that runs would use."""
    if given is not None:
        if not given.is_file():
            raise UserError(Problem("there is no such file", str(given)))
        return given
    values: dict[str, Any] = compose([], config_dir).values
    return from_home(CacheConfig.model_validate(values["cache"]).path)


def cache_stats(path: Path, console: Console, *, as_json: bool) -> int:
    """Print statistics of the cache; UserError if the file is not a cache or is damaged."""
    from evalflow.calls.cache_store import Stats

    stats = Stats(entries=0, private=0, computed=0, body_bytes=0, file_bytes=0, runs=0, oldest=None, newest=None)
    if path.is_file():
        with _opened(path, reading=True) as store:
            stats = store.stats()
    if as_json:
        return print_json(console, {"path": str(path), **asdict(stats)})
    private = f", {stats.private:,} of them for the run that made them only" if stats.private else ""
    rows = [
        ("file", str(path)),
        ("replies", f"{stats.entries:,} of {stats.runs:,} runs{private}"),
        ("size", f"{_bytes(stats.file_bytes)}, contents {_bytes(stats.body_bytes)}"),
    ]
    if stats.computed:
        rows.insert(1, ("computed", f"{stats.computed:,} vectors and verdicts of the embedded model"))
    if stats.oldest is not None and stats.newest is not None:
        rows.append(("stored", f"{_moment(stats.oldest)} to {_moment(stats.newest)}"))
    for label, text in rows:
        console.print(Text.assemble((f"{label:<9}", "dim"), text), soft_wrap=True)
    return 0


def cache_prune(
    path: Path, console: Console, *, older_than_days: float | None, to_size: str | None, everything: bool
) -> int:
    """Delete replies and free the disk space; UserError if no option says which ones, or the cache is damaged."""
    if not (everything or to_size or older_than_days is not None):
        hint = "cache prune --older-than 30, --to-size 500MB, or --all"
        raise UserError(Problem("it is not said what to remove", "cache prune", hint))
    days = -1.0 if everything else older_than_days
    before = None if days is None else time.time() - days * _DAY
    if not path.is_file():
        console.print(Text(f"nothing is remembered in {path}"))
        return 0
    with _opened(path, reading=False) as store:
        removed = store.shrink(_size(to_size) if to_size else None, before)
        left = store.stats()
    console.print(Text(f"{removed:,} removed; {left.entries + left.computed:,} left in {_bytes(left.file_bytes)}"))
    return 0


@contextmanager
def _opened(path: Path, *, reading: bool) -> Generator[Store]:
    """Open a cache. Its errors become UserErrors."""
    from evalflow.calls.cache_store import Corrupt, Foreign, Store, is_busy

    try:
        with closing(Store(path, reading=reading)) as store:
            yield store
    except Corrupt as error:
        hint = "the next run sets it aside and begins a new one"
        raise UserError(Problem(f"it is damaged: {error}", str(path), hint)) from None
    except Foreign as error:
        raise UserError(Problem(str(error), "cache")) from None
    except (OSError, sqlite3.Error) as error:
        hint = "a run is writing to it: try again" if is_busy(error) else "its folder must be writable, with space left"
        raise InfrastructureError(f"{path} cannot be used: {error}", hint) from None


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?|)b?", text.strip().lower())
    if not match:
        raise UserError(Problem(f"{text!r} is not a size", "--to-size", "such as 500MB, 1GiB or 4096"))
    return round(float(match[1]) * _UNITS[match[2]])


def _bytes(count: int) -> str:
    power = min(3, (len(str(count)) - 1) // 3)
    return f"{count / 1000**power:.{min(power, 1)}f} {('B', 'kB', 'MB', 'GB')[power]}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
