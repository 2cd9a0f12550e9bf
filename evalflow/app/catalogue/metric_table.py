"""Metrics as `list` shows them: by family, with what each needs of a case and how many calls it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table

from evalflow.errors import UserError
from evalflow.metrics.base import Calls
from evalflow.metrics.registry import metric_kinds
from evalflow.report.terminal import literal

if TYPE_CHECKING:
    from evalflow.app.catalogue.catalogue import Option
    from evalflow.app.catalogue.suggest import Catalogue, Fit

_OTHERS = "others"
_MODEL = {True: "no", False: "yes", None: "some"}
_CAPTION = """\
calls: to a judge or an embedder, for one score in which every step has something to ask about
model: no works without a key, judge=embedded being the default; yes needs a language model, judge=NAME; some: by case
(demo): with generate=demo; `show METRIC` prints a command to try"""


def metric_facts(option: Option, catalogue: Catalogue) -> dict[str, Any]:
    """What a metric's file says of it, for programs; `calls` is None where its kind does not tell."""
    values, calls = option.values, calls_of(option.values)
    fits = catalogue.fits(option)
    return {
        "family": _family(option),
        "kind": values.get("kind"),
        "needs": list(values.get("needs") or ()),
        "direction": values.get("direction", "higher_is_better"),
        "threshold": values.get("threshold"),
        "works_without_key": catalogue.keyless(option),
        "dataset": fits[0].dataset if fits else None,
        "generate": "demo" if fits and fits[0].demo else None,
        "calls": calls and {"low": calls.low, "high": calls.high, "once": calls.once},
    }


def calls_of(values: Mapping[str, Any]) -> Calls | None:
    """How many calls a metric takes, as its YAML stands; None where its kind does not tell."""
    try:
        kind = metric_kinds().get(str(values.get("kind")))
    except UserError:
        return None
    counted = getattr(kind, "calls", None)
    return counted(values) if counted else None


def metric_table(options: Iterable[Option], catalogue: Catalogue) -> Table:
    """One row for each metric under its family, at most as wide as the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", ratio=1, overflow="fold")
    table.add_column("needs, and who has it", max_width=22, overflow="fold")
    table.add_column("calls a case", max_width=7)
    table.add_column("model", max_width=5)
    table.caption, table.caption_justify = _CAPTION, "left"
    ordered = sorted(options, key=lambda option: (_family(option) == _OTHERS, _family(option), option.name))
    for family, members in groupby(ordered, key=_family):
        table.add_section()
        table.add_row(literal(family, style="italic"))
        for option in members:
            what = Group(literal(option.name, style="bold"), literal(option.description, style="dim"))
            needs = ", ".join(str(need) for need in option.values.get("needs") or ())
            fits = catalogue.fits(option)
            table.add_row(
                Padding(what, (0, 0, 0, 2)),
                Group(literal(needs), literal(_has_it(fits), style="dim")),
                _in_words(calls_of(option.values)),
                _MODEL[catalogue.keyless(option)],
            )
    return table


def _family(option: Option) -> str:
    return str(option.values.get("family") or _OTHERS)


def _has_it(fits: Sequence[Fit]) -> str:
    return f"{fits[0].dataset}{' (demo)' if fits[0].demo else ''}" if fits else "no dataset here"


def _in_words(calls: Calls | None) -> str:
    if calls is None:
        return "?"
    if calls.high is None:
        return "by case"
    return str(calls.low) if calls.low == calls.high else f"{calls.low} or {calls.high}"
